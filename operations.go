package m3

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Args are a tool's arguments as a map. A struct or a json.RawMessage does as well.
type Args map[string]any

// CallOptions configure one operation. Nil means all defaults.
type CallOptions struct {
	// Timeout bounds this operation. 0: the client's.
	Timeout time.Duration
	// Progress receives the server's progress notifications for this operation, in order. It must not block.
	Progress func(Progress)
	// Meta goes out as _meta, beside what the protocol itself puts there.
	Meta map[string]any
	// LogLevel asks the server for the log messages of this operation, at the level and above (2026-07-28; before, there is
	// [Client.SetLoggingLevel], and this is an *UnsupportedError). Empty: the client's.
	LogLevel LogLevel
	// Header is added to the operation's HTTP request. A name that m3 sets itself (Mcp-Name, Mcp-Param-…) is replaced; without values it is left
	// out. Other transports have no headers.
	Header http.Header
	// AllowClaimed returns a tool's result of a type that only an extension defines (a task, for example) as it is: ToolCallResult.ResultType names
	// it and Raw holds it. Default false: it is an *UnsupportedError. Tools only.
	AllowClaimed bool

	// The rest is for CallTool, GetPrompt and ReadResource, during which a server may ask for input. Sampling and roots are answered by what
	// DirectOptions has for them.

	// Elicitation is the plan that answers what the server asks for. The call fails with an *[elicit.ExpectationError] when the server asks for anything
	// else, or not for what the plan requires. A plan that is incomplete is an *[elicit.PlanError], and nothing is sent. Nil: any elicitation fails the call.
	Elicitation *elicit.Plan
	// RoundLimit is how many rounds are answered; one more is an *[elicit.RoundLimitError]. Rounds without elicitation count too. 0: 10. Negative
	// is a *ValidationError.
	RoundLimit int
	// AllowInputRequired returns the server's first demand for input as the result's InputRequired, and answers nothing (2026-07-28). It cannot be
	// combined with a plan.
	AllowInputRequired bool
	// RequestState and the responses continue such a call by hand (2026-07-28; before, an *UnsupportedError). They go out as they are: unknown keys,
	// another state and wrong answers too. Nil leaves the member out; a pointer to an empty state, and an empty map, are sent. They cannot be combined
	// with a plan.
	RequestState   *string
	InputResponses map[string]elicit.Response
	// RawInputResponses are responses to other requests than elicitation, or wrong ones, by key: anything that encodes to JSON.
	RawInputResponses map[string]any
}

// ListOptions configure one page of a list. Nil asks for the first.
type ListOptions struct {
	// Cursor is the NextCursor of the page before. Nil: absent. Empty and absent differ on the wire.
	Cursor  *string
	Timeout time.Duration
	Meta    map[string]any
}

// Ping asks for a sign of life. Protocol 2026-07-28 has none: there it is an *UnsupportedError.
func (c *Client) Ping(ctx context.Context, opts *CallOptions) error {
	if err := opts.refuse("ping"); err != nil {
		return err
	}
	_, err := c.call(ctx, "ping", opts.op("ping", nil), opts.timeout())
	return err
}

// CallTool calls a tool. args is a map such as [Args], a struct, or a json.RawMessage that is sent byte for byte; nil sends no
// arguments. A tool that reports failure is a result with IsError, not an error.
func (c *Client) CallTool(ctx context.Context, name string, args any, opts *CallOptions) (*ToolCallResult, error) {
	operation := "call " + name
	arguments, err := encodeArguments(operation, args)
	if err != nil {
		return nil, err
	}
	a, err := c.ask(operation, trace.OperationTool, name, opts)
	if err != nil {
		return nil, err
	}
	var began *contract
	if c.opts.ValidateSchemas {
		if began, err = c.validateArguments(ctx, name, arguments); err != nil {
			return nil, err
		}
	}
	target := &mcp.Target{Name: name, Arguments: trace.JSON(arguments)}
	op := opts.op("tools/call", target)
	own := op.Header
	res, err := a.run(ctx, op, target, func(ctx context.Context) (*rpc.Response, error) {
		return c.callTool(ctx, operation, target, op, own, opts.timeout())
	})
	if err != nil {
		return nil, err
	}
	if opts.claimed(res.Result) {
		return claimedResult(res.Result, res.Sent, c.id), a.complete()
	}
	if pending, err := a.pending(res.Result); pending != nil || err != nil {
		return pausedTool(pending, res, c.id), err
	}
	if err := complete(operation, res.Result); err != nil {
		return nil, err
	}
	result, err := decodeToolResult(operation, res.Result)
	if err != nil {
		return nil, err
	}
	result.Sequence, result.Execution = res.Sent, c.id
	c.lintResult(name, result, res.Received)
	if err := a.complete(); err != nil {
		return result, err
	}
	if c.opts.ValidateSchemas {
		return result, c.mismatched(res.Received, c.validateResult(ctx, name, began, result))
	}
	return result, nil
}

// pausedTool is the result of a call that waits for input; nil when there is none.
func pausedTool(pending *InputRequiredResult, res *rpc.Response, id trace.ExecutionID) *ToolCallResult {
	if pending == nil {
		return nil
	}
	return &ToolCallResult{InputRequired: pending, Raw: res.Result, Sequence: res.Sent, Execution: id}
}

// callTool sends one attempt of a call. A server that refuses its headers may have changed its tools: then it is sent once more, with those it should have.
func (c *Client) callTool(ctx context.Context, operation string, target *mcp.Target, op *mcp.Op, own http.Header, timeout time.Duration) (*rpc.Response, error) {
	if err := c.usable(operation); err != nil {
		return nil, err
	}
	made := c.mirror.headers(ctx, c, target.Name, target.Arguments)
	op.Header = withHeader(made, own)
	res, err := c.call(ctx, operation, op, timeout)
	if err == nil {
		return res, nil
	}
	if now, changed := c.mirror.mismatch(ctx, c, err, target.Name, target.Arguments, made); changed {
		op.Header = withHeader(now, own)
		return c.call(ctx, operation, op, timeout)
	}
	return nil, err
}

func encodeArguments(operation string, args any) (json.RawMessage, error) {
	switch a := args.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if a == nil {
			return nil, nil
		}
		if !json.Valid(a) {
			return nil, validationf("%s: the arguments are not valid JSON", operation)
		}
		return a, nil
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, validationf("%s: the arguments cannot be encoded: %T: %v", operation, args, err)
	}
	if string(b) == "null" { // a nil map or pointer
		return nil, nil
	}
	if b[0] != '{' {
		return nil, validationf("%s: the arguments are a %T: use a map, a struct or a json.RawMessage", operation, args)
	}
	return b, nil
}

// ReadResource reads a resource.
func (c *Client) ReadResource(ctx context.Context, uri string, opts *CallOptions) (*ResourceReadResult, error) {
	if uri == "" {
		return nil, validationf("ReadResource: the URI is empty")
	}
	operation := "read " + uri
	a, err := c.ask(operation, trace.OperationResource, uri, opts)
	if err != nil {
		return nil, err
	}
	target := &mcp.Target{URI: uri}
	result := &ResourceReadResult{}
	result.Raw, result.InputRequired, err = c.render(ctx, a, "resources/read", target, result)
	if result.Raw == nil {
		return nil, err
	}
	return result, err
}

// render performs an operation that gives a prompt or a resource, and decodes what it gives into v. raw is nil when there is no result.
func (c *Client) render(ctx context.Context, a *asking, method string, target *mcp.Target, v any) (raw trace.JSON, pending *InputRequiredResult, err error) {
	op := a.opts.op(method, target)
	res, err := a.run(ctx, op, target, func(ctx context.Context) (*rpc.Response, error) {
		return c.call(ctx, a.operation, op, a.opts.timeout())
	})
	if err != nil {
		return nil, nil, err
	}
	if pending, err := a.pending(res.Result); pending != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		return res.Result, pending, nil
	}
	if err := complete(a.operation, res.Result); err != nil {
		return nil, nil, err
	}
	if err := decodeResult(a.operation, res.Result, v); err != nil {
		return res.Result, nil, err
	}
	return res.Result, nil, a.complete()
}

// GetPrompt renders a prompt.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string, opts *CallOptions) (*PromptResult, error) {
	operation := "prompt " + name
	target := &mcp.Target{Name: name}
	if args != nil {
		target.Arguments, _ = json.Marshal(args) // text only: cannot fail
	}
	a, err := c.ask(operation, trace.OperationPrompt, name, opts)
	if err != nil {
		return nil, err
	}
	result := &PromptResult{}
	result.Raw, result.InputRequired, err = c.render(ctx, a, "prompts/get", target, result)
	if result.Raw == nil {
		return nil, err
	}
	return result, err
}

// ListTools lists one page of tools, as the server sent it.
func (c *Client) ListTools(ctx context.Context, opts *ListOptions) (*Page[ToolInfo], error) {
	return listPage[ToolInfo](ctx, c, "tools/list", "tools", opts, false)
}

// ListAllTools follows the cursors to the end. A cursor that repeats is a *ProtocolError.
func (c *Client) ListAllTools(ctx context.Context, opts *ListOptions) ([]ToolInfo, error) {
	return listAll[ToolInfo](ctx, c, "tools/list", "tools", opts)
}

// ListResources lists one page of resources.
func (c *Client) ListResources(ctx context.Context, opts *ListOptions) (*Page[ResourceInfo], error) {
	return listPage[ResourceInfo](ctx, c, "resources/list", "resources", opts, false)
}

// ListAllResources follows the cursors to the end.
func (c *Client) ListAllResources(ctx context.Context, opts *ListOptions) ([]ResourceInfo, error) {
	return listAll[ResourceInfo](ctx, c, "resources/list", "resources", opts)
}

// ListResourceTemplates lists one page of resource templates.
func (c *Client) ListResourceTemplates(ctx context.Context, opts *ListOptions) (*Page[ResourceTemplateInfo], error) {
	return listPage[ResourceTemplateInfo](ctx, c, "resources/templates/list", "resourceTemplates", opts, false)
}

// ListAllResourceTemplates follows the cursors to the end.
func (c *Client) ListAllResourceTemplates(ctx context.Context, opts *ListOptions) ([]ResourceTemplateInfo, error) {
	return listAll[ResourceTemplateInfo](ctx, c, "resources/templates/list", "resourceTemplates", opts)
}

// ListPrompts lists one page of prompts.
func (c *Client) ListPrompts(ctx context.Context, opts *ListOptions) (*Page[PromptInfo], error) {
	return listPage[PromptInfo](ctx, c, "prompts/list", "prompts", opts, false)
}

// ListAllPrompts follows the cursors to the end.
func (c *Client) ListAllPrompts(ctx context.Context, opts *ListOptions) ([]PromptInfo, error) {
	return listAll[PromptInfo](ctx, c, "prompts/list", "prompts", opts)
}

func listPage[T any](ctx context.Context, c *Client, method, member string, opts *ListOptions, own bool) (*Page[T], error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	var params any
	if opts.Cursor != nil {
		params = map[string]any{"cursor": *opts.Cursor}
	}
	res, err := c.call(ctx, method, &mcp.Op{Method: method, Params: params, Meta: opts.Meta, Own: own}, opts.Timeout)
	if err != nil {
		return nil, err
	}
	if err := complete(method, res.Result); err != nil {
		return nil, err
	}
	page, err := decodePage[T](method, member, res.Result)
	if err != nil {
		return nil, err
	}
	lintPage(c, page, opts.Cursor == nil, res.Received) // before the mirror calls tools malformed for what it has its own finding
	if tools, ok := any(page.Items).([]ToolInfo); ok {
		c.mirror.learn(c, tools, res.Received)
	}
	return page, nil
}

// last reports whether a page is the last. Only the absence of a cursor says so in 2026-07-28, where an empty one is as good as any. Before,
// nothing was said of empty ones, and servers mean the end by them: asked with it, they begin again.
func (c *Client) last(method string, next *string) bool {
	if next == nil {
		return true
	}
	if *next != "" || c.session.Modern() {
		return false
	}
	c.find(trace.SeverityWarning, "empty-cursor", method+": the cursor to the next page is empty; it was taken as the end of the list, which a missing one says", "server/utilities/pagination")
	return true
}

// maxPages stops a server whose cursors never end nor repeat.
const maxPages = 10_000

func listAll[T any](ctx context.Context, c *Client, method, member string, opts *ListOptions) ([]T, error) {
	var all []T
	err := eachPage(ctx, c, method, member, opts, false, func(p *Page[T]) { all = append(all, p.Items...) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachPage follows the cursors to the end.
func eachPage[T any](ctx context.Context, c *Client, method, member string, opts *ListOptions, own bool, f func(*Page[T])) error {
	var next ListOptions
	if opts != nil {
		next = *opts
	}
	endless := func(format string, args ...any) error {
		return &ProtocolError{Message: method + ": " + fmt.Sprintf(format, args...), Details: map[string]any{"operation": method, "phase": "call", "error_kind": "malformed"}}
	}
	seen := map[string]bool{}
	for n := 1; n <= maxPages; n++ {
		p, err := listPage[T](ctx, c, method, member, &next, own)
		if err != nil {
			return err
		}
		f(p)
		if c.last(method, p.NextCursor) {
			return nil
		}
		if seen[*p.NextCursor] {
			c.find(trace.SeverityError, "cursor-repeated", fmt.Sprintf("%s: the pagination cursor repeated after %d pages", method, n), "server/utilities/pagination")
			return endless("pagination cursor repeated: the list would never end")
		}
		seen[*p.NextCursor] = true
		next.Cursor = p.NextCursor
	}
	return endless("more than %d pages", maxPages)
}

// op makes the operation; o may be nil.
func (o *CallOptions) op(method string, params any) *mcp.Op {
	op := &mcp.Op{Method: method, Params: params}
	if o == nil {
		return op
	}
	op.Meta, op.Header, op.Claimed = o.logMeta(), o.Header, o.AllowClaimed
	if f := o.Progress; f != nil {
		op.Progress = func(p mcp.Progress) { f(Progress{Progress: p.Progress, Total: p.Total, Message: p.Message}) }
	}
	return op
}

func (o *CallOptions) timeout() time.Duration {
	if o == nil {
		return 0
	}
	return o.Timeout
}
