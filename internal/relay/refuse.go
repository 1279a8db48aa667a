package relay

import (
	"bytes"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// verdict is what a policy says of a frame: of the whole, or of each message in it.
type verdict struct {
	whole    *refusal
	messages []*refusal // one a message; nil entries pass
}

// any reports whether something is refused.
func (v *verdict) any() bool { return v.whole != nil || v.messages != nil }

// count is the number of messages that are refused one by one.
func (v *verdict) count() (n int) {
	for _, r := range v.messages {
		if r != nil {
			n++
		}
	}
	return n
}

// frame looks at a frame of the agent. header is that of HTTP, nil on a stream.
func (p *policy) frame(f *wire.Frame, list []rpc.Envelope, batch bool, err error, header map[string][]string) verdict {
	if len(f.Raw) == 0 {
		return verdict{}
	}
	if r := p.whole(f.Body, f.Framing == trace.FramingLine, f.Dropped > 0, err); r != nil || len(list) == 0 {
		return verdict{whole: r}
	}
	if header != nil {
		if r := p.header(header, list); r != nil {
			return verdict{whole: r}
		}
	}
	var v verdict
	for i := range list {
		r := p.message(&list[i], batch)
		if r != nil && v.messages == nil {
			v.messages = make([]*refusal, len(list))
		}
		if r != nil {
			v.messages[i] = r
		}
	}
	return v
}

// refuse records a frame that is not forwarded, and answers its requests. Of a batch, what is allowed goes on.
func (c *conn) refuse(f *wire.Frame, list []rpc.Envelope, batch bool, v verdict, at place) passed {
	c.mu.Lock()
	c.info.Denied += max(1, v.count())
	c.mu.Unlock()
	e := c.frameEntry(f, trace.KindMCPPolicyDenied, at)
	e.see.Denied = true
	if v.whole != nil || !batch {
		r := v.whole
		if r == nil {
			r = v.messages[0]
		}
		out := passed{denied: true}
		if len(list) > 0 {
			m := &list[0]
			e.ev.RPCID, e.ev.Method = trace.RPCID(m.ID), m.MethodName()
			e.see.ID, e.see.Method = e.ev.RPCID, e.ev.Method
		}
		for i := range list {
			out.answer = answer(out.answer, &list[i], r)
		}
		c.r.queue.put(e)
		if batch && out.answer != nil {
			out.answer = append(append([]byte{'['}, out.answer...), ']')
		}
		return out
	}
	return c.refuseParts(f, list, v, at, e)
}

// refuseParts forwards what of a batch is allowed.
func (c *conn) refuseParts(f *wire.Frame, list []rpc.Envelope, v verdict, at place, e *entry) passed {
	out := passed{denied: true}
	all := []*entry{e}
	var rest []byte
	var kept []rpc.Envelope
	for i := range list {
		m := &list[i]
		if r := v.messages[i]; r != nil {
			d := c.entry(trace.KindMCPPolicyDenied, trace.Event{Phase: c.phase(), Source: wireSource, SessionID: at.session, TurnID: at.turn, Time: f.Time,
				RPCID: trace.RPCID(m.ID), Method: m.MethodName(), Payload: bytes.Clone(m.Raw)})
			all = append(all, d)
			out.answer = answer(out.answer, m, r)
			continue
		}
		rest = append(append(rest, ','), m.Raw...)
		kept = append(kept, *m)
	}
	if out.answer != nil {
		out.answer = append(append([]byte{'['}, out.answer...), ']')
	}
	c.r.queue.put(all...)
	if kept == nil {
		return out
	}
	rest[0] = '['
	rest = append(rest, ']')
	g := *f
	g.Body = rest
	g.Raw = rest
	if f.Framing == trace.FramingLine {
		g.Raw = append(rest, f.Raw[len(f.Body):]...)
		g.Body = g.Raw[:len(rest)]
	}
	c.recordRest(&g, kept, at)
	out.forward = g.Raw
	return out
}

// recordRest records a batch without what was refused. Its bytes were counted with the whole.
func (c *conn) recordRest(f *wire.Frame, list []rpc.Envelope, at place) {
	e := c.frameEntry(f, trace.KindMCPRequest, at)
	e.counted = false
	all := []*entry{e}
	for i := range list {
		all = append(all, c.part(&list[i], f, c.message(&list[i], true, at)))
	}
	c.r.queue.put(all...)
}

// answer appends the answer to a refused request, as a server gives it for a tool that it does not have. What is no request has none.
func answer(b []byte, m *rpc.Envelope, r *refusal) []byte {
	if m.ID == nil || m.Method == nil {
		return b
	}
	text := r.reason
	if text == "" {
		text = "Unknown tool: " + r.tool
	}
	if b != nil {
		b = append(b, ',')
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), m.ID...)
	b = append(b, `,"error":{"code":-32602,"message":`...)
	return append(trace.AppendString(b, text), "}}"...)
}
