package gotest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/shim"
)

// Config says how go test is run.
type Config struct {
	Dir string // empty is the present one
	// Env is the whole environment.
	Env []string
	// Args stand after "go": see [Args.Command].
	Args []string
	// Go is the go command; empty is "go" in PATH.
	Go string
	// Event is called with every line of go test's stdout, in order, from one goroutine.
	Event func(*Event)
	// Stderr is called with every line of go's own stderr, from another; the bytes are valid during the call.
	Stderr func(line []byte)
	// Grace is how long the test processes have after a first signal to finish what they record. 0 is 7 s: m3test takes up
	// to five.
	Grace time.Duration
	// Signals are passed on, see [Process.Wait]. Nil: none.
	Signals <-chan os.Signal
}

// Exit is how go test ended.
type Exit struct {
	// Code is what m3 test ends with: go test's own exit code, or 128 + the signal that ended the run (130 for Ctrl-C).
	Code int
	// Signal is the first signal that was passed on, nil when there was none.
	Signal os.Signal
	// Killed says that SIGKILL was needed.
	Killed bool
	// GoSignal is the signal that ended the go command itself, not sent by us.
	GoSignal string
}

// Process is a running go test with everything that it started, in a process group of its own.
type Process struct {
	cfg    Config
	cmd    *exec.Cmd
	guard  *proc.Guard
	out    [2]*os.File
	read   sync.WaitGroup
	exited chan struct{}
	err    error // of Wait, valid after exited
}

// StartError says that go test could not be started.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string {
	if errors.Is(e.Err, exec.ErrNotFound) {
		return "the " + e.Command + " command is not in PATH: m3 test needs a Go toolchain"
	}
	return "start " + e.Command + " test: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Start starts go test. The caller must call Wait. When this process dies without a word, a reaper ends go test in its place, with the
// same grace: see [proc.Guard].
func Start(cfg *Config) (*Process, error) {
	p := &Process{cfg: *cfg, exited: make(chan struct{})}
	if p.cfg.Go == "" {
		p.cfg.Go = "go"
	}
	if p.cfg.Grace == 0 {
		p.cfg.Grace = 7 * time.Second
	}
	p.cmd = exec.Command(p.cfg.Go, p.cfg.Args...)
	p.cmd.Dir, p.cmd.Env = cfg.Dir, cfg.Env
	// A group of its own: the terminal's Ctrl-C then reaches m3 alone, and m3 passes it on to all of it, once.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.begin(); err != nil {
		return nil, &StartError{p.cfg.Go, err}
	}
	return p, nil
}

// begin starts the command under guard.
func (p *Process) begin() (err error) {
	ctx := context.Background() // the reaper's own bounds hold
	if p.guard, err = proc.NewGuard(ctx); err != nil {
		return err
	}
	if err := p.pipes(); err != nil {
		return err
	}
	err = p.guard.Watch(ctx, p.PID())
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err != nil {
		p.signal(syscall.SIGKILL)
		<-p.exited
		p.drain()
		p.guard.Forget(p.PID())
	}
	return err
}

// pipes starts the command on pipes of our own, so that waiting for it never waits for who else holds them.
func (p *Process) pipes() error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	err = p.cmd.Start()
	outW.Close()
	errW.Close()
	if err != nil {
		outR.Close()
		errR.Close()
		return err
	}
	p.out = [2]*os.File{outR, errR}
	p.read.Go(func() { _ = Scan(outR, p.event) }) // the only errors are those of a pipe that Wait closed
	p.read.Go(func() { scanLines(errR, p.stderr) })
	return nil
}

func (p *Process) event(ev *Event) {
	if p.cfg.Event != nil {
		p.cfg.Event(ev)
	}
}

func (p *Process) stderr(line []byte) {
	if p.cfg.Stderr != nil {
		p.cfg.Stderr(line)
	}
}

// scanLines hands on lines, terminator included, in pieces of at most 64 KiB.
func scanLines(r io.Reader, fn func([]byte)) {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 {
			fn(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Wait waits for the end, passing signals on. The first one goes to the whole group. The go command gets SIGINT for it (SIGQUIT as itself),
// because it then waits for its tests and tells how they ended, where SIGTERM would end it alone and leave them writing into a
// broken pipe. The test processes then have the grace; after it, or at a second signal, everything left is killed.
// The end of ctx is a signal too.
//
// When it returns, every event has been handed over, and after a signal nothing of the group is left.
func (p *Process) Wait(ctx context.Context) Exit {
	var ex Exit
	var deadline <-chan time.Time
	done := ctx.Done()
	stop := func(sig os.Signal) {
		if ex.Signal != nil {
			ex.Killed = true
			p.signal(syscall.SIGKILL)
			return
		}
		ex.Signal = sig
		deadline = time.After(p.cfg.Grace)
		p.pass(sig)
	}
	for running := true; running; {
		select {
		case <-p.exited:
			running = false
		case sig := <-p.cfg.Signals:
			stop(sig)
		case <-done:
			done = nil
			stop(os.Interrupt)
		case <-deadline:
			ex.Killed = true
			p.signal(syscall.SIGKILL)
		}
	}
	p.finish(&ex, deadline)
	return ex
}

// finish is what remains after the go command has ended: its group after a signal, and the ends of the pipes.
func (p *Process) finish(ex *Exit, deadline <-chan time.Time) {
	p.status(ex)
	if ex.Signal != nil || ex.GoSignal != "" {
		p.sweep(ex, deadline)
	}
	p.guard.Forget(p.PID())
	p.drain()
}

// drain waits for what was written to be read, and closes the pipes.
func (p *Process) drain() {
	drained := make(chan struct{})
	go func() { p.read.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(2 * time.Second): // a process that a test left behind holds the pipe: what it says is nobody's test
		for _, f := range p.out {
			f.Close()
		}
		<-drained
	}
	for _, f := range p.out {
		f.Close()
	}
}

func (p *Process) status(ex *Exit) {
	var ee *exec.ExitError
	switch {
	case p.err == nil:
	case errors.As(p.err, &ee) && ee.Exited():
		ex.Code = ee.ExitCode()
	case errors.As(p.err, &ee):
		sig := ee.Sys().(syscall.WaitStatus).Signal()
		ex.Code = 128 + int(sig)
		if ex.Signal == nil {
			ex.GoSignal = sig.String()
		}
	default:
		ex.Code = 2
	}
	if sig, ok := ex.Signal.(syscall.Signal); ok {
		ex.Code = 128 + int(sig)
	}
}

// sweep waits until the group is empty, and kills what is left of it when the grace has passed.
func (p *Process) sweep(ex *Exit, deadline <-chan time.Time) {
	var giveUp <-chan time.Time
	kill := func() {
		ex.Killed = true
		p.signal(syscall.SIGKILL)
		giveUp = time.After(time.Second)
	}
	if ex.GoSignal != "" { // the go command was killed under its tests: they get the same chance
		p.signal(syscall.SIGINT)
		deadline = time.After(p.cfg.Grace)
	}
	if ex.Killed {
		kill()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for groupExists(p.PID()) && groupAlive(p.PID()) {
		select {
		case <-tick.C:
		case <-p.cfg.Signals:
			kill()
		case <-deadline:
			kill()
		case <-giveUp:
			return
		}
	}
}

// groupExists reports whether the group has a process, be it a zombie.
func groupExists(pgid int) bool { return syscall.Kill(-pgid, 0) == nil }

// signal reaches the whole group of the go command.
func (p *Process) signal(sig syscall.Signal) error {
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

// pass hands the first signal on: SIGTERM to all but the go command, SIGHUP as SIGINT.
func (p *Process) pass(sig os.Signal) {
	members, err := shim.Members(p.PID())
	switch {
	case sig == syscall.SIGQUIT:
		p.signal(syscall.SIGQUIT)
	case sig != syscall.SIGTERM || err != nil:
		p.signal(syscall.SIGINT)
	default:
		_ = p.cmd.Process.Signal(syscall.SIGINT) // first, so that it starts nothing more
		for _, m := range members {
			if m.PID != p.PID() {
				_ = m.Signal(syscall.SIGTERM) // one that has ended needs none
			}
		}
	}
}

// SignalName is what people call a signal that ends a run: interrupt (Ctrl-C), SIGTERM, SIGHUP, SIGQUIT.
func SignalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	default:
		return sig.String()
	}
}

// PID is the go command's process id, and the id of the group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// String says what was run.
func (p *Process) String() string { return fmt.Sprintf("%s %v", p.cfg.Go, p.cfg.Args) }
