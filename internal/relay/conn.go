package relay

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// maxAsked bounds how many requests without an answer are remembered.
const maxAsked = 1 << 16

var (
	wireSource    = trace.Source{Origin: trace.OriginWire, Source: "mcp"}
	derivedSource = trace.Source{Origin: trace.OriginNormalized, Source: "mcp"}
	ownSource     = trace.Source{Origin: trace.OriginDerived, Source: "m3"}
)

var readers = sync.Pool{New: func() any { return &rpc.Envelopes{} }}

// conn is one connection of an agent: it knows what was asked, and turns frames into events and what is to be forwarded.
type conn struct {
	r          *Relay
	read, kept atomic.Int64 // bytes of bodies and streams, both directions
	exchanges  atomic.Int64 // HTTP requests so far
	calling    atomic.Bool  // the set-up is over
	once       sync.Once    // closes

	mu    sync.Mutex
	info  Connection
	asked map[askKey]*asked
}

// askKey is a request by its sender and its id as it stands on the wire.
type askKey struct {
	byAgent bool
	id      trace.RPCID
}

// asked is a request that waits for its answer.
type asked struct {
	method string
	place  place
	list   bool
	params []byte // of a request that begins a session
}

func newConn(r *Relay, id trace.ConnectionID, transport string) *conn {
	c := &conn{r: r, info: Connection{ID: id, Transport: transport, Opened: time.Now()}, asked: map[askKey]*asked{}}
	c.transportEvent(trace.KindTransportConnected, trace.PhaseStartup, "connected")
	return c
}

func (c *conn) snapshot() Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

// close records the end of the connection, once.
func (c *conn) close(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.info.Closed, c.info.Err = time.Now(), err
		c.mu.Unlock()
		c.transportEvent(trace.KindTransportDisconnected, trace.PhaseCleanup, "disconnected")
	})
}

// transportEvent records the beginning or the end of the connection. How much was kept is known when its turn has come.
func (c *conn) transportEvent(kind trace.Kind, phase trace.Phase, word string) {
	e := c.entry(kind, trace.Event{Phase: phase, Source: ownSource, Time: time.Now()})
	e.late = func(ev *trace.Event) {
		read, kept := c.read.Load(), c.kept.Load()
		if word == "disconnected" && read != kept {
			c.r.cfg.Tape.Limit("capture_incomplete", "connection "+string(c.info.ID)+": not all bytes that passed were kept")
		}
		na := trace.Absent[trace.JSON](trace.Unsupported, trace.ReasonTransportNotApplicable)
		ev.Payload, _ = json.Marshal(map[string]any{"phase": word, "transport": c.info.Transport, "bytes_read": read, "bytes_kept": kept, "configured": na, "instrumented": na})
	}
	c.r.queue.put(e)
}

// entry returns a new entry of the connection.
func (c *conn) entry(kind trace.Kind, ev trace.Event) *entry {
	e := entries.Get().(*entry)
	e.conn, e.ev = c, ev
	e.ev.Kind, e.ev.Server, e.ev.ConnectionID = kind, c.r.cfg.Server, c.info.ID
	e.see.Connection = c.info.ID
	return e
}

func (c *conn) phase() trace.Phase {
	if c.calling.Load() {
		return trace.PhaseMCPCall
	}
	return trace.PhaseInitialization
}

// frameEntry returns the entry of a frame.
func (c *conn) frameEntry(f *wire.Frame, kind trace.Kind, at place) *entry {
	e := c.entry(kind, trace.Event{Phase: c.phase(), Source: wireSource, SessionID: at.session, TurnID: at.turn})
	e.setFrame(f)
	e.seen, e.counted = true, true
	return e
}

// passed is what becomes of a frame.
type passed struct {
	forward []byte    // what goes on, terminator included; nil: nothing
	answer  []byte    // the relay's own answer to the agent: JSON in one line; nil: none
	denied  bool      // something in the frame was refused
	begun   *mcp.Info // the answer opens the session
	listed  bool      // the answer lists tools
}

// fromAgent takes a frame of the agent: it is recorded, and what is to go on comes back. header is that of HTTP, or nil.
func (c *conn) fromAgent(f *wire.Frame, header map[string][]string) passed {
	rd := readers.Get().(*rpc.Envelopes)
	defer readers.Put(rd)
	list, batch, err := rd.Read(f.Body)
	if f.Dropped > 0 {
		list, batch = nil, false
	}
	at := c.r.scope()
	if p := c.r.policy.Load(); p != nil {
		if v := p.frame(f, list, batch, err, header); v.any() {
			return c.refuse(f, list, batch, v, at)
		}
	}
	c.recordAgent(f, list, batch, err, at)
	return passed{forward: f.Raw}
}

// recordAgent records a frame that is forwarded, and remembers what it asks for.
func (c *conn) recordAgent(f *wire.Frame, list []rpc.Envelope, batch bool, err error, at place) {
	switch {
	case err != nil || f.Dropped > 0:
		kind := trace.KindMCPMalformed
		if len(f.Raw) == 0 && f.HTTP != nil {
			kind = trace.KindHTTPExchange // GET, DELETE
		}
		c.r.queue.put(c.frameEntry(f, kind, at))
	case batch:
		all := []*entry{c.frameEntry(f, trace.KindMCPRequest, at)}
		for i := range list {
			all = append(all, c.part(&list[i], f, c.message(&list[i], true, at)))
		}
		c.r.queue.put(all...)
	default:
		m := &list[0]
		e := c.frameEntry(f, m.Kind(), at)
		if m.Method == nil && c.r.cfg.Note != nil {
			e.ev.Payload = c.r.cfg.Note(c.info.ID, trace.RPCID(m.ID))
		}
		c.describe(e, m, c.message(m, true, at))
		c.r.queue.put(e)
	}
}

// describe completes the entry of a frame that is one message.
func (c *conn) describe(e *entry, m *rpc.Envelope, q *asked) {
	e.ev.Phase = c.phase()
	if e.ev.Kind == trace.KindMCPMalformed {
		return
	}
	e.ev.RPCID, e.ev.Method = trace.RPCID(m.ID), m.MethodName()
	e.see.ID, e.see.Method = e.ev.RPCID, e.ev.Method
	if q == nil {
		return
	}
	e.ev.SessionID, e.ev.TurnID = q.place.session, q.place.turn
	if m.Method == nil {
		e.see.Method = q.method
	}
}

// part returns the entry of a message of a batch. It follows the entry of the frame.
func (c *conn) part(m *rpc.Envelope, f *wire.Frame, q *asked) *entry {
	e := c.entry(m.Kind(), trace.Event{Source: wireSource, Time: f.Time, Payload: bytes.ToValidUTF8(bytes.Clone(m.Raw), []byte("\ufffd"))})
	c.describe(e, m, q)
	return e
}

// message notes what a message does to the connection. It returns the request that it is or answers; nil for a notification, and for an answer to
// nothing that was asked.
func (c *conn) message(m *rpc.Envelope, byAgent bool, at place) *asked {
	switch kind := m.Kind(); {
	case kind == trace.KindMCPRequest:
		return c.ask(m, byAgent, at)
	case kind == trace.KindMCPResponse || kind == trace.KindMCPError:
		return c.answered(m, !byAgent)
	case byAgent && kind != trace.KindMCPMalformed:
		return &asked{place: at}
	}
	return nil
}

// ask remembers a request.
func (c *conn) ask(m *rpc.Envelope, byAgent bool, at place) *asked {
	q := &asked{method: m.MethodName(), place: at}
	if byAgent {
		q.list = isList(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !byAgent:
	case q.method == "initialize" || q.method == "server/discover":
		q.params = bytes.Clone(m.Params)
		c.info.Client, c.info.ClientVersion = mcp.ClientOf(m.Params)
	case q.method == methodCall:
		c.info.Calls++
		fallthrough
	default:
		if q.method != "ping" {
			c.calling.Store(true)
		}
	}
	if len(c.asked) < maxAsked {
		c.asked[askKey{byAgent, trace.RPCID(m.ID)}] = q
	}
	return q
}

// answered takes the request that a message answers; nil when there is none. A careless peer's id of another type counts.
func (c *conn) answered(m *rpc.Envelope, byAgent bool) *asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range 3 {
		k := askKey{byAgent, trace.RPCID(m.ID)}
		switch i {
		case 1:
			k.id = m.SameID()
		case 2:
			k.id = m.OtherID()
		}
		if q := c.asked[k]; q != nil && k.id != "" {
			delete(c.asked, k)
			return q
		}
	}
	return nil
}

// waiting reports whether the agent waits for something under this id; an empty id asks for any.
func (c *conn) waiting(id trace.RPCID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "" {
		return c.asked[askKey{true, id}] != nil
	}
	for k := range c.asked {
		if k.byAgent {
			return true
		}
	}
	return false
}

// fromServer takes a frame of the server. at is where a frame belongs that is no answer.
func (c *conn) fromServer(f *wire.Frame, at place) passed {
	rd := readers.Get().(*rpc.Envelopes)
	defer readers.Put(rd)
	list, batch, err := rd.Read(f.Body)
	kind := kindOf(f, list, batch, err)
	out := passed{forward: f.Raw}
	e := c.frameEntry(f, kind, at)
	if kind == trace.KindMCPMalformed || kind == trace.KindHTTPExchange {
		if kind == trace.KindHTTPExchange {
			e.ev.RPCID = f.For
		}
		c.r.queue.put(e)
		return out
	}
	all, body := []*entry{e}, f.Body
	from := 0 // of the next message in body
	for i := range list {
		m := &list[i]
		q := c.message(m, false, at)
		if batch {
			all = append(all, c.part(m, f, q))
		} else {
			c.describe(e, m, q)
		}
		if b := c.opens(m, q, &out); b != nil {
			all = append(all, b)
		}
		body, from = c.cut(body, from, m, q)
	}
	if len(body) != len(f.Body) {
		out.forward = rewrap(f, body)
		all = append(all, c.filtered(f, e, out.forward, body))
	}
	c.r.queue.put(all...)
	return out
}

// opens looks for the answers that open a session and list tools. It returns the entry of what the server says of itself.
func (c *conn) opens(m *rpc.Envelope, q *asked, out *passed) *entry {
	if q == nil || m.Result == nil || m.Error != nil {
		return nil
	}
	out.listed = out.listed || q.list
	if q.method != "initialize" && q.method != "server/discover" {
		return nil
	}
	out.begun = mcp.ReadInfo(q.method, q.params, bytes.Clone(m.Result))
	b := c.entry(trace.KindMCPInitialized, trace.Event{Phase: trace.PhaseInitialization, Source: derivedSource, SessionID: q.place.session, TurnID: q.place.turn, Time: time.Now()})
	b.ev.Payload = out.begun.Payload()
	return b
}

// cut returns body without the tools that may not be seen, when the message is an answer to tools/list, or to nothing that is known, and where
// the message ends in it. Before it, from from on, are only a comma and white space.
func (c *conn) cut(body []byte, from int, m *rpc.Envelope, q *asked) (less []byte, end int) {
	p := c.r.policy.Load()
	if p == nil {
		return body, 0
	}
	at := from + bytes.Index(body[from:], m.Raw)
	end = at + len(m.Raw)
	if m.Result == nil || q != nil && !q.list {
		return body, end
	}
	rest := p.filter(m.Raw)
	if rest == nil {
		return body, end
	}
	less = append(append(append(make([]byte, 0, len(body)), body[:at]...), rest...), body[end:]...)
	return less, at + len(rest)
}

// kindOf is the event kind of a frame of the server.
func kindOf(f *wire.Frame, list []rpc.Envelope, batch bool, err error) trace.Kind {
	switch {
	case f.Framing != trace.FramingLine:
		return rpc.BodyKind(f, list, batch, err)
	case err != nil || f.Dropped > 0:
		return trace.KindMCPMalformed
	case batch:
		return trace.KindMCPResponse
	}
	return list[0].Kind()
}

// filtered returns the entry of an answer as the agent gets it.
func (c *conn) filtered(f *wire.Frame, of *entry, raw, body []byte) *entry {
	e := c.entry(trace.KindMCPFiltered, of.ev)
	e.ev.Payload = nil
	e.setFrame(&wire.Frame{Direction: f.Direction, Framing: f.Framing, Raw: raw, Body: body, Time: f.Time, Partial: f.Partial, HTTP: f.HTTP})
	e.see.Method, e.see.ID, e.see.Filtered = of.see.Method, of.see.ID, true
	e.seen = true
	return e
}

// rewrap returns the frame with another message in it.
func rewrap(f *wire.Frame, body []byte) []byte {
	switch f.Framing {
	case trace.FramingLine:
		return append(bytes.Clone(body), f.Raw[len(f.Body):]...)
	case trace.FramingSSE:
		return inEvent(f.Raw, body)
	}
	return body
}

// forwarded notes what an agent has got now.
func (c *conn) forwarded(p *passed) {
	if p.begun == nil && !p.listed {
		return
	}
	now := time.Now()
	c.mu.Lock()
	if p.begun != nil && c.info.Initialized.IsZero() {
		c.info.Initialized = now
	}
	if p.begun != nil {
		c.info.Protocol = p.begun.ProtocolVersion
	}
	if p.listed && c.info.Listed.IsZero() {
		c.info.Listed = now
	}
	c.mu.Unlock()
	if p.listed {
		c.r.servedList()
	}
}

// forget takes a request of the agent that gets no answer any more, and reports whether it waited for one.
func (c *conn) forget(id trace.RPCID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := askKey{true, id}
	_, ok := c.asked[k]
	delete(c.asked, k)
	return ok
}
