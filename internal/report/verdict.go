package report

import (
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Verdict says what kind of end a test had, from what go test reported and what its executions hold. It never changes the outcome.
type Verdict string

// The verdicts of a test. What fails before any test runs, or after all of them, is a package's failure in Go, and stands under packages and failures.
const (
	VerdictPassed          Verdict = "passed"
	VerdictFailedAssertion Verdict = "failed_assertion"
	// VerdictProtocolError: it failed, none of the checks of its executions did, and an MCP request of theirs was answered by a JSON-RPC error.
	VerdictProtocolError Verdict = "protocol_error"
	// VerdictTestError: it panicked, ran into go test's timeout, or its process died.
	VerdictTestError Verdict = "test_error"
	VerdictSkipped   Verdict = "skipped"
	// VerdictNotRun: it never ended, because the run was stopped.
	VerdictNotRun Verdict = "not_run"
	// VerdictFailedEvaluation is effective only: the test passed, and a required evaluation of it did not.
	VerdictFailedEvaluation Verdict = "failed_evaluation"
)

// ToolResult is how the tool calls of a test's executions ended.
type ToolResult string

// The tool results.
const (
	ToolSuccess ToolResult = "success"
	ToolError   ToolResult = "tool_error" // of one at least
)

// verdicts judges every attempt.
func (b *builder) verdicts() {
	blocked := map[string]bool{}
	for i := range b.f.RequiredBlocked {
		if id := b.f.RequiredBlocked[i].TestID; id != "" {
			blocked[id] = true
		}
	}
	for i := range b.f.Tests {
		t := &b.f.Tests[i]
		t.Verdict = b.verdict(t)
		t.EffectiveVerdict = t.Verdict
		if t.Verdict == VerdictPassed && blocked[t.TestID] {
			t.EffectiveVerdict = VerdictFailedEvaluation
		}
		t.ToolResult = b.toolResult(t.Executions)
	}
}

func (b *builder) verdict(t *TestRecord) Verdict {
	switch t.Outcome {
	case store.TestPassed:
		return VerdictPassed
	case store.TestSkipped:
		return VerdictSkipped
	case store.TestInterrupted, store.TestRunning:
		return VerdictNotRun
	}
	switch {
	case t.cut:
		return VerdictTestError
	case b.protocolErrors(t.Executions):
		return VerdictProtocolError
	default:
		return VerdictFailedAssertion
	}
}

// protocolErrors says that JSON-RPC errors are the only thing known to have gone wrong.
func (b *builder) protocolErrors(ids []trace.ExecutionID) bool {
	errors := 0
	for _, id := range ids {
		t := b.tallies[id]
		if t.Evaluations[eval.Failed] > 0 {
			return false
		}
		errors += t.ProtocolErrors
	}
	return errors > 0
}

func (b *builder) toolResult(ids []trace.ExecutionID) ToolResult {
	var calls eval.ToolCalls
	for _, id := range ids {
		c := b.tallies[id].ToolCalls
		calls.Failed += c.Failed
		calls.Successful += c.Successful
	}
	switch {
	case calls.Failed > 0:
		return ToolError
	case calls.Successful > 0:
		return ToolSuccess
	default:
		return ""
	}
}

// otherFailures are failures that no test and no package shows.
func (b *builder) otherFailures() {
	byID := map[string]*TestRecord{}
	for i := range b.f.Tests {
		byID[b.f.Tests[i].TestID] = &b.f.Tests[i]
	}
	for i := range b.f.RequiredBlocked {
		r := &b.f.RequiredBlocked[i]
		f := Failure{Kind: "evaluation", Reason: "required evaluation: " + r.String(), Executions: []trace.ExecutionID{}}
		if r.Execution != "" {
			f.Executions = append(f.Executions, r.Execution)
		}
		if t := byID[r.TestID]; t != nil && r.TestID != "" {
			f.Package, f.Test, f.Iteration, f.Seconds = t.Package, t.Name, t.Iteration, t.ElapsedSeconds
		}
		b.f.more = append(b.f.more, f)
	}
	for i := range b.f.Executions {
		if e := &b.f.Executions[i]; e.Evidence == EvidenceUnavailable {
			b.f.more = append(b.f.more, Failure{Kind: "persistence", Reason: "the trace cannot be read: " + e.Unavailable, Executions: []trace.ExecutionID{e.ExecutionID}})
		}
	}
	for i := range b.f.Tests {
		if t := &b.f.Tests[i]; t.Verdict == VerdictNotRun {
			b.f.more = append(b.f.more, Failure{Kind: "not_run", Package: t.Package, Test: t.Name, Iteration: t.Iteration, Seconds: t.ElapsedSeconds,
				Reason: "it had not ended when the run was stopped", Executions: t.Executions})
		}
	}
}

// statistics asks the store for the rates of the run's evaluators.
func (b *builder) statistics() error {
	b.f.EvaluationStats = map[string]eval.Values{}
	q := eval.Query{Filters: eval.Labels{eval.LabelRun: {b.f.RunID}}, GroupBy: []string{eval.LabelEvaluator}, Limit: eval.MaxLimit}
	for {
		rep, err := b.r.Aggregate(b.ctx, q)
		if err != nil {
			return err
		}
		for _, g := range rep.Groups {
			b.f.EvaluationStats[g.Key[0]] = g.Values
		}
		if q.Offset += len(rep.Groups); len(rep.Groups) == 0 || q.Offset >= rep.TotalGroups {
			return nil
		}
	}
}
