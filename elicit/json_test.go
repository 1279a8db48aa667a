package elicit_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// everything is a plan with every node, option and answer.
func everything() *elicit.Plan {
	return elicit.Sequence(
		elicit.Form("address", elicit.Message("Where?"), elicit.Schema(json.RawMessage(`{"type":"object","properties":{"n":{"minimum":1.50}}}`)), elicit.Server("shipping"),
			elicit.OperationKind(trace.OperationPrompt), elicit.OperationName("book")).Accept(elicit.Content{"city": "Pune", "n": json.Number("1.50"), "none": nil, "list": []any{true, "x"}}, elicit.Meta{"a": 1}),
		elicit.Optional(elicit.OneOf(form("x"), elicit.URL("u", elicit.Address("https://example.test/?a=1&b=<2>"), elicit.ElicitationID("e")).Accept())),
		elicit.Round(elicit.Form("r1").Decline(elicit.Meta{}), elicit.URL("r2").Cancel()),
		elicit.MaybeURL("m").Accept(), elicit.MaybeForm("n", elicit.Message("")).Accept(elicit.Content{}),
	)
}

// TestPlanJSON: a plan survives JSON, numbers included, as a value, inside others, and over again.
func TestPlanJSON(t *testing.T) {
	t.Parallel()
	plan := everything()
	text, err := json.Marshal(map[string]any{"plan": plan})
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Plan *elicit.Plan }
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(map[string]any{"plan": back.Plan})
	if err != nil || string(again) != string(text) {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}
	want, _ := plan.CanonicalJSON()
	if got, err := back.Plan.CanonicalJSON(); err != nil || got != want {
		t.Errorf("canonical: %v\n%s\n%s", err, got, want)
	}
	fromCanonical, err := elicit.Parse([]byte(want))
	if err != nil {
		t.Fatalf("the canonical form is no plan: %v", err)
	}
	if got, err := fromCanonical.CanonicalIdentity(); err != nil || got != want {
		t.Errorf("from the canonical form: %v\n%s\n%s", err, got, want)
	}
	if diff := cmp.Diff(plan.Children()[0].Response(), back.Plan.Children()[0].Response()); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plan.Children()[0].Request(), back.Plan.Children()[0].Request()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal(text, &back); err == nil || errors.Is(back.Plan.Err(), trace.ErrValidation) {
		t.Errorf("decoding into a plan that is there: %v, and the plan has %v", err, back.Plan.Err())
	}
}

// TestSparseJSON: null and absence are one, and what an expectation only keeps comes back.
func TestSparseJSON(t *testing.T) {
	t.Parallel()
	plan, err := elicit.Parse([]byte(` {"node":"leaf","children":[],"optional_occurrence":false,"response":{"action":"decline","content":null,"_meta":null},
		"request":{"mode":"url","request_key":"u","message":null,"url":null,"elicitation_id":null,"server":null,"operation_kind":null,"operation_name":null,"meta":{"k":1},"task":{"id":"t"}}} `))
	if err != nil {
		t.Fatal(err)
	}
	want := &elicit.URLExpectation{RequestKey: "u", Meta: elicit.Meta{"k": json.Number("1")}, Task: map[string]any{"id": "t"}}
	if diff := cmp.Diff(elicit.Expectation(want), plan.Request()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(plan)
	if want := `{"node":"leaf","request":{"meta":{"k":1},"mode":"url","request_key":"u","task":{"id":"t"}},"response":{"action":"decline"}}`; err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
}

// TestHostilePlanJSON: whatever a text is, the answer is a plan or one *PlanError at its place.
func TestHostilePlanJSON(t *testing.T) {
	t.Parallel()
	leaf := `{"node":"leaf","request":{"mode":"form","request_key":"a"},"response":{"action":"accept","content":{}}}`
	with := func(old, new string) string {
		out := strings.Replace(leaf, old, new, 1)
		if out == leaf {
			t.Fatalf("no %s", old)
		}
		return out
	}
	nest := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	optional := func(n int) string { return nest(n, `{"node":"optional","children":[`, leaf, `]}`) }
	if _, err := elicit.Parse([]byte(optional(elicit.MaxPlanDepth - 1))); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	deepContent := with(`"content":{}`, `"content":{"x":`+nest(elicit.MaxDepth-1, "[", "1", "]")+`}`)
	if p, err := elicit.Parse([]byte(deepContent)); err != nil {
		t.Errorf("content as deep as may be: %v", err)
	} else if text, err := json.Marshal(p); err != nil || !strings.Contains(string(text), "[1]") {
		t.Errorf("and it cannot be written: %v", err)
	}
	for _, tc := range []struct{ name, text, path, reason string }{
		{"nothing", ``, "plan", "bad_json"},
		{"null", `null`, "plan", "wrong_type"},
		{"a list", `[]`, "plan", "wrong_type"},
		{"no JSON", `{"node":`, "plan", "bad_json"},
		{"a comma too many", `{"node":"leaf",}`, "plan", "bad_json"},
		{"two values", leaf + leaf, "plan", "bad_json"},
		{"something after it", leaf + "x", "plan", "bad_json"},
		{"no text", "\"\xff\"", "plan", "bad_json"},
		{"a member twice", `{"node":"leaf","node":"leaf"}`, "plan", "bad_json"},
		{"a member twice, below", with(`"content":{}`, `"content":{"a":{"b":1,"\u0062":2}}`), "plan", "bad_json"},
		{"deeper than any plan", optional(100_000), "plan", "bad_json"},
		{"deeper than plans may be", optional(elicit.MaxPlanDepth), "optional", "too_deep"},
		{"content deeper than may be", with(`"content":{}`, `"content":{"x":`+nest(elicit.MaxDepth, "[", "1", "]")+`}`), `form "a"`, "bad_content"},
		{"empty object", `{}`, "plan", "missing"},
		{"unknown node", `{"node":"leaves"}`, "plan", "bad_node"},
		{"node is no string", `{"node":1}`, "plan", "wrong_type"},
		{"unknown member", with(`"node"`, `"nodes":1,"node"`), "plan", "unknown_member"},
		{"member of another case", with(`"node"`, `"Node":1,"node"`), "plan", "unknown_member"},
		{"leaf without request", `{"node":"leaf"}`, "leaf", "missing"},
		{"leaf with children", with(`"node"`, `"children":[`+leaf+`],"node"`), "leaf", "unwanted_children"},
		{"leaf without response", `{"node":"leaf","request":{"mode":"form","request_key":"a"}}`, `form "a"`, "incomplete"},
		{"optional is no boolean", with(`"node"`, `"optional_occurrence":1,"node"`), "plan", "wrong_type"},
		{"request is no object", `{"node":"leaf","request":[]}`, "plan", "wrong_type"},
		{"unknown member of the request", with(`"mode"`, `"modes":1,"mode"`), `form "a"`, "unknown_member"},
		{"url of a form", with(`"mode"`, `"url":"x","mode"`), `form "a"`, "unknown_member"},
		{"schema of a url", with(`"mode":"form"`, `"mode":"url","requested_schema":{}`), `url "a"`, "unknown_member"},
		{"schema is no object", with(`"mode"`, `"requested_schema":true,"mode"`), `form "a"`, "wrong_type"},
		{"no mode", with(`"mode":"form",`, ``), ` "a"`, "missing"},
		{"unknown mode", with(`"form"`, `"forms"`), `forms "a"`, "bad_mode"},
		{"no key", with(`"mode":"form","request_key":"a"`, `"mode":"form"`), `form ""`, "missing"},
		{"empty key", with(`"a"`, `""`), `form ""`, "empty_key"},
		{"empty server", with(`"mode"`, `"server":"","mode"`), `form "a"`, "empty_option"},
		{"unknown operation", with(`"mode"`, `"operation_kind":"x","mode"`), `form "a"`, "bad_operation_kind"},
		{"unknown action", with(`"accept"`, `"accepted"`), `form "a"`, "bad_action"},
		{"no action", with(`"action":"accept",`, ``), `form "a"`, "missing"},
		{"unknown member of the response", with(`"action"`, `"meta":{},"action"`), `form "a"`, "unknown_member"},
		{"content with decline", with(`"accept"`, `"decline"`), `form "a"`, "unwanted_content"},
		{"form accepted without content", with(`,"content":{}`, ``), `form "a"`, "missing_content"},
		{"url accepted with content", with(`"form"`, `"url"`), `url "a"`, "unwanted_content"},
		{"a number beyond all", with(`{}`, `{"x":1e999999999999999999}`), "plan", "bad_json"},
		{"composite with a response", `{"node":"optional","children":[` + leaf + `],"response":{"action":"cancel"}}`, "optional", "not_a_leaf"},
		{"optional composite", `{"node":"sequence","children":[` + leaf + `,` + leaf + `],"optional_occurrence":true}`, "sequence", "not_a_leaf"},
		{"composite without children", `{"node":"sequence"}`, "sequence", "too_few"},
		{"optional without children", `{"node":"optional","children":[]}`, "optional", "too_few"},
		{"optional with two", `{"node":"optional","children":[` + leaf + `,` + leaf + `]}`, "optional", "too_few"},
		{"children are no list", `{"node":"sequence","children":{}}`, "plan", "wrong_type"},
		{"a child is no object", `{"node":"sequence","children":[` + leaf + `,null]}`, "sequence[1] plan", "wrong_type"},
		{"a child's mistake", `{"node":"sequence","children":[` + leaf + `,{"node":"optional","children":[` + with(`"a"`, `""`) + `]}]}`, `sequence[1].optional[0] form ""`, "empty_key"},
		{"equal branches", `{"node":"one_of","children":[` + leaf + `,` + leaf + `]}`, `one_of[1] form "a"`, "equal_branches"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := elicit.Parse([]byte(tc.text))
			e := planError(t, err)
			if plan != nil || e.Path != tc.path || e.Details["reason"] != tc.reason {
				t.Errorf("path %q, reason %v, want %q, %s: %v", e.Path, e.Details["reason"], tc.path, tc.reason, e)
			}
			var p elicit.Plan
			if direct := planError(t, p.UnmarshalJSON([]byte(tc.text))); direct.Error() != e.Error() {
				t.Errorf("UnmarshalJSON says %v, Parse %v", direct, e)
			}
			if p.Err() == nil || p.IsComplete() {
				t.Error("a failed decoding left a plan")
			}
			if err := json.Unmarshal([]byte(tc.text), &p); err == nil {
				t.Error("encoding/json took it")
			} else if json.Valid([]byte(tc.text)) {
				planError(t, err)
			}
		})
	}
	planError(t, (*elicit.Plan)(nil).UnmarshalJSON([]byte(leaf)))
}

// TestNumbers holds the canonical number against exact arithmetic.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ want, in string }{
		{"0", "0 -0 0.0 -0.000 0e5 0E-400 -0e99999999999999999"},
		{"1", "1 1.0 1.000 10e-1 0.1e1 0.001E+3 1000e-3"},
		{"-1", "-1 -1.0 -10e-1"},
		{"1.5", "1.5 1.50 15e-1 0.015e2"},
		{"100", "100 1e2 1.0e+2 100.000"},
		{"0.001", "0.001 1e-3 0.1e-2 100e-5"},
		{"123456789012345678901234567890", "123456789012345678901234567890 123456789012345678901234567890.0"},
		{"9007199254740993", "9007199254740993 9007199254740993.0 9.007199254740993e15"},
		{"100000000000000000000", "100000000000000000000 1e20"},
		{"1e21", "1e21 1000000000000000000000 0.1e22"},
		{"1e400", "1e400 10e399 0.001e403"},
		{"0.00000000000000000001", "1e-20 0.00000000000000000001"},
		{"1e-21", "1e-21 0.1e-20 0.000000000000000000001"},
		{"-15e99999999999999998", "-1.5e99999999999999999 -15e99999999999999998"},
		{"12e-99999999999999999", "12e-99999999999999999 1.2e-99999999999999998"},
		{"0.12345678901234567890123", "0.12345678901234567890123 0.123456789012345678901230"},
	} {
		for _, in := range strings.Fields(tc.in) {
			if err := elicit.CheckNumber(in); err != nil {
				t.Errorf("%s: %v", in, err)
			}
			if got := elicit.CanonicalNumber(in); got != tc.want {
				t.Errorf("%s is %s, want %s", in, got, tc.want)
			}
		}
		if again := elicit.CanonicalNumber(tc.want); again != tc.want {
			t.Errorf("%s is canonical and becomes %s", tc.want, again)
		}
	}
	for _, in := range []string{"", "+1", "01", "1.", ".5", "1e", "- 1", "1 ", " 1", "NaN", "Infinity", "0x1", "null", "1e1000000000000000000", "1_0", "1,2"} {
		if elicit.CheckNumber(in) == nil {
			t.Errorf("%q is a number", in)
		}
	}
}

// sameNumber reports whether two numbers with small exponents have the same value.
func sameNumber(t *testing.T, a, b string) bool {
	t.Helper()
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		t.Fatalf("%s, %s", a, b)
	}
	return x.Cmp(y) == 0
}

// TestResponses: the values that are built by hand.
func TestResponses(t *testing.T) {
	t.Parallel()
	content := elicit.Content{"a": []any{1}}
	byHand := elicit.Accept(content, elicit.Meta{"m": 1})
	content["a"].([]any)[0] = "spoilt"
	for _, tc := range []struct {
		response elicit.Response
		wire     string
	}{
		{byHand, `{"_meta":{"m":1},"action":"accept","content":{"a":[1]}}`},
		{elicit.Accept(nil), `{"action":"accept"}`},
		{elicit.Accept(elicit.Content{}, elicit.Meta{}), `{"_meta":{},"action":"accept","content":{}}`},
		{elicit.Decline(), `{"action":"decline"}`},
		{elicit.Cancel(nil, elicit.Meta{"a": "x"}, elicit.Meta{"b": "<"}), `{"_meta":{"a":"x","b":"<"},"action":"cancel"}`},
	} {
		wire, err := tc.response.Encode()
		if err != nil || string(wire) != tc.wire {
			t.Errorf("%v\n got %s\nwant %s", err, wire, tc.wire)
		}
		var back elicit.Response
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(back)
		if err != nil || !jsonEqual(t, plain, wire) {
			t.Errorf("%v: %s, want %s", err, plain, wire)
		}
	}
	for _, tc := range []struct {
		name string
		r    elicit.Response
	}{
		{"zero", elicit.Response{}}, {"action", elicit.Response{Action: "yes"}}, {"content", elicit.Response{Action: "decline", Content: elicit.Content{}}},
		{"no JSON", elicit.Response{Action: "accept", Content: elicit.Content{"f": func() {}}}}, {"no JSON meta", elicit.Response{Action: "accept", Meta: elicit.Meta{"f": make(chan int)}}},
	} {
		_, err := tc.r.Encode()
		for _, err := range []error{tc.r.Validate(), err} {
			if e := planError(t, err); e.Path != "response" {
				t.Errorf("%s: %v", tc.name, e)
			}
		}
	}
	for _, text := range []string{`null`, `[]`, `{}`, `{"action":1}`, `{"action":"accept","content":[]}`, `{"action":"accept","extra":1}`, `{"action":"accept","action":"accept"}`, `{"action":"cancel","content":{}}`} {
		var r elicit.Response
		if e := planError(t, r.UnmarshalJSON([]byte(text))); e.Path != "response" || r.Action != "" {
			t.Errorf("%s: %v, %v", text, e, r)
		}
	}
}

func jsonEqual(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, err := elicit.ParseValue(a)
	y, err2 := elicit.ParseValue(b)
	if err != nil || err2 != nil {
		t.Fatalf("%v, %v", err, err2)
	}
	return elicit.Canonical(x) == elicit.Canonical(y)
}

// TestRequests: the observed requests have the seed's fields and defaults, and survive JSON.
func TestRequests(t *testing.T) {
	t.Parallel()
	full := &elicit.FormRequest{RequestKey: "address", Message: "Where?", RequestedSchema: map[string]any{"n": json.Number("1.0")}, Meta: elicit.Meta{"m": "x"},
		Task: map[string]any{"id": "t"}, Server: "shipping", OperationKind: trace.OperationTool, OperationName: "book"}
	url := &elicit.URLRequest{RequestKey: "pay", Message: "Pay", URL: "https://example.test/", ElicitationID: "e", Meta: elicit.Meta{"m": "x"},
		Task: map[string]any{"id": "t"}, Server: "shipping", OperationKind: trace.OperationResource, OperationName: "a://b"}
	for _, tc := range []struct {
		request elicit.Request
		back    elicit.Request
		text    string
	}{
		{full, &elicit.FormRequest{}, `{"mode":"form","request_key":"address","message":"Where?","requested_schema":{"n":1.0},"meta":{"m":"x"},"task":{"id":"t"},"server":"shipping","operation_kind":"tool","operation_name":"book"}`},
		{&elicit.FormRequest{RequestKey: "a", RequestedSchema: map[string]any{}}, &elicit.FormRequest{}, `{"mode":"form","request_key":"a","message":"","requested_schema":{}}`},
		{url, &elicit.URLRequest{}, `{"mode":"url","request_key":"pay","message":"Pay","url":"https://example.test/","elicitation_id":"e","meta":{"m":"x"},"task":{"id":"t"},"server":"shipping","operation_kind":"resource","operation_name":"a://b"}`},
		{&elicit.URLRequest{RequestKey: "u"}, &elicit.URLRequest{}, `{"mode":"url","request_key":"u","message":"","url":""}`},
	} {
		text, err := json.Marshal(tc.request)
		if err != nil || string(text) != tc.text {
			t.Errorf("%v\n got %s\nwant %s", err, text, tc.text)
		}
		if err := json.Unmarshal(text, tc.back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.request, tc.back); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for name, r := range map[string]elicit.Request{
		"empty key": &elicit.FormRequest{RequestedSchema: map[string]any{}}, "no schema": &elicit.FormRequest{RequestKey: "a"}, "nil form": (*elicit.FormRequest)(nil),
		"nil url": (*elicit.URLRequest)(nil), "kind": &elicit.URLRequest{RequestKey: "a", OperationKind: "x"}, "text": &elicit.URLRequest{RequestKey: "a", URL: "\xff"},
		"schema": &elicit.FormRequest{RequestKey: "a", RequestedSchema: map[string]any{"f": func() {}}}, "meta": &elicit.URLRequest{RequestKey: "a", Meta: elicit.Meta{"\xff": 1}},
	} {
		planError(t, r.Validate())
		if _, err := json.Marshal(r); err == nil && !strings.HasPrefix(name, "nil") {
			t.Errorf("%s was written", name)
		}
	}
	for _, text := range []string{`null`, `{"mode":"url","request_key":"a","message":"","url":""}`, `{"request_key":"a","message":"","requested_schema":{}}`, `{"mode":"form","request_key":"a","message":"","requested_schema":{},"url":"x"}`,
		`{"mode":"form","request_key":"","message":"","requested_schema":{}}`, `{"mode":"form","request_key":"a","requested_schema":{}}`, `{"mode":"form","request_key":"a","message":""}`, `{"mode":"form","request_key":"a","message":"","requested_schema":{"a":1,"a":1}}`} {
		planError(t, new(elicit.FormRequest).UnmarshalJSON([]byte(text)))
	}
	planError(t, new(elicit.URLRequest).UnmarshalJSON([]byte(`{"mode":"form","request_key":"a","message":"","requested_schema":{}}`)))
}

// TestPendingRound: the shape is checked, and it survives JSON.
func TestPendingRound(t *testing.T) {
	t.Parallel()
	state, deadline := "", time.Date(2026, 11, 30, 22, 0, 0, 5, time.UTC)
	valid := func() *elicit.PendingRound {
		return &elicit.PendingRound{RoundID: "round-1", ExecutionID: "execution-1", LogicalOperationID: "tool-1", Server: "shipping", OperationKind: trace.OperationTool, OperationName: "book",
			Requests:  map[string]elicit.Request{"address": &elicit.FormRequest{RequestKey: "address", Message: "Address", RequestedSchema: map[string]any{"type": "object"}}, "pay": &elicit.URLRequest{RequestKey: "pay", URL: "https://example.test/"}},
			CreatedAt: time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)}
	}
	withAll := valid()
	withAll.RequestState, withAll.Deadline = &state, &deadline
	for _, p := range []*elicit.PendingRound{valid(), withAll} {
		text, err := json.Marshal(*p)
		if err != nil {
			t.Fatal(err)
		}
		var back elicit.PendingRound
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*p, back); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for name, spoil := range map[string]func(*elicit.PendingRound){
		"round id": func(p *elicit.PendingRound) { p.RoundID = "" }, "execution id": func(p *elicit.PendingRound) { p.ExecutionID = "" },
		"logical operation id": func(p *elicit.PendingRound) { p.LogicalOperationID = "" }, "server": func(p *elicit.PendingRound) { p.Server = "" },
		"operation kind": func(p *elicit.PendingRound) { p.OperationKind = "tools" }, "operation name": func(p *elicit.PendingRound) { p.OperationName = "" },
		"no requests": func(p *elicit.PendingRound) { p.Requests = nil }, "time of creation": func(p *elicit.PendingRound) { p.CreatedAt = time.Time{} },
		"is nil":           func(p *elicit.PendingRound) { p.Requests["x"] = nil },
		"under the key":    func(p *elicit.PendingRound) { p.Requests["x"] = p.Requests["pay"] },
		"requested schema": func(p *elicit.PendingRound) { p.Requests["address"] = &elicit.FormRequest{RequestKey: "address"} },
		"UTF-8":            func(p *elicit.PendingRound) { bad := "\xff"; p.RequestState = &bad },
	} {
		p := valid()
		spoil(p)
		if e := planError(t, p.Validate()); e.Path != "pending round" || !strings.Contains(e.Message, name) {
			t.Errorf("%s: %v", name, e)
		}
		if _, err := json.Marshal(p); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	planError(t, (*elicit.PendingRound)(nil).Validate())
	text, _ := json.Marshal(withAll)
	for _, change := range [][2]string{{`"round_id"`, `"id":1,"round_id"`}, {`"created_at":"2`, `"created_at":"x`}, {`"pay":{`, `"paid":{`}, {`"mode":"url"`, `"mode":"tel"`}, {`"server":"shipping"`, `"server":null`}} {
		bad := strings.Replace(string(text), change[0], change[1], 1)
		if bad == string(text) {
			t.Fatalf("no %s in %s", change[0], text)
		}
		planError(t, new(elicit.PendingRound).UnmarshalJSON([]byte(bad)))
	}
}

// TestErrors: the two errors can be built, and say what they are.
func TestErrors(t *testing.T) {
	t.Parallel()
	var e error = &elicit.ExpectationError{Message: "unexpected request", Details: map[string]any{"request_key": "a"}}
	var l error = &elicit.RoundLimitError{Message: "too many rounds"}
	type coded interface {
		Code() string
		Terminal() bool
	}
	if c := e.(coded); c.Code() != "elicitation_expectation_failed" || c.Terminal() || e.Error() != "elicit: unexpected request" {
		t.Errorf("%v: %s, terminal %v", e, c.Code(), c.Terminal())
	}
	if c := l.(coded); c.Code() != "elicitation_round_limit" || !c.Terminal() || l.Error() != "elicit: too many rounds" {
		t.Errorf("%v: %s, terminal %v", l, c.Code(), c.Terminal())
	}
	if errors.Is(e, trace.ErrValidation) || errors.Is(l, trace.ErrValidation) {
		t.Error("an error about the server is a validation error")
	}
}
