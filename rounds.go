package m3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// answer answers one round of 2026-07-28: it gives the target what the next attempt sends. Everything that can be wrong is found before that, so that
// nothing is half sent.
func (a *asking) answer(ctx context.Context, t *mcp.Target, res *rpc.Response) error {
	if err := a.another(); err != nil {
		return err
	}
	round, err := a.readRound(res.Result)
	if err != nil {
		return err
	}
	if err := a.checkEntries(round, res); err != nil {
		return err
	}
	answers, err := a.match(round)
	if err != nil {
		return err
	}
	for _, e := range round.entries {
		if e.request != nil {
			continue
		}
		if answers[e.key], err = a.serve(ctx, e); err != nil {
			return err
		}
	}
	t.RequestState, t.InputResponses = round.state, nil
	if len(round.entries) > 0 {
		t.InputResponses = joinAnswers(round, answers)
	}
	return nil
}

// joinAnswers writes the responses in the order in which the server asked.
func joinAnswers(round *inputRound, answers map[string]trace.JSON) trace.JSON {
	b := []byte{'{'}
	for i, e := range round.entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(trace.AppendString(b, e.key), ':'), answers[e.key]...)
	}
	return append(b, '}')
}

// checkEntries refuses a round with a request that cannot be answered, whatever the plan says. Requests for what was not declared are
// findings.
func (a *asking) checkEntries(round *inputRound, res *rpc.Response) error {
	declared := mcp.Modes(a.c.opts.Elicitation) | a.modes()
	for _, e := range round.entries {
		what, offered := "", true
		switch {
		case e.bad != nil:
			return a.expectation("bad_request", fmt.Sprintf("what the server asks under the key %q is no request for input: %v", shortKey(e.key), e.bad), map[string]any{"request_key": e.key})
		case e.method == methodElicit:
			mode := mcp.ElicitForm
			if what = "elicitation (form)"; e.request.Mode() == elicit.ModeURL {
				mode, what = mcp.ElicitURL, "elicitation (url)"
			}
			offered = declared&mode != 0
		case e.method == methodSample:
			what, offered = "sampling", a.c.opts.samples()
		case e.method == methodRoots:
			what, offered = "roots", a.c.opts.offersRoots()
		default:
			return &UnsupportedError{Message: a.c.kit.redactor.String(fmt.Sprintf("%s: under the key %q the server asks for %q, which is no request for input that the protocol defines", a.operation, shortKey(e.key), shortKey(e.method))),
				Details: map[string]any{"operation": a.operation, "feature": "input_request", "request_key": e.key}}
		}
		if !offered {
			a.c.tape.Find(trace.Finding{Code: "undeclared-capability", Severity: trace.SeverityError, Sequence: res.Received, Offset: -1, RPCID: res.ID,
				Message: fmt.Sprintf("%s: the server asks for %s under the key %q, which the client did not declare", a.operation, what, shortKey(e.key)), Clause: "basic/patterns/multi-round-trip"})
		}
		if !offered && e.method != methodElicit {
			return &UnsupportedError{Message: fmt.Sprintf("%s: under the key %q the server asks for %s, which nothing answers: set DirectOptions.%s", a.operation, shortKey(e.key), what, strings.ToUpper(what[:1])+what[1:]),
				Details: map[string]any{"operation": a.operation, "feature": what, "request_key": e.key}}
		}
	}
	return nil
}

// match answers the elicitations of a round by the plan, and checks the answers against what the server asked for.
func (a *asking) match(round *inputRound) (map[string]trace.JSON, error) {
	var requests []elicit.Request
	for _, e := range round.entries {
		if e.request != nil {
			requests = append(requests, e.request)
		}
	}
	answers := make(map[string]trace.JSON, len(round.entries))
	if len(requests) == 0 {
		return answers, nil
	}
	if a.matcher == nil {
		return nil, a.unplanned(requests)
	}
	responses, err := a.matcher.Round(requests)
	if err != nil {
		return nil, a.explain(err)
	}
	for _, e := range round.entries {
		if e.request == nil {
			continue
		}
		if answers[e.key], err = a.encodeAnswer(e.key, e.schema, responses[e.key]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// unplanned is the error of a call without a plan whose server asks.
func (a *asking) unplanned(requests []elicit.Request) error {
	const most = 5
	var keys []string
	for i, r := range requests {
		if i == most {
			break
		}
		keys = append(keys, shortKey(r.Key()))
	}
	text := fmt.Sprintf("%q", keys)
	text = strings.ReplaceAll(text[1:len(text)-1], `" "`, `", "`)
	if n := len(requests) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return a.expectation("no_plan", "the server asks for input ("+text+"), and the call has no plan: set CallOptions.Elicitation, or AllowInputRequired to go on by hand",
		map[string]any{"request_key": keys[0]})
}

// encodeAnswer checks the answer to a form that is accepted against the schema that the server asked with, and encodes it.
func (a *asking) encodeAnswer(key string, schema trace.JSON, r elicit.Response) (trace.JSON, error) {
	b, reason, message := encodeFitting(key, schema, r)
	if reason != "" {
		return nil, a.expectation(reason, message, map[string]any{"request_key": key})
	}
	return b, nil
}

// encodeFitting encodes an answer. A reason, with a message, says why it cannot be given.
func encodeFitting(key string, schema trace.JSON, r elicit.Response) (b trace.JSON, reason, message string) {
	if schema != nil {
		compiled, err := compileSchema(schema)
		if err != nil {
			return nil, "bad_schema", fmt.Sprintf("the schema that the server asks %q with cannot be used: %s", shortKey(key), schemaReason(err))
		}
		if r.Action == elicit.ActionAccept {
			content, err := contentValue(r.Content)
			if err == nil {
				err = validate(compiled, content)
			}
			if err != nil {
				return nil, "content_mismatch", fmt.Sprintf("the plan's answer to %q does not fit the schema that the server asks with: %s", shortKey(key), mismatch(err))
			}
		}
	}
	b, err := r.Encode()
	if err != nil { // a plan that holds it is refused
		return nil, "content_mismatch", fmt.Sprintf("the plan's answer to %q: %v", shortKey(key), err)
	}
	return b, "", ""
}

// contentValue is a form's content as the validator reads it, with exact numbers.
func contentValue(c elicit.Content) (any, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

// errEnded says that the connection ended meanwhile. Sending tells why.
var errEnded = errors.New("the connection ended")

// serve answers a request for sampling or roots in a round. A handler that does not return is left behind when the time of the call is up.
func (a *asking) serve(ctx context.Context, e *inputEntry) (trace.JSON, error) {
	type answer struct {
		result any
		err    *rpc.ErrorObject
	}
	done := make(chan answer, 1)
	go func() {
		result, err, _ := a.c.serveRequest(ctx, e.method, e.params)
		done <- answer{result, err}
	}()
	details := map[string]any{"operation": a.operation, "request_key": e.key, "feature": e.method}
	select {
	case got := <-done:
		if got.err != nil {
			if err := a.c.script.exceeded(a.operation); err != nil && e.method == methodSample {
				return nil, err
			}
			return nil, &UnsupportedError{Message: fmt.Sprintf("%s: %s, which the server asks for under the key %q, was declined: %s", a.operation, e.method, shortKey(e.key), got.err.Message), Details: details}
		}
		b, err := mcp.Encode(got.result)
		if err != nil {
			return nil, &UnsupportedError{Message: fmt.Sprintf("%s: the answer to %s under the key %q is no JSON: %v", a.operation, e.method, shortKey(e.key), err), Details: details}
		}
		return b, nil
	case <-a.c.session.Done():
		if err := a.c.usable(a.operation); err != nil {
			return nil, err
		}
		return nil, &TransportError{Message: a.operation + ": the connection ended while " + e.method + " was being answered", Details: map[string]any{"operation": a.operation, "phase": "call"}, Err: errEnded}
	case <-ctx.Done():
		return nil, a.waited(ctx, fmt.Sprintf("the handler of %s had not answered %q", e.method, shortKey(e.key)))
	}
}

// waited is the error of a call whose time was up, or that was cancelled, while m3 waited for something else than the server's answer.
func (a *asking) waited(ctx context.Context, what string) error {
	details := map[string]any{"operation": a.operation, "phase": "call"}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if context.Cause(ctx) == errOperationDeadline {
			details["timeout_seconds"] = a.timeout().Seconds()
			what += " within " + a.timeout().String()
		}
		return &TimeoutError{Message: a.operation + ": " + what, Details: details, Err: ctx.Err()}
	}
	return &CancelledError{Message: a.operation + ": cancelled by the caller while " + what, Details: details, Err: context.Cause(ctx)}
}
