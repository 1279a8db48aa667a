package m3

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/trace"
)

// upstream is one running server that speaks on a stream: a process, or a function in this process.
type upstream struct {
	conn trace.ConnectionID
	d    *dialer
	r    io.Reader
	w    io.WriteCloser
	run  *serverRun // nil for a function
	pipe *pipeRun   // nil for a process

	over  atomic.Bool // the end of the agent was passed on, or the kit ends it
	first atomic.Bool // the server's output ended before that
	told  atomic.Bool // and that was taken as a fault
	once  sync.Once
}

// connect starts the server once more.
func (s *served) connect(ctx context.Context) (*upstream, error) {
	up := &upstream{conn: s.name(), d: s.d}
	switch server := s.server.(type) {
	case StdioServer:
		run, err := server.start(ctx, s.d, up.conn)
		if err != nil {
			return nil, err
		}
		up.run, up.r, up.w = run, run.proc.Stdout(), run.proc.Stdin()
	case PipeServer:
		up.pipe = server.start(s.d, up.conn)
		up.r, up.w = up.pipe.ours, up.pipe.ours
	default:
		return nil, fmt.Errorf("%T speaks on no stream", s.server) // the set of servers is closed
	}
	return up, nil
}

// pipeRun is a server in this process.
type pipeRun struct {
	ours   net.Conn
	cancel context.CancelFunc
	done   chan struct{}
	d      *dialer
}

// start runs the server's function on one end of a pair of connected sockets, which, unlike a pipe in memory, pass on the end of one direction.
func (s PipeServer) start(d *dialer, conn trace.ConnectionID) *pipeRun {
	ctx, cancel := context.WithCancel(context.Background())
	ours, theirs, err := socketPair()
	if err != nil { // no descriptors: the pipe in memory does as well, but for a server that goes on after the agent's end
		ours, theirs = net.Pipe()
	}
	p := &pipeRun{ours: ours, cancel: cancel, done: make(chan struct{}), d: d}
	go func() {
		defer close(p.done)
		defer theirs.Close()
		serve(ctx, s.Serve, theirs, func(err error) { d.serveEnded(conn, err) })
	}()
	return p
}

// socketPair makes two connected sockets.
func socketPair() (net.Conn, net.Conn, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pipe")
		c, cerr := net.FileConn(f)
		f.Close()
		if cerr != nil {
			err = cerr
			continue
		}
		conns[i] = c
	}
	if err != nil {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return conns[0], conns[1], nil
}

// Read reads the server's output.
func (u *upstream) Read(b []byte) (int, error) {
	n, err := u.r.Read(b)
	if err != nil && !u.over.Load() {
		u.first.Store(true)
	}
	return n, err
}

// Write writes to the server. A server that has gone does not read any more, which its output tells as well.
func (u *upstream) Write(b []byte) (int, error) { return u.w.Write(b) }

// CloseWrite passes the end of the agent on.
func (u *upstream) CloseWrite() error {
	u.over.Store(true)
	if c, ok := u.w.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return u.w.Close()
}

// SetDeadline interrupts what waits for the server.
func (u *upstream) SetDeadline(t time.Time) error {
	u.over.Store(true)
	if u.pipe != nil {
		return u.pipe.ours.SetDeadline(t)
	}
	_ = u.run.proc.Stdin().SetDeadline(t)
	return u.run.proc.Stdout().SetDeadline(t)
}

// Close closes both directions. It does not end the process.
func (u *upstream) Close() error {
	u.over.Store(true)
	if u.pipe != nil {
		return u.pipe.ours.Close()
	}
	_ = u.run.proc.Stdin().Close()
	return u.run.proc.Stdout().Close()
}

// endedFirst reports whether the server ended its output before it was told to.
func (u *upstream) endedFirst() bool { return u.first.Load() }

// close ends the server and records that.
func (u *upstream) close() {
	u.once.Do(func() {
		u.over.Store(true)
		if u.run != nil {
			u.run.exited(u.run.proc.End(nil))
			return
		}
		u.pipe.close()
	})
}

// close ends the function: by the end of its stream, then of its context.
func (p *pipeRun) close() {
	defer p.cancel()
	p.ours.Close()
	for _, last := range []bool{false, true} {
		timer := time.NewTimer(500 * time.Millisecond)
		select {
		case <-p.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		p.cancel()
		if last {
			p.d.client.find(trace.SeverityWarning, "serve-did-not-return", "the server's Serve function did not return when its stream and its context ended", "")
		}
	}
}

// signal passes a signal on to a process.
func (u *upstream) signal(sig syscall.Signal) {
	if u.run == nil {
		return
	}
	if _, gone := u.run.proc.Exit(); !gone {
		_ = syscall.Kill(u.run.proc.PID(), sig)
	}
}

// exit waits a moment for a process whose output has ended to be gone.
func (u *upstream) exit() (proc.Exit, bool) {
	if u.run == nil {
		return proc.Exit{}, false
	}
	select {
	case <-u.run.proc.Exited():
	case <-time.After(200 * time.Millisecond):
	}
	return u.run.proc.Exit()
}

// lastWords says how the server ended.
func (u *upstream) lastWords() string {
	if exit, ok := u.exit(); ok {
		return ": its process " + describeExit(exit)
	}
	if words := u.d.ownWords(); u.pipe != nil && words != "" {
		return ": " + firstLine(words)
	}
	return ""
}

// details are those of a server that died.
func (u *upstream) details() map[string]any {
	m := map[string]any{}
	if exit, ok := u.exit(); ok {
		exitDetails(m, exit)
	}
	return m
}
