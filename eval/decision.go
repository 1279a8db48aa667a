package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Func is an evaluator. It may block, until ctx ends, and may use goroutines of its own. Whatever it does to e changes nothing that is stored. An
// error, a panic and a decision that is not valid become the status [Error], with a text of m3's: the text of the error is never kept, for it
// may hold anything.
type Func func(ctx context.Context, e Context) (Decision, error)

// Decision is what an evaluator decides.
type Decision struct {
	// Status is needed.
	Status Status
	// Score is a finite number on whatever scale the evaluator has; nil is none.
	Score *float64
	// Rationale says why, in a sentence or two. It is stored redacted, and cut at 4,000 bytes.
	Rationale string
	// Metrics are finite numbers by name; they are stored and read back.
	Metrics map[string]float64
	// Message is a short text about a decision that is not a verdict about the subject (an error, an inconclusive one). It is
	// stored redacted, and cut at 4,000 bytes.
	Message string
	// Details are whatever else is worth keeping, as JSON: it is stored redacted. At most 64 KiB.
	Details map[string]any
	// Provenance says who decided, when it was not just code.
	Provenance *Provenance
}

// PassIf is the decision of a condition: [Passed] or [Failed].
func PassIf(ok bool, rationale string) Decision {
	if ok {
		return Decision{Status: Passed, Rationale: rationale}
	}
	return Decision{Status: Failed, Rationale: rationale}
}

// Score returns a pointer to v, for [Decision].Score.
func Score(v float64) *float64 { return &v }

// Validate says what is wrong with a decision: an unknown status, or a number that is not finite.
func (d *Decision) Validate() error {
	if !d.Status.Valid() {
		return fmt.Errorf("eval: unknown status %.40q", string(d.Status))
	}
	if d.Score != nil && !finite(*d.Score) {
		return errors.New("eval: the score is not a finite number")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Metrics)) {
		if !finite(d.Metrics[name]) {
			return fmt.Errorf("eval: the metric %.100q is not a finite number", name)
		}
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Provenance says where a decision comes from.
type Provenance struct {
	Kind          string `json:"kind"` // llm_judge, matcher, or the evaluator's own word
	Provider      string `json:"provider,omitempty"`
	Model         string `json:"model,omitempty"`
	RubricID      string `json:"rubric_id,omitempty"`
	RubricVersion string `json:"rubric_version,omitempty"`
	// ConfigDigest is the SHA-256 of the configuration that decided, in hexadecimal digits.
	ConfigDigest string `json:"config_digest,omitempty"`
}

// ProvenanceJudge is the Kind of a [Provenance] that makes an evaluation one of [KindJudge].
const ProvenanceJudge = "llm_judge"

// Registration declares, in the options of an execution, that an evaluator belongs to it. It never runs it.
type Registration struct {
	// Name is the evaluator's.
	Name string `json:"name"`
	// Required says that every execution made with the options must have an evaluation of that name.
	Required bool `json:"required,omitempty"`
}
