package report_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// TestVerdictsOfStreams: what go test itself prints tells a crash from a failed assertion.
func TestVerdictsOfStreams(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string][]string{
		"pass":      {"passed"},
		"fail":      {"failed_assertion"},
		"testpanic": {"test_error"},
		"timeout":   {"test_error"},
		"sigkill":   {"test_error"},
		"skips":     {"skipped"},
	} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			items, _ := streamItems(t, "../gotest/testdata/streams/"+stream+".jsonl")
			st := memory.New(nil)
			filled(t, st, run(store.RunFinished, 1))
			for i := range items {
				filled(t, st, &items[i])
			}
			f, err := report.Build(t.Context(), st, runID)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for i := range f.Tests {
				if f.Tests[i].Verdict != f.Tests[i].EffectiveVerdict {
					t.Errorf("%s is %s, and %s in effect", f.Tests[i].Name, f.Tests[i].Verdict, f.Tests[i].EffectiveVerdict)
				}
				got[string(f.Tests[i].Verdict)] = true
			}
			for _, v := range want {
				if !got[v] {
					t.Errorf("no test is %s: %v", v, got)
				}
			}
			if stream != "pass" && stream != "skips" && got["failed_assertion"] != slices.Contains(want, "failed_assertion") {
				t.Errorf("the verdicts are %v, want %v", got, want)
			}
		})
	}
}

// TestVerdicts: what the executions of a test hold tells the rest.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		action  string
		calls   []string // of its execution
		status  eval.Status
		require bool
		stopped bool
		want    string // verdict, effective verdict, tool result
	}{
		{"passed", "pass", []string{"success"}, eval.Passed, true, false, "passed passed success"},
		{"a tool error is no verdict", "pass", []string{"success", "tool_error"}, "", false, false, "passed passed tool_error"},
		{"no calls", "pass", nil, "", false, false, "passed passed "},
		{"an advisory evaluation", "pass", nil, eval.Failed, false, false, "passed passed "},
		{"a required evaluation", "pass", []string{"success"}, eval.Failed, true, false, "passed failed_evaluation success"},
		{"an assertion", "fail", []string{"success"}, "", false, false, "failed_assertion failed_assertion success"},
		{"an error of the protocol", "fail", []string{"protocol_error"}, eval.Passed, false, false, "protocol_error protocol_error tool_error"},
		{"an error, and a check that failed", "fail", []string{"protocol_error"}, eval.Failed, false, false, "failed_assertion failed_assertion tool_error"},
		{"the process died", "", nil, "", false, false, "test_error test_error "},
		{"the run was stopped", "", nil, "", false, true, "not_run not_run "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := run(store.RunFinished, 1)
			if tt.stopped {
				r.Detail = trace.JSON(`{"signal":"interrupt"}`)
			}
			tape := storetest.NewTape(runID, "x")
			tape.TestID = "t"
			recs := append([]store.Record{r, &store.Test{ID: "t", RunID: runID, Package: "p", Name: "TestX", Iteration: 1, Status: store.TestRunning, Started: start},
				&store.Item{RunID: runID, Package: "p", Test: "TestX", Iteration: 1, Action: tt.action, TestID: "t"}, tape.Open()}, tape.Begin()...)
			for _, result := range tt.calls {
				recs = append(recs, tape.Call("quote", result, time.Millisecond)...)
			}
			recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
			if tt.status != "" {
				recs = append(recs, &store.Evaluation{Result: eval.Result{ID: "e", RunID: runID, TestID: "t", Execution: "x", Evaluator: "e.v1", Kind: eval.KindEvaluator, SubjectKind: "json", SubjectDigest: "d",
					Status: tt.status, Required: tt.require, Created: start}})
			}
			st := memory.New(nil)
			filled(t, st, recs...)
			f, err := report.Build(t.Context(), st, runID)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%s %s %s", f.Tests[0].Verdict, f.Tests[0].EffectiveVerdict, f.Tests[0].ToolResult); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if f.Summary.EffectiveVerdictCounts[f.Tests[0].EffectiveVerdict] != 1 || f.Summary.VerdictCounts[f.Tests[0].Verdict] != 1 {
				t.Errorf("counted as %v and %v", f.Summary.VerdictCounts, f.Summary.EffectiveVerdictCounts)
			}
		})
	}
}

// broken is a store whose trace of one execution cannot be read.
type broken struct{ store.Reader }

func (b broken) Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error) {
	if id == "x000" {
		return nil, errors.New("the disk is gone")
	}
	return b.Reader.Trace(ctx, id)
}

// TestFilesAreBounded: the first hundred executions and tests that failed have files, the rest is counted, and what cannot be read is named.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	filled(t, st, run(store.RunFinished, 1))
	for i := range 103 {
		tape := storetest.NewTape(runID, fmt.Sprintf("x%03d", i))
		tape.TestID, tape.Created = fmt.Sprintf("t%03d", i), start.Add(time.Duration(i)*time.Second)
		filled(t, st, append([]store.Record{&store.Item{RunID: runID, Package: "p", Test: fmt.Sprintf("Test%03d", i), Iteration: 1, Action: "fail", TestID: tape.TestID}, tape.Open()}, tape.Begin()...)...)
		filled(t, st, tape.End(trace.OutcomeCompleted, "something")...)
	}
	r := broken{st}
	f, err := report.Build(t.Context(), r, runID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WriteFiles(t.Context(), r, filepath.Join(t.TempDir(), "feedback.json")); err != nil {
		t.Fatal(err)
	}
	if len(f.ExecutionFiles) != 100 || len(f.SpecFiles) != 100 || len(f.TraceFiles) != 99 || len(f.TestResultFiles) != 100 {
		t.Errorf("%d executions, %d specs, %d traces, %d tests", len(f.ExecutionFiles), len(f.SpecFiles), len(f.TraceFiles), len(f.TestResultFiles))
	}
	if diff := gocmp.Diff([]report.UnavailableReference{{Kind: "traces", ID: "x000", Reason: "the disk is gone"}}, f.Unavailable); diff != "" {
		t.Errorf("unavailable (-want +got):\n%s", diff)
	}
	said := strings.Join(f.Limitations, "\n")
	for _, want := range []string{"of 103 executions that failed the first 100 have files", "of 103 tests that failed the first 100 have files"} {
		if !strings.Contains(said, want) {
			t.Errorf("the limitations lack %q:\n%s", want, said)
		}
	}
	b, err := f.JSON()
	if err != nil || !strings.Contains(string(b), `"kind": "persistence"`) {
		t.Errorf("the trace that cannot be read is no failure: %v", err)
	}
}
