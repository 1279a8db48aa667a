package trace

import "iter"

// View is the immutable, typed projection of a finalized trace: one ordered timeline, indexes by kind, and filters that
// return views. It is a small value over a shared index; entries are decoded when asked for.
//
// In the process that recorded the execution an entry holds the real values; the JSON of a view, and every view that was
// reopened from a store, hold the redacted ones, whose observations read Redacted.
type View struct {
	ix     *viewIndex // nil in the zero View, which is empty
	filter *filter    // nil: everything
}

// List is a read-only list whose elements are decoded when asked for. It may be used from several goroutines.
type List[T any] struct {
	n  int
	at func(i int) T
}

// Len is the number of elements.
func (l List[T]) Len() int { return l.n }

// At returns element i, from 0. It panics when i is out of range, as an index does.
func (l List[T]) At(i int) T {
	if i < 0 || i >= l.n {
		panic("trace: List index out of range")
	}
	return l.at(i)
}

// All yields every element with its index.
func (l List[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range l.n {
			if !yield(i, l.at(i)) {
				return
			}
		}
	}
}

// Summary is an execution in numbers.
type Summary struct {
	Timing Timing `json:"timing"`
	// Usage is the latest report of the widest scope (session, else turn, else step) that counts tokens, never a sum; UsageScope is that scope. Its cost is
	// the latest of the widest scope that tells one; CostScope is set when that is another report: the cost of a session beside the tokens of its last turn.
	Usage               Observation[Usage] `json:"usage"`
	UsageScope          string             `json:"usage_scope,omitempty"`
	CostScope           string             `json:"cost_scope,omitempty"`
	TurnCount           int                `json:"turn_count"`
	MessageCount        int                `json:"message_count"`
	ReasoningCount      int                `json:"reasoning_count"`
	ToolCallCount       int                `json:"tool_call_count"` // those that passed on the wire, m3's own left out
	SuccessfulToolCalls int                `json:"successful_tool_calls"`
	FailedToolCalls     int                `json:"failed_tool_calls"`
	ReportedOnlyCalls   int                `json:"reported_only_calls,omitempty"` // those that an agent only told
	PolicyDeniedCalls   int                `json:"policy_denied_calls,omitempty"` // those that m3's tool restriction refused
	ProtocolErrorCount  int                `json:"protocol_error_count"`
	FindingCount        int                `json:"finding_count"`
	ActivityHealth      string             `json:"activity_health"` // no_calls, all_succeeded, all_failed, mixed
	CleanupStatus       string             `json:"cleanup_status"`
}

// Runtime is what ran. Which fields mean something depends on Kind: direct, opencode, claude_code, codex, pi, acp.
type Runtime struct {
	Kind string `json:"kind"`
	// Transport and Protocol are a direct execution's: of its first connection.
	Transport      Observation[string]              `json:"transport"`
	Protocol       Observation[string]              `json:"protocol"`
	Initialization Observation[InitializationEntry] `json:"initialization"`
	// Fields are an agent's own facts (session id, model id, stop reason, …) by the names of spec/behaviour.md 7.6.
	Fields map[string]Observation[JSON] `json:"fields,omitempty"`
}

// Completeness says whether evidence was lost.
type Completeness string

// The two completenesses: complete exactly when there is no limitation.
const (
	Complete Completeness = "complete"
	Partial  Completeness = "partial"
)
