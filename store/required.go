package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/m3-go/m3/eval"
)

// Declared are the evaluations that an execution's options declare, as its Spec has them.
func (x *Execution) Declared() []eval.Registration {
	if !bytes.Contains(x.Spec, []byte(`"evaluations"`)) { // as most have none
		return nil
	}
	var spec struct {
		Evaluations []eval.Registration `json:"evaluations"`
	}
	if err := x.Spec.Decode(&spec); err != nil {
		return nil // a specification of another shape declares none
	}
	return spec.Evaluations
}

// Pending reports whether an evaluation that is not there may still come: the execution is open, or the test attempt that it belongs to still runs. Test is
// that attempt; nil when there is none.
func (x *ExecutionInfo) Pending(test *Test) bool {
	return x.Finished == nil || test != nil && test.Finished == nil && (test.Status == TestRunning || test.Status == "")
}

// Blocked lists the required evaluations that keep a run from succeeding (see [eval.Gate]). It is for a run that has ended: what is not there is
// missing, also of an execution that has no end. Infos are the executions of the run.
func Blocked(ctx context.Context, r Index, runID string, infos []ExecutionInfo) ([]eval.Blocked, error) {
	g, names := &eval.Gate{}, map[string]bool{}
	for i := range infos {
		declared := infos[i].Declared()
		g.Expect(&eval.Expectation{Execution: infos[i].ID, TestID: infos[i].TestID, Suite: infos[i].Suite, Case: infos[i].Case, Declared: declared})
		for _, d := range declared {
			if d.Required {
				names[d.Name] = true
			}
		}
	}
	queries := []*EvaluationQuery{{RunID: runID, Required: true}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		queries = append(queries, &EvaluationQuery{RunID: runID, Evaluator: name})
	}
	for _, q := range queries {
		rows, err := r.Evaluations(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("required evaluations of run %s: %w", runID, err)
		}
		// Marked ones first: then their lineages are known.
		for _, marked := range []bool{true, false} {
			for i := range rows {
				if rows[i].Required == marked {
					g.Add(&rows[i])
				}
			}
		}
	}
	return g.Blocked(), nil
}
