package evaluations

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
)

// Every execution that is made with these options must be evaluated by quality.v1: a test that forgets it, skips, or dies before it, does not fail for that,
// but the run is blocked.
var evaluated = &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "quality.v1", Required: true}}}

func TestRequiredEvidence(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	// Registering makes a function available. It requires nothing.
	if err := kit.RegisterEvaluator("quality.v1", answerAndTool); err != nil {
		t.Fatal(err)
	}
	client := m3test.Direct(t, shop, evaluated)
	subject := sum(t, client)
	// A required evaluation that did not pass would end this test, and block the run even if the test looked away.
	result := m3test.Evaluate(t, subject, "quality.v1", &m3.EvaluateOptions{Execution: client.ExecutionID(), Required: true})
	if !result.Required {
		t.Errorf("%+v", result)
	}
}

// What a required evaluation that does not pass does: it is stored first, and then it is an error; an advisory evaluation of the same afterwards stays required, and
// another subject does not become so. The kit has a store of its own and is not of m3test, because this test is not to block the run that it is part of.
func TestRequiredEvaluationThatFails(t *testing.T) {
	t.Parallel()
	kit, err := m3.New(m3.Config{Store: memory.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	if err := kit.RegisterEvaluator("quality.v1", answerAndTool); err != nil {
		t.Fatal(err)
	}
	client, err := kit.Direct(t.Context(), shop, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := answered{Answer: "four", UsedTools: []string{"add"}}
	required := &m3.EvaluateOptions{Execution: client.ExecutionID(), Required: true}
	advisory := &m3.EvaluateOptions{Execution: client.ExecutionID()}

	var blocked *eval.RequiredError
	if _, err := kit.Evaluate(t.Context(), wrong, "quality.v1", required); !errors.As(err, &blocked) {
		t.Fatalf("a required evaluation that fails: %v", err)
	}
	rows, err := kit.Store().Evaluations(t.Context(), &store.EvaluationQuery{Required: true})
	if err != nil || len(rows) != 1 || rows[0].ID != blocked.Result.ID || rows[0].Status != eval.Failed {
		t.Errorf("stored: %+v, %v", rows, err)
	}
	if _, err := kit.Evaluate(t.Context(), wrong, "quality.v1", advisory); !errors.As(err, &blocked) {
		t.Errorf("an advisory evaluation of the same: %v", err)
	}
	other := answered{Answer: "nothing"}
	if r, err := kit.Evaluate(t.Context(), other, "quality.v1", advisory); err != nil || r.Required || r.Status != eval.Failed {
		t.Errorf("an advisory evaluation of something else: %+v, %v", r, err)
	}
}
