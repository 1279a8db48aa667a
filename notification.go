package m3

import (
	"context"
	"errors"
	"math"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// NotifyOptions configure one notification. Nil means all defaults.
type NotifyOptions struct {
	// Meta goes out as _meta.
	Meta map[string]any
}

// Notify sends a notification to the server. params is anything that encodes to a JSON object, or nil for none. A notification that the negotiated
// version does not let clients send is an *UnsupportedError, and nothing is sent; one that no version defines is an extension's and goes
// out as it is. An HTTP server that refuses it is a *TransportError.
func (c *Client) Notify(ctx context.Context, method string, params any, opts *NotifyOptions) error {
	operation := "notify " + method
	if method == "" {
		return validationf("Notify: the method is empty")
	}
	if err := c.usable(operation); err != nil {
		return err
	}
	if !mcp.ClientNotifies(c.session.Protocol(), method) {
		return c.lacks(operation, method+" from clients")
	}
	n := &mcp.Notice{Method: method, Params: params}
	if opts != nil {
		n.Meta = opts.Meta
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errOperationDeadline)
	defer cancel()
	return c.notifyError(bounded, operation, c.session.Send(bounded, n))
}

func (c *Client) notifyError(ctx context.Context, operation string, err error) error {
	var params *mcp.ParamsError
	details := map[string]any{"operation": operation, "phase": "call"}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &params):
		return &ValidationError{Message: c.kit.redactor.String(operation + ": " + params.Err.Error()), Details: map[string]any{"operation": operation, "kind": "invalid_arguments"}}
	case ctx.Err() != nil && context.Cause(ctx) == errOperationDeadline:
		details["timeout_seconds"] = c.opts.Timeout.Seconds()
		return &TimeoutError{Message: operation + ": it could not be sent within " + c.opts.Timeout.String(), Details: details, Err: err}
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return &CancelledError{Message: operation + ": cancelled", Details: details, Err: context.Cause(ctx)}
	case ctx.Err() != nil:
		return &TimeoutError{Message: operation + ": it could not be sent before the caller's deadline", Details: details, Err: err}
	}
	var status *wire.StatusError
	if errors.As(err, &status) {
		details["http_status"] = status.Status
	}
	e := &TransportError{Message: operation + ": " + c.kit.redactor.String(err.Error()), Details: details, Err: err}
	c.addProcess(e)
	return e
}

// SendProgress tells the server how far the answer to a request of its own has come. token is the request's progressToken with its JSON type: see
// [SamplingRequest.ProgressToken]. Protocol 2026-07-28 has no requests of servers; there this is an *UnsupportedError. The numbers must be
// finite.
func (c *Client) SendProgress(ctx context.Context, token trace.RPCID, p Progress) error {
	const operation = "send progress"
	finite := func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
	if token == "" {
		return validationf("%s: the token is empty", operation)
	}
	if !finite(p.Progress) || p.Total != nil && !finite(*p.Total) {
		return validationf("%s: progress and total must be finite numbers", operation)
	}
	params := map[string]any{"progressToken": token, "progress": p.Progress}
	if p.Total != nil {
		params["total"] = *p.Total
	}
	if p.Message != "" {
		if c.session.Protocol() < mcp.Version20250326 {
			return c.lacks(operation, "message in progress")
		}
		params["message"] = p.Message
	}
	return c.Notify(ctx, "notifications/progress", params, nil)
}

// ProgressToken is the token under which the server wants to hear of progress, with its JSON type; "" when it does not. It goes into
// [Client.SendProgress].
func (r *SamplingRequest) ProgressToken() trace.RPCID {
	var params struct {
		Meta struct {
			Token trace.RPCID `json:"progressToken"`
		} `json:"_meta"`
	}
	if r.Raw.Decode(&params) != nil {
		return ""
	}
	return params.Meta.Token
}
