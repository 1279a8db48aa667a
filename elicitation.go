package m3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// ElicitModes are the modes of elicitation that a client declares: a form, a URL, or both.
type ElicitModes uint8

// The modes.
const (
	ElicitForm = ElicitModes(mcp.ElicitForm)
	ElicitURL  = ElicitModes(mcp.ElicitURL)
)

// String names the modes.
func (m ElicitModes) String() string {
	var names []string
	if m&ElicitForm != 0 {
		names = append(names, elicit.ModeForm)
	}
	if m&ElicitURL != 0 {
		names = append(names, elicit.ModeURL)
	}
	return strings.Join(names, ", ")
}

func (m ElicitModes) check() error {
	if m&^(ElicitForm|ElicitURL) != 0 {
		return validationf("Direct: Elicitation is %d: use m3.ElicitForm, m3.ElicitURL, or both", m)
	}
	return nil
}

// defaultRoundLimit is how many rounds a call answers when it does not say.
const defaultRoundLimit = 10

// asking is one call of an operation that may ask for input, with what has happened in it so far.
type asking struct {
	c         *Client
	operation string // for messages
	kind      trace.OperationKind
	name      string // of the tool or prompt, or the resource's URI
	opts      *CallOptions
	limit     int
	rounds    int

	matcher *elicit.Matcher // of the plan, from 2026-07-28 on
	// Before 2026-07-28 the server's requests come from outside of the call: then asks.mu guards rounds and these.
	steps  *steps // of the plan
	id     trace.RPCID
	failed error
	// visited are the URLs of the last error that asked for some.
	visited urlAnswers
}

// noOptions stands for nil, so that nothing has to ask.
var noOptions CallOptions

// ask begins a call of an operation that may ask for input. It checks the options before anything is sent.
func (c *Client) ask(operation string, kind trace.OperationKind, name string, opts *CallOptions) (*asking, error) {
	if opts == nil {
		opts = &noOptions
	}
	a := &asking{c: c, operation: operation, kind: kind, name: name, opts: opts, limit: opts.RoundLimit}
	if a.limit < 0 {
		return nil, validationf("%s: RoundLimit is %d: it must not be negative", operation, a.limit)
	}
	if a.limit == 0 {
		a.limit = defaultRoundLimit
	}
	if err := c.checkLogLevel(operation, opts); err != nil {
		return nil, err
	}
	if err := a.checkControls(); err != nil {
		return nil, err
	}
	if opts.Elicitation == nil {
		return a, nil
	}
	if err := c.usable(operation); err != nil {
		return nil, err
	}
	var err error
	if a.matcher, err = elicit.NewMatcher(opts.Elicitation); err != nil {
		return nil, err
	}
	modes := planModes(opts.Elicitation)
	if err := a.checkModes(modes); err != nil {
		return nil, err
	}
	if !c.session.Modern() {
		a.matcher, a.steps = nil, newSteps(opts.Elicitation)
	}
	return a, nil
}

// manual reports whether the caller continues a call by hand.
func (o *CallOptions) manual() bool {
	return o.RequestState != nil || o.InputResponses != nil || o.RawInputResponses != nil
}

// refuse says that an operation which never asks for input was given what only makes sense for one that does.
func (o *CallOptions) refuse(operation string) error {
	if o == nil || o.Elicitation == nil && !o.AllowInputRequired && !o.manual() && o.RoundLimit == 0 {
		return nil
	}
	return validationf("%s: it never asks for input: Elicitation, RoundLimit, AllowInputRequired, RequestState and the responses are for CallTool, GetPrompt and ReadResource", operation)
}

// checkControls refuses options that contradict each other, and those of 2026-07-28 elsewhere.
func (a *asking) checkControls() error {
	o := a.opts
	if o.Elicitation != nil && (o.AllowInputRequired || o.manual()) {
		return validationf("%s: the plan in Elicitation answers and goes on by itself: it cannot be combined with AllowInputRequired, RequestState, InputResponses or RawInputResponses", a.operation)
	}
	for key := range o.RawInputResponses {
		if _, twice := o.InputResponses[key]; twice {
			return validationf("%s: %q is in InputResponses and in RawInputResponses", a.operation, key)
		}
	}
	if o.manual() && a.c.session != nil && !a.c.session.Modern() {
		e := a.c.lacks(a.operation, "continuation of a call by hand")
		e.Message += ": there the server asks during the call, and a plan in CallOptions.Elicitation answers"
		return e
	}
	return nil
}

// checkModes refuses a plan that the server could never be asked by, because its modes were not declared, or are not of this version.
func (a *asking) checkModes(modes ElicitModes) error {
	declared, version := a.c.opts.Elicitation, a.c.session.Protocol()
	switch {
	case version < mcp.Version20250618:
		return a.c.lacks(a.operation, "elicitation")
	case version < mcp.Version20251125 && modes == ElicitURL:
		return a.c.lacks(a.operation, "elicitation of URLs")
	case declared == 0 && !a.c.session.Modern():
		return validationf("%s: the plan cannot be used: in %s a client declares elicitation when it connects: set DirectOptions.Elicitation to m3.ElicitForm, m3.ElicitURL or both", a.operation, version)
	case declared != 0 && modes&^declared != 0:
		return validationf("%s: the plan has requests of mode %s, and DirectOptions.Elicitation declares %s", a.operation, modes&^declared, declared)
	}
	return nil
}

// planModes are the modes of a plan's leaves.
func planModes(p *elicit.Plan) (m ElicitModes) {
	if e := p.Request(); e != nil {
		if e.Mode() == elicit.ModeURL {
			return ElicitURL
		}
		return ElicitForm
	}
	for _, child := range p.Children() {
		m |= planModes(child)
	}
	return m
}

// modes are what the call declares beside what the client does, where each request declares it.
func (a *asking) modes() mcp.Modes {
	switch {
	case a.opts.Elicitation != nil:
		return mcp.Modes(planModes(a.opts.Elicitation))
	case a.opts.AllowInputRequired || a.opts.manual():
		if a.c.opts.Elicitation == 0 {
			return mcp.ElicitForm | mcp.ElicitURL
		}
	}
	return 0
}

// target adds what continues a call by hand.
func (a *asking) continueByHand(t *mcp.Target) error {
	if s := a.opts.RequestState; s != nil {
		t.RequestState = trace.AppendString(nil, *s)
	}
	if a.opts.InputResponses == nil && a.opts.RawInputResponses == nil {
		return nil
	}
	all := make(map[string]trace.JSON, len(a.opts.InputResponses)+len(a.opts.RawInputResponses))
	for key, r := range a.opts.InputResponses {
		b, err := r.Encode()
		if err != nil {
			return &ValidationError{Message: fmt.Sprintf("%s: the response to %q: %v (RawInputResponses sends anything)", a.operation, key, err), Details: map[string]any{"operation": a.operation}}
		}
		all[key] = b
	}
	for key, v := range a.opts.RawInputResponses {
		b, err := mcp.Encode(v)
		if err != nil {
			return validationf("%s: the raw response to %q is no JSON: %v", a.operation, key, err)
		}
		if b == nil {
			b = trace.JSON("null")
		}
		all[key] = b
	}
	var err error
	t.InputResponses, err = mcp.Encode(all)
	return err
}

// run makes the call, and answers what the server asks for until it has a result.
func (a *asking) run(ctx context.Context, op *mcp.Op, t *mcp.Target, send func(context.Context) (*rpc.Response, error)) (*rpc.Response, error) {
	if err := a.continueByHand(t); err != nil {
		return nil, err
	}
	if a.modes() != 0 {
		op.Elicit = a.modes()
	}
	if a.c.asks.serving {
		a.c.asks.begin(a)
		defer a.c.asks.end(a)
		op.Issued = a.issued
	}
	began := time.Now()
	res, err := send(ctx)
	if !a.goesOn(res, err) {
		return a.outcome(res, err)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(a.timeout()), errOperationDeadline)
	defer cancel()
	for a.goesOn(res, err) {
		if err != nil {
			err = a.visit(ctx, op, err)
		} else {
			err = a.answer(ctx, t, res)
		}
		if err != nil {
			return a.outcome(nil, err)
		}
		res, err = send(ctx)
		op.Note = nil
	}
	return a.outcome(res, err)
}

func (a *asking) timeout() time.Duration {
	if a.opts.Timeout > 0 {
		return a.opts.Timeout
	}
	return a.c.opts.Timeout
}

// goesOn reports whether the server wants input before it has a result, and m3 is to give it.
func (a *asking) goesOn(res *rpc.Response, err error) bool {
	if err != nil {
		return a.steps != nil && wantsURLs(err)
	}
	return !a.opts.AllowInputRequired && a.c.session.Modern() && mcp.ResultType(res.Result) == mcp.ResultInputRequired
}

// outcome is the call's. What the server asked for in vain is told before what came of it.
func (a *asking) outcome(res *rpc.Response, err error) (*rpc.Response, error) {
	if a.c.asks.serving {
		if failed := a.c.asks.failure(a); failed != nil {
			return nil, failed
		}
	}
	return res, err
}

// complete says, after the operation's result, whether the plan is used up.
func (a *asking) complete() error {
	switch {
	case a.matcher != nil:
		return a.explain(a.matcher.Complete())
	case a.steps != nil:
		a.c.asks.mu.Lock()
		defer a.c.asks.mu.Unlock()
		if open := a.steps.unused(); len(open) > 0 {
			return a.expectation("incomplete", fmt.Sprintf("the operation ended, and the plan expects %s still", strings.Join(open, " or ")), map[string]any{"unused": open})
		}
	}
	return nil
}

// expectation is an error about what a server asked for. Its text and details hold keys, never a value.
func (a *asking) expectation(reason, message string, more map[string]any) *elicit.ExpectationError {
	details := map[string]any{}
	maps.Copy(details, more)
	details["operation"], details["reason"] = a.operation, reason
	if a.rounds > 0 {
		details["round"] = a.rounds
	}
	return &elicit.ExpectationError{Message: a.c.kit.redactor.String(a.operation + ": " + message), Details: details}
}

// explain adds the operation to an error of the matcher.
func (a *asking) explain(err error) error {
	var e *elicit.ExpectationError
	if !errors.As(err, &e) {
		return err
	}
	reason, _ := e.Details["reason"].(string)
	return a.expectation(reason, e.Message, e.Details)
}

// another counts a round. The one over the limit is an error.
func (a *asking) another() error {
	a.rounds++
	if a.rounds <= a.limit {
		return nil
	}
	return &elicit.RoundLimitError{Message: a.c.kit.redactor.String(fmt.Sprintf("%s: the server asked for input in %d rounds, and the limit (CallOptions.RoundLimit) is %d", a.operation, a.rounds, a.limit)),
		Details: map[string]any{"operation": a.operation, "rounds": a.rounds, "limit": a.limit}}
}
