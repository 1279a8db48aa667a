// Package proc starts and ends every process of m3: servers, agents, what an agent's terminal runs.
//
//	Start ──► own process group, three pipes of its own, a mark in its environment, a line to the reaper
//	End   ──► EOF 0.5 s ─► TERM 0.5 s ─► KILL (the whole group) ─► whoever carries the mark elsewhere
//
// Three things hold whatever the process does. No descriptor of the test process reaches it, so it cannot keep `go test`
// waiting. Nothing here waits for a pipe that somebody else may hold open. And when the test process itself is gone without
// a word (panic, os.Exit, a timeout, SIGKILL), its reaper ends what is left within 3 s: see package internal/shim.
//
// What gets away: a process that has cleared its environment, left the group, lost its parents before End looked, and holds
// none of our pipes; or one of another user. Such a one is out of the reaper's reach, too, even when it holds pipes.
package proc

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// drainGrace is how long after the end of a process its stderr is waited for: what it wrote itself is in the pipe by then;
// whoever still holds the other end is not it.
const drainGrace = 100 * time.Millisecond

// callbackGrace bounds the wait for a Spec.Stderr that does not return.
const callbackGrace = time.Second

// Spec says what to start.
type Spec struct {
	// Path is a command that is looked up in PATH (that of Env, else the test process's own), or, with a slash in it,
	// a path, taken from Dir when it is relative.
	Path string
	// Args are the arguments, without the command's own name.
	Args []string
	// Env is the complete environment, NAME=value each; Start adds its mark. Nil is an empty environment.
	Env []string
	// Dir is the working directory; empty means the test process's own.
	Dir string
	// Session starts the process in a session of its own, without a terminal, instead of in a process group alone. Its id is the process's.
	Session bool
	// Stderr is called with each line of stderr, terminator included, from one goroutine. The bytes are valid during the
	// call. It must not wait for the process: while it runs, nothing is read from its stderr. Nil means that only the tail is kept.
	Stderr func(line []byte, end LineEnd)
}

// Process is a process that was started, and is owned until End. Its methods may be called from several goroutines.
type Process struct {
	osp    *os.Process
	mark   shim.Mark
	start  uint64    // when it began, as in shim.Proc
	began  time.Time // the same, as our clock has it
	stdin  *os.File
	stdout *os.File
	stderr drainPipe

	tail    tail
	reaped  chan struct{} // closed when exit is set
	drained chan struct{} // closed when stderr has been read to its end
	exited  chan struct{} // closed after reaped, and drained or given up
	exit    atomic.Pointer[Exit]

	end   sync.Once
	ended Ended
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // the exit code; -1 when a signal ended it, or when it is not known
	Signal string // the name of that signal, such as "SIGKILL"; else empty
}

// Stdin returns the write end of the process's stdin. Deadlines work on it. End closes it.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout returns the read end of the process's stdout. Deadlines work on it. The reader should close it when it has what it
// wants; End does so a second later, so that what was written is read to its end.
func (p *Process) Stdout() *os.File { return p.stdout }

// PID returns the process id, which is also the id of its process group.
func (p *Process) PID() int { return p.osp.Pid }

// Exited returns a channel that is closed when the process has ended by itself or by End, and its stderr has been read to
// its end. When a descendant holds stderr open, it is closed 100 ms after the process ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit returns how the process ended; false while it runs.
func (p *Process) Exit() (Exit, bool) {
	e := p.exit.Load()
	if e == nil {
		return Exit{}, false
	}
	return *e, true
}

// StderrTail returns the end of what was written to stderr until now, not redacted: at most 64 KiB, and whole lines where
// something was left out before them.
func (p *Process) StderrTail() string { return p.tail.String() }

// wait reaps the process and sees to it that exited is closed soon, with everything that the process wrote to stderr read.
func (p *Process) wait() {
	state, err := p.osp.Wait()
	exit := exitOf(state, err)
	p.exit.Store(&exit)
	close(p.reaped)
	if !within(drainGrace, p.drained) {
		p.stderr.catchUp()
		select {
		case <-p.drained:
		case <-p.stderr.caught:
		case <-time.After(callbackGrace):
		}
	}
	close(p.exited)
}

// within waits for the channel to be closed and reports whether it was in time.
func within(d time.Duration, c <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		select {
		case <-c: // both were ready
			return true
		default:
			return false
		}
	}
}
