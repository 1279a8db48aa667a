package eval

import "testing"

// TestInfrastructure tells what is around a subject from the subject.
func TestInfrastructure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		row  Result
		want bool
	}{
		{"passed", Result{Status: Passed, Details: map[string]any{DetailInfrastructure: true}}, false},
		{"failed", Result{Status: Failed}, false},
		{"an evaluator that says so", Result{Status: Inconclusive, Details: map[string]any{DetailInfrastructure: true}}, true},
		{"an evaluator that says it is not", Result{Status: Error, Details: map[string]any{DetailInfrastructure: false}}, false},
		{"a word instead of true", Result{Status: Error, Details: map[string]any{DetailInfrastructure: "true"}}, false},
		{"a judge's provider", Result{Status: Error, Kind: KindJudge, Details: map[string]any{"error_code": "rate_limit"}}, true},
		{"a judge's answer", Result{Status: Error, Kind: KindJudge, Details: map[string]any{"error_code": "judge_malformed_output"}}, false},
		{"a judge that abstained", Result{Status: Error, Kind: KindJudge, Details: map[string]any{"error_code": "abstained"}}, false},
		{"an evaluator with a code like a judge's", Result{Status: Error, Kind: KindEvaluator, Details: map[string]any{"error_code": "timeout"}}, false},
	} {
		if got := tt.row.Infrastructure(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
