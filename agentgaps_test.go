package m3_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// TestSessionView: a session has a view once it is finished, and matchers say so.
func TestSessionView(t *testing.T) {
	t.Parallel()
	s, err := fakeAgents(t, agentKit(t), &fakeDriver{}).Session(t.Context(), &m3.SessionOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), "call calc:echo {\"a\":1}", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View(); !errors.Is(err, m3.ErrSessionOpen) || !errors.Is(err, trace.ErrNotFinalized) {
		t.Errorf("the view of an open session: %v", err)
	}
	failing := &expectT{TB: t}
	if expect.That(failing, s).ToolCall("echo") || !strings.Contains(failing.said, "session.Finish(ctx)") {
		t.Errorf("a matcher on an open session: %q", failing.said)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expect.That(t, s).ToolCall("echo", expect.Times(1))
}

// expectT takes what a matcher reports.
type expectT struct {
	testing.TB
	said string
}

func (t *expectT) Helper() {}
func (t *expectT) Error(args ...any) {
	for _, a := range args {
		if s, ok := a.(string); ok {
			t.said += s
		}
	}
}
func (t *expectT) Errorf(format string, args ...any) { t.Error(format); t.Error(args...) }

// TestFailedExchange: a request to a model that failed is an entry that failed.
func TestFailedExchange(t *testing.T) {
	t.Parallel()
	script := model.Script{model.Say("hi"), model.Fault(model.Failure{Status: 401})}
	res, _ := fakeAgents(t, agentKit(t), &fakeDriver{}, model.Scripted("m", script)).Run(t.Context(), "model a\nmodel b", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	p := res.View().Provider()
	if p.Len() != 2 || p.At(0).Status != trace.StatusCompleted || p.At(1).Status != trace.StatusFailed {
		t.Fatalf("%d entries: %s", p.Len(), p.At(0).Data.Value)
	}
}

// TestInfrastructure: what is no verdict about the task is counted apart, never as a failed task, and stays in the denominator.
func TestInfrastructure(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	kit := newKit(t, m3.Config{Store: st})
	register(t, kit, "task.v1", func(_ context.Context, e eval.Context) (eval.Decision, error) {
		if strings.Contains(string(e.Subject), `"completed"`) {
			return eval.Decision{Status: eval.Passed}, nil
		}
		return eval.Decision{Status: eval.Inconclusive, Rationale: "there is no answer"}, nil
	})
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	refused := model.Script{model.Fault(model.Failure{Status: 401})}
	unfit := model.Script{model.Say("never asked for")}
	for _, c := range []struct {
		name   string
		models []m3.Model
		text   string
		blame  harness.Blame
		infra  int
	}{
		{"done", nil, "say done", "", 0},
		{"401", []m3.Model{model.Scripted("refused", refused)}, "model hi", harness.BlameProvider, 1},
		{"crash", nil, "crash", harness.BlameAgent, 1},
		{"left over", []m3.Model{model.Scripted("unfit", unfit)}, "say done", harness.BlameTest, 0},
	} {
		d := &fakeDriver{kind: "fake-" + strings.ReplaceAll(c.name, " ", "-")}
		res, _ := fakeAgents(t, kit, d, c.models...).Run(t.Context(), c.text, &m3.RunOptions{Server: pipe, Case: c.name,
			Evaluations: []eval.Registration{{Name: "task.v1", Required: true}, {Name: "missing.v1", Required: true}}})
		if res == nil || (c.blame == "") != (res.Failure == nil) || c.blame != "" && res.Failure.Blame != c.blame {
			t.Fatalf("%s: %+v", c.name, res)
		}
		_, _ = kit.Evaluate(t.Context(), res, "task.v1", &m3.EvaluateOptions{Required: true})
		passed := 0
		if c.blame == "" {
			passed = 1
		}
		// The required evaluation that never ran is missing: it is in the denominator as well, and counted like the row.
		for _, name := range []string{"task.v1", "missing.v1"} {
			report, err := st.Aggregate(t.Context(), eval.Query{Filters: eval.Labels{"evaluator": {name}, "case_id": {c.name}}})
			if err != nil {
				t.Fatal(err)
			}
			if v := report.Totals; v.ExpectedCount != 1 || v.StatusCounts[eval.Failed] != 0 || v.InfrastructureCount != c.infra || v.PassedCount != passed && name == "task.v1" {
				t.Errorf("%s of %s: %+v", name, c.name, v)
			}
		}
	}
}

// TestReservedMetadata: the names by which m3 groups results are nobody else's, on actions, sessions and messages (spec/behaviour.md 5.1).
func TestReservedMetadata(t *testing.T) {
	t.Parallel()
	a := fakeAgents(t, agentKit(t), &fakeDriver{})
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	s, err := a.Session(t.Context(), &m3.SessionOptions{Server: pipe, Metadata: map[string]any{"mine": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"harness_config", "trial", "m3.matrix.harness", "m3.matrix.trial", "m3.matrix.matrix_id", "m3.matrix.cell_id"} {
		own := map[string]any{name: "x"}
		_, ran := a.Run(t.Context(), "say x", &m3.RunOptions{Server: pipe, Metadata: own})
		_, opened := a.Session(t.Context(), &m3.SessionOptions{Server: pipe, Metadata: own})
		_, sent := s.Send(t.Context(), "say x", &m3.SendOptions{Metadata: own})
		for what, err := range map[string]error{"Run": ran, "Session": opened, "Send": sent} {
			if !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %s: %v", what, name, err)
			}
		}
	}
}
