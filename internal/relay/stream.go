package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// lastWords is how long a server may still talk when its agent is gone, or when it has no way to hear that the agent has ended.
const lastWords = 500 * time.Millisecond

var errGone = errors.New("relay: the agent is gone")

// Stream relays one connection of an agent over two byte streams, until the server's output ends, a write to the agent fails, or ctx or the relay ends. The
// agent's end is passed on: by CloseWrite where the server has that method, else by Close, half a second later when an answer is awaited.
// The server's end is passed on to the agent by CloseWrite, else by Close.
//
// Afterwards both are still the caller's to close. What Stream must interrupt it interrupts by a deadline in the past, or by Close where there
// are no deadlines. The error is nil when one side ended orderly.
func (r *Relay) Stream(ctx context.Context, agent, server io.ReadWriteCloser) error {
	return r.StreamOn(ctx, "", agent, server)
}

// StreamOn is [Relay.Stream] for a connection that the caller has named.
func (r *Relay) StreamOn(ctx context.Context, id trace.ConnectionID, agent, server io.ReadWriteCloser) error {
	if !r.enter() {
		return ErrClosed
	}
	defer r.active.Done()
	c, err := r.open(id, "stdio")
	if err != nil {
		return err
	}
	s := &stream{c: c, agent: agent, server: server, done: make(chan struct{})}
	err = s.run(ctx)
	c.close(err)
	return err
}

// stream is one connection at work.
type stream struct {
	c             *conn
	agent, server io.ReadWriteCloser
	done          chan struct{}

	closed  atomic.Bool // the server was closed because the agent has ended
	writing sync.Mutex  // to the agent: the server's frames and the relay's own answers

	mu    sync.Mutex
	cause error // why the stream was broken off
}

func (s *stream) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.abort(ctx.Err()) })
	defer stop()
	stopLife := context.AfterFunc(s.c.r.life, func() { s.abort(ErrClosed) })
	defer stopLife()
	if g, ok := s.agent.(interface{ Gone() <-chan struct{} }); ok {
		watched := make(chan struct{})
		go func() { defer close(watched); s.watch(g.Gone()) }()
		defer func() { <-watched }()
	}
	defer close(s.done)
	up := make(chan error, 1)
	go func() { up <- s.up() }()
	err := s.down()
	closeWrite(s.agent)
	interrupt(s.agent, s.server)
	<-up // how it went is of no interest: the server's output has ended as well
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.cause {
	case nil:
		return err
	case errGone:
		return nil
	}
	return s.cause
}

// abort ends the stream from outside.
func (s *stream) abort(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.mu.Unlock()
	interrupt(s.agent, s.server)
}

// watch ends the stream when the agent has gone, after the server's last words.
func (s *stream) watch(gone <-chan struct{}) {
	select {
	case <-gone:
	case <-s.done:
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-timer.C:
		s.abort(errGone)
	case <-s.done:
	}
}

var errWrite = errors.New("relay: the server does not read any more")

// up moves frames from the agent to the server, and then the end.
func (s *stream) up() error {
	var broken error
	over := false
	lines := wire.NewLines(s.c.r.cfg.MaxFrame, func(kept, more []byte) {
		if s.c.r.policy.Load() != nil {
			return // it is refused as a whole
		}
		if !over {
			s.toServer(kept, &broken)
		}
		over = true
		s.toServer(more, &broken)
	})
	f := wire.Frame{Direction: trace.ClientToServer, Framing: trace.FramingLine}
	err := s.pump(s.agent, lines, &f, func() error {
		p := s.c.fromAgent(&f, nil)
		if p.answer != nil {
			s.toAgent(append(p.answer, '\n')) // a failure is the other direction's to tell
		}
		if p.forward != nil && !over {
			s.toServer(p.forward, &broken)
		}
		over = false
		return broken
	})
	if broken == nil {
		s.endServer()
	}
	return err
}

func (s *stream) toServer(b []byte, broken *error) {
	if *broken != nil {
		return
	}
	if _, err := s.server.Write(b); err != nil {
		*broken = fmt.Errorf("%w: %w", errWrite, err)
	}
}

// endServer tells the server that nothing more comes.
func (s *stream) endServer() {
	if w, ok := s.server.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // a server that is gone has heard it
		return
	}
	if s.c.waiting("") {
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-s.done:
			return
		case <-timer.C:
		}
	}
	s.closed.Store(true)
	_ = s.server.Close()
}

// down moves frames from the server to the agent.
func (s *stream) down() error {
	var broken error
	over := false
	send := func(b []byte) {
		if broken == nil {
			broken = s.toAgent(b)
		}
	}
	lines := wire.NewLines(s.c.r.cfg.MaxFrame, func(kept, more []byte) {
		if !over {
			send(kept)
		}
		over = true
		send(more)
	})
	f := wire.Frame{Direction: trace.ServerToClient, Framing: trace.FramingLine}
	err := s.pump(s.server, lines, &f, func() error {
		p := s.c.fromServer(&f, s.c.r.scope())
		if !over {
			send(p.forward)
		}
		over = false
		if broken == nil {
			s.c.forwarded(&p)
		}
		return broken
	})
	if s.closed.Load() && broken == nil {
		return nil // reading ended with that
	}
	return err
}

func (s *stream) toAgent(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.agent.Write(b); err != nil {
		return fmt.Errorf("relay: the agent does not read any more: %w", err)
	}
	return nil
}

// pump reads frames into f and has each taken, until the end or an error of either. What was read is taken in any case: it is evidence.
func (s *stream) pump(r io.Reader, lines *wire.Lines, f *wire.Frame, take func() error) error {
	var broken error
	handle := func() {
		f.Time = time.Now()
		if err := take(); broken == nil {
			broken = err
		}
	}
	for empty := 0; ; {
		n, err := r.Read(lines.Space())
		s.c.read.Add(int64(n))
		lines.Filled(n)
		for lines.Next(f) {
			handle()
		}
		if empty++; n > 0 {
			empty = 0
		}
		if err == nil && empty > 100 {
			err = io.ErrNoProgress
		}
		if err == nil && broken == nil {
			continue
		}
		if lines.Rest(f) {
			handle()
		}
		if broken != nil || err == io.EOF {
			return broken
		}
		return err
	}
}

// closeWrite passes an end on.
func closeWrite(c io.Closer) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
		return
	}
	_ = c.Close()
}

// interrupt ends what waits for the streams.
func interrupt(list ...io.Closer) {
	past := time.Unix(1, 0)
	for _, c := range list {
		if d, ok := c.(interface{ SetDeadline(time.Time) error }); ok && d.SetDeadline(past) == nil {
			continue
		}
		_ = c.Close()
	}
}
