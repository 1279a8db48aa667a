package rpc

import (
	"sync"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// Sent records a frame that is about to be written.
func (c *Conn) Sent(f *wire.Frame) {
	c.flushLines()
	ev := trace.Event{Kind: trace.KindHTTPExchange, Phase: c.phase(), RPCID: f.For}
	o := outgoingOf(f.Message)
	if o != nil {
		ev.RPCID, ev.Method, ev.Phase, ev.Own = o.id, o.Method, o.phase, o.own
		if !f.Resent {
			ev.Kind, ev.Payload = o.kind, o.memo
		}
	}
	seq := c.record(ev, f)
	if o != nil {
		o.sent.Store(seq)
	}
}

// outgoingOf returns what Send was given.
func outgoingOf(m *wire.Message) *outgoing {
	if m == nil {
		return nil
	}
	switch o := m.Call.(type) {
	case *call:
		return &o.outgoing
	case *outgoing:
		return o
	}
	return nil
}

// draft is the memory of an event on its way to the tape, which keeps nothing of it.
type draft struct {
	ev trace.Event
	fr trace.Frame
}

var drafts = sync.Pool{New: func() any { return &draft{} }}

// record completes an event and puts it on the tape.
func (c *Conn) record(ev trace.Event, f *wire.Frame) int64 {
	d := drafts.Get().(*draft)
	d.ev = ev
	d.ev.Server, d.ev.ConnectionID, d.ev.Source = c.cfg.Server, c.cfg.Connection, c.source
	if f != nil && f.Direction == trace.ClientToServer && isRaw(f.Message) {
		d.ev.Source.Source = "raw" // the test's own bytes, not m3's
	}
	if f != nil {
		d.ev.Time = f.Time
		d.fr = trace.Frame{Direction: f.Direction, Framing: f.Framing, Bytes: f.Raw, Dropped: f.Dropped, Partial: f.Partial, HTTP: f.HTTP}
		d.ev.Frame = &d.fr
	}
	seq := c.cfg.Tape.Record(&d.ev)
	if f != nil {
		f.Sequence = seq
	}
	*d = draft{}
	drafts.Put(d)
	return seq
}

// recordFailure leaves the event of a call that ended without an answer.
func (c *Conn) recordFailure(k *call, e *CallError) {
	p := append([]byte(`{"rpc_id":`), k.id...)
	p = trace.AppendString(append(p, `,"method":`...), k.Method)
	p = trace.AppendString(append(p, `,"kind":`...), string(failedKinds[e.Kind]))
	p = append(trace.AppendString(append(p, `,"reason":`...), e.Reason), '}')
	c.record(trace.Event{Kind: trace.KindMCPCallFailed, Phase: k.phase, RPCID: k.id, Method: k.Method, Own: k.own, Payload: p}, nil)
}

// frameEvent is the event of a received frame that is no message of its own.
func (c *Conn) frameEvent(f *wire.Frame, kind trace.Kind) int64 {
	ev := trace.Event{Kind: kind, Phase: c.phase(), RPCID: f.For}
	if k := c.callOf(f.For); k != nil {
		ev.Phase, ev.Own = k.phase, k.own
	}
	if kind == trace.KindMCPMalformed {
		ev.RPCID = ""
	}
	return c.record(ev, f)
}

// callOf returns the waiting call with this id, or nil.
func (c *Conn) callOf(id trace.RPCID) *call {
	if id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id]
}

// onlyCall returns the waiting call when there is exactly one.
func (c *Conn) onlyCall() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) != 1 {
		return nil
	}
	for _, k := range c.pending {
		return k
	}
	return nil
}
