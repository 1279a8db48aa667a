package m3

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// SubscribeResource asks the server to tell of changes of a resource: DirectOptions.Notification receives notifications/resources/updated.
// Protocol 2026-07-28 has [Client.Listen] instead; there this is an *UnsupportedError.
func (c *Client) SubscribeResource(ctx context.Context, uri string, opts *CallOptions) error {
	return c.subscription(ctx, "subscribe to ", "resources/subscribe", uri, opts)
}

// UnsubscribeResource ends what [Client.SubscribeResource] began.
func (c *Client) UnsubscribeResource(ctx context.Context, uri string, opts *CallOptions) error {
	return c.subscription(ctx, "unsubscribe from ", "resources/unsubscribe", uri, opts)
}

func (c *Client) subscription(ctx context.Context, verb, method, uri string, opts *CallOptions) error {
	if uri == "" {
		return validationf("%sa resource: the URI is empty", verb)
	}
	if err := opts.refuse(verb + uri); err != nil {
		return err
	}
	if _, err := c.ready(verb+uri, method, opts.timeout()); err != nil {
		return err
	}
	c.session.OpenStream(ctx) // where an HTTP server tells of updates
	_, err := c.call(ctx, verb+uri, opts.op(method, map[string]string{"uri": uri}), opts.timeout())
	return err
}

// ListenOptions say which changes a subscription is about. Nil asks for nothing, which a server may well answer with an end at once.
type ListenOptions struct {
	ToolsListChanged     bool
	PromptsListChanged   bool
	ResourcesListChanged bool
	// ResourceSubscriptions are the URIs of resources whose updates are wanted.
	ResourceSubscriptions []string
	// Timeout bounds the wait for the acknowledgement, not the subscription. 0: the client's.
	Timeout time.Duration
	// Meta goes out as _meta, beside what the protocol itself puts there.
	Meta map[string]any
}

// Subscription is a stream of changes (2026-07-28 subscriptions/listen). It may be used from several goroutines. It ends with Close, with
// the server's own end, or with the client.
type Subscription struct {
	client    *Client
	listening *mcp.Listening
}

// SubscriptionEvent is one change.
type SubscriptionEvent struct {
	// Method is that of the notification: notifications/tools/list_changed, …
	Method string
	// URI is the resource that was updated; empty for changes of lists.
	URI string
	// Raw is the notification's params as they stood on the wire.
	Raw trace.JSON
	// Sequence is the event of the notification in the client's trace.
	Sequence int64
}

// Listen opens a subscription and waits for the server's acknowledgement, which must come first. Versions before 2026-07-28 have
// [Client.SubscribeResource] instead; there this is an *UnsupportedError and nothing is sent. What is wrong with the stream (changes before the
// acknowledgement, tags of another subscription or of another JSON type, changes that were not asked for) is a finding each.
func (c *Client) Listen(ctx context.Context, opts *ListenOptions) (*Subscription, error) {
	if opts == nil {
		opts = &ListenOptions{}
	}
	const operation, method = "listen", "subscriptions/listen"
	timeout, err := c.ready(operation, method, opts.Timeout)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, errOperationDeadline)
	defer cancel()
	want := &mcp.Filter{ToolsListChanged: opts.ToolsListChanged, PromptsListChanged: opts.PromptsListChanged,
		ResourcesListChanged: opts.ResourcesListChanged, ResourceSubscriptions: opts.ResourceSubscriptions}
	listening, err := c.session.Listen(bounded, want, opts.Meta)
	if err != nil {
		return nil, c.listenError(bounded, operation, timeout, err)
	}
	return &Subscription{c, listening}, nil
}

// ID is the subscription's id, with its JSON type: that of the request.
func (s *Subscription) ID() trace.RPCID { return s.listening.ID() }

// Acknowledged is what the server agreed to tell of. Timeout and Meta are not set.
func (s *Subscription) Acknowledged() ListenOptions {
	a := s.listening.Agreed()
	return ListenOptions{ToolsListChanged: a.ToolsListChanged, PromptsListChanged: a.PromptsListChanged, ResourcesListChanged: a.ResourcesListChanged,
		ResourceSubscriptions: a.ResourceSubscriptions}
}

// Next waits for the next change. When the server has ended the subscription the error is [io.EOF]. When ctx ends it is a *TimeoutError or a
// *CancelledError, and the subscription goes on. After Close it is [ErrSubscriptionClosed]; a connection that broke is a *TransportError.
func (s *Subscription) Next(ctx context.Context) (*SubscriptionEvent, error) {
	ch, err := s.listening.Next(ctx)
	switch {
	case err == nil:
		return &SubscriptionEvent{Method: ch.Method, URI: ch.URI, Raw: ch.Params, Sequence: ch.Sequence}, nil
	case err == io.EOF: // exactly: a connection that ended wraps it too
		return nil, io.EOF
	case errors.Is(err, mcp.ErrListeningClosed):
		return nil, &Error{CodeText: "subscription_closed", Message: "next change: the subscription is closed", Err: ErrSubscriptionClosed}
	}
	err = s.client.listenError(ctx, "next change", 0, err)
	if te := (*TransportError)(nil); errors.As(err, &te) && errors.Is(te.Err, io.EOF) {
		te.Err = io.ErrUnexpectedEOF // io.EOF is the server's own end, and only that
	}
	return nil, err
}

// Close ends the subscription and tells the server. It is idempotent. The client's own Close ends it too.
func (s *Subscription) Close() error {
	s.listening.Close()
	return nil
}

// ErrSubscriptionClosed is returned by Next on a subscription that was closed on this side.
var ErrSubscriptionClosed = errors.New("m3: the subscription is closed")

// listenError makes the public error of a subscription that failed, or of a wait that ended.
func (c *Client) listenError(ctx context.Context, operation string, timeout time.Duration, err error) error {
	var answer *mcp.AnswerError
	var call *rpc.CallError
	details := map[string]any{"operation": operation, "phase": "call", "method": "subscriptions/listen"}
	switch {
	case errors.As(err, &answer):
		return remoteError(c.kit.redactor, operation, "call", answer.Answer)
	case errors.Is(err, mcp.ErrNotAcknowledged):
		details["error_kind"] = "malformed"
		return &ProtocolError{Message: operation + ": " + err.Error(), Details: details, Err: err}
	case errors.As(err, &call), ctx.Err() == nil:
		return c.callError(ctx, operation, &mcp.Op{Method: "subscriptions/listen"}, timeout, err)
	case errors.Is(err, context.DeadlineExceeded):
		reason := "no change came before the deadline"
		if context.Cause(ctx) == errOperationDeadline {
			reason = "no acknowledgement of subscriptions/listen within " + timeout.String()
			details["timeout_seconds"] = timeout.Seconds()
		}
		return &TimeoutError{Message: operation + ": " + reason, Details: details, Err: err}
	}
	return &CancelledError{Message: operation + ": cancelled", Details: details, Err: context.Cause(ctx)}
}
