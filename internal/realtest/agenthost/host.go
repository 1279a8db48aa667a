// Package agenthost is a harness.Host for tests of drivers: it starts real processes, keeps what a driver records, and answers as the test says.
package agenthost

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/trace"
)

// Frame is one unit of the agent's protocol.
type Frame struct {
	Direction trace.Direction
	Framing   trace.Framing
	Bytes     []byte
}

// Host keeps what a driver records.
type Host struct {
	// Answer answers questions for permissions; nil: all are allowed.
	Answer func(ctx context.Context, r *harness.PermissionRequest) harness.PermissionAnswer
	// OnEvent sees each event as it comes.
	OnEvent func(harness.Event)
	// Launch starts a process in place of a real one.
	Launch func(ctx context.Context, c *harness.Command) (harness.Process, error)
	// Serving says that a server's tools were listed; nil: they were.
	Serving func(server string) error

	mu       sync.Mutex
	events   []harness.Event
	frames   []Frame
	asked    []*harness.PermissionRequest
	procs    []*Process
	commands []*harness.Command
	drained  int
	served   []string
}

// Event keeps an event.
func (h *Host) Event(e harness.Event) {
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
	if h.OnEvent != nil {
		h.OnEvent(e)
	}
}

// Frame keeps a frame.
func (h *Host) Frame(dir trace.Direction, framing trace.Framing, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frames = append(h.frames, Frame{dir, framing, slices.Clone(b)})
}

// Permission keeps the question and answers it.
func (h *Host) Permission(ctx context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
	h.mu.Lock()
	h.asked = append(h.asked, r)
	h.mu.Unlock()
	if h.Answer == nil {
		return harness.Allow
	}
	return h.Answer(ctx, r)
}

// Elicit has no answer.
func (h *Host) Elicit(context.Context, *harness.Prompted) (elicit.Response, error) {
	return elicit.Response{}, errors.New("the test has no answer")
}

// Drain counts.
func (h *Host) Drain(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained++
	return nil
}

// Served keeps which server was asked for.
func (h *Host) Served(_ context.Context, server string) error {
	h.mu.Lock()
	h.served = append(h.served, server)
	h.mu.Unlock()
	if h.Serving != nil {
		return h.Serving(server)
	}
	return nil
}

// Start starts a process.
func (h *Host) Start(ctx context.Context, c *harness.Command) (harness.Process, error) {
	h.mu.Lock()
	h.commands = append(h.commands, c)
	h.mu.Unlock()
	if h.Launch != nil {
		return h.Launch(ctx, c)
	}
	run, err := proc.Start(ctx, &proc.Spec{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Session: true})
	if err != nil {
		return nil, err
	}
	p := &Process{run: run}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs = append(h.procs, p)
	return p, nil
}

// Events are those so far.
func (h *Host) Events() []harness.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Frames are those so far.
func (h *Host) Frames() []Frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.frames)
}

// Asked are the questions so far.
func (h *Host) Asked() []*harness.PermissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// Processes are those that were started.
func (h *Host) Processes() []*Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.procs)
}

// Commands are what was to be started.
func (h *Host) Commands() []*harness.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.commands)
}

// Drained is how often the driver asked for everything to be recorded.
func (h *Host) Drained() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drained
}

// ServedNames are the servers that the driver waited for.
func (h *Host) ServedNames() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.served)
}

// Process is a real process.
type Process struct {
	run   *proc.Process
	once  sync.Once
	ended proc.Ended
}

// PID is its id.
func (p *Process) PID() int { return p.run.PID() }

// Stdin is its input.
func (p *Process) Stdin() io.WriteCloser { return p.run.Stdin() }

// Stdout is its output.
func (p *Process) Stdout() io.Reader { return p.run.Stdout() }

// Exited is closed when it is gone.
func (p *Process) Exited() <-chan struct{} { return p.run.Exited() }

// StderrTail is the end of its stderr.
func (p *Process) StderrTail() string { return p.run.StderrTail() }

// Exit tells how it ended.
func (p *Process) Exit() (int, string, bool) {
	e, ok := p.run.Exit()
	return e.Code, e.Signal, ok
}

// Stop ends it.
func (p *Process) Stop(eof, term time.Duration) {
	p.once.Do(func() {
		p.ended = p.run.End(&proc.Ladder{EOF: max(eof, time.Millisecond), Term: max(term, time.Millisecond)})
	})
}

// Ended says how Stop went.
func (p *Process) Ended() proc.Ended { return p.ended }

// Spec is the spec of an execution with a home and a workspace of its own, and no server.
func Spec(t testing.TB) *harness.Spec {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, work := filepath.Join(root, "home"), filepath.Join(root, "work")
	for _, dir := range []string{home, work, filepath.Join(home, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"), "LANG=C.UTF-8", "TZ=UTC", "NO_COLOR=1"}
	for _, x := range []string{"CONFIG", "DATA", "CACHE", "STATE"} {
		env = append(env, "XDG_"+x+"_HOME="+filepath.Join(home, "xdg-"+x))
	}
	return &harness.Spec{Execution: "e1", Home: home, Workspace: work, Env: env, Tools: harness.Tools{All: true}}
}
