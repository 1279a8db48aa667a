package rpc

import (
	"context"

	"github.com/m3-go/m3/trace"
)

// asked takes a request or a notification of the server.
func (c *Conn) asked(in *arrival) {
	m := in.m
	method := unquote(m.method)
	ev := trace.Event{Kind: trace.KindMCPRequest, Phase: c.phase(), RPCID: trace.RPCID(m.id), Method: method}
	if m.id == nil {
		ev.Kind = kindOfNotification(method)
	}
	if m.method[0] != '"' {
		ev.Kind, ev.Method = trace.KindMCPMalformed, ""
	}
	if k := c.callOf(in.f.For); k != nil {
		ev.Phase = k.phase
	}
	c.put(in, ev)
	id := trace.RPCID(m.id)
	c.envelope(in, id)
	if m.isAnswer() {
		c.find(MixedMessage, in.at(id), "the message has a method and also a result or an error: %s", quote(m.raw))
	}
	if m.params != nil && m.params[0] != '{' {
		c.find(BadParams, in.at(id), "the params of %s are no object: %s", quote([]byte(method)), quote(m.params))
	}
	switch {
	case m.method[0] != '"':
		c.find(BadMethod, in.at(id), "the method is no string: %s", quote(m.raw))
	case m.id == nil:
		c.notified(in, method)
	default:
		c.requested(in, method)
	}
}

func (c *Conn) notified(in *arrival, method string) {
	if method == methodCancelled {
		c.cancelIncoming(in.m.params)
	}
	if c.cfg.Notification != nil {
		c.cfg.Notification(&Notification{Method: method, Params: in.m.params, Sequence: in.seq})
	}
}

// cancelIncoming ends the context of the request that the server cancels.
func (c *Conn) cancelIncoming(params []byte) {
	if len(params) == 0 || params[0] != '{' {
		return
	}
	var id trace.RPCID
	s := scanner{b: params, kinds: []uint64{1}}
	s.members(func(name string, value []byte) {
		if name == "requestId" {
			id = trace.RPCID(value)
		}
	})
	c.mu.Lock()
	cancel := c.incoming[id]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// requested starts the answer to a request of the server.
func (c *Conn) requested(in *arrival, method string) {
	id := trace.RPCID(in.m.id)
	switch kindOfID(in.m.id) {
	case idNull:
		c.find(NullID, in.at(""), "the request %s has a null id and cannot be answered: %s", quote([]byte(method)), quote(in.m.raw))
		return
	case idOther:
		c.find(BadID, in.at(id), "the request %s has an id that is neither a string nor an integer: %s", quote([]byte(method)), quote(in.m.raw))
	}
	req := &Incoming{ID: id, Method: method, Sequence: in.seq, For: in.f.For}
	if in.m.params != nil {
		req.Params = append(trace.JSON{}, in.m.params...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	_, twice := c.incoming[id]
	ended := c.ended
	if !ended {
		c.incoming[id] = cancel
	}
	c.mu.Unlock()
	if ended {
		cancel()
		return
	}
	if twice {
		c.find(DuplicateRequestID, in.at(id), "the request %s uses the id %s while an earlier request under it is not answered", quote([]byte(method)), id)
	}
	if c.cfg.Arrived != nil {
		c.cfg.Arrived(req)
	}
	go func() {
		defer cancel()
		c.serve(ctx, req)
	}()
}

func (c *Conn) serve(ctx context.Context, req *Incoming) {
	if c.cfg.Request != nil {
		c.cfg.Request(ctx, req)
		return
	}
	_ = c.Reply(ctx, req.ID, nil, &ErrorObject{Code: trace.JSON("-32601"), Message: "method not found: " + req.Method})
}
