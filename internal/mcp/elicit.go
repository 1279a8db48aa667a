package mcp

import (
	"context"
	"sync"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

const methodElicit = "elicitation/create"

// Modes are modes of elicitation.
type Modes uint8

// The modes.
const (
	ElicitForm Modes = 1 << iota
	ElicitURL
)

// modes are those that the capabilities declare.
func (c *Capabilities) modes() (m Modes) {
	if c.ElicitForm {
		m |= ElicitForm
	}
	if c.ElicitURL {
		m |= ElicitURL
	}
	return m
}

// Asked is a request of the server for input in the legacy eras.
type Asked struct {
	Params trace.JSON // nil when there were none
	// For is the id of the call of ours whose HTTP exchange brought it; empty elsewhere.
	For trace.RPCID
	// Note, which the answer may set, is JSON that is kept with the event of the answer and not sent.
	Note trace.JSON
}

// metaFor is the _meta of a request that declares more modes of elicitation than the session does.
func (s *Session) metaFor(m Modes) *meta {
	c := s.link.cfg.Capabilities
	if m |= c.modes(); s.info.Legacy || m == c.modes() {
		return s.meta
	}
	if made := s.more[m].Load(); made != nil {
		return made
	}
	c.ElicitForm, c.ElicitURL = m&ElicitForm != 0, m&ElicitURL != 0
	made := s.link.cfg.meta(s.info.ProtocolVersion, c)
	s.more[m].Store(made)
	return made
}

// meta is the part of _meta that is the same in every request that declares the capabilities.
func (cfg *Config) meta(protocol string, c Capabilities) *meta {
	return newMeta(protocol, &c, cfg.ClientName, cfg.ClientVersion).withLogLevel(cfg.LogLevel)
}

// turns keeps the requests of the server for input in the order of their arrival: each has a goroutine of its own.
type turns struct {
	mu   sync.Mutex
	last *turn
}

type turn struct {
	before *turn
	over   chan struct{}
}

// arrived is told of every request of the server, on the reader.
func (l *link) arrived(in *rpc.Incoming) {
	if l.ignored(in) { // here, before the next message is read: what is found must not depend on who is quicker, nor come after the connection's end
		in.Local = unanswered{}
		return
	}
	if in.Method != methodElicit {
		return
	}
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	t := &turn{before: l.turns.last, over: make(chan struct{})}
	l.turns.last, in.Local = t, t
}

// await waits until the turns before are over.
func (t *turn) await(ctx context.Context) {
	if t.before == nil {
		return
	}
	select {
	case <-t.before.over:
	case <-ctx.Done():
	}
}

func (t *turn) end() {
	close(t.over)
	t.before = nil
}
