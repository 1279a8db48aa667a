package m3test

import (
	"errors"
	"fmt"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
)

// Evaluate runs an evaluator of the test's kit on a subject, and returns what was stored; see [m3.Kit.Evaluate]. A required evaluation that did not pass is fatal
// for the test, as is what goes wrong otherwise; an advisory one that did not pass is not. The test's context bounds the evaluator; in a clean-up, where that has
// ended, only the deadline of the test does.
func Evaluate(t T, subject any, name string, opts *m3.EvaluateOptions) eval.Result {
	t.Helper()
	return std.evaluate(t, subject, name, opts)
}

func (p *process) evaluate(t T, subject any, name string, opts *m3.EvaluateOptions) eval.Result {
	t.Helper()
	k := p.kit(t)
	if k == nil { // a T whose Fatalf returns
		return eval.Result{}
	}
	a := p.attemptOf(t)
	ctx, cancel := connectContext(t)
	defer cancel()
	r, err := k.Evaluate(ctx, subject, name, opts)
	var required *eval.RequiredError
	switch {
	case err == nil:
	case errors.As(err, &required):
		text := fmt.Sprintf("m3: %v", err)
		if command := a.command(r.Execution); command != "" {
			text += "\n  evidence: " + command
		}
		a.fatal(t, text)
	default:
		a.fatal(t, fmt.Sprintf("m3: evaluate %q: %v", name, err))
	}
	return r
}
