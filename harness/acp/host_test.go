package acp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// fakeHost is a kit that keeps what it is told. Its processes run in sessions of their own.
type fakeHost struct {
	t          testing.TB
	permission func(*harness.PermissionRequest) harness.PermissionAnswer
	elicit     func(*harness.Prompted) (elicit.Response, error)
	served     func(server string) error
	drain      func() error
	start      func(*harness.Command) (harness.Process, error)

	mu       sync.Mutex
	events   []harness.Event
	frames   []string // "> …" and "< …"
	received int      // of them "< …"
	asked    []*harness.PermissionRequest
	prompted []*harness.Prompted
	drained  int
	procs    []harness.Process
	seen     chan harness.Event
	changed  chan struct{} // closed when something was recorded, and made anew
}

func newHost(t testing.TB) *fakeHost {
	h := &fakeHost{t: t, seen: make(chan harness.Event, 4096), changed: make(chan struct{})}
	t.Cleanup(h.check)
	return h
}

// check holds that no agent is left.
func (h *fakeHost) check() {
	for _, p := range h.procs {
		select {
		case <-p.Exited():
		case <-time.After(10 * time.Second):
			h.t.Errorf("the agent %d still runs", p.PID())
			p.Stop(0, 0)
		}
	}
}

// record keeps something, and tells who waits.
func (h *fakeHost) record(keep func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keep()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *fakeHost) Event(e harness.Event) {
	h.record(func() { h.events = append(h.events, e) })
	select {
	case h.seen <- e:
	default:
	}
}

func (h *fakeHost) Frame(dir trace.Direction, _ trace.Framing, b []byte) {
	mark := "> "
	if dir == trace.ServerToClient {
		mark = "< "
	}
	h.record(func() {
		h.frames = append(h.frames, mark+string(b[:min(len(b), 4096)]))
		if dir == trace.ServerToClient {
			h.received++
		}
	})
}

func (h *fakeHost) Permission(ctx context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
	h.record(func() { h.asked = append(h.asked, r) })
	if h.permission == nil {
		<-ctx.Done()
		return harness.Deny
	}
	return h.permission(r)
}

func (h *fakeHost) Elicit(ctx context.Context, p *harness.Prompted) (elicit.Response, error) {
	h.mu.Lock()
	h.prompted = append(h.prompted, p)
	h.mu.Unlock()
	if h.elicit == nil {
		return elicit.Response{}, errors.New("nothing was planned")
	}
	return h.elicit(p)
}

func (h *fakeHost) Served(_ context.Context, server string) error {
	if h.served == nil {
		return nil
	}
	return h.served(server)
}

func (h *fakeHost) Drain(context.Context) error {
	h.mu.Lock()
	h.drained++
	h.mu.Unlock()
	if h.drain == nil {
		return nil
	}
	return h.drain()
}

func (h *fakeHost) Start(_ context.Context, c *harness.Command) (harness.Process, error) {
	start := h.start
	if start == nil {
		start = startProcess
	}
	p, err := start(c)
	if err == nil {
		h.procs = append(h.procs, p)
	}
	return p, err
}

// of returns the events of one type.
func of[T harness.Event](h *fakeHost) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []T
	for _, e := range h.events {
		if x, ok := e.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// notices are the codes of the notices.
func (h *fakeHost) notices() []string {
	var codes []string
	for _, n := range of[*harness.Notice](h) {
		codes = append(codes, n.Code)
	}
	return codes
}

// wait waits for an event that fits.
func (h *fakeHost) wait(fits func(harness.Event) bool) {
	h.t.Helper()
	for {
		select {
		case e := <-h.seen:
			if fits(e) {
				return
			}
		case <-time.After(20 * time.Second):
			h.t.Fatal("the event did not come")
		}
	}
}

// waitAsked waits until permission was asked for.
func (h *fakeHost) waitAsked() {
	h.until(func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.asked) > 0
	})
}

// until waits for a state of what was recorded.
func (h *fakeHost) until(reached func() bool) {
	deadline := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if reached() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			h.t.Error("what was waited for did not come")
			return
		}
	}
}

// sent is the last frame of the client with the text.
func (h *fakeHost) sent(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range slices.Backward(h.frames) {
		if f[0] == '>' && strings.Contains(f, text) {
			return f
		}
	}
	return ""
}

// process is a program in a session of its own.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	exited chan struct{}
	stop   sync.Once
	stderr bytes.Buffer
}

func startProcess(c *harness.Command) (harness.Process, error) {
	p := &process{cmd: exec.Command(c.Path, c.Args...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = c.Env, c.Dir, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.out, p.cmd.Stdout = r, w
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) PID() int                { return p.cmd.Process.Pid }
func (p *process) Stdin() io.WriteCloser   { return p.in }
func (p *process) Stdout() io.Reader       { return p.out }
func (p *process) Exited() <-chan struct{} { return p.exited }

func (p *process) Exit() (code int, signal string, ok bool) {
	select {
	case <-p.exited:
	default:
		return 0, "", false
	}
	s := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if s.Signaled() {
		return 0, s.Signal().String(), true
	}
	return s.ExitStatus(), "", true
}

func (p *process) StderrTail() string {
	select {
	case <-p.exited:
		return p.stderr.String()
	default:
		return ""
	}
}

func (p *process) Stop(eof, term time.Duration) {
	p.stop.Do(func() {
		p.in.Close()
		if !p.gone(eof) {
			_ = syscall.Kill(-p.PID(), syscall.SIGTERM)
			if !p.gone(term) {
				_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
			}
		}
		<-p.exited
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // whoever is left in the group
		p.out.Close()
	})
}

func (p *process) gone(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}
