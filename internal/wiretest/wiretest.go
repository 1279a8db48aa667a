// Package wiretest plays scripted servers byte for byte, for the tests of this module. A script is a txtar file: prose on top that says which
// misbehaviour it shows, then the files of the test. The file named server has the steps, one a line:
//
//	< METHOD [as NAME]    wait for a message of the client; its id is then ${id} and ${NAME}. METHOD is "response" for an answer
//	> TEXT                send TEXT and a line break; ${NAME} is an id that came
//	raw "TEXT"            send exactly these bytes, a Go string
//	repeat N "TEXT"       send the bytes N times
//	sleep 10ms
//	eof                   end the output
//	drain                 read until the client ends its side
//
// Over HTTP (see [ServeHTTP]) a wait names the HTTP method too, and what follows is for that request until another is named:
//
//	< POST METHOD [as NAME]       also GET and DELETE, without a METHOD
//	header NAME: VALUE            the request must have this header; an empty VALUE: must not have it
//	@NAME                         go on with an earlier request
//	reply STATUS [TYPE BODY]      a whole answer with Content-Length
//	stream [NAME: VALUE]...       an event stream in chunks; raw and > then send chunks
//	end                           end the chunks
//	raw "HTTP/1.1 200 OK\r\n…"    without stream before: exact bytes
//	cut                           close the connection
//	path TARGET                   the request must be for this path, query included
//	data TEXT                     send TEXT as one event of the stream
//
// ${HOST} is the server's host and port. Every other step keeps its meaning. A line that begins with # is a comment.
package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// patience is how long a script waits for what it expects.
const patience = 10 * time.Second

// Script is a parsed file.
type Script struct {
	Prose string
	steps []step
	files map[string]string
}

type step struct {
	line int
	verb string
	rest string
}

// File returns one of the script's other files, empty when there is none.
func (s *Script) File(name string) string { return s.files[name] }

// Load reads a script.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Parse reads a script. The error names the line of the server file.
func Parse(b []byte) (*Script, error) {
	a := txtar.Parse(b)
	s := &Script{Prose: string(a.Comment), files: map[string]string{}}
	for _, f := range a.Files {
		s.files[f.Name] = string(f.Data)
	}
	text, ok := s.files["server"]
	if !ok {
		return nil, errors.New("no file named server")
	}
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(l, " ")
		if verb[0] == '@' {
			verb, rest = "@", verb[1:]
		}
		if !verbs[verb] {
			return nil, fmt.Errorf("server:%d: unknown step %q", i+1, verb)
		}
		s.steps = append(s.steps, step{i + 1, verb, strings.TrimLeft(rest, " ")})
	}
	return s, nil
}

var verbs = map[string]bool{
	"<": true, ">": true, "raw": true, "repeat": true, "sleep": true, "eof": true, "drain": true,
	"header": true, "@": true, "reply": true, "stream": true, "end": true, "cut": true,
	"path": true, "data": true,
}

// message is what a wait looks at.
type message struct {
	ID     json.RawMessage
	Method *string
}

// play runs the script with a function for its steps.
func (s *Script) play(p *player) error {
	for _, st := range s.steps {
		if err := p.step(st); err != nil {
			return fmt.Errorf("server:%d: %s %s: %w", st.line, st.verb, st.rest, err)
		}
	}
	return nil
}

// player is a running script.
type player struct {
	peer peer
	vars map[string]string
}

// peer is the transport under a script.
type peer interface {
	// wait returns the next message that matches what follows "<", without its name.
	wait(what string) (message, error)
	named(name string)
	send(b []byte) error
	// do runs a step that only this transport has.
	do(st step) error
}

func (p *player) step(st step) error {
	switch st.verb {
	case "<":
		return p.await(st.rest)
	case ">":
		return p.peer.send([]byte(p.expand(st.rest) + "\n"))
	case "raw":
		text, err := strconv.Unquote(st.rest)
		if err != nil {
			return err
		}
		return p.peer.send([]byte(p.expand(text)))
	case "repeat":
		return p.repeat(st.rest)
	case "sleep":
		d, err := time.ParseDuration(st.rest)
		time.Sleep(d)
		return err
	case "reply", "data":
		st.rest = p.expand(st.rest)
	}
	return p.peer.do(st)
}

func (p *player) await(rest string) error {
	what, name, named := strings.Cut(rest, " as ")
	m, err := p.peer.wait(what)
	if err != nil {
		return err
	}
	p.vars["id"] = string(m.ID)
	if named {
		p.vars[name] = string(m.ID)
		p.peer.named(name)
	}
	return nil
}

func (p *player) repeat(rest string) error {
	count, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if text, err = strconv.Unquote(text); err != nil {
		return err
	}
	return p.peer.send([]byte(strings.Repeat(text, n)))
}

// expand puts ids in.
func (p *player) expand(s string) string {
	for name, value := range p.vars {
		s = strings.ReplaceAll(s, "${"+name+"}", value)
	}
	return s
}

// matches reports whether a message has the method, "response" being that of an answer.
func (m *message) matches(method string) error {
	switch {
	case m.Method == nil && method == "response", m.Method != nil && *m.Method == method:
		return nil
	case m.Method == nil:
		return fmt.Errorf("a response came (id %s)", m.ID)
	}
	return fmt.Errorf("%s came", *m.Method)
}
