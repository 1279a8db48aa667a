package mcp

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/m3-go/m3/internal/wire"
)

// gate is the handler that Dial gets. It keeps what arrives before the connection has its name: Dial starts the reader, and only
// then returns the id that every event carries. It never blocks, because Dial may also close the transport again.
type gate struct {
	next atomic.Pointer[wire.Handler]

	mu   sync.Mutex
	kept []func(wire.Handler)
}

var _ wire.Handler = (*gate)(nil)

// pass hands h what was kept, and everything from now on; nil drops it, because the dial failed.
func (g *gate) pass(h wire.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h == nil {
		h = nobody{}
	}
	for _, hand := range g.kept {
		hand(h)
	}
	g.kept = nil
	g.next.Store(&h)
}

// handler returns the next handler, or nil with the gate's lock held.
func (g *gate) handler() wire.Handler {
	if h := g.next.Load(); h != nil {
		return *h
	}
	g.mu.Lock()
	if h := g.next.Load(); h != nil {
		g.mu.Unlock()
		return *h
	}
	return nil
}

func (g *gate) keep(hand func(wire.Handler)) {
	g.kept = append(g.kept, hand)
	g.mu.Unlock()
}

// Sent passes the frame on.
func (g *gate) Sent(f *wire.Frame) {
	if h := g.handler(); h != nil {
		h.Sent(f)
		return
	}
	c := clone(f)
	g.keep(func(h wire.Handler) { h.Sent(c) })
}

// Received passes the frame on.
func (g *gate) Received(f *wire.Frame) {
	if h := g.handler(); h != nil {
		h.Received(f)
		return
	}
	c := clone(f)
	g.keep(func(h wire.Handler) { h.Received(c) })
}

// ExchangeEnded passes the exchange on.
func (g *gate) ExchangeEnded(x *wire.Exchange) {
	if h := g.handler(); h != nil {
		h.ExchangeEnded(x)
		return
	}
	c := *x
	g.keep(func(h wire.Handler) { h.ExchangeEnded(&c) })
}

// Closed passes the end on.
func (g *gate) Closed(err error) {
	if h := g.handler(); h != nil {
		h.Closed(err)
		return
	}
	g.keep(func(h wire.Handler) { h.Closed(err) })
}

// clone copies a frame, whose bytes are valid only while it is handed over.
func clone(f *wire.Frame) *wire.Frame {
	c := *f
	c.Raw, c.Body, c.Tail = bytes.Clone(f.Raw), bytes.Clone(f.Body), bytes.Clone(f.Tail)
	return &c
}

// nobody is the handler of a connection that was never used.
type nobody struct{}

func (nobody) Sent(*wire.Frame)             {}
func (nobody) Received(*wire.Frame)         {}
func (nobody) ExchangeEnded(*wire.Exchange) {}
func (nobody) Closed(error)                 {}
