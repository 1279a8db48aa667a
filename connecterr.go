package m3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/rpc"
)

// connectError makes the public error of a failed connect: never a deadline alone, always with the last words of a process.
func (c *Client) connectError(ctx context.Context, err error, d *dialer) error {
	c.mu.Lock()
	stopped := c.cause
	c.mu.Unlock()
	operation := "connect to " + c.server
	if stopped != nil {
		return stopped.err(operation)
	}
	if public := ownError(err); public != nil {
		return public
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
	stderr, exited := d.lastWords(details, errors.Is(err, io.EOF))
	switch {
	case ctx.Err() == nil && call != nil && call.Kind == rpc.KindTimeout, context.Cause(ctx) == errStartDeadline:
		details["timeout_seconds"] = c.opts.StartTimeout.Seconds()
		return &TimeoutError{Message: fmt.Sprintf("%s: the server did not finish the handshake within %s (%s)%s", operation, c.opts.StartTimeout, reason, exited+c.pendingNote()), Details: details, Stderr: stderr, Err: err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &TimeoutError{Message: fmt.Sprintf("%s: the caller's deadline passed (%s)%s", operation, reason, exited), Details: details, Stderr: stderr, Err: err}
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

// ownError is the error of this package that lies under what the layers below made of it; nil when there is none.
func ownError(err error) error {
	var (
		transport   *TransportError
		validation  *ValidationError
		trust       *EndpointTrustError
		unsupported *UnsupportedError
	)
	switch {
	case errors.As(err, &trust):
		return trust
	case errors.As(err, &transport):
		return transport
	case errors.As(err, &validation):
		return validation
	case errors.As(err, &unsupported):
		return unsupported
	}
	return nil
}

// lastWords is the stderr tail of the latest process, and how it exited, if it did: that goes into details too. closed says that the server
// ended its output by itself.
func (d *dialer) lastWords(details map[string]any, closed bool) (stderr, exited string) {
	p := d.process()
	if p == nil {
		if stderr = d.ownWords(); stderr != "" {
			exited = ": " + firstLine(stderr)
		}
		return stderr, exited
	}
	// Only an end of its own tells something; the failed connect has ended the others. A process that dies closes its output a moment before it is
	// gone, so that the end of its stdin may seem to have ended it.
	if ended := p.End(nil); ended.Step == proc.StepExited || ended.Step == proc.StepEOF && (closed || ended.Exit.Code != 0 || ended.Exit.Signal != "") {
		exited = ": the server's process " + describeExit(ended.Exit)
		exitDetails(details, ended.Exit)
	}
	return d.client.kit.redactor.String(p.StderrTail()), exited
}

// exitDetails adds how a process ended.
func exitDetails(details map[string]any, exit proc.Exit) {
	if exit.Signal != "" {
		details["signal"] = exit.Signal
	} else {
		details["exit_code"] = exit.Code
	}
}

// ownWords is what a server in this process failed with.
func (d *dialer) ownWords() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client.kit.redactor.String(d.words)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (d *dialer) process() *proc.Process {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}
