package elicit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// asks makes a round of form requests.
func asks(keys ...string) []elicit.Request {
	var round []elicit.Request
	for _, key := range keys {
		round = append(round, &elicit.FormRequest{RequestKey: key, RequestedSchema: map[string]any{"type": "object"}})
	}
	return round
}

func matcher(t *testing.T, plan *elicit.Plan) *elicit.Matcher {
	t.Helper()
	m, err := elicit.NewMatcher(plan)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// expectation checks an *ExpectationError's reason and that its text holds no value.
func expectation(t *testing.T, err error, reason string) *elicit.ExpectationError {
	t.Helper()
	var e *elicit.ExpectationError
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want an *ExpectationError for %s", err, err, reason)
	}
	if e.Details["reason"] != reason || strings.Contains(fmt.Sprint(e.Error(), e.Details), "value") {
		t.Fatalf("error %v, details %v, want an *ExpectationError for %s without any value", err, e.Details, reason)
	}
	return e
}

// TestMatcher follows calls through plans, by the rules of spec/behaviour.md 4.4.
func TestMatcher(t *testing.T) {
	t.Parallel()
	a, b, c := form("a", elicit.Content{"v": "value a"}), form("b", elicit.Content{"v": "value b"}), form("c", elicit.Content{"v": "value c"})
	a2 := form("a", elicit.Content{"v": "value 2"})
	for _, tc := range []struct {
		name   string
		plan   *elicit.Plan
		rounds [][]elicit.Request
		end    string // reason of the last round's failure, or of Complete's; empty: complete
		text   string // part of its message
	}{
		{"a leaf", a, [][]elicit.Request{asks("a")}, "", ""},
		{"a leaf unused", a, nil, "incomplete", `the operation is complete after 0 rounds, and the plan still expects form "a"`},
		{"a leaf twice", a, [][]elicit.Request{asks("a"), asks("a")}, "no_match", `round 2 asks for form "a"; the plan expects nothing more`},
		{"another key", a, [][]elicit.Request{asks("b")}, "no_match", `round 1 asks for form "b"; the plan expects form "a" (request_key differs)`},
		{"another mode", elicit.URL("a").Accept(), [][]elicit.Request{asks("a")}, "no_match", `(mode differs)`},
		{"several differ", elicit.URL("b", elicit.Message("value")).Accept(), [][]elicit.Request{asks("a")}, "no_match", `(request_key, mode, message differ)`},
		{"a leaf in a round of two", a, [][]elicit.Request{asks("a", "b")}, "no_match", `round 1 asks for form "a", form "b"; the plan expects form "a" (a round of one request)`},
		{"one_of in a round of two", elicit.OneOf(a, b), [][]elicit.Request{asks("a", "b")}, "no_match", `one_of[0] form "a" (a round of one request), or one_of[1] form "b"`},
		{"sequence in a round of two", elicit.Sequence(a, b), [][]elicit.Request{asks("a", "b")}, "no_match", ""},
		{"a round in any order", elicit.Round(a, b), [][]elicit.Request{asks("b", "a")}, "", ""},
		{"a round of one", elicit.Round(a, b), [][]elicit.Request{asks("a")}, "no_match", `round_of (a round of 2 requests)`},
		{"a round of more", elicit.Round(a, b), [][]elicit.Request{asks("a", "b", "c")}, "no_match", `a round of 2 requests`},
		{"a round of others", elicit.Round(a, b), [][]elicit.Request{asks("a", "c")}, "no_match", `("b" is not asked for)`},
		{"a round that differs", elicit.Round(a, elicit.URL("b").Accept()), [][]elicit.Request{asks("a", "b")}, "no_match", `("b": mode differs)`},
		{"a round in two rounds", elicit.Round(a, b), [][]elicit.Request{asks("a")}, "no_match", ""},
		{"sequence", elicit.Sequence(a, b, c), [][]elicit.Request{asks("a"), asks("b"), asks("c")}, "", ""},
		{"sequence out of order", elicit.Sequence(a, b), [][]elicit.Request{asks("b")}, "no_match", `sequence[0] form "a"`},
		{"sequence cut short", elicit.Sequence(a, b, c), [][]elicit.Request{asks("a")}, "incomplete", `after 1 round, and the plan still expects sequence[1] form "b"`},
		{"a key twice", elicit.Sequence(a, a2), [][]elicit.Request{asks("a"), asks("a")}, "", ""},
		{"optional used", elicit.Sequence(elicit.Optional(a), b), [][]elicit.Request{asks("a"), asks("b")}, "", ""},
		{"optional skipped", elicit.Sequence(elicit.Optional(a), b), [][]elicit.Request{asks("b")}, "", ""},
		{"optional too late", elicit.Sequence(elicit.Optional(a), b), [][]elicit.Request{asks("b"), asks("a")}, "no_match", "nothing more"},
		{"optional unused", elicit.Optional(a), nil, "", ""},
		{"optional twice", elicit.Optional(a), [][]elicit.Request{asks("a"), asks("a")}, "no_match", ""},
		{"optional and another", elicit.Optional(a), [][]elicit.Request{asks("b")}, "no_match", `form "a" (request_key differs), or nothing more`},
		{"maybe used", elicit.Sequence(elicit.MaybeForm("a").Decline(), b), [][]elicit.Request{asks("a"), asks("b")}, "", ""},
		{"maybe skipped", elicit.Sequence(elicit.MaybeForm("a").Decline(), elicit.MaybeURL("u").Accept(), b), [][]elicit.Request{asks("b")}, "", ""},
		{"all optional, unused", elicit.Sequence(elicit.MaybeForm("a").Decline(), elicit.Optional(b)), nil, "", ""},
		{"optional sequence begun", elicit.Sequence(elicit.Optional(elicit.Sequence(a, b)), c), [][]elicit.Request{asks("a"), asks("c")}, "no_match", `sequence[0].optional[0].sequence[1] form "b"`},
		{"optional sequence unfinished", elicit.Optional(elicit.Sequence(a, b)), [][]elicit.Request{asks("a")}, "incomplete", `optional[0].sequence[1] form "b"`},
		{"what is required is named", elicit.Sequence(elicit.Optional(a), b), nil, "incomplete", `still expects sequence[1] form "b"`},
		{"one branch", elicit.OneOf(a, b), [][]elicit.Request{asks("b")}, "", ""},
		{"both branches", elicit.OneOf(a, b), [][]elicit.Request{asks("a"), asks("b")}, "no_match", ""},
		{"no branch", elicit.OneOf(a, b), nil, "incomplete", `one_of[0] form "a", or one_of[1] form "b"`},
		{"longer branches", elicit.OneOf(elicit.Sequence(a, b), elicit.Sequence(a, c)), [][]elicit.Request{asks("a"), asks("c")}, "", ""},
		{"optional alternatives", elicit.Sequence(elicit.Optional(elicit.OneOf(a, b)), c), [][]elicit.Request{asks("c")}, "", ""},
		{"ambiguous branches", elicit.OneOf(elicit.Sequence(a, b), elicit.Sequence(a2, c)), [][]elicit.Request{asks("a")}, "ambiguous",
			`round 1 asks for form "a", and the plan has different answers: one_of[0].sequence[0] form "a", one_of[1].sequence[0] form "a"; nothing was answered`},
		{"ambiguous optionals", elicit.Sequence(elicit.Optional(a), a2), [][]elicit.Request{asks("a")}, "ambiguous", `sequence[0].optional[0] form "a", sequence[1] form "a"`},
		{"ambiguous actions", elicit.Sequence(elicit.MaybeForm("a").Decline(), elicit.Form("a").Cancel()), [][]elicit.Request{asks("a")}, "ambiguous", ""},
		{"ambiguous metadata", elicit.Sequence(elicit.MaybeForm("a").Decline(), elicit.Form("a").Decline(elicit.Meta{})), [][]elicit.Request{asks("a")}, "ambiguous", ""},
		{"ambiguous rounds", elicit.OneOf(elicit.Round(a, b), elicit.Round(b, a2)), [][]elicit.Request{asks("a", "b")}, "ambiguous", `one_of[0] round_of, one_of[1] round_of`},
		{"told apart by what they name", elicit.OneOf(elicit.Form("a", elicit.Message("")).Decline(), elicit.Form("a", elicit.Message("x")).Cancel()), [][]elicit.Request{asks("a")}, "", ""},
		{"equal optionals, once", elicit.Sequence(elicit.Optional(a), elicit.Optional(form("a", elicit.Content{"v": "value a"}))), [][]elicit.Request{asks("a")}, "", ""},
		{"equal optionals, twice", elicit.Sequence(elicit.Optional(a), elicit.Optional(a)), [][]elicit.Request{asks("a"), asks("a")}, "", ""},
		{"equal optionals, thrice", elicit.Sequence(elicit.Optional(a), elicit.Optional(a)), [][]elicit.Request{asks("a"), asks("a"), asks("a")}, "no_match", ""},
		{"equal by value", elicit.Sequence(elicit.MaybeForm("a").Accept(elicit.Content{"n": 1}), form("a", elicit.Content{"n": json.Number("1.0")})), [][]elicit.Request{asks("a")}, "", ""},
		{"equal answers, either goes on", elicit.OneOf(elicit.Sequence(a, b), elicit.Sequence(a, elicit.Optional(b), c)), [][]elicit.Request{asks("a"), asks("b"), asks("c")}, "", ""},
		{"no requests", elicit.Optional(a), [][]elicit.Request{{}}, "empty_round", ""},
		{"a key twice in a round", elicit.Optional(a), [][]elicit.Request{asks("a", "a")}, "duplicate_key", `the key "a" is there twice`},
		{"a nil request", a, [][]elicit.Request{{nil}}, "bad_request", ""},
		{"a nil form", a, [][]elicit.Request{{(*elicit.FormRequest)(nil)}}, "bad_request", ""},
		{"a request without schema", a, [][]elicit.Request{{&elicit.FormRequest{RequestKey: "a"}}}, "bad_request", `request "a": the requested schema is missing`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := matcher(t, tc.plan)
			inRound := slices.Contains([]string{"no_match", "ambiguous", "empty_round", "duplicate_key", "bad_request"}, tc.end)
			var err error
			for i, round := range tc.rounds {
				var answers map[string]elicit.Response
				answers, err = m.Round(round)
				last := inRound && i == len(tc.rounds)-1
				if (err != nil) != last || last && answers != nil || !last && len(answers) != len(round) {
					t.Fatalf("round %d: %v, %v", i+1, answers, err)
				}
			}
			if !inRound {
				err = m.Complete()
			}
			if tc.end == "" {
				if err != nil {
					t.Errorf("%v", err)
				}
				return
			}
			e := expectation(t, err, tc.end)
			if !strings.Contains(e.Message, tc.text) {
				t.Errorf("%q, want %q", e.Message, tc.text)
			}
			_, again := m.Round(asks("a"))
			if !errors.Is(again, err) || !errors.Is(m.Complete(), err) {
				t.Errorf("after the failure: %v, %v", again, m.Complete())
			}
		})
	}
}

// TestFields: each thing that a leaf names is compared, and nothing else.
func TestFields(t *testing.T) {
	t.Parallel()
	formRequest := func(change func(*elicit.FormRequest)) elicit.Request {
		r := &elicit.FormRequest{RequestKey: "k", Message: "Where?", RequestedSchema: map[string]any{"a": []any{json.Number("1"), "x"}, "b": map[string]any{"c": json.Number("2"), "d": true}},
			Server: "shipping", OperationKind: trace.OperationTool, OperationName: "book"}
		if change != nil {
			change(r)
		}
		return r
	}
	urlRequest := func(change func(*elicit.URLRequest)) elicit.Request {
		r := &elicit.URLRequest{RequestKey: "k", Message: "Pay", URL: "https://example.test/1", ElicitationID: "e1", Server: "shipping", OperationKind: trace.OperationPrompt, OperationName: "checkout"}
		if change != nil {
			change(r)
		}
		return r
	}
	type f = func(*elicit.FormRequest)
	type u = func(*elicit.URLRequest)
	formPlan := elicit.Form("k", elicit.Message("Where?"), elicit.Schema(json.RawMessage(`{"b":{"d":true,"c":2.0},"a":[1,"x"]}`)), elicit.Server("shipping"),
		elicit.OperationKind("tool"), elicit.OperationName("book")).Decline()
	urlPlan := elicit.URL("k", elicit.Message("Pay"), elicit.Address("https://example.test/1"), elicit.ElicitationID("e1"), elicit.Server("shipping"),
		elicit.OperationKind("prompt"), elicit.OperationName("checkout")).Decline()
	for _, tc := range []struct {
		name    string
		plan    *elicit.Plan
		request elicit.Request
		differs string
	}{
		{"form", formPlan, formRequest(nil), ""},
		{"form meta and task", formPlan, formRequest(func(r *elicit.FormRequest) { r.Meta, r.Task = elicit.Meta{"m": 1}, map[string]any{"t": 1} }), ""},
		{"form key", formPlan, formRequest(func(r *elicit.FormRequest) { r.RequestKey = "K" }), "request_key"},
		{"form message", formPlan, formRequest(func(r *elicit.FormRequest) { r.Message = "where?" }), "message"},
		{"form server", formPlan, formRequest(func(r *elicit.FormRequest) { r.Server = "" }), "server"},
		{"form kind", formPlan, formRequest(func(r *elicit.FormRequest) { r.OperationKind = "" }), "operation_kind"},
		{"form name", formPlan, formRequest(func(r *elicit.FormRequest) { r.OperationName = "books" }), "operation_name"},
		{"schema, decoded otherwise", formPlan, formRequest(func(r *elicit.FormRequest) {
			r.RequestedSchema = map[string]any{"a": []any{1.0, "x"}, "b": map[string]any{"c": 2, "d": true}}
		}), ""},
		{"schema, an array's order", formPlan, formRequest(func(r *elicit.FormRequest) { r.RequestedSchema["a"] = []any{"x", 1} }), "requested_schema"},
		{"schema, a type", formPlan, formRequest(func(r *elicit.FormRequest) { r.RequestedSchema["a"] = []any{true, "x"} }), "requested_schema"},
		{"schema, one member more", formPlan, formRequest(func(r *elicit.FormRequest) { r.RequestedSchema["e"] = nil }), "requested_schema"},
		{"url", urlPlan, urlRequest(nil), ""},
		{"url meta and task", urlPlan, urlRequest(func(r *elicit.URLRequest) { r.Meta, r.Task = elicit.Meta{"m": 1}, map[string]any{"t": 1} }), ""},
		{"url address", urlPlan, urlRequest(func(r *elicit.URLRequest) { r.URL += "/" }), "url"},
		{"url id", urlPlan, urlRequest(func(r *elicit.URLRequest) { r.ElicitationID = "" }), "elicitation_id"},
		{"url message", urlPlan, urlRequest(func(r *elicit.URLRequest) { r.Message = "" }), "message"},
		{"url server", urlPlan, urlRequest(func(r *elicit.URLRequest) { r.Server = "other" }), "server"},
		{"a url for a form", elicit.Form("k").Decline(), urlRequest(nil), "mode"},
		{"a form that names nothing", elicit.Form("k").Decline(), formRequest(f(nil)), ""},
		{"a url that names nothing", elicit.URL("k").Decline(), urlRequest(u(nil)), ""},
		{"meta and task of the plan", mustParse(t, `{"node":"leaf","request":{"mode":"form","request_key":"k","meta":{"x":1},"task":{"y":2}},"response":{"action":"cancel"}}`), formRequest(nil), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answers, err := matcher(t, tc.plan).Round([]elicit.Request{tc.request})
			if tc.differs == "" {
				if err != nil || len(answers) != 1 {
					t.Fatalf("%v, %v", answers, err)
				}
				return
			}
			if e := expectation(t, err, "no_match"); !strings.Contains(e.Message, "("+tc.differs+" differs)") {
				t.Errorf("%v, want that %s differs", e, tc.differs)
			}
		})
	}
}

func mustParse(t *testing.T, text string) *elicit.Plan {
	t.Helper()
	p, err := elicit.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAnswers: responses stand under the observed keys, each with its own content and metadata.
func TestAnswers(t *testing.T) {
	t.Parallel()
	m := matcher(t, elicit.Round(elicit.Form("address").Accept(elicit.Content{"city": "Pune", "n": json.Number("1.0")}, elicit.Meta{"a": true}), elicit.Form("contact").Decline()))
	answers, err := m.Round(asks("contact", "address"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elicit.Response{"address": {Action: elicit.ActionAccept, Content: elicit.Content{"city": "Pune", "n": json.Number("1.0")}, Meta: elicit.Meta{"a": true}}, "contact": elicit.Decline()}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := m.Complete(); err != nil {
		t.Error(err)
	}
	if err := m.Complete(); err != nil {
		t.Errorf("Complete once more: %v", err)
	}
	_, err = m.Round(asks("address"))
	expectation(t, err, "finished")
}

// TestNoMatcher: a matcher that nobody made refuses.
func TestNoMatcher(t *testing.T) {
	t.Parallel()
	for _, m := range []*elicit.Matcher{nil, {}} {
		_, err := m.Round(asks("a"))
		expectation(t, err, "finished")
		expectation(t, m.Complete(), "finished")
	}
}

// TestDetails: the details name what the message names, in bounded number.
func TestDetails(t *testing.T) {
	t.Parallel()
	var branches []*elicit.Plan
	for i := range 100 {
		branches = append(branches, elicit.Sequence(form("a", elicit.Content{"v": fmt.Sprint("value", i)}), form("b")))
	}
	_, err := matcher(t, elicit.OneOf(branches...)).Round(asks("a"))
	e := expectation(t, err, "ambiguous")
	paths, _ := e.Details["branches"].([]string)
	if len(paths) != 8 || paths[7] != `one_of[7].sequence[0] form "a"` || !strings.Contains(e.Message, "and 92 more") || e.Details["round"] != 1 || e.Details["request_key"] != "a" {
		t.Errorf("%v, %v", e, e.Details)
	}
	var keys []string
	for i := range 10_000 {
		keys = append(keys, fmt.Sprint("key", i))
	}
	_, err = matcher(t, form("a")).Round(asks(keys...))
	e = expectation(t, err, "no_match")
	if got, _ := e.Details["request_keys"].([]string); len(got) != 8 || len(e.Message) > 1000 || !strings.Contains(e.Message, "and 9992 more") {
		t.Errorf("%v, %v", e, e.Details)
	}
}

// TestOnePlanManyCalls: one plan serves 64 calls at once, whose rounds interleave, and no call sees another's progress.
func TestOnePlanManyCalls(t *testing.T) {
	t.Parallel()
	plan := everything()
	want, err := plan.CanonicalJSON()
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"minimum": 1.5}}}
	const calls = 64
	rounds := [][]elicit.Request{
		{&elicit.FormRequest{RequestKey: "address", Message: "Where?", RequestedSchema: schema, Server: "shipping", OperationKind: trace.OperationPrompt, OperationName: "book"}},
		asks("x"),
		{&elicit.URLRequest{RequestKey: "r2"}, &elicit.FormRequest{RequestKey: "r1", RequestedSchema: schema}},
		asks("n"),
	}
	// Nobody begins a round before everybody has ended the one before, so that all rounds interleave.
	barriers := make([]sync.WaitGroup, len(rounds))
	for i := range barriers {
		barriers[i].Add(calls)
	}
	var all sync.WaitGroup
	for call := range calls {
		all.Go(func() {
			m, err := elicit.NewMatcher(plan)
			if err != nil {
				t.Error(err)
			}
			skip := call%4 == 1 // these do not ask for the optional one
			for i, round := range rounds {
				if i == 1 && skip {
					barriers[i].Done()
					continue
				}
				answers, err := m.Round(round)
				if err != nil || len(answers) != len(round) {
					t.Errorf("call %d, round %d: %v, %v", call, i, answers, err)
				}
				for _, r := range answers { // what is returned is the call's own
					if r.Content != nil {
						r.Content["spoilt"] = call
					}
				}
				barriers[i].Done()
				barriers[i].Wait()
			}
			if err := m.Complete(); err != nil {
				t.Errorf("call %d: %v", call, err)
			}
			if got, err := plan.CanonicalJSON(); err != nil || got != want {
				t.Errorf("call %d: the plan changed: %v", call, err)
			}
		})
	}
	all.Wait()
}
