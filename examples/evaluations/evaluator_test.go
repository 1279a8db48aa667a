// Package evaluations shows evaluators of one's own, and evaluations that a run must have.
package evaluations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/store"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// answered is what the evaluators of this package look at.
type answered struct {
	Answer    string   `json:"answer"`
	UsedTools []string `json:"used_tools"`
}

// answerAndTool checks both the answer and the tools that were really called.
func answerAndTool(_ context.Context, e eval.Context) (eval.Decision, error) {
	var s answered
	if err := e.Subject.Decode(&s); err != nil {
		return eval.Decision{}, err
	}
	answerOK, toolOK := strings.Contains(s.Answer, "5"), slices.Contains(s.UsedTools, "add")
	d := eval.PassIf(answerOK && toolOK, fmt.Sprintf("answer_ok=%t; tool_ok=%t", answerOK, toolOK))
	d.Score = eval.Score(number(answerOK && toolOK))
	d.Metrics = map[string]float64{"answer_ok": number(answerOK), "tool_ok": number(toolOK)}
	return d, nil
}

func number(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// sum asks the server for 2 + 3, and returns what is to be evaluated: the answer, and the tools that the trace has seen.
func sum(t *testing.T, client *m3.Client) answered {
	t.Helper()
	r, err := client.CallTool(t.Context(), "add", m3.Args{"a": 2, "b": 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := answered{Answer: r.Text()}
	for _, call := range m3test.Finish(t, client).ToolCalls().All() {
		s.UsedTools = append(s.UsedTools, call.Tool.Value)
	}
	return s
}

// A custom evaluator runs when it is called. Its decision is stored with the execution, metrics included, and changes nothing about it.
func TestAnswerAndTool(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	if err := kit.RegisterEvaluator("project.answer-and-tool.v1", answerAndTool); err != nil {
		t.Fatal(err)
	}
	client := m3test.Direct(t, shop, nil)
	result := m3test.Evaluate(t, sum(t, client), "project.answer-and-tool.v1", &m3.EvaluateOptions{Execution: client.ExecutionID()})
	if result.Status != eval.Passed || result.Rationale != "answer_ok=true; tool_ok=true" {
		t.Errorf("%s: %s %s", result.Status, result.Rationale, result.Message)
	}

	rows, err := kit.Store().Evaluations(t.Context(), &store.EvaluationQuery{Execution: client.ExecutionID(), Evaluator: "project.answer-and-tool.v1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].ID != result.ID || rows[0].Metrics["answer_ok"] != 1 || rows[0].Metrics["tool_ok"] != 1 || *rows[0].Score != 1 {
		t.Errorf("stored: %+v", rows)
	}
}

// Three evaluators are there without being registered. They take whatever they apply to: a client, a result, a text.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	quote, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m3test.Finish(t, client)
	for _, c := range []struct {
		evaluator string
		subject   any
		want      eval.Status
	}{
		{eval.ExecutionCompleted, client, eval.Passed},
		{eval.ToolCallSucceeded, quote, eval.Passed},
		{eval.ToolCallSucceeded, client, eval.NotRun}, // it does not apply, and says so
		{eval.OutputHasText, quote, eval.Passed},
		{eval.OutputHasText, "  ", eval.Failed},
	} {
		if r := m3test.Evaluate(t, c.subject, c.evaluator, nil); r.Status != c.want {
			t.Errorf("%s: %s (%s), want %s", c.evaluator, r.Status, r.Rationale, c.want)
		}
	}
}
