package judge

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/providertest"
	"github.com/m3-go/m3/trace"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerURL) != "" {
		worker()
		return
	}
	os.Exit(m.Run())
}

// good is an answer that passes.
const good = `{"score": 0.95, "rationale": "It says what was wanted.", "abstain": false}`

var subject = Subject{Input: "What is 2 + 3?", Expected: "The answer is 5.", Actual: "It is 5."}

func texts(input, expected, actual string) Subject {
	return Subject{Input: input, Expected: expected, Actual: actual}
}

// local is a judge at the provider that is asked without a key.
func local(p *providertest.Server) LLM {
	return LLM{Model: "m", BaseURL: p.URL + "/v1", Auth: AuthNone, ResponseMode: JSONText, test: &testHooks{noPause: true}}
}

// evaluate has the judge decide about the subject, as a kit does it.
func evaluate(t *testing.T, l LLM, s any) eval.Decision {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Evaluate(t.Context(), eval.Context{Subject: trace.JSON(raw), SubjectKind: "response"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Fatalf("the decision is not valid: %v", err)
	}
	return d
}

// text is a decision as it would be stored.
func text(t *testing.T, d eval.Decision) string {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %+v", b, d)
}
