package rpc

import (
	"context"
	"errors"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	methodCancelled = "notifications/cancelled"
	methodProgress  = "notifications/progress"
)

// Notify sends a notification. params is a JSON object on one line, or nil for none. The error is of the transport; a *[wire.StatusError] when an
// HTTP server refused the notification.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	o := &outgoing{kind: kindOfNotification(method), phase: c.phase()}
	o.Method = method
	b := trace.AppendString([]byte(`{"jsonrpc":"2.0","method":`), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return c.send(ctx, o, append(b, '}'))
}

// Reply answers a request of the server: with e when that is not nil, else with result, a JSON value on one line; nil is an empty object.
func (c *Conn) Reply(ctx context.Context, id trace.RPCID, result []byte, e *ErrorObject) error {
	return c.ReplyNoted(ctx, id, result, e, nil)
}

// ReplyNoted is Reply with a note for the event of the answer: JSON that is kept and not sent.
func (c *Conn) ReplyNoted(ctx context.Context, id trace.RPCID, result []byte, e *ErrorObject, note trace.JSON) error {
	c.mu.Lock()
	delete(c.incoming, id)
	c.mu.Unlock()
	o := &outgoing{kind: trace.KindMCPResponse, id: id, phase: c.phase(), memo: note}
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), ',')
	switch {
	case e != nil:
		o.kind = trace.KindMCPError
		b = appendError(append(b, `"error":`...), e)
	case result == nil:
		b = append(b, `"result":{}`...)
	default:
		b = append(append(b, `"result":`...), result...)
	}
	return c.send(ctx, o, append(b, '}'))
}

func (c *Conn) send(ctx context.Context, o *outgoing, body []byte) error {
	o.sent.Store(-1)
	o.over.Store(true)
	o.Body, o.Call = body, o
	c.mu.Lock()
	ended, why := c.ended, c.err
	c.mu.Unlock()
	if ended {
		return endCause(why)
	}
	err := c.t.Send(ctx, &o.Message)
	var we *wire.WriteError
	if errors.As(err, &we) {
		c.writeFailed(o, we, ctx.Err() != nil && errors.Is(err, ctx.Err()))
		if we.Broken {
			c.brokenBy(nil, we)
		}
	}
	return err
}

func kindOfNotification(method string) trace.Kind {
	switch method {
	case methodCancelled:
		return trace.KindMCPCancelRequested
	case methodProgress:
		return trace.KindMCPProgress
	}
	return trace.KindMCPNotification
}
