package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// Wild is a server that reacts: it answers as a well-behaved one does, but for the messages that its rules name. So every client can play a whole session
// with it, in its own order, over stdio, streamable HTTP or HTTP+SSE. A rule is a block of lines:
//
//	on METHOD [N]     for the N-th message with the method, else for every one. METHOD is also start (before anything is read; stdio only), GET, DELETE,
//	                  POST (before any other rule), and response (an answer of the client)
//	> TEXT            send a message as the transport does: a line, the answer to the POST (in an event stream where a block sends several), or an event of
//	                  the session's stream. ${id} is the message's id, ${text} its id without quotes, ${version} the protocol version that it asks for, ${token} its progress token, ${HOST} the server,
//	                  ${64K}, ${1M}, ${5M} and ${16M} text of that size, ${deep} a list nested 9,000 deep
//	default           answer as a well-behaved server
//	raw "TEXT"        send exactly these bytes (on HTTP+SSE: into the session's stream)
//	repeat N "TEXT"   the same N times
//	sleep 10ms
//	wait METHOD       until a message with the method has come after this one
//	exit              end the connection (a process ends)
//	deaf              read nothing any more
//	reply STATUS [TYPE [BODY]]   a whole HTTP answer; an empty TYPE is -
//	header NAME: VALUE           for the reply or the stream that follows
//	stream, data TEXT, end       an event stream as answer to the POST or GET
//	cut                          close the HTTP connection
//	flood N           N KiB on stderr (a process only)
//	ignore            neither EOF nor SIGTERM ends the process
//
// A line that begins with # is a comment.
type Wild struct {
	rules []rule

	mu     sync.Mutex
	counts map[string]int
	bell   chan struct{} // closed when a message comes
	last   time.Time
}

type rule struct {
	on    string
	nth   int // 0: every
	steps []step
	// counts is how many messages of each method had come with the one that is answered.
	counts map[string]int
}

// Case is a file of wild cases: prose, and the files case, must, server and twin, the server's repaired twin.
type Case struct {
	Prose, Plan, Must, Server, Twin string
	// Has says which of the files are there.
	Has map[string]bool
}

// ParseCase reads a case file.
func ParseCase(b []byte) *Case {
	a := txtar.Parse(b)
	c := &Case{Prose: string(a.Comment), Has: map[string]bool{}}
	for _, f := range a.Files {
		c.Has[f.Name] = true
		switch text := string(f.Data); f.Name {
		case "case":
			c.Plan = text
		case "must":
			c.Must = text
		case "server":
			c.Server = text
		case "twin":
			c.Twin = text
		}
	}
	return c
}

// ParseWild reads rules.
func ParseWild(text string) (*Wild, error) {
	w := &Wild{counts: map[string]int{}, bell: make(chan struct{}), last: time.Now()}
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(l, " ")
		rest = strings.TrimLeft(rest, " ")
		if verb == "on" {
			r := rule{on: rest}
			if name, n, ok := strings.Cut(rest, " "); ok {
				r.on = name
				r.nth, _ = strconv.Atoi(n)
			}
			w.rules = append(w.rules, r)
			continue
		}
		if len(w.rules) == 0 || !slices.Contains(wildVerbs, verb) {
			return nil, fmt.Errorf("line %d: unknown step %q", i+1, l)
		}
		r := &w.rules[len(w.rules)-1]
		r.steps = append(r.steps, step{i + 1, verb, rest})
	}
	return w, nil
}

var wildVerbs = []string{">", "default", "raw", "repeat", "sleep", "wait", "exit", "deaf", "reply", "header", "stream", "data", "end", "cut", "flood", "ignore"}

// came notes a message and returns its rule, with a copy of the counts at this moment; nil when there is none.
func (w *Wild) came(method string) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[method]++
	close(w.bell)
	w.bell = make(chan struct{})
	for i := range w.rules {
		r := &w.rules[i]
		if r.on == method && (r.nth == 0 || r.nth == w.counts[method]) {
			own := *r
			own.counts = maps.Clone(w.counts)
			return &own
		}
	}
	return nil
}

// Came tells how many messages with the method came.
func (w *Wild) Came(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[method]
}

// LastAct is when the server last sent something or closed something.
func (w *Wild) LastAct() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func (w *Wild) act() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
}

// await waits until more than n messages with the method have come.
func (w *Wild) await(method string, n int, quit <-chan struct{}) error {
	for {
		w.mu.Lock()
		bell, count := w.bell, w.counts[method]
		w.mu.Unlock()
		if count > n {
			return nil
		}
		select {
		case <-bell:
		case <-quit:
			return errQuit
		}
	}
}

var errQuit = errors.New("the server was ended")

// asked is a message of the client.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version string          `json:"protocolVersion"`
		Cursor  json.RawMessage `json:"cursor"`
		Request json.RawMessage `json:"requestId"`
		Meta    struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// name is the word for the message in a rule.
func (m *asked) name() string {
	if m.Method == "" {
		return "response"
	}
	return m.Method
}

// filler is so many bytes of text.
func filler(n int) string { return fillers[:n] }

var fillers = strings.Repeat("QUJD", 4<<20)

func (m *asked) expand(s, host string) string {
	version := m.Params.Version
	if version == "" {
		version = "2025-11-25"
	}
	return strings.NewReplacer("${id}", string(m.ID), "${text}", strings.Trim(string(m.ID), `"`), "${version}", version, "${HOST}", host, "${cursor}", string(m.Params.Cursor), "${token}", string(m.Params.Meta.Token),
		"${64K}", filler(64<<10+1), "${1M}", filler(1<<20), "${5M}", filler(5<<20), "${16M}", filler(16<<20-1024), "${deep}", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)).Replace(s)
}

// answer is a well-behaved server's; empty for a message that needs none.
func (m *asked) answer() string {
	if len(m.ID) == 0 || m.Method == "" {
		return ""
	}
	result, ok := goodResults[m.Method]
	if !ok {
		return m.expand(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"Method not found"}}`, "")
	}
	return m.expand(`{"jsonrpc":"2.0","id":${id},"result":`+result+`}`, "")
}

var goodResults = map[string]string{
	"initialize": `{"protocolVersion":"${version}","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"wild","version":"1"}}`,
	"tools/list": `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`,
	"tools/call": `{"content":[{"type":"text","text":"hi"}]}`,
	"ping":       `{}`,
}

// way is how a block of a rule acts on one transport.
type way interface {
	send(text string) error // ">"
	raw(b []byte) error
	do(st step) error
}

// play runs the steps of a rule for a message.
func (w *Wild) play(r *rule, m *asked, host string, y way, quit <-chan struct{}) error {
	for _, st := range r.steps {
		if err := w.step(st, m, host, y, r.counts, quit); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wild) step(st step, m *asked, host string, y way, start map[string]int, quit <-chan struct{}) error {
	rest := m.expand(st.rest, host)
	switch st.verb {
	case ">":
		defer w.act()
		return y.send(rest)
	case "default":
		defer w.act()
		if a := m.answer(); a != "" {
			return y.send(a)
		}
		return nil
	case "raw", "repeat":
		n, text := 1, rest
		if st.verb == "repeat" {
			count, t, _ := strings.Cut(rest, " ")
			n, _ = strconv.Atoi(count)
			text = t
		}
		b, err := strconv.Unquote(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", st.line, err)
		}
		defer w.act()
		return y.raw([]byte(strings.Repeat(b, n)))
	case "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
		case <-quit:
		}
		return nil
	case "wait":
		return w.await(rest, start[rest], quit)
	}
	defer w.act()
	st.rest = rest
	return y.do(st)
}

// several reports whether a block sends more than one message, so that over HTTP it needs an event stream.
func (r *rule) several() bool {
	n := 0
	for _, st := range r.steps {
		switch st.verb {
		case ">", "default":
			n++
		case "wait":
			n += 2
		case "reply", "stream", "raw", "repeat", "cut":
			return false
		}
	}
	return n > 1
}
