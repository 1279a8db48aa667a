package elicit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// form is a bound form leaf.
func form(key string, content ...elicit.Content) *elicit.Plan {
	if len(content) == 0 {
		content = []elicit.Content{{}}
	}
	return elicit.Form(key).Accept(content[0])
}

func planError(t *testing.T, err error) *elicit.PlanError {
	t.Helper()
	var e *elicit.PlanError
	if !errors.As(err, &e) || !errors.Is(err, trace.ErrValidation) || e.Code() != "invalid_argument" {
		t.Fatalf("error %v (%T), want a *PlanError that is trace.ErrValidation", err, err)
	}
	return e
}

// TestLeaves: every option and answer of the four leaves can be read back.
func TestLeaves(t *testing.T) {
	t.Parallel()
	s := func(text string) *string { return &text }
	for _, tc := range []struct {
		name     string
		plan     *elicit.Plan
		request  elicit.Expectation
		response *elicit.Response
		maybe    bool
	}{
		{"form", elicit.Form("address"), &elicit.FormExpectation{RequestKey: "address"}, nil, false},
		{"form with everything", elicit.Form("address", elicit.Message("Where?"), elicit.Schema(map[string]any{"type": "object"}), elicit.Server("shipping"),
			elicit.OperationKind(trace.OperationTool), elicit.OperationName("book")).Accept(elicit.Content{"city": "Pune", "n": 2}),
			&elicit.FormExpectation{RequestKey: "address", Message: s("Where?"), RequestedSchema: map[string]any{"type": "object"}, Server: s("shipping"),
				OperationKind: trace.OperationTool, OperationName: s("book")},
			&elicit.Response{Action: elicit.ActionAccept, Content: elicit.Content{"city": "Pune", "n": json.Number("2")}}, false},
		{"maybe form, empty content", elicit.MaybeForm("note").Accept(elicit.Content{}), &elicit.FormExpectation{RequestKey: "note"},
			&elicit.Response{Action: elicit.ActionAccept, Content: elicit.Content{}}, true},
		{"empty texts are texts", elicit.URL("pay", elicit.Message(""), elicit.Address("")).Accept(),
			&elicit.URLExpectation{RequestKey: "pay", Message: s(""), URL: s("")}, &elicit.Response{Action: elicit.ActionAccept}, false},
		{"url with everything", elicit.URL("pay", elicit.Message("Pay"), elicit.Address("https://example.test/1"), elicit.ElicitationID("e1"), elicit.Server("shipping"),
			elicit.OperationKind(trace.OperationResource), elicit.OperationName("shipping://a")).Accept(elicit.Meta{"a": true}),
			&elicit.URLExpectation{RequestKey: "pay", Message: s("Pay"), URL: s("https://example.test/1"), ElicitationID: s("e1"), Server: s("shipping"),
				OperationKind: trace.OperationResource, OperationName: s("shipping://a")},
			&elicit.Response{Action: elicit.ActionAccept, Meta: elicit.Meta{"a": true}}, false},
		{"maybe url, declined", elicit.MaybeURL("pay").Decline(), &elicit.URLExpectation{RequestKey: "pay"}, &elicit.Response{Action: elicit.ActionDecline}, true},
		{"cancelled with meta", elicit.Form("a").Cancel(elicit.Meta{"source": "test"}), &elicit.FormExpectation{RequestKey: "a"},
			&elicit.Response{Action: elicit.ActionCancel, Meta: elicit.Meta{"source": "test"}}, false},
		{"accept with meta in any place", elicit.Form("a").Accept(elicit.Meta{"m": nil}, elicit.Content{"c": []string{"x"}}, elicit.Meta{"k": "v"}),
			&elicit.FormExpectation{RequestKey: "a"},
			&elicit.Response{Action: elicit.ActionAccept, Content: elicit.Content{"c": []any{"x"}}, Meta: elicit.Meta{"m": nil, "k": "v"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := tc.plan.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.request, tc.plan.Request()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.response, tc.plan.Response()); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if p := tc.plan; p.Node() != elicit.NodeLeaf || p.OptionalOccurrence() != tc.maybe || p.IsComplete() != (tc.response != nil) || p.Children() != nil {
				t.Errorf("node %s, optional %v, complete %v, children %v", p.Node(), p.OptionalOccurrence(), p.IsComplete(), p.Children())
			}
			if want := map[bool]string{true: elicit.ModeForm, false: elicit.ModeURL}[strings.Contains(fmt.Sprintf("%T", tc.request), "Form")]; tc.plan.Request().Mode() != want {
				t.Errorf("mode %s, want %s", tc.plan.Request().Mode(), want)
			}
		})
	}
}

// TestComposites: the nodes of a tree can be read.
func TestComposites(t *testing.T) {
	t.Parallel()
	a, b := form("a"), form("b")
	for node, plan := range map[elicit.Node]*elicit.Plan{
		"sequence": elicit.Sequence(a, b), "optional": elicit.Optional(a), "one_of": elicit.OneOf(a, b), "round_of": elicit.Round(a, b),
	} {
		if plan.Err() != nil || plan.Node() != node || !plan.IsComplete() || plan.Request() != nil || plan.Response() != nil || plan.OptionalOccurrence() {
			t.Errorf("%s: %v, node %s, complete %v", node, plan.Err(), plan.Node(), plan.IsComplete())
		}
		children := plan.Children()
		if children[0] != a || len(children) > 1 && children[1] != b {
			t.Errorf("%s has children %v", node, children)
		}
		children[0] = nil
		if plan.Children()[0] != a {
			t.Errorf("%s: what Children returns is the plan's own", node)
		}
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("secret") }

// TestPlanErrors: every mistake is one *PlanError, at the place where it was made.
func TestPlanErrors(t *testing.T) {
	t.Parallel()
	a, b := form("a"), form("b")
	deep := a
	for range elicit.MaxPlanDepth - 1 {
		deep = elicit.Optional(deep)
	}
	if err := deep.Err(); err != nil {
		t.Fatalf("a plan as deep as may be: %v", err)
	}
	large := elicit.Sequence(a, a)
	for large.Err() == nil && large.Node() != "" {
		next := elicit.Sequence(large, large)
		if next.Err() != nil {
			large = next
			break
		}
		large = next
	}
	cycle := map[string]any{}
	cycle["self"] = cycle
	for _, tc := range []struct {
		name, path, reason string
		plan               *elicit.Plan
	}{
		{"nil plan", `plan`, "nil", nil},
		{"zero plan", `plan`, "zero", &elicit.Plan{}},
		{"empty key", `form ""`, "empty_key", elicit.Form("")},
		{"empty key of a url", `url ""`, "empty_key", elicit.MaybeURL("").Accept()},
		{"key that is no text", `form "\xff"`, "bad_text", elicit.Form("\xff")},
		{"message that is no text", `form "a"`, "bad_text", elicit.Form("a", elicit.Message("\xff"))},
		{"empty server", `form "a"`, "empty_option", elicit.Form("a", elicit.Server(""))},
		{"empty operation name", `url "a"`, "empty_option", elicit.URL("a", elicit.OperationName(""))},
		{"empty elicitation id", `url "a"`, "empty_option", elicit.URL("a", elicit.ElicitationID(""))},
		{"unknown operation kind", `form "a"`, "bad_operation_kind", elicit.Form("a", elicit.OperationKind("tools"))},
		{"option twice", `form "a"`, "twice", elicit.Form("a", elicit.Message("x"), elicit.Message("y"))},
		{"kind twice", `form "a"`, "twice", elicit.Form("a", elicit.OperationKind("tool"), elicit.OperationKind("tool"))},
		{"schema twice", `form "a"`, "twice", elicit.Form("a", elicit.Schema(map[string]any{}), elicit.Schema(map[string]any{}))},
		{"nil option", `form "a"`, "nil", elicit.Form("a", nil)},
		{"nil option of a url", `url "a"`, "nil", elicit.URL("a", nil)},
		{"nil schema", `form "a"`, "bad_schema", elicit.Form("a", elicit.Schema(nil))},
		{"schema that is no object", `form "a"`, "bad_schema", elicit.Form("a", elicit.Schema(true))},
		{"schema that is no JSON", `form "a"`, "bad_schema", elicit.Form("a", elicit.Schema(map[string]any{"x": make(chan int)}))},
		{"schema text with a member twice", `form "a"`, "bad_schema", elicit.Form("a", elicit.Schema(json.RawMessage(`{"a":1,"a":2}`)))},
		{"form without content", `form "a"`, "missing_content", elicit.Form("a").Accept()},
		{"form with meta alone", `form "a"`, "missing_content", elicit.Form("a").Accept(elicit.Meta{})},
		{"form with nil", `form "a"`, "nil", elicit.Form("a").Accept(nil)},
		{"form with nil content", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content(nil))},
		{"content twice", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{}, elicit.Content{})},
		{"url with content", `url "a"`, "unwanted_content", elicit.URL("a").Accept(elicit.Content{})},
		{"content that is no JSON", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"x": math.NaN()})},
		{"content with a number that is none", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"x": json.Number("1e")})},
		{"content with a number beyond all", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"x": json.Number("1e" + strings.Repeat("9", 1000))})},
		{"content with itself", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content(cycle))},
		{"content whose encoding panics", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"x": panics{}})},
		{"content that is no text", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"x": "\xff"})},
		{"content with a name that is no text", `form "a"`, "bad_content", elicit.Form("a").Accept(elicit.Content{"\xff": 1})},
		{"meta that is no JSON", `url "a"`, "bad_meta", elicit.URL("a").Decline(elicit.Meta{"f": func() {}})},
		{"bound twice", `form "a"`, "already_bound", a.Accept(elicit.Content{})},
		{"declined after accept", `form "a"`, "already_bound", a.Decline()},
		{"composite accepted", `optional`, "not_a_leaf", elicit.Optional(a).Accept()},
		{"composite cancelled", `one_of`, "not_a_leaf", elicit.OneOf(a, b).Cancel()},
		{"unbound child", `sequence[1] form "b"`, "incomplete", elicit.Sequence(a, elicit.Form("b"))},
		{"optional of an unbound leaf", `optional[0] url "b"`, "incomplete", elicit.Optional(elicit.URL("b"))},
		{"optional of nothing", `optional[0] plan`, "nil", elicit.Optional(nil)},
		{"nil child", `sequence[0] plan`, "nil", elicit.Sequence(nil, a)},
		{"zero child", `round_of[1] plan`, "zero", elicit.Round(a, &elicit.Plan{})},
		{"no children", `sequence`, "too_few", elicit.Sequence()},
		{"one child", `one_of`, "too_few", elicit.OneOf(a)},
		{"a round of one", `round_of`, "too_few", elicit.Round(a)},
		{"a broken child's child", `sequence[1].one_of[0] form "address"`, "missing_content", elicit.Sequence(a, elicit.OneOf(elicit.Form("address").Accept(), b))},
		{"a broken composite below", `sequence[1].optional[0] one_of`, "too_few", elicit.Sequence(a, elicit.Optional(elicit.OneOf(a)))},
		{"a branch that may be empty", `one_of[1] form "b"`, "empty_branch", elicit.OneOf(a, elicit.MaybeForm("b").Decline())},
		{"an optional branch", `one_of[0] optional`, "empty_branch", elicit.OneOf(elicit.Optional(a), b)},
		{"a branch of optionals", `one_of[0] sequence`, "empty_branch", elicit.OneOf(elicit.Sequence(elicit.Optional(a), elicit.MaybeURL("u").Accept()), b)},
		{"equal branches", `one_of[2] form "a"`, "equal_branches", elicit.OneOf(a, b, form("a"))},
		{"branches equal by value", `one_of[1] form "a"`, "equal_branches", elicit.OneOf(form("a", elicit.Content{"n": 1, "m": 2}), form("a", elicit.Content{"m": json.Number("2.0"), "n": json.Number("10e-1")}))},
		{"equal composite branches", `one_of[1] sequence`, "equal_branches", elicit.OneOf(elicit.Sequence(a, b), elicit.Sequence(form("a"), form("b")))},
		{"round of a composite", `round_of[1] optional`, "not_a_required_leaf", elicit.Round(a, elicit.Optional(b))},
		{"round of a maybe leaf", `round_of[0] url "u"`, "not_a_required_leaf", elicit.Round(elicit.MaybeURL("u").Accept(), b)},
		{"round with a key twice", `round_of[1] url "a"`, "duplicate_key", elicit.Round(a, elicit.URL("a").Accept())},
		{"too deep", `optional`, "too_deep", elicit.Optional(deep)},
		{"too large", `sequence`, "too_large", large},
		{"answer to a broken leaf", `form ""`, "empty_key", elicit.Form("").Accept(nil)},
		{"answer to nil", `plan`, "nil", (*elicit.Plan)(nil).Accept(elicit.Content{})},
		{"no answer to nil", `plan`, "nil", (*elicit.Plan)(nil).Decline()},
		{"long key", `form "` + strings.Repeat("é", 32) + `"…`, "missing_content", elicit.Form(strings.Repeat("é", 1000)).Accept()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := planError(t, tc.plan.Err())
			if e.Path != tc.path || e.Details["path"] != tc.path || e.Details["reason"] != tc.reason {
				t.Errorf("path %s, details %v, want %s and reason %s: %v", e.Path, e.Details, tc.path, tc.reason, e)
			}
			if text := e.Error(); !strings.HasPrefix(text, "elicit: "+tc.path+": ") || strings.Contains(text, "secret") {
				t.Errorf("the text is %q", text)
			}
			holdsNothing(t, tc.plan)
			nested := planError(t, elicit.Sequence(form("x"), tc.plan).Err())
			if sep := nested.Path[len("sequence[1]")]; !strings.HasSuffix(nested.Path, tc.path) || nested.Message != e.Message || sep != ' ' && sep != '.' {
				t.Errorf("as a child: %v", nested)
			}
		})
	}
}

// holdsNothing: a broken plan refuses everything and panics nowhere.
func holdsNothing(t *testing.T, p *elicit.Plan) {
	t.Helper()
	if p.IsComplete() {
		t.Error("a broken plan is complete")
	}
	_, canonical := p.CanonicalJSON()
	_, identity := p.CanonicalIdentity()
	_, written := p.MarshalJSON()
	_, matcher := elicit.NewMatcher(p)
	for _, err := range []error{canonical, identity, written, matcher, p.Decline().Err(), p.Cancel().Err(), p.Accept(elicit.Content{"a": 1}).Err()} {
		if planError(t, err).Path != planError(t, p.Err()).Path {
			t.Errorf("%v, want the plan's own error", err)
		}
	}
	p.Node()
	p.Request()
	p.Response()
	p.Children()
	p.OptionalOccurrence()
}

// TestIncomplete: a leaf without an answer is no mistake, and is good for nothing but to get one.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	p := elicit.Form("address")
	if p.Err() != nil || p.IsComplete() {
		t.Fatalf("%v, complete %v", p.Err(), p.IsComplete())
	}
	_, canonical := p.CanonicalJSON()
	_, written := json.Marshal(p)
	_, matcher := elicit.NewMatcher(p)
	for _, err := range []error{canonical, written, matcher} {
		if e := planError(t, err); e.Details["reason"] != "incomplete" || e.Path != `form "address"` {
			t.Errorf("%v", err)
		}
	}
}

// TestImmutable: nothing that goes in or comes out is the plan's own.
func TestImmutable(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}
	content := elicit.Content{"city": "Pune", "tags": []any{"a", map[string]any{"b": 1}}}
	meta := elicit.Meta{"deep": map[string]any{"x": 1}}
	unbound := elicit.Form("address", elicit.Schema(schema))
	children := []*elicit.Plan{unbound.Accept(content, meta), form("b")}
	plan := elicit.Sequence(children...)
	before, err := plan.CanonicalJSON()
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(schema map[string]any, content elicit.Content, meta elicit.Meta) {
		schema["properties"].(map[string]any)["city"] = "spoilt"
		content["tags"].([]any)[1].(map[string]any)["b"] = "spoilt"
		content["tags"].([]any)[0] = "spoilt"
		content["city"] = "spoilt"
		meta["deep"].(map[string]any)["x"] = "spoilt"
	}
	spoil(schema, content, meta)
	children[1] = nil
	leaf := plan.Children()[0]
	spoil(leaf.Request().(*elicit.FormExpectation).RequestedSchema, leaf.Response().Content, leaf.Response().Meta)
	m, err := elicit.NewMatcher(plan)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := m.Round([]elicit.Request{&elicit.FormRequest{RequestKey: "address", RequestedSchema: map[string]any{"type": "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	spoil(map[string]any{"properties": map[string]any{}}, answers["address"].Content, answers["address"].Meta)
	if after, err := plan.CanonicalJSON(); err != nil || after != before {
		t.Errorf("the plan changed (%v):\n%s\n%s", err, before, after)
	}
	if unbound.IsComplete() || unbound.Response() != nil {
		t.Error("Accept changed the plan that it was called on")
	}
}

// TestCanonical: two plans that say the same have one canonical form, others have others, and it is the identity.
func TestCanonical(t *testing.T) {
	t.Parallel()
	plan := elicit.Sequence(addressPlan(`{"b":[1,2.50],"a":-0.0}`, "100e-2"), elicit.MaybeURL("u", elicit.Address("https://a/?x=1&y=<2>")).Decline(elicit.Meta{"m": nil}))
	same := elicit.Sequence(addressPlan(`{"a":0,"b":[1.0,25e-1]}`, "1"), elicit.MaybeURL("u", elicit.Address("https://a/?x=1&y=<2>")).Decline(elicit.Meta{"m": nil}))
	const want = `{"children":[{"node":"leaf","request":{"mode":"form","request_key":"address","requested_schema":{"a":0,"b":[1,2.5]}},` +
		`"response":{"action":"accept","content":{"n":1}}},{"node":"leaf","optional_occurrence":true,` +
		`"request":{"mode":"url","request_key":"u","url":"https://a/?x=1&y=<2>"},"response":{"_meta":{"m":null},"action":"decline"}}],"node":"sequence"}`
	for _, p := range []*elicit.Plan{plan, same} {
		canonical, err := p.CanonicalJSON()
		identity, err2 := p.CanonicalIdentity()
		if err != nil || err2 != nil || canonical != want || identity != want {
			t.Errorf("%v, %v\n got %s\nwant %s", err, err2, canonical, want)
		}
	}
	for _, other := range []*elicit.Plan{
		elicit.Sequence(addressPlan(`{"a":0,"b":[2.5,1]}`, "1"), same.Children()[1]),   // an array's order
		elicit.Sequence(addressPlan(`{"a":"0","b":[1,2.5]}`, "1"), same.Children()[1]), // a type
		elicit.Sequence(addressPlan(`{"a":false,"b":[1,2.5]}`, "1"), same.Children()[1]),
		elicit.Sequence(addressPlan(`{"a":0,"b":[1,2.5]}`, "1.0000000000000000000000001"), same.Children()[1]),
	} {
		if got, err := other.CanonicalJSON(); err != nil || got == want {
			t.Errorf("%v, %s", err, got)
		}
	}
	text, err := json.Marshal(plan)
	if err != nil || !strings.Contains(string(text), "100e-2") || !strings.Contains(string(text), "2.50") {
		t.Errorf("JSON does not keep the numbers: %s, %v", text, err)
	}
}

func addressPlan(schema, n string) *elicit.Plan {
	return elicit.Form("address", elicit.Schema(json.RawMessage(schema))).Accept(elicit.Content{"n": json.Number(n)})
}
