// Package judge_test shows a model that judges responses, against a provider on loopback that says what a model might say.
package judge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/judge"
	"github.com/m3-go/m3/m3test"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

const question = "What does a parcel of 2 kg cost, and how long does it take?"

// A real judge is judge.LLM{Model: "your-judge-model"}, with its key in M3_JUDGE_API_KEY. This one needs no network.
func fixture(url string) judge.LLM {
	return judge.LLM{Model: "fixture", BaseURL: url + "/v1", Auth: judge.AuthNone, ResponseMode: judge.JSONText,
		Rubric: "The price and the time must both be right.", RubricID: "shop.facts", RubricVersion: "1"}
}

// provider answers as a model would that looks for both facts.
func provider(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Messages []struct{ Content string } }
		var subject judge.Subject
		if json.NewDecoder(r.Body).Decode(&request) != nil || json.Unmarshal([]byte(request.Messages[1].Content), &subject) != nil {
			http.Error(w, "what is this?", http.StatusBadRequest)
			return
		}
		answer := `{"score": 0.5, "rationale": "A fact is missing.", "abstain": false}`
		switch price, time := strings.Contains(subject.Actual, "7.00 EUR"), strings.Contains(subject.Actual, "2 days"); {
		case subject.Actual == "":
			answer = `{"score": null, "rationale": "There is nothing to judge.", "abstain": true}`
		case price && time:
			answer = `{"score": 1, "rationale": "Both facts are there.", "abstain": false}`
		}
		content, _ := json.Marshal(answer)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"model": "fixture-1", "choices": [{"finish_reason": "stop", "message": {"content": ` + string(content) + `}}],
			"usage": {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140}}`))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The judge's verdict is a row of its own, beside the trace of what was judged.
func TestJudgedAnswer(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	answer, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := fixture(provider(t))
	result, err := m3test.Kit(t).JudgeResponse(t.Context(), j, judge.Subject{Input: question, Expected: "7.00 EUR, and two days.", Actual: answer.Text()},
		&m3.EvaluateOptions{Name: "shop.answer.v1", Execution: client.ExecutionID(), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != eval.Passed || *result.Score != 1 || result.Rationale != "Both facts are there." {
		t.Errorf("the verdict is %+v", result)
	}
	if p := result.Provenance; p.Model != "fixture" || p.RubricID != "shop.facts" || p.ConfigDigest != j.Digest() {
		t.Errorf("the provenance is %+v", p)
	}
}

// A judge that cannot say is no verdict about the answer: the status is error, and a code says why.
func TestNoVerdict(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	subject := judge.Subject{Input: question, Expected: "7.00 EUR, and two days."}
	opts := &m3.EvaluateOptions{Name: "shop.answer.v1"}
	result, err := kit.JudgeResponse(t.Context(), fixture(provider(t)), subject, opts)
	if err != nil || result.Status != eval.Error || result.Details["error_code"] != judge.CodeAbstained {
		t.Errorf("an abstention is %+v, %v", result, err)
	}
	subject.Expected = " "
	result, err = kit.JudgeResponse(t.Context(), fixture(provider(t)), subject, &m3.EvaluateOptions{Name: "shop.blank.v1"})
	if err != nil || result.Status != eval.Error || result.Details["error_code"] != judge.CodeInputInvalid {
		t.Errorf("nothing to go by is %+v, %v", result, err)
	}
}

// The same judge as a named evaluator, for a subject that other evaluators look at, too.
func TestRegisteredJudge(t *testing.T) {
	t.Parallel()
	kit := m3test.Kit(t)
	if err := kit.RegisterEvaluator("shop.judged.v1", fixture(provider(t)).Evaluate); err != nil {
		t.Fatal(err)
	}
	subject := map[string]any{"input": question, "expected": "7.00 EUR, and two days.", "actual": "It costs 7.00 EUR.", "used_tools": []string{"quote"}}
	result, err := kit.Evaluate(t.Context(), subject, "shop.judged.v1", nil)
	if err != nil || result.Status != eval.Failed || *result.Score != 0.5 {
		t.Errorf("half an answer is %+v, %v", result, err)
	}
}

// A test may bound what it spends, whatever the run's --judge-max-requests is.
func TestBudget(t *testing.T) {
	t.Parallel()
	kit := m3test.NewKit(t, &m3test.KitOptions{JudgeMaxRequests: new(0)})
	result, err := kit.JudgeResponse(t.Context(), fixture(provider(t)), judge.Subject{Input: question, Expected: "7.00 EUR", Actual: "7.00 EUR"},
		&m3.EvaluateOptions{Name: "shop.answer.v1"})
	if err != nil || result.Details["error_code"] != judge.CodeBudgetExhausted {
		t.Errorf("without a budget: %+v, %v", result, err)
	}
}
