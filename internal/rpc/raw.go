package rpc

import (
	"context"
	"errors"
	"net/http"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// tap is told of everything that arrives on a connection on which somebody sends bytes of his own.
type tap struct {
	received func(f *wire.Frame)
	ended    func(x *wire.Exchange)
	// ids are those of the raw requests, and any says that something was sent raw. The connection's lock guards both.
	ids map[trace.RPCID]struct{}
	any bool
}

// RawFrame is what [Conn.SendRaw] sends.
type RawFrame struct {
	Body []byte
	// Exact leaves out the line break that ends a frame on a stream.
	Exact bool
	// Verb is the HTTP method, empty for POST; Header goes over the transport's own. Streams have neither.
	Verb   string
	Header http.Header
}

// Tap makes received be called with each frame after it was recorded, and ended with the end of each HTTP exchange. Both are called on readers: they
// must not block, and keep nothing that they are given. A connection has one tap; the first call counts.
func (c *Conn) Tap(received func(f *wire.Frame), ended func(x *wire.Exchange)) {
	c.raw.CompareAndSwap(nil, &tap{received: received, ended: ended, ids: map[trace.RPCID]struct{}{}})
}

// SendRaw sends bytes as they are, on a connection with a [Conn.Tap]. They are recorded as what they are: a request, a notification, an
// answer, or malformed. An answer to them is nobody's call, and no finding because of its id. What an HTTP server answers is
// told to the tap, and is no finding and no error either.
func (c *Conn) SendRaw(ctx context.Context, f *RawFrame) error {
	o := &outgoing{kind: trace.KindMCPMalformed, phase: c.phase(), raw: true}
	o.sent.Store(-1)
	o.over.Store(true)
	o.Body, o.Call, o.Exact, o.Verb, o.Header = f.Body, o, f.Exact, f.Verb, f.Header
	c.mu.Lock()
	ended, why := c.ended, c.err
	c.mu.Unlock()
	if ended {
		return endCause(why)
	}
	c.envelopeOf(o)
	err := c.t.Send(ctx, &o.Message)
	var we *wire.WriteError
	var refused *wire.StatusError
	switch {
	case errors.As(err, &refused):
		return nil
	case errors.As(err, &we) && we.Broken:
		c.brokenBy(nil, we)
	}
	return err
}

// envelopeOf reads what the bytes are, as far as they can be read.
func (c *Conn) envelopeOf(o *outgoing) {
	var r reader
	one, batch, err := r.read(o.Body, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.raw.Load()
	t.any = true
	switch {
	case len(o.Body) == 0 && o.Verb != "" && o.Verb != http.MethodPost:
		o.kind = trace.KindHTTPExchange
	case err != nil || o.Exact:
	case batch != nil:
		for i := range batch {
			t.note(&batch[i])
		}
	default:
		t.note(one)
		o.take(one)
		if one.method == nil && one.isAnswer() {
			delete(c.incoming, o.id)
		}
	}
}

// note remembers the id of a raw request.
func (t *tap) note(m *message) {
	if m.id != nil && m.method != nil && len(t.ids) < maxGivenUp {
		t.ids[trace.RPCID(m.id)] = struct{}{}
	}
}

// take gives the outgoing message the envelope that its bytes have.
func (o *outgoing) take(m *message) {
	if !m.isMessage() {
		return
	}
	if k := kindOfID(m.id); k == idString || k == idInteger {
		o.id = trace.RPCID(m.id)
		o.ID = o.id
	}
	if len(m.method) > 0 && m.method[0] == '"' {
		o.Method = unquote(m.method)
		o.Name = nameIn(m.params)
	}
	switch {
	case o.Method != "" && m.id != nil:
		o.kind = trace.KindMCPRequest
	case o.Method != "":
		o.kind, o.ID = kindOfNotification(o.Method), ""
	case m.errorObj != nil:
		o.kind, o.ID = trace.KindMCPError, ""
	case m.result != nil:
		o.kind, o.ID = trace.KindMCPResponse, ""
	}
}

// nameIn is what the params name, for the header Mcp-Name: a tool, a prompt or a resource.
func nameIn(params []byte) (name string) {
	if len(params) == 0 || params[0] != '{' {
		return ""
	}
	s := scanner{b: params, kinds: []uint64{1}}
	s.members(func(key string, value []byte) {
		if (key == "name" || key == "uri") && len(value) > 0 && value[0] == '"' {
			name = unquote(value)
		}
	})
	return name
}

func isRaw(m *wire.Message) bool {
	o := outgoingOf(m)
	return o != nil && o.raw
}

// rawAnswer reports whether an answer that no call waits for is one to raw bytes. After bytes of unknown meaning that is every
// answer whose id this side never gave out. Call it with the lock held.
func (c *Conn) rawAnswer(in *arrival) bool {
	t := c.raw.Load()
	if t == nil || !t.any {
		return false
	}
	id := trace.RPCID(in.m.id)
	if _, ok := t.ids[id]; ok {
		return true
	}
	switch kindOfID(in.m.id) {
	case idAbsent, idNull:
		return c.pending[in.f.For] == nil
	case idOther:
		return true
	}
	if c.pending[sameValue(in.m.id)] != nil || c.pending[otherType(in.m.id)] != nil {
		return false
	}
	made, gaveUp := c.issued(id)
	return !made && !gaveUp
}
