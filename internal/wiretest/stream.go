package wiretest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Stream is a script that plays over a pair of pipes.
type Stream struct {
	// R and W are the client's ends.
	R, W *os.File
	done chan error

	in    *os.File
	out   *os.File
	lines *bufio.Reader
}

// ServeStream starts the script over pipes of the operating system.
func (s *Script) ServeStream() (*Stream, error) {
	in, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), w.Close())
	}
	t := &Stream{R: r, W: w, in: in, out: out, lines: bufio.NewReader(in), done: make(chan error, 1)}
	go func() {
		err := s.play(&player{peer: t, vars: map[string]string{}})
		t.out.Close()
		t.in.Close()
		t.done <- err
	}()
	return t, nil
}

// Wait waits for the script's end. The error is the first step that failed.
func (t *Stream) Wait() error {
	err := <-t.done
	t.done <- err
	t.R.Close()
	t.W.Close()
	return err
}

func (t *Stream) wait(what string) (message, error) {
	t.in.SetReadDeadline(time.Now().Add(patience))
	b, err := t.lines.ReadBytes('\n')
	if err != nil {
		return message{}, err
	}
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%q: %w", b, err)
	}
	return m, m.matches(what)
}

func (t *Stream) named(string) {}

func (t *Stream) send(b []byte) error {
	t.out.SetWriteDeadline(time.Now().Add(patience))
	_, err := t.out.Write(b)
	return err
}

func (t *Stream) do(st step) error {
	switch st.verb {
	case "eof":
		return t.out.Close()
	case "drain":
		t.in.SetReadDeadline(time.Now().Add(patience))
		_, err := io.Copy(io.Discard, t.lines)
		return err
	}
	return errors.New("this step is for HTTP")
}
