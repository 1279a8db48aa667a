package wiretest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stdio plays a server on a stream.
type stdio struct {
	w    *Wild
	in   io.Reader
	out  io.WriteCloser
	quit chan struct{}
	end  sync.Once
	deaf chan struct{}
	mu   sync.Mutex
	left sync.WaitGroup
	err  func(n int) // writes n KiB to stderr; nil: there is none
	stay bool
}

// ServeStream plays the server on a stream until the client or a rule ends it.
func (w *Wild) ServeStream(s io.ReadWriteCloser) {
	p := &stdio{w: w, in: s, out: s, quit: make(chan struct{}), deaf: make(chan struct{})}
	p.serve()
	s.Close()
	p.left.Wait()
}

// Serve plays a whole process: the rules of the file that its one argument names.
func Serve(rules string) {
	w, err := ParseWild(rules)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	p := &stdio{w: w, in: os.Stdin, out: os.Stdout, quit: make(chan struct{}), deaf: make(chan struct{})}
	p.err = func(n int) { io.WriteString(os.Stderr, strings.Repeat(strings.Repeat("x", 1023)+"\n", n)) }
	p.serve()
	if p.stay {
		select {}
	}
}

func (p *stdio) serve() {
	if r := p.w.came("start"); r != nil {
		_ = p.w.play(r, &asked{}, "", p, p.quit)
	}
	lines := bufio.NewReader(p.in)
	for {
		select {
		case <-p.deaf:
			<-p.quit
			return
		case <-p.quit:
			return
		default:
		}
		b, err := lines.ReadBytes('\n')
		if err != nil {
			p.stop()
			return
		}
		p.take(b)
	}
}

func (p *stdio) take(b []byte) {
	m := &asked{}
	_ = json.Unmarshal(b, m) // a client's bad message has no method, and is one more response
	r := p.w.came(m.name())
	if r == nil {
		r = &rule{steps: []step{{verb: "default"}}}
	}
	for _, st := range r.steps {
		if st.verb == "deaf" { // before the next line is read
			close(p.deaf)
		}
	}
	if !r.has("wait", "sleep") { // then nothing may overtake it
		_ = p.w.play(r, m, "", p, p.quit)
		return
	}
	p.left.Go(func() { _ = p.w.play(r, m, "", p, p.quit) })
}

func (p *stdio) stop() {
	p.end.Do(func() { close(p.quit) })
}

func (p *stdio) send(text string) error { return p.raw([]byte(text + "\n")) }

func (p *stdio) raw(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(b)
	return err
}

func (p *stdio) do(st step) error {
	switch st.verb {
	case "exit":
		code, _ := strconv.Atoi(st.rest)
		if p.err != nil {
			os.Exit(code)
		}
		p.stop()
		return p.out.Close()
	case "deaf":
		return nil
	case "flood":
		n, _ := strconv.Atoi(st.rest)
		if p.err == nil {
			return errors.New("there is no stderr")
		}
		p.err(n)
		return nil
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		p.stay = true
		return nil
	}
	return fmt.Errorf("line %d: %s is for HTTP", st.line, st.verb)
}
