package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// Client is one connection to one server: one execution. All methods may be used from several goroutines; several calls may
// be open at once. Make one with [Kit.Direct].
type Client struct {
	kit     *Kit
	server  string
	opts    DirectOptions
	id      trace.ExecutionID
	tape    *evidence.Tape
	session *mcp.Session
	dialer  *dialer
	lone    *rpc.Conn // the connection of a Raw without a session

	rawOnce sync.Once
	raw     *Raw

	extensions trace.JSON // what is declared of them

	catalogue catalogue // for ValidateSchemas
	callbacks callbacks // Log and Notification
	mirror    mirror    // for the headers of 2026-07-28
	linter    linter    // for the findings about what is listed
	asks      asks      // for elicitation before 2026-07-28
	script    *script   // of DirectOptions.SamplingScript; nil without one

	endOnce sync.Once
	endErr  error
	mu      sync.Mutex
	closing bool       // Close has begun
	closed  bool       // and is over
	cause   *stopCause // why the kit ended the execution
	// abort ends the opening; nil once it is over. opened is closed then.
	abort  context.CancelCauseFunc
	opened chan struct{}
}

// ExecutionID names the client's execution.
func (c *Client) ExecutionID() trace.ExecutionID { return c.id }

// Server is the server's name.
func (c *Client) Server() string { return c.server }

// Initialization is what the server said of itself.
func (c *Client) Initialization() Initialization {
	i := c.session.Info()
	return Initialization{ProtocolVersion: c.session.Protocol(), ServerName: i.ServerName, ServerVersion: i.ServerVersion, Instructions: i.Instructions,
		Capabilities: i.Capabilities, Raw: i.Raw}
}

// Findings are the defects and oddities seen on the wire so far. At most 1,000 are kept.
func (c *Client) Findings() []trace.Finding { return c.tape.Findings() }

// Close ends the connection and the server's process, and finalizes the trace. It is idempotent; every caller gets the same
// answer. A process that needs more than the end of its stdin is a finding, not an error. Findings that DirectOptions.Strict makes
// failures are a *[FindingsError].
func (c *Client) Close() error { return c.end(nil) }

// FinalTrace is the finalized trace; before Close the error is [ErrTraceNotFinalized].
func (c *Client) FinalTrace() (*trace.Trace, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if !closed {
		return nil, ErrTraceNotFinalized
	}
	return c.trace()
}

// View is the view of the finalized trace; before Close the error is [ErrTraceNotFinalized].
func (c *Client) View() (trace.View, error) {
	t, err := c.FinalTrace()
	if err != nil {
		return trace.View{}, err
	}
	return t.View()
}

// Snapshot is a view of what was recorded so far. It is partial, and says so.
func (c *Client) Snapshot() (trace.View, error) {
	t, err := c.trace()
	if err != nil {
		return trace.View{}, err
	}
	return t.Snapshot()
}

// trace opens the execution's events with the real values that this process still holds.
func (c *Client) trace() (*trace.Trace, error) {
	log, err := c.kit.log(c.id)
	if err != nil {
		return nil, err
	}
	return trace.New(c.id, c.tape.Log(log)), nil
}

// end closes the session and finalizes the trace, once. A client that is still opening is told to give up, and waited for.
func (c *Client) end(cause *stopCause) error {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	if c.abort != nil {
		if c.cause == nil {
			c.cause = &stopCause{trace.OutcomeCancelled, "the kit was closed"}
		}
		c.abort(errStopped)
		c.mu.Unlock()
		<-c.opened
		return nil
	}
	c.mu.Unlock()
	c.endOnce.Do(func() {
		conn := c.conn()
		if conn == nil { // it never opened
			return
		}
		if cause != nil {
			kind := rpc.KindCancelled
			if cause.outcome == trace.OutcomeTimedOut {
				kind = rpc.KindTimeout
			}
			conn.Abandon(kind, cause.reason)
		}
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		outcome, reason := c.outcome(cause)
		err := conn.Close()
		c.callbacks.settle()
		c.endErr = errors.Join(err, c.finish(outcome, reason), c.callbacks.err(), c.script.check(), c.strict())
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.kit.forget(c)
	})
	return c.endErr
}

// conn is the JSON-RPC connection: the session's, or that of a Raw. Nil when the client never opened.
func (c *Client) conn() *rpc.Conn {
	if c.session != nil {
		return c.session.RPC()
	}
	return c.lone
}

var errStopped = errors.New("stopped")

// outcome is the execution's: a connection that the server ended by itself has failed.
func (c *Client) outcome(cause *stopCause) (trace.Outcome, error) {
	if cause != nil {
		return cause.outcome, cause.err("execution")
	}
	if err := c.conn().Err(); err != nil { // it is there before the calls that fail with it return
		return trace.OutcomeFailed, err
	}
	return trace.OutcomeCompleted, nil
}

func (c *Client) finish(outcome trace.Outcome, reason error) error {
	f := trace.Finished{Outcome: outcome}
	if reason != nil {
		f.Error = errorJSON(c.kit.redactor, reason)
	}
	return c.tape.Finish(f)
}

func errorJSON(r *evidence.Redactor, err error) trace.JSON {
	code := "error"
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		code = coded.Code()
	}
	b, _ := json.Marshal(map[string]string{"code": code, "message": r.String(err.Error())}) // strings: cannot fail
	return b
}

// failed records why the connect did not come about, and makes the public error of it.
func (c *Client) failed(ctx context.Context, err error, d *dialer) error {
	err = c.connectError(ctx, err, d)
	outcome := trace.OutcomeFailed
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome = trace.OutcomeTimedOut
	case errors.Is(err, context.Canceled):
		outcome = trace.OutcomeCancelled
	}
	if ferr := c.finish(outcome, err); ferr != nil {
		err = errors.Join(err, ferr)
	}
	return err
}

// stderr keeps a piece of the server's stderr and shows it to whoever listens.
func (c *Client) stderr(conn trace.ConnectionID, piece []byte) {
	c.tape.Stderr(c.server, conn, piece)
	if f := c.kit.cfg.StderrLine; f != nil {
		f(c.server, c.kit.redactor.String(strings.TrimRight(string(piece), "\r\n")))
	}
}

func (c *Client) find(s trace.Severity, code, message, clause string) {
	c.tape.Find(trace.Finding{Code: code, Severity: s, Message: message, Sequence: -1, Offset: -1, Clause: clause})
}

// mcpConfig is the protocol layer's configuration.
func (c *Client) mcpConfig(d *dialer) *mcp.Config {
	o := &c.opts
	return &mcp.Config{Protocol: o.Protocol, Legacy: o.Protocol == "" && (d.sse || c.kit.isLegacy(d.key())), ClientName: "m3", ClientVersion: Version,
		Capabilities: mcp.Capabilities{Sampling: o.Sampling != nil, Roots: o.offersRoots(), RootsListChanged: o.ListRoots != nil, Extensions: c.extensions,
			ElicitForm: o.Elicitation&ElicitForm != 0, ElicitURL: o.Elicitation&ElicitURL != 0},
		LogLevel: string(o.LogLevel),
		Tape:     c.tape, Server: c.server, Dial: d.dial, DialSSE: d.older(), Request: c.serveRequest, Elicit: c.elicited, Notification: c.notified, StartTimeout: o.StartTimeout}
}

// serveRequest answers the server's requests while calls of ours are pending.
func (c *Client) serveRequest(ctx context.Context, method string, params trace.JSON) (any, *rpc.ErrorObject, bool) {
	switch {
	case method == "roots/list" && c.opts.offersRoots():
		result, e := c.roots(ctx)
		return result, e, true
	case method == "sampling/createMessage" && c.opts.Sampling != nil:
		result, err := sample(ctx, c.opts.Sampling, params)
		if err != nil {
			e := samplingError(err)
			c.tape.Record(&trace.Event{Kind: trace.KindDiagnostic, Phase: trace.PhaseMCPCall, Server: c.server, Source: m3Source,
				Diagnostic: &trace.Diagnostic{Code: "callback_failed", Message: e.Message, Operation: method}})
			return nil, e, true
		}
		return result, nil, true
	default:
		return nil, nil, false
	}
}

// call performs one operation and maps every failure to a public error.
func (c *Client) call(ctx context.Context, operation string, op *mcp.Op, timeout time.Duration) (*rpc.Response, error) {
	timeout, err := c.ready(operation, op.Method, timeout)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, errOperationDeadline)
	defer cancel()
	res, err := c.session.Do(bounded, op)
	c.callbacks.settle()
	if err != nil {
		return nil, c.callError(bounded, operation, op, timeout, err)
	}
	if res.Error != nil {
		return nil, remoteError(c.kit.redactor, operation, "call", res.Error)
	}
	return res, nil
}

// ready checks what must hold before anything is sent, and returns the timeout that holds.
func (c *Client) ready(operation, method string, timeout time.Duration) (time.Duration, error) {
	if err := c.usable(operation); err != nil {
		return 0, err
	}
	if timeout < 0 {
		return 0, validationf("%s: the timeout is negative", operation)
	}
	if timeout == 0 {
		timeout = c.opts.Timeout
	}
	if !mcp.Supports(c.session.Protocol(), method) {
		return 0, c.lacks(operation, method)
	}
	return timeout, nil
}

var errOperationDeadline = errors.New("operation deadline")

func (c *Client) usable(operation string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		return c.cause.err(operation)
	case c.closing:
		return clientClosed(operation + ": the client is closed")
	default:
		return nil
	}
}

func clientClosed(message string) error {
	return &Error{CodeText: "client_closed", Message: message, Err: ErrClientClosed}
}

// contextError is the error of an operation whose context ended before anything was sent.
func (c *Client) contextError(ctx context.Context, operation string) error {
	details := map[string]any{"operation": operation, "phase": "call"}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &TimeoutError{Message: operation + ": not sent: the deadline has passed", Details: details, Err: ctx.Err()}
	}
	return &CancelledError{Message: operation + ": not sent: cancelled by the caller", Details: details, Err: context.Cause(ctx)}
}

// remoteError is a JSON-RPC error: always a ProtocolError, whatever its code (decision 4).
func remoteError(r *evidence.Redactor, operation, phase string, e *rpc.ErrorObject) *ProtocolError {
	rpcErr := &trace.RPCError{Code: e.Code, Message: e.Message}
	if e.Data != nil {
		rpcErr.Data = trace.Observe(e.Data)
	}
	// Secrets are taken out before the text is cut: half of one would not be found.
	text := mcp.ErrorText(&rpc.ErrorObject{Code: e.Code, Message: r.String(e.Message)})
	return &ProtocolError{Message: r.String(operation + ": the server answered with " + text), RPC: rpcErr,
		Details: map[string]any{"operation": operation, "phase": phase, "error_kind": "remote", "protocol_code": string(e.Code)}}
}

// callError maps what ended a call without an answer.
func (c *Client) callError(ctx context.Context, operation string, op *mcp.Op, timeout time.Duration, err error) error {
	c.mu.Lock()
	cause, closing := c.cause, c.closing
	c.mu.Unlock()
	if cause != nil {
		return cause.err(operation)
	}
	if closing && errors.Is(err, wire.ErrClosed) {
		return clientClosed(operation + ": the client was closed before the answer came")
	}
	var ce *rpc.CallError
	if !errors.As(err, &ce) {
		return &ValidationError{Message: c.kit.redactor.String(operation + ": " + err.Error()), Details: map[string]any{"operation": operation, "kind": "invalid_arguments"}}
	}
	details := map[string]any{"operation": operation, "phase": "call", "method": op.Method}
	reason := c.kit.redactor.String(ce.Reason)
	switch ce.Kind {
	case rpc.KindTimeout:
		if context.Cause(ctx) == errOperationDeadline && ce.Unwritten == nil {
			reason = fmt.Sprintf("no answer to %s within %s", op.Method, timeout)
			details["timeout_seconds"] = timeout.Seconds()
		}
		return &TimeoutError{Message: operation + ": " + reason + c.pendingNote(), Details: details, Err: ce.Err}
	case rpc.KindCancelled:
		return &CancelledError{Message: operation + ": " + reason, Details: details, Err: context.Cause(ctx)}
	case rpc.KindProtocol:
		details["error_kind"] = "malformed"
		return &ProtocolError{Message: operation + ": " + reason, Details: details, Err: ce.Err}
	default:
		e := &TransportError{Message: operation + ": " + reason, Details: details, Err: ce.Err}
		c.addProcess(e)
		return e
	}
}

// pendingNote tells the last finding, so that a timeout does not stand alone.
func (c *Client) pendingNote() string {
	found := c.tape.Findings()
	if len(found) == 0 {
		return ""
	}
	f := found[len(found)-1]
	for i := len(found) - 1; i >= 0 && f.Severity == trace.SeverityNote; i-- { // a note is seldom the reason
		f = found[i]
	}
	return fmt.Sprintf(" (the last of %d findings: %s: %s)", len(found), f.Code, f.Message)
}

// addProcess adds how the server's process ended, and its last words.
func (c *Client) addProcess(e *TransportError) {
	d := c.dialer
	if d == nil {
		return
	}
	p := d.process()
	if p == nil {
		if e.Stderr = d.ownWords(); e.Stderr != "" {
			e.Message += ": " + firstLine(e.Stderr)
		}
		return
	}
	select {
	case <-p.Exited():
	case <-time.After(200 * time.Millisecond): // the stream ends a moment before the process
	}
	if exit, ok := p.Exit(); ok {
		e.Message += ": the server's process " + describeExit(exit)
		exitDetails(e.Details, exit)
	}
	e.Stderr = c.kit.redactor.String(p.StderrTail())
}

func describeExit(exit proc.Exit) string {
	if exit.Signal != "" {
		return "was killed by " + exit.Signal
	}
	return "exited with code " + strconv.Itoa(exit.Code)
}

// Redact replaces in text whatever the client's kit knows to be secret.
func (c *Client) Redact(text string) string { return c.kit.Redact(text) }
