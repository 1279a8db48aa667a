package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// asks knows the open calls of a session before 2026-07-28, where the server asks for input by a request of its own. Only an HTTP exchange
// tells which call such a request is about. Elsewhere it is the only open call, or the only one with a plan, or, of several plans, the only
// one that expects the request; if none of that decides, nothing is answered, and every call that it may have been about fails.
type asks struct {
	serving bool // the session is of that kind, and elicitation was declared

	mu        sync.Mutex
	open      []*asking
	completed map[string]bool // ids of notifications/elicitation/complete
	changed   chan struct{}   // closed when there is another
}

func (k *asks) begin(a *asking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = append(k.open, a)
}

func (k *asks) end(a *asking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = slices.DeleteFunc(k.open, func(o *asking) bool { return o == a })
}

func (k *asks) failure(a *asking) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.failed
}

// issued is told the id of each attempt.
func (a *asking) issued(id trace.RPCID) {
	a.c.asks.mu.Lock()
	defer a.c.asks.mu.Unlock()
	a.id = id
}

// fail makes the call fail when it returns. The first reason counts.
func (a *asking) fail(err error) {
	if a.failed == nil {
		a.failed = err
	}
}

// refusal is what the server gets when its request is not answered by a plan.
func refusal() *rpc.ErrorObject {
	return &rpc.ErrorObject{Code: trace.JSON("-32603"), Message: "the test does not expect this request for input, and does not answer it"}
}

// elicited answers elicitation/create.
func (c *Client) elicited(_ context.Context, in *mcp.Asked) (trace.JSON, *rpc.ErrorObject) {
	k := &c.asks
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.owner(c, in)
	if a == nil {
		return nil, refusal()
	}
	key, answer, err := a.step(in.Params)
	in.Note = elicitationNote(a, c.kit.redactor.String(key))
	if err != nil {
		a.fail(err)
		return nil, refusal()
	}
	return answer, nil
}

// elicitationNote is kept with the answer, for the trace.
func elicitationNote(a *asking, key string) trace.JSON {
	b := append([]byte(`{"elicitation":{"call":`), a.id...)
	b = strconv.AppendInt(append(b, `,"round":`...), int64(a.rounds), 10)
	if key != "" {
		b = trace.AppendString(append(b, `,"request_key":`...), key)
	}
	return append(b, '}', '}')
}

// owner finds the call that a request is about. When that cannot be told, every call that it may be about fails, and it is nil.
func (k *asks) owner(c *Client, in *mcp.Asked) *asking {
	calls := k.open
	if in.For != "" {
		calls = slices.DeleteFunc(slices.Clone(calls), func(a *asking) bool { return a.id != in.For })
	}
	planned := slices.DeleteFunc(slices.Clone(calls), func(a *asking) bool { return a.steps == nil })
	switch {
	case len(calls) == 0:
		c.find(trace.SeverityWarning, "elicitation-without-call", "the server sent elicitation/create while no call was open that could be what it asks for; it was refused", "client/elicitation")
		return nil
	case len(calls) == 1:
		return calls[0]
	case len(planned) == 1:
		return planned[0]
	case len(planned) == 0:
		for _, a := range calls {
			a.fail(a.expectation("no_plan", fmt.Sprintf("the server asks for input during one of %d open calls, and none has a plan", len(calls)), nil))
		}
		return nil
	}
	return chooseOwner(planned, in.Params)
}

// chooseOwner finds the only one of several calls whose plan expects the request.
func chooseOwner(planned []*asking, params trace.JSON) *asking {
	var takes []*asking
	for _, a := range planned {
		if a.expects(params) {
			takes = append(takes, a)
		}
	}
	if len(takes) == 1 {
		return takes[0]
	}
	what, reason := "the plan of each would answer it", "ambiguous"
	if len(takes) == 0 {
		takes, what, reason = planned, "the plan of none expects it", "no_match"
	}
	var names []string
	for _, a := range takes {
		names = append(names, a.operation)
	}
	for _, a := range takes {
		a.fail(a.expectation(reason, fmt.Sprintf("the server asks for input, and cannot say during which of the open calls %s: %s; make such calls one after the other, or let the plans differ",
			strings.Join(names, ", "), what), nil))
	}
	return nil
}

// expects reports whether the call's plan would answer the request.
func (a *asking) expects(params trace.JSON) bool {
	request, _, bad := a.readRequest(unknownKey, params)
	if bad != nil || a.failed != nil || a.rounds >= a.limit {
		return false
	}
	_, _, _, err := a.steps.match(request)
	return err == nil
}

// unknownKey stands for the key that requests before 2026-07-28 have not.
const unknownKey = "-"

// step answers one request of the server by the call's plan. Call it with asks.mu held.
func (a *asking) step(params trace.JSON) (key string, answer trace.JSON, err error) {
	if a.failed != nil {
		return "", nil, a.failed
	}
	if err := a.another(); err != nil {
		return "", nil, err
	}
	request, schema, bad := a.readRequest(unknownKey, params)
	switch {
	case bad != nil:
		return "", nil, a.expectation("bad_request", "the server's elicitation/create is no request for input: "+bad.Error(), nil)
	case a.steps == nil:
		return "", nil, a.expectation("no_plan", "the server asks for input ("+request.Mode()+"), and the call has no plan: set CallOptions.Elicitation", nil)
	}
	key, response, next, err := a.steps.match(request)
	if err != nil {
		return "", nil, a.unmatched(err)
	}
	if answer, err = a.encodeAnswer(key, schema, response); err != nil {
		return key, nil, err
	}
	a.steps = next
	return key, answer, nil
}

// unmatched tells why no step of the plan answers a request.
func (a *asking) unmatched(err error) error {
	var e *stepError
	if errors.As(err, &e) {
		return a.expectation(e.reason, e.message, map[string]any{"expected": e.expected})
	}
	return err
}

// wantsURLs reports whether a call was answered with the error of 2025-11-25 that asks for URLs to be visited first.
func wantsURLs(err error) bool {
	const urlElicitationRequired = -32042
	var p *ProtocolError
	if !errors.As(err, &p) {
		return false
	}
	code, ok := p.RPCCode()
	return ok && code == urlElicitationRequired && p.RPC.Data.OK()
}

// completionGrace is how long a call is held back for notifications/elicitation/complete, which a server need not send.
const completionGrace = time.Second

// visit answers the URLs that an error asks for. When the plan accepts them all the call is made again: once the server says that each is completed, or after a
// second, for it need not say so. When the server then asks for the same URLs, they are not completed yet: the plan has answered, and only the notification
// lets the call go on. A plan that declines or cancels one leaves the error as the call's. A URL is never opened: who completes it is the test's affair.
func (a *asking) visit(ctx context.Context, op *mcp.Op, refused error) error {
	var p *ProtocolError
	errors.As(refused, &p)
	var data struct {
		URLs []trace.JSON `json:"elicitations"`
	}
	if p.RPC.Data.Value.Decode(&data) != nil || len(data.URLs) == 0 {
		return refused
	}
	urls, err := a.readURLs(data.URLs)
	if err != nil {
		return err
	}
	grace := completionGrace
	if a.visited.sameURLs(urls) {
		grace = 0
	} else if a.visited, err = a.matchURLs(urls); err != nil {
		return err
	}
	if !a.visited.accepted() {
		return refused
	}
	for i, u := range urls {
		if err := a.completion(ctx, u.ElicitationID, a.visited[i].Key, &grace); err != nil {
			return err
		}
	}
	encoded, _ := json.Marshal(a.visited) // strings only: cannot fail
	op.Note = fmt.Appendf(nil, `{"continues":{"call":%s,"answers":%s}}`, a.id, encoded)
	return nil
}

// urlAnswer is what the plan answers to one URL, for the trace.
type urlAnswer struct {
	Key    string        `json:"request_key"`
	Action elicit.Action `json:"action"`
	url    string
}

type urlAnswers []urlAnswer

func (u urlAnswers) accepted() bool {
	return !slices.ContainsFunc(u, func(a urlAnswer) bool { return a.Action != elicit.ActionAccept })
}

// sameURLs reports whether the URLs are those that were answered, in the same order.
func (u urlAnswers) sameURLs(urls []*elicit.URLRequest) bool {
	return slices.EqualFunc(u, urls, func(a urlAnswer, r *elicit.URLRequest) bool { return a.url == r.URL })
}

// readURLs reads the URLs of one error, and counts them as a round.
func (a *asking) readURLs(all []trace.JSON) (urls []*elicit.URLRequest, err error) {
	a.c.asks.mu.Lock()
	defer a.c.asks.mu.Unlock()
	if err := a.another(); err != nil {
		return nil, err
	}
	for _, params := range all {
		request, _, bad := a.readRequest(unknownKey, params)
		u, ok := request.(*elicit.URLRequest)
		if bad == nil && !ok {
			bad = errors.New("its mode is not url")
		}
		if bad != nil {
			return nil, a.expectation("bad_request", "one of the URLs that the server's error asks for is no request for input: "+bad.Error(), nil)
		}
		urls = append(urls, u)
	}
	return urls, nil
}

// matchURLs answers the URLs of one error by the plan: all of them, or none.
func (a *asking) matchURLs(urls []*elicit.URLRequest) (answers urlAnswers, err error) {
	a.c.asks.mu.Lock()
	defer a.c.asks.mu.Unlock()
	at := a.steps
	for _, u := range urls {
		key, response, next, err := at.match(u)
		if err != nil {
			return nil, a.unmatched(err)
		}
		at = next
		answers = append(answers, urlAnswer{a.c.kit.redactor.String(key), response.Action, u.URL})
	}
	a.steps = at
	return answers, nil
}

const methodElicitComplete = "notifications/elicitation/complete"

// maxCompleted bounds how many completed elicitations are remembered.
const maxCompleted = 10_000

// note takes notifications/elicitation/complete, on the reader.
func (k *asks) note(params trace.JSON) {
	var p struct {
		ID string `json:"elicitationId"`
	}
	if params.Decode(&p) != nil || p.ID == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.completed == nil || len(k.completed) >= maxCompleted {
		k.completed = map[string]bool{}
	}
	k.completed[p.ID] = true
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
}

// completion waits until the server says that the elicitation with the id is completed, but no longer than what is left of the grace, which it reduces; 0 is
// as long as the call may take. One without an id has nothing to wait for.
func (a *asking) completion(ctx context.Context, id, key string, grace *time.Duration) error {
	k := &a.c.asks
	var patience <-chan time.Time
	if began := time.Now(); *grace > 0 {
		patience = time.After(*grace)
		defer func() { *grace = max(*grace-time.Since(began), 1) }()
	}
	for id != "" {
		k.mu.Lock()
		over := k.completed[id]
		if k.changed == nil {
			k.changed = make(chan struct{})
		}
		changed := k.changed
		k.mu.Unlock()
		if over {
			break
		}
		select {
		case <-changed:
		case <-patience:
			return nil
		case <-a.c.session.Done():
			if err := a.c.usable(a.operation); err != nil {
				return err
			}
			return &TransportError{Message: a.operation + ": the connection ended before the server said that " + strconv.Quote(key) + " is completed", Details: map[string]any{"operation": a.operation, "phase": "call"}, Err: errEnded}
		case <-ctx.Done():
			return a.waited(ctx, fmt.Sprintf("the server had not said that %q, which the plan accepts, is completed (%s)", key, methodElicitComplete))
		}
	}
	return nil
}
