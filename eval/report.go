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

// Values are the measures of rows. Of each lineage the latest row counts. docs/aggregation.md says what they mean.
type Values struct {
	// TrialCount counts the executions.
	TrialCount int `json:"trial_count"`
	// CaseCount counts the cases.
	CaseCount int `json:"case_count"`
	// EvaluationCount counts the rows; ExpectedCount them and the required ones that are missing.
	EvaluationCount int `json:"evaluation_count"`
	ExpectedCount   int `json:"expected_count"`
	// RequiredCount counts those of ExpectedCount that are required: the missing ones, each row whose lineage was ever required by a call, and each
	// whose execution declares its evaluator as required.
	RequiredCount int `json:"required_count"`
	// MissingRequiredCount counts required evaluations that will not come any more; PendingRequiredCount those that still may, which are not expected yet.
	MissingRequiredCount int `json:"missing_required_count"`
	PendingRequiredCount int `json:"pending_required_count"`
	// StatusCounts has all five statuses.
	StatusCounts map[Status]int `json:"status_counts"`
	// PassedCount is the numerator of PassRate, ExpectedCount its denominator.
	PassedCount int `json:"passed_count"`
	// PassRate is passed / expected; nil when nothing was expected.
	PassRate *float64 `json:"pass_rate"`
	// PassInterval is the 95 % interval of PassRate: Wilson's, clustered by case where cases have several trials. Nil when nothing was expected.
	PassInterval *Interval `json:"pass_interval"`
	// InfrastructureCount counts those of ExpectedCount that did not pass for a reason that is no verdict about the subject: see [Result.Infrastructure]. They
	// stay in the denominator.
	InfrastructureCount int `json:"infrastructure_count"`
	// PassK answers [Query].PassK, in its order.
	PassK []PassK `json:"pass_k,omitempty"`
	// Flakiness is the share of neighbouring trials of equal code whose verdict differs.
	Flakiness Flakiness `json:"flakiness"`
	// ScoreCount counts the rows with a score; AverageScore is nil without any.
	ScoreCount   int      `json:"score_count"`
	AverageScore *float64 `json:"average_score"`
	Health       Health   `json:"health"`
}

// Interval is a 95 % interval of a rate.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// PassK is pass@k and pass^k: the chance that at least one of k trials passes, and that all of k do. Each series of trials (one case, one evaluator, one
// configuration, one run) of which n trials were made and c passed gives 1 − C(n−c, k)/C(n, k), and C(c, k)/C(n, k); these are the means over the series
// that have k trials. Series with fewer are left out, for there it is undefined; without any both are nil, and shown as –.
type PassK struct {
	K int `json:"k"`
	// Any is pass@k, All is pass^k.
	Any *float64 `json:"pass_at_k"`
	All *float64 `json:"pass_pow_k"`
	// SeriesCount is how many series have at least K trials, of AllSeries.
	SeriesCount int `json:"series_count"`
	AllSeries   int `json:"all_series_count"`
}

// Flakiness counts flips: in each series of trials (see [PassK]), in the order in which they were made, how often one passed and its neighbour did not.
type Flakiness struct {
	Flips int `json:"flips"`
	Pairs int `json:"pairs"`
	// Rate is flips / pairs; nil without any pair.
	Rate *float64 `json:"rate"`
}

// Health is about the executions behind the rows, whatever their verdicts. What is open counts in ExecutionCount alone.
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

// Spread is the median and the 95th percentile (linear interpolation) of Count numbers; nil without any.
type Spread struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50"`
	P95   *float64 `json:"p95"`
}

// DetailInfrastructure is the key of [Result].Details under which an evaluator says, with the value true, that it could not decide for a
// reason that is no verdict about the subject.
const DetailInfrastructure = "infrastructure"

// infrastructureCodes are the error codes of a judge that was not reached, or did not answer.
var infrastructureCodes = map[string]bool{"judge_credentials_missing": true, "judge_budget_exhausted": true, "judge_budget_unavailable": true, "judge_redirect_blocked": true,
	"malformed_output": true, "cancelled": true, "rate_limit": true,
	"server_error": true, "timeout": true, "provider_error": true, "missing_dependency": true}

// Infrastructure reports whether the row did not pass because of something around the subject rather than the subject: its details say so, or a judge's
// provider failed. An execution whose end says so makes all of its rows so that did not pass.
func (r *Result) Infrastructure() bool {
	if r.Status == Passed {
		return false
	}
	if yes, ok := r.Details[DetailInfrastructure].(bool); ok && yes {
		return true
	}
	code, _ := r.Details["error_code"].(string)
	return r.Kind == KindJudge && r.Status == Error && infrastructureCodes[code]
}
