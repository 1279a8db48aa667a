package storetest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Evaluation is one that passed, of an execution or, with an empty one, detached. Its other fields derive from the id.
func Evaluation(run, id string, execution trace.ExecutionID, seconds int) *store.Evaluation {
	return &store.Evaluation{Result: eval.Result{ID: id, RunID: run, TestID: "test of " + id, Execution: execution, Suite: "suite", Case: "case of " + string(execution),
		Evaluator: "answer.v1", Kind: eval.KindEvaluator, SubjectKind: "json", SubjectDigest: strings.Repeat("a", 64), Status: eval.Passed, Created: at(seconds)}}
}

// Judged is an evaluation with a value in every field.
func Judged(run, id string, execution trace.ExecutionID, seconds int) *store.Evaluation {
	e := Evaluation(run, id, execution, seconds)
	e.Turn, e.Kind, e.Status, e.Score, e.Required = "turn-1", eval.KindJudge, eval.Failed, eval.Score(0.1+0.2), true
	e.Rationale, e.Message = "<b> & \"ünd\" \u2028 🐢", "line\nline"
	e.Metrics = map[string]float64{"answer_ok": 1, "tiny": 5e-324, "huge": math.MaxFloat64, "": -0.5}
	e.Details = map[string]any{"error_code": "abstained", "nested": map[string]any{"list": []any{1.5, nil, true, "x"}}}
	e.Provenance = &eval.Provenance{Kind: eval.ProvenanceJudge, Provider: "openai", Model: "m-1", RubricID: "r", RubricVersion: "2", ConfigDigest: strings.Repeat("b", 64)}
	e.Metadata = map[string]any{"harness_config": "codex/gpt", "n": 3.0, "ok": false}
	e.Duration = 1500 * time.Microsecond
	return e
}

// checked is a recorded check.
func checked(run, id string, execution trace.ExecutionID, seconds int) *store.Evaluation {
	e := Evaluation(run, id, execution, seconds)
	e.Evaluator, e.Kind, e.SubjectKind = "tool_call", eval.KindCheck, "view"
	e.Check = &eval.Check{Matcher: "tool_call", Selector: "orders/quote", Ordinal: 2, Arguments: trace.JSON(`{"n":1.000000000000000000001}`)}
	return e
}

func testEvaluations(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	local := Judged("r", "2", "e", 2)
	local.Created = local.Created.In(time.FixedZone("somewhere", 7200))
	local.Suite = " suite\t"
	check, late := checked("r", "1", "e", 2), Evaluation("q", "4", "e", 9)
	early, orphan, detached := Evaluation("r", "3", "e", 1), Evaluation("r", "5", "elsewhere", 3), Evaluation("r", "6", "", 4)
	appendAll(t, s.Store, early) // before its execution
	appendAll(t, s.Store, append([]store.Record{tape.Open()}, tape.Begin()...)...)
	appendAll(t, s.Store, local, check)
	appendAll(t, s.Store, tape.End(trace.OutcomeFailed, "")...)
	appendAll(t, s.Store, late, orphan, detached) // after its end
	second := *local
	second.Status, second.Rationale, second.Required = eval.Passed, "changed", false
	appendAll(t, s.Store, &second, local, early) // again
	want := Judged("r", "2", "e", 2)
	all := []*store.Evaluation{early, check, want, orphan, detached, late}
	s.reading(t, func(t *testing.T, r store.Reader) {
		for _, tt := range []struct {
			name string
			q    *store.EvaluationQuery
			want []*store.Evaluation
		}{
			{"nil", nil, all},
			{"all", &store.EvaluationQuery{}, all},
			{"run", &store.EvaluationQuery{RunID: "q"}, all[5:]},
			{"suite", &store.EvaluationQuery{Suite: " suite "}, all},
			{"case", &store.EvaluationQuery{Case: "case of elsewhere"}, all[3:4]},
			{"test", &store.EvaluationQuery{TestID: "test of 2"}, all[2:3]},
			{"execution", &store.EvaluationQuery{Execution: "e"}, []*store.Evaluation{early, check, want, late}},
			{"execution without a record", &store.EvaluationQuery{Execution: "elsewhere"}, all[3:4]},
			{"evaluator", &store.EvaluationQuery{Evaluator: "tool_call"}, all[1:2]},
			{"kind", &store.EvaluationQuery{Kind: eval.KindJudge}, all[2:3]},
			{"several", &store.EvaluationQuery{RunID: "r", Execution: "e", Evaluator: "answer.v1", Kind: eval.KindEvaluator}, all[:1]},
			{"none", &store.EvaluationQuery{RunID: "r", Execution: "none"}, nil},
			{"no such word", &store.EvaluationQuery{Evaluator: "none"}, nil},
			{"statuses", &store.EvaluationQuery{Statuses: []eval.Status{eval.Failed, eval.Error}}, all[2:3]},
			{"the first", &store.EvaluationQuery{RunID: "r", Limit: 2}, all[:2]},
			{"more than there are", &store.EvaluationQuery{Limit: 100}, all},
			{"the latest", &store.EvaluationQuery{Execution: "e", Latest: true}, []*store.Evaluation{check, want, late}},
		} {
			diff(t, tt.name, must[[]eval.Result](t)(r.Evaluations(context.Background(), tt.q)), results(tt.want))
		}
		// The trace knows nothing of it all.
		checkTrace(t, r, tape)
		info := must[store.ExecutionInfo](t)(r.Execution(context.Background(), "e"))
		if info.Outcome != trace.OutcomeFailed || info.EventCount != len(tape.Events) || !info.Complete {
			t.Errorf("the execution of the evaluations: %+v", info)
		}
		diff(t, "Suites", names(must[[]store.Suite](t)(r.Suites(context.Background(), "q"))), []string{"q/suite"})
	})
}

func results(list []*store.Evaluation) []eval.Result {
	var out []eval.Result
	for _, e := range list {
		r := e.Result
		out = append(out, r)
	}
	return out
}

// testLineages: what is required stays so within its lineage, in whatever order the rows come, and does not spread.
func testLineages(t *testing.T, s *Subject) {
	row := func(id string, seconds int, required bool, change func(*eval.Result)) *store.Evaluation {
		e := Evaluation("r", id, "e", seconds)
		e.Required = required
		if change != nil {
			change(&e.Result)
		}
		return e
	}
	other := func(r *eval.Result) { r.SubjectDigest = strings.Repeat("c", 64) }
	turn := func(r *eval.Result) { r.Turn = "t" }
	kind := func(r *eval.Result) { r.SubjectKind = "text" }
	name := func(r *eval.Result) { r.Evaluator = "other.v1" }
	execution := func(r *eval.Result) { r.Execution = "f" }
	alone := func(r *eval.Result) { r.Execution, r.TestID = "", "t1" }
	aloneElsewhere := func(r *eval.Result) { r.Execution, r.TestID = "", "t2" }
	appendAll(t, s.Store,
		row("late", 9, false, nil), row("first", 1, false, nil), row("marked", 2, true, nil), row("between", 5, false, nil),
		row("other", 3, false, other), row("turn", 3, false, turn), row("kind", 3, false, kind), row("name", 3, false, name), row("execution", 3, false, execution),
		row("alone", 3, true, alone), row("alone again", 4, false, alone), row("alone elsewhere", 5, false, aloneElsewhere),
	)
	s.reading(t, func(t *testing.T, r store.Reader) {
		var got []string
		for _, e := range must[[]eval.Result](t)(r.Evaluations(context.Background(), &store.EvaluationQuery{RunID: "r", Required: true})) {
			got = append(got, e.ID)
			if e.Required != (e.ID == "marked" || e.ID == "alone") {
				t.Errorf("%s is marked %v: a row does not change", e.ID, e.Required)
			}
		}
		diff(t, "rows of required lineages", got, []string{"first", "marked", "alone", "alone again", "between", "late"})
	})
}

// testBlocked: what keeps a run from succeeding, as every store tells it.
func testBlocked(t *testing.T, s *Subject) {
	ctx := context.Background()
	declaring := func(id, spec string, end bool) {
		tape := NewTape("r", id)
		open := tape.Open()
		open.Spec = trace.JSON(spec)
		appendAll(t, s.Store, append([]store.Record{open}, tape.Begin()...)...)
		if end {
			appendAll(t, s.Store, tape.End(trace.OutcomeCompleted, "")...)
		}
	}
	const spec = `{"evaluations":[{"name":"answer.v1","required":true},{"name":"advice.v1"}]}`
	for _, id := range []string{"met", "missing", "failing"} {
		declaring(id, spec, true)
	}
	declaring("open", spec, false)
	declaring("broken", `{"evaluations":"none"}`, true)
	failing, advice := Evaluation("r", "1", "failing", 1), Evaluation("r", "2", "failing", 2)
	failing.Status, failing.Rationale = eval.Inconclusive, "cannot tell"
	advice.Status, advice.Evaluator = eval.Failed, "advice.v1"
	again, erased := Evaluation("r", "4", "met", 4), Evaluation("r", "5", "met", 5)
	again.Evaluator, erased.Evaluator, again.Required = "again.v1", "again.v1", true
	erased.Status, erased.Message = eval.Error, "the evaluator returned an error"
	elsewhere := Evaluation("other run", "6", "missing", 6)
	appendAll(t, s.Store, failing, advice, Evaluation("r", "3", "met", 3), again, erased, elsewhere)
	s.reading(t, func(t *testing.T, r store.Reader) {
		infos := must[[]store.ExecutionInfo](t)(r.Executions(ctx, &store.ExecutionQuery{RunID: "r"}))
		var got []string
		for _, b := range must[[]eval.Blocked](t)(store.Blocked(ctx, r, "r", infos)) {
			got = append(got, strings.Join([]string{string(b.Execution), b.Evaluator, string(b.Status), b.Message, b.Case}, "|"))
		}
		slices.Sort(got)
		diff(t, "Blocked", got, []string{
			"failing|answer.v1|inconclusive|cannot tell|case of failing",
			"met|again.v1|error|the evaluator returned an error|case of met",
			"missing|answer.v1|missing||case of missing",
			"open|answer.v1|missing||case of open",
		})
	})
}
