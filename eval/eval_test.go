package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

func TestStatuses(t *testing.T) {
	t.Parallel()
	var words []string
	for _, s := range eval.Statuses() {
		if !s.Valid() {
			t.Errorf("%s is not valid", s)
		}
		words = append(words, string(s))
	}
	if diff := cmp.Diff([]string{"passed", "failed", "error", "inconclusive", "not_run"}, words); diff != "" {
		t.Error(diff)
	}
	for _, s := range []eval.Status{"", "Passed", "missing", eval.Missing} {
		if s.Valid() {
			t.Errorf("%q is valid", s)
		}
	}
}

func TestDecisionValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		d    eval.Decision
		want string // of the error; empty: none
	}{
		{"passed", eval.PassIf(true, "yes"), ""},
		{"failed", eval.PassIf(false, "no"), ""},
		{"with numbers", eval.Decision{Status: eval.Passed, Score: eval.Score(-1e300), Metrics: map[string]float64{"a": 0}}, ""},
		{"zero", eval.Decision{}, "unknown status"},
		{"other status", eval.Decision{Status: "ok"}, `unknown status "ok"`},
		{"NaN score", eval.Decision{Status: eval.Passed, Score: eval.Score(math.NaN())}, "the score"},
		{"infinite score", eval.Decision{Status: eval.Passed, Score: eval.Score(math.Inf(-1))}, "the score"},
		{"NaN metric", eval.Decision{Status: eval.Passed, Metrics: map[string]float64{"a": 1, "b": math.NaN()}}, `metric "b"`},
	} {
		err := tt.d.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{\"b\": 1.50,\n\"a\": [true , null]}":                   `{"a":[true,null],"b":1.50}`,
		`{"n":1.000000000000000000001,"big":123456789012345678}`: `{"big":123456789012345678,"n":1.000000000000000000001}`,
		`{"a":1,"a":2}`:   `{"a":2}`,
		`"\u003cb\u003e"`: `"<b>"`,
		` null `:          `null`,
	} {
		got, err := eval.Canonical(trace.JSON(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "{", "{} {}", "nul", "1 2"} {
		if got, err := eval.Canonical(trace.JSON(in)); err == nil {
			t.Errorf("Canonical(%q) = %s", in, got)
		}
	}
	if a, b := eval.Digest(trace.JSON(`{}`)), eval.Digest(trace.JSON(`[]`)); len(a) != 64 || a == b {
		t.Errorf("digests %s, %s", a, b)
	}
}

// FuzzCanonical: the canonical form is JSON, the same value, and its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1e400,"\ud800","<&>"]}`, `[]`, `"x"`, `1.0`, `{"a":{"a":{}}}`, "\xff", `"\u2028"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := eval.Canonical(b)
		if err != nil {
			return
		}
		twice, err := eval.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q → %q → %q, %v", b, once, twice, err)
		}
		if decoded(t, b) != decoded(t, once) {
			t.Fatalf("%q and %q are different values", b, once)
		}
	})
}

func decoded(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBuiltins (E16): what each of the three says of every sort of subject.
func TestBuiltins(t *testing.T) {
	t.Parallel()
	if _, ok := eval.Builtin("m3.other.v1"); ok {
		t.Error("there is another")
	}
	for _, tt := range []struct {
		evaluator, subject string
		want               eval.Status
	}{
		{eval.ExecutionCompleted, `{"outcome":"completed"}`, eval.Passed},
		{eval.ExecutionCompleted, `{"snapshot":{"outcome":"completed"}}`, eval.Passed},
		{eval.ExecutionCompleted, `{"outcome":"timed_out"}`, eval.Failed},
		{eval.ExecutionCompleted, `{"outcome":null}`, eval.Inconclusive},
		{eval.ExecutionCompleted, `{}`, eval.Inconclusive},
		{eval.ExecutionCompleted, `{"outcome":7}`, eval.Inconclusive},
		{eval.ExecutionCompleted, `"completed"`, eval.Inconclusive},
		{eval.ToolCallSucceeded, `{"isError":false,"content":[]}`, eval.Passed},
		{eval.ToolCallSucceeded, `{"is_error":false}`, eval.Passed},
		{eval.ToolCallSucceeded, `{"isError":true}`, eval.Failed},
		{eval.ToolCallSucceeded, `{"isError":null}`, eval.NotRun},
		{eval.ToolCallSucceeded, `{"isError":"no"}`, eval.NotRun},
		{eval.ToolCallSucceeded, `{"content":[]}`, eval.NotRun},
		{eval.ToolCallSucceeded, `[]`, eval.NotRun},
		{eval.OutputHasText, `"an answer"`, eval.Passed},
		{eval.OutputHasText, `" \n\t"`, eval.Failed},
		{eval.OutputHasText, `{"text":"x"}`, eval.Passed},
		{eval.OutputHasText, `{"text":""}`, eval.Failed},
		{eval.OutputHasText, `{"text":null}`, eval.Failed},
		{eval.OutputHasText, `{"response":{"text":"x"}}`, eval.Passed},
		{eval.OutputHasText, `{"direct_result":{"content":[{"type":"image","data":"x"},{"type":"text","text":"x"}]}}`, eval.Passed},
		{eval.OutputHasText, `{"turns":[{"response":{"text":" "}},{"response":{"text":"x"}}]}`, eval.Passed},
		{eval.OutputHasText, `{"content":[{"type":"image","data":"x"}]}`, eval.Failed},
		{eval.OutputHasText, `{"contents":[{"uri":"a","text":"x"}]}`, eval.Passed},
		{eval.OutputHasText, `{"messages":[{"content":{"type":"text","text":"x"}}]}`, eval.Passed},
		{eval.OutputHasText, `{"answer":"x"}`, eval.NotRun},
		{eval.OutputHasText, `7`, eval.NotRun},
		{eval.OutputHasText, `null`, eval.NotRun},
	} {
		f, ok := eval.Builtin(tt.evaluator)
		if !ok {
			t.Fatalf("there is no %s", tt.evaluator)
		}
		d, err := f(t.Context(), eval.Context{Subject: trace.JSON(tt.subject)})
		if err != nil || d.Status != tt.want || d.Rationale == "" {
			t.Errorf("%s of %s: %+v, %v, want %s", tt.evaluator, tt.subject, d, err, tt.want)
		}
	}
}

// The outcome of a subject that names none is that of the execution, if there is one and it has ended.
func TestExecutionCompletedByItsView(t *testing.T) {
	t.Parallel()
	f, _ := eval.Builtin(eval.ExecutionCompleted)
	e := eval.Context{Subject: trace.JSON(`"text"`), Execution: "x"}
	open := e.WithView(func() (trace.View, error) { return trace.View{}, trace.ErrNotFinalized })
	gone := e.WithView(func() (trace.View, error) { return trace.View{}, trace.ErrUnavailable })
	for want, e := range map[string]eval.Context{"the execution has not ended": open, "there is no outcome": gone} {
		if d, err := f(t.Context(), e); err != nil || d.Status != eval.Inconclusive || d.Rationale != want {
			t.Errorf("%+v, %v, want %q", d, err, want)
		}
	}
	if _, err := e.View(); !errors.Is(err, trace.ErrUnavailable) {
		t.Errorf("a context without a view: %v", err)
	}
}

func TestResultClone(t *testing.T) {
	t.Parallel()
	full := func() eval.Result {
		return eval.Result{ID: "a", Score: eval.Score(1), Metrics: map[string]float64{"m": 1}, Details: map[string]any{"d": map[string]any{"l": []any{1.0, "x"}}},
			Metadata: map[string]any{"k": "v"}, Provenance: &eval.Provenance{Kind: "k"}, Check: &eval.Check{Arguments: trace.JSON(`[1]`)}}
	}
	one := full()
	two := one.Clone()
	if diff := cmp.Diff(one, two); diff != "" {
		t.Fatalf("the copy differs:\n%s", diff)
	}
	*two.Score, two.Metrics["m"], two.Metadata["k"], two.Provenance.Kind, two.Check.Arguments[1] = 2, 2, "w", "other", '2'
	two.Details["d"].(map[string]any)["l"].([]any)[0] = 2.0
	if diff := cmp.Diff(full(), one); diff != "" {
		t.Errorf("the copy shares with the original:\n%s", diff)
	}
	if zero := (&eval.Result{}).Clone(); !reflect.DeepEqual(zero, eval.Result{}) {
		t.Errorf("the copy of nothing is %+v", zero)
	}
}

func TestResultOrder(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	list := []eval.Result{{ID: "b", Created: at}, {ID: "c", Created: at.Add(-1)}, {ID: "a", Created: at}}
	slices.SortFunc(list, func(a, b eval.Result) int { return a.Compare(&b) })
	if got := list[0].ID + list[1].ID + list[2].ID; got != "cab" {
		t.Errorf("order %s, want cab", got)
	}
}

func row(id string, seconds int64, change func(*eval.Result)) *eval.Result {
	r := &eval.Result{ID: id, RunID: "r", Execution: "x", Evaluator: "a.v1", Kind: eval.KindEvaluator, SubjectKind: "json", SubjectDigest: "d", Status: eval.Passed,
		Created: time.Unix(seconds, 0)}
	if change != nil {
		change(r)
	}
	return r
}

func required(s eval.Status) func(*eval.Result) {
	return func(r *eval.Result) { r.Required, r.Status, r.Rationale = true, s, "why" }
}

func status(s eval.Status) func(*eval.Result) { return func(r *eval.Result) { r.Status = s } }

// TestGate: what blocks follows from registrations and from rows that are marked, and from nothing else.
func TestGate(t *testing.T) {
	t.Parallel()
	other := func(mark func(*eval.Result)) func(*eval.Result) {
		return func(r *eval.Result) { mark(r); r.SubjectDigest = "e" }
	}
	alone := func(test string, mark func(*eval.Result)) func(*eval.Result) {
		return func(r *eval.Result) { mark(r); r.Execution, r.TestID = "", test }
	}
	declares := []eval.Registration{{Name: "a.v1", Required: true}, {Name: "b.v1"}}
	for _, tt := range []struct {
		name     string
		declared []eval.Registration
		rows     []*eval.Result
		want     string
		any      bool
	}{
		{"nothing", nil, nil, "", false},
		{"advisory ones", []eval.Registration{{Name: "a.v1"}}, []*eval.Result{row("1", 1, status(eval.Failed))}, "", false},
		{"missing", declares, nil, "a.v1 is missing in case", true},
		{"another evaluator does not stand in", declares, []*eval.Result{row("1", 1, func(r *eval.Result) { r.Evaluator = "b.v1" })}, "a.v1 is missing in case", true},
		{"another execution does not stand in", declares, []*eval.Result{row("1", 1, func(r *eval.Result) { r.Execution = "y" })}, "a.v1 is missing in case", true},
		{"met", declares, []*eval.Result{row("1", 1, nil)}, "", true},
		{"declared, and failed", declares, []*eval.Result{row("1", 1, func(r *eval.Result) { r.Status, r.Message = eval.Failed, "no\nwords" })}, "a.v1 failed: no", true},
		{"declared, and better the next time", declares, []*eval.Result{row("1", 1, status(eval.Failed)), row("2", 2, nil)}, "", true},
		{"failed", nil, []*eval.Result{row("1", 1, required(eval.Failed))}, "a.v1 failed: why", true},
		{"error", nil, []*eval.Result{row("1", 1, required(eval.Error))}, "a.v1 could not decide: why", true},
		{"inconclusive", nil, []*eval.Result{row("1", 1, required(eval.Inconclusive))}, "a.v1 is inconclusive: why", true},
		{"not run", nil, []*eval.Result{row("1", 1, required(eval.NotRun))}, "a.v1 was not run: why", true},
		{"passed", nil, []*eval.Result{row("1", 1, required(eval.Passed))}, "", true},
		{"a later advisory one cannot erase it", nil, []*eval.Result{row("1", 1, required(eval.Passed)), row("2", 2, status(eval.Failed))}, "a.v1 failed", true},
		{"a later one may pass", nil, []*eval.Result{row("1", 1, required(eval.Failed)), row("2", 2, nil)}, "", true},
		{"an earlier one that comes later does not count", nil, []*eval.Result{row("2", 2, required(eval.Passed)), row("1", 1, status(eval.Failed))}, "", true},
		{"it does not spread", nil, []*eval.Result{row("1", 1, required(eval.Passed)), row("2", 2, other(status(eval.Failed)))}, "", true},
		{"detached ones of two attempts", nil, []*eval.Result{row("1", 1, alone("t1", required(eval.Failed))), row("2", 2, alone("t2", required(eval.Passed)))}, "a.v1 failed: why", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var g eval.Gate
			g.Expect(&eval.Expectation{Execution: "x", Case: "case", Declared: tt.declared})
			for _, r := range tt.rows {
				g.Add(r)
			}
			var got []string
			for _, b := range g.Blocked() {
				got = append(got, b.String())
			}
			if s := strings.Join(got, "; "); s != tt.want || g.Any() != tt.any {
				t.Errorf("blocked %q, any %v; want %q, %v", s, g.Any(), tt.want, tt.any)
			}
		})
	}
}

func TestRequiredError(t *testing.T) {
	t.Parallel()
	var err error = eval.NewRequiredError(row("1", 1, required(eval.Failed)))
	var e *eval.RequiredError
	if !errors.As(err, &e) || e.Code() != "required_evaluation_failed" || err.Error() != "required evaluation failed: a.v1: why" ||
		e.Details["execution_id"] != "x" || e.Details["status"] != "failed" || e.Result.ID != "1" {
		t.Errorf("%v: %+v", err, e)
	}
	built := &eval.RequiredError{Message: "m", Details: map[string]any{"a": 1}}
	if built.Error() != "m" {
		t.Errorf("one that a test makes says %q", built.Error())
	}
}

// A Judge's method is a Func.
type judge struct{}

func (judge) Evaluate(context.Context, eval.Context) (eval.Decision, error) {
	return eval.PassIf(true, ""), nil
}

var (
	_ eval.Judge = judge{}
	_ eval.Func  = judge{}.Evaluate
)
