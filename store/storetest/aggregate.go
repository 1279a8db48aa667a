package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// load records a dataset and returns the calls that its executions made.
func (d *Dataset) load(t *testing.T, r store.Recorder) map[trace.ExecutionID][]SampleCall {
	t.Helper()
	calls := map[trace.ExecutionID][]SampleCall{}
	for s := range d.All() {
		if s.Execution != nil {
			calls[s.Execution.ID] = s.Calls
		}
		if err := r.Append(context.Background(), s.Records...); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

const quality = "quality-0.v1"

// questions ask for every label, filter, bucket and measure.
func questions() []eval.Query {
	one := func(filters eval.Labels, groupBy ...string) eval.Query {
		f := eval.Labels{eval.LabelEvaluator: {quality}}
		for k, v := range filters {
			f[k] = v
		}
		return eval.Query{Filters: f, GroupBy: groupBy, PassK: []int{1, 2, 3, 9}}
	}
	list := []eval.Query{one(nil), {GroupBy: []string{eval.LabelEvaluator}, PassK: []int{2}}}
	for _, label := range append(eval.LabelNames(), eval.LabelHour, eval.LabelDay, eval.LabelWeek, "metadata.harness_config", "metadata.seed", "metadata.ratio", "metadata.cold",
		"metadata.reviewer", "metadata.m3.matrix.trial", "metadata.m3.matrix.case_id", "metadata.nothing") {
		list = append(list, one(nil, label), eval.Query{GroupBy: []string{label, eval.LabelEvaluator}, PassK: []int{2}})
		if label == eval.LabelEvaluator {
			list = list[:len(list)-1]
		}
	}
	day := epoch.Add(20 * time.Hour)
	list = append(list,
		one(eval.Labels{eval.LabelRun: {"run-001"}}, "metadata.harness_config"),
		one(eval.Labels{eval.LabelRun: {"run-001", "run-002", "none"}}, eval.LabelSuite, eval.LabelCase),
		one(eval.Labels{eval.LabelSuite: {"moved"}}, eval.LabelCase),
		one(eval.Labels{eval.LabelCase: {"case-001"}}, eval.LabelSuite, eval.LabelRun),
		one(eval.Labels{eval.LabelStatus: {"failed", "error"}}, eval.LabelModel),
		one(eval.Labels{eval.LabelTool: {"multiple"}}, eval.LabelServer),
		one(eval.Labels{eval.LabelTool: {""}}, eval.LabelTool),
		one(eval.Labels{eval.LabelServer: {"multiple"}}),
		one(eval.Labels{eval.LabelTrialNumber: {"1"}}, eval.LabelCase),
		one(eval.Labels{eval.LabelTrial: {"x00000001", "x00000004"}}, eval.LabelTrial),
		one(eval.Labels{eval.LabelTrial: {"x00000001"}, eval.LabelTurn: {""}}),
		one(eval.Labels{eval.LabelProject: {"example.com/project1"}}, eval.LabelProjectName),
		one(eval.Labels{"metadata.seed": {"7", "99"}}, "metadata.seed"),
		one(eval.Labels{eval.LabelSubjectKind: {"json"}}, eval.LabelDay),
		one(eval.Labels{eval.LabelMatrixCell: {"orders/1"}, eval.LabelMatrix: {"m"}, eval.LabelHarness: {"codex"}}, eval.LabelMatrixCell, eval.LabelHour),
		one(eval.Labels{eval.LabelExecutionKind: {"agent"}}, eval.LabelCase), // none
		eval.Query{Filters: eval.Labels{eval.LabelEvaluator: {"never.v1"}}, GroupBy: []string{eval.LabelRun}},
		eval.Query{Filters: eval.Labels{eval.LabelEvaluator: {"never.v1"}}, GroupBy: []string{eval.LabelStatus}},
		eval.Query{Filters: eval.Labels{eval.LabelEvaluator: {"none.v1"}}},
		eval.Query{Filters: eval.Labels{eval.LabelJudgeProvider: {"openai"}, eval.LabelRubric: {"rubric"}}, GroupBy: []string{eval.LabelEvaluator, eval.LabelJudgeModel}},
		eval.Query{Filters: eval.Labels{eval.LabelEvaluationKind: {"judge"}}, GroupBy: []string{eval.LabelEvaluator, eval.LabelStatus}},
	)
	for _, window := range [][2]time.Time{{day, {}}, {{}, day}, {day, day.Add(31 * time.Hour)}, {epoch.Add(time.Second), epoch.Add(2 * time.Second)}} {
		q := one(nil, eval.LabelRun)
		q.From, q.To = window[0], window[1].In(time.FixedZone("somewhere", -7200))
		if window[1].IsZero() {
			q.To = time.Time{}
		}
		list = append(list, q)
	}
	for _, page := range [][2]int{{1, 0}, {2, 3}, {1000, 5}, {3, 1000}} {
		q := one(nil, eval.LabelCase, "metadata.harness_config")
		q.Limit, q.Offset = page[0], page[1]
		list = append(list, q)
	}
	return list
}

// testAggregate compares every question's answer with the naive one.
func testAggregate(t *testing.T, s *Subject) {
	d := &Dataset{Runs: 3, Cases: 4, Configs: 3, Trials: 4, Evaluators: 3, Calls: 3, Odd: true}
	calls := d.load(t, s.Store)
	s.reading(t, func(t *testing.T, r store.Reader) {
		reference := newNaive(t, r, calls)
		empty := 0
		for _, q := range questions() {
			got, err := r.Aggregate(context.Background(), q)
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			want := reference.report(q)
			diff(t, fmt.Sprintf("%+v", q), got, want)
			a, b := text(t, got), text(t, want)
			if !bytes.Equal(a, b) {
				t.Errorf("%+v: as JSON\n%s\nwant\n%s", q, a, b)
			}
			if want.Totals.EvaluationCount+want.Totals.MissingRequiredCount == 0 {
				empty++
			}
			if t.Failed() {
				return
			}
		}
		if empty != 3 {
			t.Errorf("%d of the questions have nothing to answer, want 3", empty)
		}
	})
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	return must[[]byte](t)(json.Marshal(v))
}

// testAggregateRules says the rules one by one, in numbers small enough to check by hand.
func testAggregateRules(t *testing.T, s *Subject) {
	// The first three executions do not declare it: there, what is required is so by a call.
	spec := `{"metadata":{"harness_config":"a"}}`
	add := func(id, suite, run string, finished bool, rows ...*store.Evaluation) {
		tape := NewTape(run, id)
		tape.Suite, tape.Case, tape.TestID = suite, "the case", ""
		open := tape.Open()
		open.Spec = trace.JSON(spec)
		appendAll(t, s.Store, append([]store.Record{open}, tape.Begin()...)...)
		if finished {
			appendAll(t, s.Store, tape.End(trace.OutcomeCompleted, "")...)
		}
		for _, row := range rows {
			row.Suite, row.Case = suite, "the case"
			appendAll(t, s.Store, row)
		}
	}
	status := func(e *store.Evaluation, st eval.Status, required bool) *store.Evaluation {
		e.Status, e.Required = st, required
		return e
	}
	row := func(run, id string, x trace.ExecutionID, at int) *store.Evaluation { return Evaluation(run, id, x, at) }
	// Run one, suite old: passed; failed after it had passed; required once, advisory later; missing.
	add("x1", "old", "one", true, row("one", "1", "x1", 1))
	add("x2", "old", "one", true, row("one", "2", "x2", 1), status(row("one", "3", "x2", 2), eval.Failed, false))
	add("x3", "old", "one", true, status(row("one", "4", "x3", 1), eval.Failed, true), row("one", "5", "x3", 2))
	spec = `{"metadata":{"harness_config":"a"},"evaluations":[{"name":"answer.v1","required":true}]}`
	add("x4", "old", "one", true)
	// Run two: the case is in another suite. An evaluator that gave up, and one that is pending.
	add("y1", "new", "two", true, status(row("two", "6", "y1", 1), eval.Error, false))
	add("y2", "new", "two", false)
	s.reading(t, func(t *testing.T, r store.Reader) {
		ask := func(groupBy ...string) map[string]eval.Values {
			t.Helper()
			rep := must[eval.Report](t)(r.Aggregate(context.Background(), eval.Query{Filters: eval.Labels{"evaluator": {"answer.v1"}}, GroupBy: groupBy}))
			out := map[string]eval.Values{"totals": rep.Totals}
			for _, g := range rep.Groups {
				out[strings.Join(g.Key, "/")] = g.Values
			}
			return out
		}
		check := func(what string, v eval.Values, passed, expected, rows, missing, pending, required, trials int) {
			t.Helper()
			got := []int{v.PassedCount, v.ExpectedCount, v.EvaluationCount, v.MissingRequiredCount, v.PendingRequiredCount, v.RequiredCount, v.TrialCount}
			diff(t, what+": passed, expected, rows, missing, pending, required, trials", got, []int{passed, expected, rows, missing, pending, required, trials})
			if want := float64(passed) / float64(expected); v.PassRate == nil || *v.PassRate != want {
				t.Errorf("%s: the rate is %v, want %v", what, v.PassRate, want)
			}
		}
		byCase, bySuite := ask("case_id"), ask("suite_name")
		lost := 0 // the open execution's evaluation is pending, until its process is known to be gone
		if must[store.ExecutionInfo](t)(r.Execution(context.Background(), "y2")).Finished != nil {
			lost = 1
		}
		check("the case, in both suites", byCase["the case"], 2, 5+lost, 4, 1+lost, 1-lost, 3+lost, 6)
		check("the totals", byCase["totals"], 2, 5+lost, 4, 1+lost, 1-lost, 3+lost, 6)
		check("the old suite", bySuite["old"], 2, 4, 3, 1, 0, 2, 4)
		check("the new suite", bySuite["new"], 0, 1+lost, 1, lost, 1-lost, 1+lost, 2)
		if n := len(byCase); n != 2 {
			t.Errorf("the case is in %d groups: it moved, and is still one case", n-1)
		}
		diff(t, "statuses", bySuite["new"].StatusCounts, map[eval.Status]int{"passed": 0, "failed": 0, "error": 1, "inconclusive": 0, "not_run": 0})
		for key, v := range ask("evaluation_status") {
			if v.MissingRequiredCount+v.PendingRequiredCount != 0 {
				t.Errorf("by status, %s: what has no row has no status: %+v", key, v)
			}
		}
	})
}

// testAggregateTrials: ten cases under two configurations in two trials are 40 expected evaluations, each execution with a score of its own; and how the tests
// ended that made them says nothing about them.
func testAggregateTrials(t *testing.T, s *Subject) {
	d := &Dataset{Runs: 1, Cases: 10, Configs: 2, Trials: 2, Evaluators: 1, Calls: 1}
	end := epoch.Add(time.Hour)
	q := eval.Query{Filters: eval.Labels{"evaluator": {quality}, "run_id": {"run-000"}}, GroupBy: []string{"metadata.harness_config"}}
	rates := func(outcome store.TestStatus) string {
		for sample := range d.All() {
			if sample.Execution != nil {
				sample.Execution.TestID = "test of " + string(sample.Execution.ID)
				appendAll(t, s.Store, &store.Test{ID: sample.Execution.TestID, RunID: "run-000", Package: "p", Name: "T", Iteration: 1, Status: outcome, Started: epoch, Finished: &end})
			}
			if outcome == store.TestPassed {
				appendAll(t, s.Store, sample.Records...)
			}
		}
		rep := must[eval.Report](t)(s.Store.Aggregate(context.Background(), q))
		if v := rep.Totals; v.ExpectedCount != 40 || v.EvaluationCount != 40 || v.TrialCount != 40 || v.ScoreCount != 40 || v.CaseCount != 10 || len(rep.Groups) != 2 || rep.Groups[0].Values.ExpectedCount != 20 {
			t.Errorf("%+v", v)
		}
		return string(text(t, rep))
	}
	if passed, failed := rates(store.TestPassed), rates(store.TestFailed); passed != failed {
		t.Errorf("tests that passed: %s\ntests that failed: %s", passed, failed)
	}
}

// testAggregateRefused: a question without one evaluator, or with a label that nothing has, is refused, and says why.
func testAggregateRefused(t *testing.T, s *Subject) {
	one := eval.Labels{"evaluator": {quality}}
	for _, tt := range []struct {
		q    eval.Query
		want string
	}{
		{eval.Query{}, `no evaluator: filter by one (Filters: eval.Labels{"evaluator": {"…"}}), or group by "evaluator"`},
		{eval.Query{Filters: eval.Labels{"suite_name": {"a"}}}, "no evaluator"},
		{eval.Query{Filters: eval.Labels{"evaluator": {"a", "b"}}}, "2 evaluators in one rate"},
		{eval.Query{Filters: one, GroupBy: []string{"suite"}}, `group by "suite": there is no such label; known are run_id, project_id, project_name, suite_name,`},
		{eval.Query{Filters: eval.Labels{"evaluator": {"a"}, "metadata.": {"b"}}}, `filter by "metadata.": there is no such label`},
		{eval.Query{Filters: eval.Labels{"evaluator": {"a"}, "suite_name": {}}}, `the filter "suite_name" has no values`},
		{eval.Query{Filters: eval.Labels{"evaluator": {"a"}, "evaluation_status": {"pass"}}}, `the value "pass": it is one of passed, failed, error, inconclusive, not_run`},
		{eval.Query{Filters: eval.Labels{"evaluator": {"a"}, "time.day": {"2026-01-01"}}}, `"time.day" cannot be filtered by: use From and To`},
		{eval.Query{Filters: one, GroupBy: []string{"time.day", "time.week"}}, "at most one bucket of time"},
		{eval.Query{Filters: one, GroupBy: []string{"run_id", "run_id"}}, `group by "run_id" twice`},
		{eval.Query{Filters: one, From: epoch, To: epoch}, "is not before To"},
		{eval.Query{Filters: one, Limit: 1001}, "the limit 1001 is not in 1 to 1000"},
		{eval.Query{Filters: one, Limit: -1}, "the limit -1"},
		{eval.Query{Filters: one, Offset: -1}, "the offset -1 is negative"},
		{eval.Query{Filters: one, PassK: []int{0}}, "pass@0: k is at least 1"},
		{eval.Query{Filters: one, PassK: []int{2, 2}}, "pass@2 twice"},
	} {
		_, err := s.Store.Aggregate(context.Background(), tt.q)
		if !errors.Is(err, eval.ErrQuery) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.q, err, tt.want)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Store.Aggregate(cancelled, eval.Query{Filters: one})
	wantErr(t, "cancelled", err, context.Canceled)
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Store.Aggregate(context.Background(), eval.Query{Filters: one})
	wantErr(t, "closed", err, store.ErrClosed)
}

// testAggregateMeanwhile: questions are answered while recording goes on, each from one moment: never half of what was appended together.
func testAggregateMeanwhile(t *testing.T, s *Subject) {
	d := &Dataset{Runs: 1, Cases: 5, Configs: 2, Trials: 10, Evaluators: 2, Calls: 1}
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			last := 0
			for !done.Load() {
				rep, err := s.Store.Aggregate(context.Background(), eval.Query{GroupBy: []string{"evaluator"}})
				v := rep.Totals
				if err != nil || v.EvaluationCount < last || v.TrialCount > v.EvaluationCount || v.Health.ExecutionCount != v.TrialCount {
					t.Errorf("after %d: %+v, %v", last, v, err)
					return
				}
				last = v.EvaluationCount
			}
		})
	}
	d.load(t, s.Store)
	done.Store(true)
	wg.Wait()
	rep := must[eval.Report](t)(s.Store.Aggregate(context.Background(), eval.Query{GroupBy: []string{"evaluator"}}))
	if rep.Totals.EvaluationCount != d.Rows() || rep.TotalGroups != 2 {
		t.Errorf("at the end: %+v", rep.Totals)
	}
}
