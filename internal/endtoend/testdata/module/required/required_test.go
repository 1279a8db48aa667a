// Package required has tests that pass while what they require does not, in every way in which a test can look away.
package required

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"

	"github.com/m3-go/m3/endtoend.test/required/answer"
)

func TestMain(m *testing.M) { m3test.Main(m, nil) }

func required(c *m3.Client) *m3.EvaluateOptions {
	return &m3.EvaluateOptions{Execution: c.ExecutionID(), Required: true}
}

func TestPass(t *testing.T) {
	answer.Kit(t)
	m3test.Evaluate(t, "good", answer.Evaluator, required(answer.Client(t, true)))
}

func TestAdvisory(t *testing.T) {
	answer.Kit(t)
	m3test.Evaluate(t, "bad", answer.Evaluator, &m3.EvaluateOptions{Execution: answer.Client(t, false).ExecutionID()})
}

func TestFatal(t *testing.T) {
	answer.Kit(t)
	m3test.Evaluate(t, "bad", answer.Evaluator, required(answer.Client(t, false)))
}

func TestSwallow(t *testing.T) {
	_, _ = answer.Kit(t).Evaluate(t.Context(), "bad", answer.Evaluator, required(answer.Client(t, false)))
}

func TestDetached(t *testing.T) {
	_, _ = answer.Kit(t).Evaluate(t.Context(), "bad", answer.Evaluator, &m3.EvaluateOptions{Required: true})
}

func TestRecover(t *testing.T) {
	defer func() { _ = recover() }()
	if _, err := answer.Kit(t).Evaluate(t.Context(), "bad", answer.Evaluator, required(answer.Client(t, false))); err != nil {
		panic(err)
	}
}

func TestSkip(t *testing.T) {
	answer.Client(t, true)
	t.Skip("not today")
}

func TestForgotten(t *testing.T) { answer.Client(t, true) }

func TestErased(t *testing.T) {
	kit, c := answer.Kit(t), answer.Client(t, false)
	_, _ = kit.Evaluate(t.Context(), "bad", answer.Evaluator, required(c))
	_, _ = kit.Evaluate(t.Context(), "bad", answer.Evaluator, &m3.EvaluateOptions{Execution: c.ExecutionID()})
	_, _ = kit.Evaluate(t.Context(), "other", answer.Evaluator, &m3.EvaluateOptions{Execution: c.ExecutionID()})
}

func TestKill(t *testing.T) {
	_, _ = answer.Kit(t).Evaluate(t.Context(), "kill", answer.Evaluator, required(answer.Client(t, true)))
}

var runs int

// TestSecondTime is better the second time.
func TestSecondTime(t *testing.T) {
	runs++
	subject := "bad"
	if runs == 2 {
		subject = "good"
	}
	_, _ = answer.Kit(t).Evaluate(t.Context(), subject, answer.Evaluator, required(answer.Client(t, true)))
}
