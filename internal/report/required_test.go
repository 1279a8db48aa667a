package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// evaluated is a run in which go test's outcome, the execution's, and the evaluation's verdict all differ: the test passed, its execution timed out, and the required
// evaluation cannot tell. A second execution declares what is not there.
func evaluated(t *testing.T, st store.Recorder) {
	t.Helper()
	one, two := storetest.NewTape(runID, "one"), storetest.NewTape(runID, "two")
	one.TestID, one.Case, two.TestID, two.Case = "t1", "TestQuote", "t1", "TestQuote"
	open := two.Open()
	open.Spec = trace.JSON(`{"evaluations":[{"name":"price.v1","required":true}]}`)
	verdict := storetest.Evaluation(runID, "v1", "one", 1)
	verdict.Case, verdict.Status, verdict.Rationale, verdict.Required = "TestQuote", eval.Inconclusive, "the price is \x1b[31mnowhere\nin the answer", true
	advisory := storetest.Evaluation(runID, "v2", "one", 2)
	advisory.Evaluator, advisory.Status = "style.v1", eval.Failed
	end := start
	recs := []store.Record{
		run(store.RunFinished, 0),
		&store.Test{ID: "t1", RunID: runID, Package: "example.test/x", Name: "TestQuote", Suite: "suite", Iteration: 1, Status: store.TestPassed, Started: start, Finished: &end},
		&store.Item{RunID: runID, Package: "example.test/x", Test: "TestQuote", Iteration: 1, Action: "pass", TestID: "t1"},
		&store.Item{RunID: runID, Package: "example.test/x", Iteration: 1, Action: "pass"},
		one.Open(),
	}
	recs = append(append(recs, one.Begin()...), one.End(trace.OutcomeTimedOut, "")...)
	recs = append(append(append(recs, open), two.Begin()...), two.End(trace.OutcomeCompleted, "")...)
	filled(t, st, append(recs, verdict, advisory)...)
}

// Go test's outcome, the execution's outcome and the evaluation's verdict are three facts, stored and shown apart (C3, C4): what blocks the run changes neither of the
// others, in the store, in feedback.json and in the summary.
func TestThreeFacts(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "db.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var texts []string
	for _, st := range []store.Store{memory.New(nil), db} {
		evaluated(t, st)
		f, err := report.Build(t.Context(), st, runID)
		if err != nil {
			t.Fatal(err)
		}
		holdFacts(t, f)
		var b bytes.Buffer
		if err := report.Print(&b, f, nil); err != nil {
			t.Fatal(err)
		}
		j, err := f.JSON()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.String(), string(j))
	}
	if diff := gocmp.Diff(texts[:2], texts[2:]); diff != "" {
		t.Errorf("memory and SQLite differ:\n%s", diff)
	}
	want := `
Required evaluations blocked the run:

GATE answer.v1 is inconclusive in TestQuote: the price is \x1b[31mnowhere
  trace: m3 show one

GATE price.v1 is missing in TestQuote
  trace: m3 show two

`
	if !strings.HasPrefix(texts[0], want) || !strings.Contains(texts[0], "\nFAIL  1 of 1 test passed, 2 required evaluations blocked the run; 2 executions\n") {
		t.Errorf("the summary is\n%s", texts[0])
	}
}

func holdFacts(t *testing.T, f *report.Feedback) {
	t.Helper()
	if len(f.Tests) != 1 || f.Tests[0].Outcome != store.TestPassed || f.Summary.TestOutcomeCounts[store.TestPassed] != 1 || len(f.Failures) != 0 || *f.ExitCode != 0 {
		t.Errorf("the test's outcome: %+v, %+v", f.Tests, f.Failures)
	}
	if len(f.Executions) != 2 || f.Executions[0].Outcome != trace.OutcomeTimedOut || f.Executions[1].Outcome != trace.OutcomeCompleted {
		t.Errorf("the executions' outcomes: %+v", f.Executions)
	}
	if diff := gocmp.Diff(map[eval.Status]int{eval.Inconclusive: 1, eval.Failed: 1}, f.Executions[0].EvaluationCounts); diff != "" {
		t.Errorf("the evaluations' verdicts:\n%s", diff)
	}
	b, err := json.Marshal(f.RequiredBlocked)
	want := `[{"evaluator":"answer.v1","status":"inconclusive","execution_id":"one","test_id":"test of v1","suite_name":"suite","case_id":"TestQuote","evaluation_id":"v1",` +
		`"message":"the price is \u001b[31mnowhere\nin the answer"},{"evaluator":"price.v1","status":"missing","execution_id":"two","test_id":"t1","suite_name":"suite","case_id":"TestQuote"}]`
	if err != nil || string(b) != want || f.Summary.RequiredBlocked != 2 {
		t.Errorf("what blocks: %s, %v", b, err)
	}
}

// What blocks the run is told by every output, with go test's outcome as it is: a test that passed is no failure, and the run fails all the same.
func TestOutputsOfRequiredEvaluations(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	evaluated(t, st)
	again := storetest.Evaluation(runID, "v3", "one", 3) // the same evaluator in the same case, of another subject
	again.TestID, again.Case, again.Status, again.Message, again.Required, again.SubjectDigest = "t1", "TestQuote", eval.Error, "answer.v1 panicked", true, "other"
	alone := storetest.Evaluation(runID, "v4", "", 4)
	alone.Case, alone.Status, alone.Required = "", eval.Failed, true
	filled(t, st, again, alone)
	f, err := report.Build(t.Context(), st, runID)
	if err != nil {
		t.Fatal(err)
	}
	junit, err := f.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "required.junit.xml", string(junit))
	checkGolden(t, "required.github", github(f, "x"))
	checkGolden(t, "required.plain", output(t, f, nil, &report.LiveConfig{Style: report.Style{Module: "example.test/x"}}))
	var b bytes.Buffer
	report.NewStream(&b).End(f, "feedback.json")
	checkGolden(t, "required.jsonl", b.String())
}

// E38: wherever a rate is, its numerator and denominator stand beside it, and it is the one of Aggregate: an error, an inconclusive verdict and a missing one stay in
// the denominator. What never passed is not among what is left out, and only what always passed is 100 %.
func TestRatesHaveTheirNumbers(t *testing.T) {
	t.Parallel()
	f := &report.Feedback{EvaluationStats: map[string]eval.Values{
		"pending.v1": {PendingRequiredCount: 2},
		"price.v1": {ExpectedCount: 7, PassedCount: 2, PassRate: eval.Score(2. / 7), MissingRequiredCount: 1,
			StatusCounts: map[eval.Status]int{eval.Passed: 2, eval.Failed: 1, eval.Inconclusive: 1, eval.Error: 1, eval.NotRun: 1}},
		"nearly.v1": {ExpectedCount: 5000, PassedCount: 4999, PassRate: eval.Score(.9998)},
		"always":    {ExpectedCount: 3, PassedCount: 3, PassRate: eval.Score(1)},
	}}
	for i := range 30 {
		f.EvaluationStats[fmt.Sprintf("good.v%d", i)] = eval.Values{ExpectedCount: 1, PassedCount: 1, PassRate: eval.Score(1)}
	}
	f.EvaluationStats["hostile\n| \x1b[31m"] = eval.Values{ExpectedCount: 1, PassRate: eval.Score(0)}
	var b bytes.Buffer
	if err := report.Print(&b, f, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"evaluator passed / expected rate failed inconclusive error not run missing " +
			`hostile\n| \x1b[31m 0 / 1 0.0% 0 0 0 0 0 nearly.v1 4999 / 5000 99.9% 0 0 0 0 0 price.v1 2 / 7 28.5% 1 1 1 1 1 always 3 / 3 100.0%`,
		"and 15 evaluators more: they are in feedback.json",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	summary := (&report.GitHub{}).Summary(f)
	for _, want := range []string{"| price.v1 | 2 / 7 | 28.5% | 1 | 1 | 1 | 1 | 1 |\n", "| pending.v1 | 0 / 0 | – | 0 | 0 | 0 | 0 | 0 |\n", `| hostile&#92;n&#124; &#92;x1b&#91;31m | 0 / 1 | 0.0% |`} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is missing in\n%s", want, summary)
		}
	}
}
