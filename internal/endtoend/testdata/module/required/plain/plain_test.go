// Package plain has no TestMain: nothing of its process runs after its last test.
package plain

import (
	"testing"

	"github.com/m3-go/m3"

	"github.com/m3-go/m3/endtoend.test/required/answer"
)

func TestPlain(t *testing.T) {
	c := answer.Client(t, true)
	_, _ = answer.Kit(t).Evaluate(t.Context(), "bad", answer.Evaluator, &m3.EvaluateOptions{Execution: c.ExecutionID()})
}

func TestPlainToo(t *testing.T) { answer.Client(t, true) }
