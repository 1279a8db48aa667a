package eval

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/m3-go/m3/trace"
)

// Result is one stored evaluation. It is self-contained: all of it stands in its row.
type Result struct {
	// ID is unique.
	ID    string `json:"evaluation_id"`
	RunID string `json:"run_id"`
	// TestID is the recorded test attempt that evaluated; empty outside m3test.
	TestID string `json:"test_id,omitempty"`
	// Execution is what was evaluated; empty for a detached evaluation.
	Execution trace.ExecutionID `json:"execution_id,omitempty"`
	Turn      trace.TurnID      `json:"turn_id,omitempty"`
	Suite     string            `json:"suite_name,omitempty"`
	Case      string            `json:"case_id,omitempty"`
	// Evaluator is its name; for a check, the matcher's.
	Evaluator string `json:"evaluator"`
	Kind      Kind   `json:"kind"`
	// SubjectKind is what sort of thing was evaluated: json, text, execution, view, tool_call_result, response, …
	SubjectKind string `json:"subject_kind"`
	// SubjectDigest is the SHA-256 of the redacted, canonical subject, in hexadecimal digits.
	SubjectDigest string             `json:"subject_digest"`
	Status        Status             `json:"status"`
	Score         *float64           `json:"score,omitempty"`
	Rationale     string             `json:"rationale,omitempty"`
	Metrics       map[string]float64 `json:"metrics,omitempty"`
	Message       string             `json:"message,omitempty"`
	// Details are as JSON decodes them: numbers are float64.
	Details    map[string]any `json:"details,omitempty"`
	Provenance *Provenance    `json:"provenance,omitempty"`
	// Required says that the evaluation's lineage is required: by this call, or by an earlier one.
	Required bool           `json:"required,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"` // scalars, as JSON decodes them
	Created  time.Time      `json:"created_at"`
	Duration time.Duration  `json:"duration_ns"`
	// Check is what a matcher was asked; nil for all other kinds.
	Check *Check `json:"check,omitempty"`
}

// Check identifies a recorded check of a matcher among those of its case, independently of lines and runs.
type Check struct {
	// Matcher is its name: tool_call, completed, …
	Matcher string `json:"matcher"`
	// Selector is what it was pointed at: a tool, "server/tool", a turn; empty for the whole subject.
	Selector string `json:"selector,omitempty"`
	// Ordinal counts equal ones within the case, from 1.
	Ordinal int `json:"ordinal"`
	// Arguments are those of the matcher, redacted and bounded.
	Arguments trace.JSON `json:"arguments,omitempty"`
}

// Lineage identifies what is evaluated, and by what: among the rows of one lineage the latest counts. It is comparable.
type Lineage struct {
	Execution trace.ExecutionID
	// Attempt tells detached evaluations apart, which have no execution: their run and test. Empty where Execution is not.
	Attempt       string
	Evaluator     string
	Turn          trace.TurnID
	SubjectKind   string
	SubjectDigest string
}

// Lineage is that of the row.
func (r *Result) Lineage() Lineage {
	l := Lineage{Execution: r.Execution, Evaluator: r.Evaluator, Turn: r.Turn, SubjectKind: r.SubjectKind, SubjectDigest: r.SubjectDigest}
	if l.Execution == "" {
		l.Attempt = r.RunID + "\x00" + r.TestID
	}
	return l
}

// Compare orders rows by when they were made, equal times by id: of one lineage, the last by this order counts. It is total, so that every store agrees in
// whatever order the rows came to it.
func (r *Result) Compare(o *Result) int {
	return cmp.Or(r.Created.Compare(o.Created), cmp.Compare(r.ID, o.ID))
}

// Clone is a copy that shares nothing with r.
func (r *Result) Clone() Result {
	c := *r
	if r.Score != nil {
		c.Score = Score(*r.Score)
	}
	c.Metrics = maps.Clone(r.Metrics)
	c.Details, _ = cloneValue(r.Details).(map[string]any)
	c.Metadata, _ = cloneValue(r.Metadata).(map[string]any)
	if r.Provenance != nil {
		p := *r.Provenance
		c.Provenance = &p
	}
	if r.Check != nil {
		k := *r.Check
		k.Arguments = slices.Clone(k.Arguments)
		c.Check = &k
	}
	return c
}

// cloneValue copies what encoding/json decodes into any.
func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		m := make(map[string]any, len(v))
		for k, el := range v {
			m[k] = cloneValue(el)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, el := range v {
			s[i] = cloneValue(el)
		}
		return s
	}
	return v
}
