package m3

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Elicit answers a native prompt from the turn's plan. The prompt is the wire's request in the same words, when there is only one; what is not clear is answered by nobody.
func (h *host) Elicit(ctx context.Context, p *harness.Prompted) (elicit.Response, error) {
	x := h.x
	x.mu.Lock()
	r := x.running
	x.mu.Unlock()
	id := "elicitation-" + strconv.FormatInt(h.asked.Add(1), 10)
	var list []found
	if r != nil && r.asks != nil {
		r.prompting.Lock()
		defer r.prompting.Unlock()
		if list = r.asks.find(p); len(list) == 0 && h.Drain(ctx) == nil { // the relay does not wait for a slow store
			list = r.asks.find(p)
		}
	}
	told := *p
	if len(list) == 1 {
		list[0].name(&told)
	}
	h.elicitation(trace.KindElicitationRequest, id, &told, len(list) > 0, nil)
	if err := ctx.Err(); err != nil {
		return elicit.Response{}, err
	}
	answer, b := r.answer(p, list)
	if b != nil {
		x.faultTurn(b)
		return elicit.Response{}, b
	}
	h.elicitation(trace.KindElicitationResponse, id, &told, len(list) > 0, &answer)
	return answer, nil
}

// name fills in what the wire says and the agent does not.
func (f *found) name(p *harness.Prompted) {
	p.Server = f.round.server
	if f.round.call != nil {
		p.Operation = f.round.call.name
	}
	if f.round.keyed {
		p.Key = f.ask.request.Key()
	}
}

// answer is the plan's answer to a prompt that is about one of the requests of the list. A nil turn has none.
func (r *turnRun) answer(p *harness.Prompted, list []found) (elicit.Response, *harness.Error) {
	rounds := roundsOf(list)
	switch {
	case r == nil:
		return elicit.Response{}, harness.Errorf(harness.BlameAgent, "elicitation_unexpected", "it asked for input while no turn was under way")
	case r.asks == nil:
		return elicit.Response{}, harness.Errorf(harness.BlameTest, "elicitation_unexpected", "%s asked for input, and the action has no plan that answers: set Elicitation", ofServer(p.Server))
	case len(rounds) > 1:
		return elicit.Response{}, harness.Errorf(harness.BlameHarness, "elicitation_ambiguous", "it asked for input (%q), and that can be about %d requests of servers that wait for an answer: let them differ in their words, or be made one after the other",
			firstLine(p.Message), len(rounds))
	case len(rounds) == 0 && p.Key != "" && p.Server != "" && p.Group == "": // it says itself which one it is
		return r.answerKeyed(p)
	case len(rounds) == 0:
		return elicit.Response{}, harness.Errorf(harness.BlameAgent, "elicitation_unmatched", "it asked for input (%q), and no server waits for an answer to such a request", firstLine(p.Message))
	}
	r.asks.mu.Lock()
	defer r.asks.mu.Unlock()
	if b := r.play(rounds[0]); b != nil {
		return elicit.Response{}, b
	}
	first := list[0].ask
	for _, f := range list[1:] {
		if encodedResponse(f.ask.answer) != encodedResponse(first.answer) {
			return elicit.Response{}, harness.Errorf(harness.BlameHarness, "elicitation_ambiguous", "it asked for input (%q), which can be for the keys %q and %q of server %s, whose answers differ",
				firstLine(p.Message), first.request.Key(), f.ask.request.Key(), rounds[0].server)
		}
	}
	first.given = true
	return first.answer, nil
}

func ofServer(alias string) string {
	if alias == "" {
		return "a server"
	}
	return "server " + alias
}

// play asks the plan about a whole round, once: before any of its requests is answered.
func (r *turnRun) play(round *wireRound) *harness.Error {
	if round.played {
		return nil
	}
	if b := r.another(round.server, round.asks[0].request); b != nil {
		return b
	}
	var err error
	if round.keyed {
		err = r.playKeyed(round)
	} else {
		err = r.playSteps(round)
	}
	if err != nil {
		return unexpected(err)
	}
	for _, a := range round.asks {
		if _, reason, message := encodeFitting(orElse(a.key, a.request.Key()), a.schema, a.answer); reason != "" {
			return &harness.Error{Blame: harness.BlameTest, Code: "elicitation_expectation_failed", Message: message, Details: map[string]any{"reason": reason}}
		}
	}
	round.played, round.number = true, r.rounds
	return nil
}

// unexpected is a round that the plan does not expect.
func unexpected(err error) *harness.Error {
	return &harness.Error{Blame: harness.BlameTest, Code: "elicitation_expectation_failed", Message: err.Error(), Err: err}
}

// another counts a round, unless the limit is reached.
func (r *turnRun) another(server string, q elicit.Request) *harness.Error {
	if r.rounds < r.prompt.limit {
		r.rounds++
		return nil
	}
	err := &elicit.RoundLimitError{Message: fmt.Sprintf("%d rounds of input were answered, and %s asked again", r.rounds, ofServer(server)), Details: map[string]any{"rounds": r.rounds, "operation": operationOf(q)}}
	return &harness.Error{Blame: harness.BlameTest, Code: err.Code(), Message: err.Error(), Err: err}
}

func operationOf(r elicit.Request) string {
	switch q := r.(type) {
	case *elicit.FormRequest:
		return q.OperationName
	case *elicit.URLRequest:
		return q.OperationName
	}
	return ""
}

// playKeyed answers a round of 2026-07-28.
func (r *turnRun) playKeyed(round *wireRound) error {
	if r.steps != nil {
		return errTwoEras
	}
	requests := make([]elicit.Request, len(round.asks))
	for i, a := range round.asks {
		requests[i] = a.request
	}
	r.keyed = true
	answers, err := r.prompt.matcher.Round(requests)
	if err != nil {
		return err
	}
	for _, a := range round.asks {
		a.answer = answers[a.request.Key()]
	}
	return nil
}

var errTwoEras = &elicit.ExpectationError{Message: "one plan cannot answer servers that ask with keys (2026-07-28) and servers that ask without: give each a message of its own"}

// playSteps answers requests that have no key.
func (r *turnRun) playSteps(round *wireRound) error {
	if r.keyed {
		return errTwoEras
	}
	at := r.steps
	if at == nil {
		at = newSteps(r.prompt.plan)
	}
	for _, a := range round.asks {
		key, answer, next, err := at.match(a.request)
		if err != nil {
			return err
		}
		a.key, a.answer, at = key, answer, next
	}
	r.steps = at
	return nil
}

// answerKeyed plays a prompt of an agent that names the request's key, where nothing was seen on the wire.
func (r *turnRun) answerKeyed(p *harness.Prompted) (elicit.Response, *harness.Error) {
	request, err := prompted(p)
	if err != nil {
		return elicit.Response{}, &harness.Error{Blame: harness.BlameServer, Code: "elicitation_malformed", Message: err.Error(), Err: err}
	}
	r.asks.mu.Lock()
	defer r.asks.mu.Unlock()
	if b := r.another(p.Server, request); b != nil {
		return elicit.Response{}, b
	}
	round := &wireRound{server: p.Server, keyed: true, asks: []*wireAsk{{request: request}}}
	if err := r.playKeyed(round); err != nil {
		return elicit.Response{}, unexpected(err)
	}
	return round.asks[0].answer, nil
}

// incomplete is what the plan still expects at the end of the turn.
func (r *turnRun) incomplete() error {
	if r.asks == nil {
		return nil
	}
	var err error
	if r.steps == nil {
		err = r.prompt.matcher.Complete()
	} else if left := r.steps.unused(); len(left) > 0 {
		err = &elicit.ExpectationError{Message: "the turn is over, and the plan expects more: " + strings.Join(left, ", ")}
	}
	if err == nil {
		return nil
	}
	b := &harness.Error{Blame: harness.BlameTest, Code: "elicitation_incomplete", Message: err.Error(), Err: err}
	if alone := r.asks.answeredAlone(); alone != "" {
		b.Blame = harness.BlameAgent
		b.Message += "; " + alone
	}
	return b
}

// prompted is a native prompt as a request of a server.
func prompted(p *harness.Prompted) (elicit.Request, error) {
	kind := trace.OperationKind("")
	if p.Operation != "" {
		kind = trace.OperationTool
	}
	var meta elicit.Meta
	if len(p.Meta) > 0 {
		if err := p.Meta.Decode(&meta); err != nil {
			return nil, fmt.Errorf("the request's _meta is no object: %w", err)
		}
	}
	if p.Mode == elicit.ModeURL {
		r := &elicit.URLRequest{RequestKey: p.Key, Message: p.Message, URL: p.URL, ElicitationID: p.ID, Meta: meta, Server: p.Server, OperationKind: kind, OperationName: p.Operation}
		return r, r.Validate()
	}
	r := &elicit.FormRequest{RequestKey: p.Key, Message: p.Message, Meta: meta, Server: p.Server, OperationKind: kind, OperationName: p.Operation}
	if len(p.Schema) > 0 {
		if err := p.Schema.Decode(&r.RequestedSchema); err != nil {
			return nil, fmt.Errorf("the requested schema is no object: %w", err)
		}
	}
	return r, r.Validate()
}
