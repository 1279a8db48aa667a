package eval

import "github.com/m3-go/m3/trace"

// Report answers a [Query].
type Report struct {
	// Totals are over all groups, also those that are not in this answer.
	Totals Values `json:"totals"`
	// Groups are in the order of the text of their keys.
	Groups      []Group `json:"groups"`
	TotalGroups int     `json:"total_groups"`
	Limit       int     `json:"limit"`
	Offset      int     `json:"offset"`
}

// Group is the rows that share the values of the labels grouped by.
type Group struct {
	// Key has a value for each label of [Query].GroupBy, in its order; empty where rows have none.
	Key    []string `json:"key"`
	Values Values   `json:"values"`
}

// Values are the measures of rows. Of each lineage the latest row counts.
type Values struct {
	// TrialCount counts the executions.
	TrialCount int `json:"trial_count"`
	// EvaluationCount counts the rows; ExpectedCount them and the required ones that are missing.
	EvaluationCount int `json:"evaluation_count"`
	ExpectedCount   int `json:"expected_count"`
	// MissingRequiredCount counts required evaluations that will not come any more; PendingRequiredCount those that still may, which are not expected yet.
	MissingRequiredCount int            `json:"missing_required_count"`
	PendingRequiredCount int            `json:"pending_required_count"`
	StatusCounts         map[Status]int `json:"status_counts"`
	// PassedCount is the numerator of PassRate, ExpectedCount its denominator.
	PassedCount int `json:"passed_count"`
	// PassRate is passed / expected; nil when nothing was expected.
	PassRate *float64 `json:"pass_rate"`
	// ScoreCount counts the rows with a score; AverageScore is nil without any.
	ScoreCount   int      `json:"score_count"`
	AverageScore *float64 `json:"average_score"`
	Health       Health   `json:"health"`
}

// Health is about the executions behind the rows, whatever their verdicts.
type Health struct {
	ExecutionCount     int                   `json:"execution_count"`
	ToolCalls          ToolCalls             `json:"tool_calls"`
	ProtocolErrorCount int                   `json:"protocol_error_count"`
	OutcomeCounts      map[trace.Outcome]int `json:"outcome_counts"`
	// ExecutionDuration is from creation to end; ServerLatency is of the tool calls. Both in milliseconds.
	ExecutionDuration Spread `json:"execution_duration_ms"`
	ServerLatency     Spread `json:"server_latency_ms"`
}

// ToolCalls counts calls.
type ToolCalls struct {
	Total      int `json:"total"`
	Successful int `json:"successful"`
	Failed     int `json:"failed"`
}

// Spread is the median and the 95th percentile of Count numbers; nil without any.
type Spread struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50"`
	P95   *float64 `json:"p95"`
}
