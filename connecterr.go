package m3

import (
	"context"
	"errors"
	"fmt"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/rpc"
)

// connectError makes the public error of a failed connect: never a deadline alone, always with the last words of a process.
func (c *Client) connectError(ctx context.Context, err error, d *dialer) error {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	operation := "connect to " + c.server
	if cause != nil {
		return cause.err(operation)
	}
	for _, public := range []any{new(*TransportError), new(*ValidationError), new(*EndpointTrustError), new(*UnsupportedError)} {
		if errors.As(err, public) {
			return err
		}
	}
	details := map[string]any{"operation": "connect", "phase": "start"}
	var start *proc.StartError
	if errors.As(err, &start) {
		return &TransportError{Message: operation + ": " + start.Error(), Details: details, Err: err}
	}
	details["phase"] = "initialization"
	var conn *mcp.ConnectError
	var call *rpc.CallError
	errors.As(err, &conn)
	errors.As(err, &call)
	reason := c.kit.redactor.String(err.Error())
	stderr, exited := d.lastWords()
	switch {
	case context.Cause(ctx) == errStartDeadline || call != nil && call.Kind == rpc.KindTimeout:
		details["timeout_seconds"] = c.opts.StartTimeout.Seconds()
		return &TimeoutError{Message: fmt.Sprintf("%s: the server did not finish the handshake within %s (%s)%s", operation, c.opts.StartTimeout, reason, exited), Details: details, Stderr: stderr, Err: err}
	case ctx.Err() != nil:
		return &CancelledError{Message: operation + ": cancelled (" + reason + ")", Details: details, Err: context.Cause(ctx)}
	case conn != nil && conn.Answer != nil:
		pe := remoteError(c.kit.redactor, operation, "initialization", conn.Answer)
		pe.Message, pe.Stderr, pe.Err = operation+": "+reason, stderr, err
		return pe
	case conn != nil && (call == nil || call.Kind == rpc.KindProtocol):
		details["error_kind"] = "malformed"
		return &ProtocolError{Message: operation + ": " + reason + exited, Details: details, Stderr: stderr, Err: err}
	default:
		te := &TransportError{Message: operation + ": " + reason + exited, Details: details, Stderr: stderr, Err: err}
		c.addAuthorization(ctx, te, call, d)
		return te
	}
}

// lastWords is the stderr tail of the latest process, and how it exited, if it did.
func (d *dialer) lastWords() (stderr, exited string) {
	p := d.process()
	if p == nil {
		return "", ""
	}
	if exit, ok := p.Exit(); ok {
		exited = ": the server's process " + describeExit(exit)
	}
	return d.client.kit.redactor.String(p.StderrTail()), exited
}

func (d *dialer) process() *proc.Process {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}
