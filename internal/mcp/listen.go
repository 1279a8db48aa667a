package mcp

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Filter is what a subscription asks for, and what the server agreed to (2026-07-28 subscriptions/listen).
type Filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

// Change is one notification of a subscription.
type Change struct {
	Method   string
	URI      string     // of a resource that was updated
	Params   trace.JSON // nil when there were none
	Sequence int64      // the event that holds it
}

// AnswerError is a subscriptions/listen that the server answered with an error.
type AnswerError struct{ Answer *rpc.ErrorObject }

// Error names the server's error.
func (e *AnswerError) Error() string {
	return "the server answered subscriptions/listen with " + ErrorText(e.Answer)
}

var (
	// ErrNotAcknowledged is the error of a subscription whose request was answered before it was acknowledged.
	ErrNotAcknowledged = errors.New("the subscription ended without having been acknowledged")
	// ErrListeningClosed is what Next returns after Close.
	ErrListeningClosed = errors.New("the subscription is closed")
)

// maxChanges bounds the changes that wait for Next.
const maxChanges = 4096

// Listening is an open subscription. It may be used from several goroutines.
type Listening struct {
	id     trace.RPCID
	link   *link
	want   Filter
	cancel context.CancelFunc
	ack    chan struct{} // closed with the acknowledgement
	done   chan struct{} // closed when the request has ended
	wake   chan struct{}

	mu       sync.Mutex
	agreed   Filter
	acked    bool
	queue    []Change
	overflow bool
	err      error // why it ended; nil while it is open
}

// Listen opens a subscription and waits until the server has acknowledged it. ctx bounds the opening, not the subscription's life, which ends
// with Close, the server or the connection. The error is ctx's own, a *[ParamsError], an *[AnswerError], [ErrNotAcknowledged] or a *rpc.CallError.
func (s *Session) Listen(ctx context.Context, want *Filter, own map[string]any) (*Listening, error) {
	params, err := s.meta.appendParams(nil, map[string]any{"notifications": want}, "", own)
	if err != nil {
		return nil, &ParamsError{methodListen, err}
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &Listening{id: s.link.conn.NextID(), link: s.link, want: *want, cancel: cancel,
		ack: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.link.listenings.add(g)
	go g.run(life, params)
	select {
	case <-g.ack:
		return g, nil
	case <-g.done:
		return g.refused()
	case <-ctx.Done():
		g.Close()
		return nil, ctx.Err()
	}
}

// refused is the outcome of a request that ended while its acknowledgement was awaited. The two may have come together.
func (g *Listening) refused() (*Listening, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.acked:
		return g, nil
	case g.err == io.EOF:
		return nil, ErrNotAcknowledged
	}
	return nil, g.err
}

const methodListen = "subscriptions/listen"

// run makes the request, which lasts as long as the subscription.
func (g *Listening) run(ctx context.Context, params []byte) {
	defer close(g.done)
	defer g.cancel()
	resp, err := g.link.conn.Call(ctx, &rpc.Request{Method: methodListen, Params: params, Phase: trace.PhaseMCPCall, NoCancel: true, ID: g.id})
	g.link.listenings.remove(g)
	switch {
	case err != nil:
		g.end(err)
	case resp.Error != nil:
		g.end(&AnswerError{resp.Error})
	default:
		g.checkEnd(resp)
		g.end(io.EOF)
	}
}

// checkEnd looks at the result with which a server ends a subscription.
func (g *Listening) checkEnd(resp *rpc.Response) {
	at := spot{g.link, resp.Received, g.id}
	if code, sev, msg := checkResultType(methodListen, resp.Result); code != "" {
		at.find(code, sev, msg)
	}
	if tag := subscriptionTag(resp.Result); string(tag) != string(g.id) {
		at.find("subscription-id", trace.SeverityError, "the result that ends the subscription "+string(g.id)+" names the subscription "+shownTag(tag))
	}
	g.mu.Lock()
	acked := g.acked
	g.mu.Unlock()
	if !acked {
		at.find("subscription-not-acknowledged", trace.SeverityError, "the subscription "+string(g.id)+" ended without having been acknowledged")
	}
}

func shownTag(tag []byte) string {
	if tag == nil {
		return "not at all"
	}
	return shorten(string(tag))
}

// end ends the subscription for its reader. The first reason counts; end reports whether err is it.
func (g *Listening) end(err error) bool {
	g.mu.Lock()
	first := g.err == nil
	if first {
		g.err = err
	}
	g.mu.Unlock()
	g.signal()
	return first
}

func (g *Listening) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// ID is the subscription's id: that of its request, with its JSON type.
func (g *Listening) ID() trace.RPCID { return g.id }

// Agreed is what the server acknowledged.
func (g *Listening) Agreed() Filter {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.agreed
}

// Next returns the next change. At the end that the server made, the error is [io.EOF]; after Close it is [ErrListeningClosed]; otherwise
// ctx's own, or why the request failed. What came before an end is still returned first.
func (g *Listening) Next(ctx context.Context) (*Change, error) {
	for {
		c, err := g.take()
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-g.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns what there is: a change, or the end. While anything is left, the next reader is woken too.
func (g *Listening) take() (*Change, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 {
		c := g.queue[0]
		g.queue = g.queue[1:]
		g.signal()
		return &c, nil
	}
	if g.err != nil {
		g.signal()
	}
	return nil, g.err
}

// Close ends the subscription and tells the server. It is idempotent.
func (g *Listening) Close() {
	mine := g.end(ErrListeningClosed)
	g.cancel()
	<-g.done
	if mine { // else it has ended otherwise: there is nothing to cancel
		g.link.cancel(g.id)
	}
}

// tornDown is the server's notifications/cancelled: on stdio its way to end a subscription.
func (g *Listening) tornDown() {
	g.end(io.EOF)
	g.cancel()
}

// put hands a change to the reader.
func (g *Listening) put(c Change) {
	g.mu.Lock()
	full := len(g.queue) >= maxChanges
	first := full && !g.overflow
	g.overflow = g.overflow || full
	if !full && g.err == nil {
		g.queue = append(g.queue, c)
	}
	g.mu.Unlock()
	if first {
		g.link.find(trace.Finding{Code: "subscription-overflow", Severity: trace.SeverityWarning, Sequence: c.Sequence, Offset: -1, RPCID: g.id,
			Message: "changes of a subscription came faster than they were read; what is over 4096 is in the trace only"})
	}
	g.signal()
}
