package eval

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/m3-go/m3/trace"
)

// Missing is how a [Blocked] stands that has no row at all.
const Missing Status = "missing"

// Expectation is an execution whose options declare evaluations.
type Expectation struct {
	Execution   trace.ExecutionID
	TestID      string
	Suite, Case string
	// Declared are the registrations; those that are not required ask for nothing.
	Declared []Registration
}

// Blocked is one required evaluation that did not pass, or is not there.
type Blocked struct {
	Evaluator string `json:"evaluator"`
	// Status is the row's, or [Missing].
	Status    Status            `json:"status"`
	Execution trace.ExecutionID `json:"execution_id,omitempty"`
	Turn      trace.TurnID      `json:"turn_id,omitempty"`
	TestID    string            `json:"test_id,omitempty"`
	Suite     string            `json:"suite_name,omitempty"`
	Case      string            `json:"case_id,omitempty"`
	// Evaluation is the row's ID; empty when there is none.
	Evaluation string `json:"evaluation_id,omitempty"`
	Message    string `json:"message,omitempty"` // the row's message, else its rationale
}

// String is one line: what, how it stands, where, and why.
func (b *Blocked) String() string {
	s := b.Evaluator + " " + string(b.Status)
	switch b.Status {
	case Missing:
		s = b.Evaluator + " is missing"
	case NotRun:
		s = b.Evaluator + " was not run"
	case Inconclusive:
		s = b.Evaluator + " is inconclusive"
	case Error:
		s = b.Evaluator + " could not decide"
	}
	if b.Case != "" {
		s += " in " + b.Case
	}
	if line, _, _ := strings.Cut(b.Message, "\n"); line != "" {
		s += ": " + line
	}
	return s
}

// Gate is the policy of required evidence for one run: it is told what is expected and what was evaluated, and says at the end what blocks. It
// follows from nothing but registrations and the Required of rows.
//
// A row is required when its lineage has a row that is marked so, or when its execution declares its evaluator as required. Of each required lineage the latest
// row must have passed; and each required declaration needs at least one row.
//
// The zero Gate is ready. It may be used from several goroutines, and must not be copied.
type Gate struct {
	mu       sync.Mutex
	declared map[declaration]*Expectation // required ones
	met      map[declaration]bool
	latest   map[Lineage]Result // of required lineages
}

type declaration struct {
	execution trace.ExecutionID
	evaluator string
}

// Expect tells of an execution that declares evaluations, before rows of it are added.
func (g *Gate) Expect(x *Expectation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range x.Declared {
		if !r.Required {
			continue
		}
		if g.declared == nil {
			g.declared = map[declaration]*Expectation{}
		}
		own := *x
		g.declared[declaration{x.Execution, r.Name}] = &own
	}
}

// Add tells of a row. Rows of one lineage may come in any order, but the first that is required must not come after one that is not.
func (g *Gate) Add(r *Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := declaration{r.Execution, r.Evaluator}
	_, declared := g.declared[d]
	declared = declared && r.Execution != ""
	if declared {
		if g.met == nil {
			g.met = map[declaration]bool{}
		}
		g.met[d] = true
	}
	l := r.Lineage()
	last, known := g.latest[l]
	switch {
	case !known && !r.Required && !declared:
		return
	case g.latest == nil:
		g.latest = map[Lineage]Result{}
	}
	if !known || last.Compare(r) < 0 {
		g.latest[l] = *r
	}
}

// Any reports whether anything is required.
func (g *Gate) Any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.declared) > 0 || len(g.latest) > 0
}

// Blocked lists what blocks, by case, evaluator and execution. Nothing will come any more: what is not there is missing.
func (g *Gate) Blocked() []Blocked {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Blocked
	for d, x := range g.declared {
		if !g.met[d] {
			out = append(out, Blocked{Evaluator: d.evaluator, Status: Missing, Execution: x.Execution, TestID: x.TestID, Suite: x.Suite, Case: x.Case})
		}
	}
	for _, r := range g.latest {
		if r.Status != Passed {
			out = append(out, Blocked{Evaluator: r.Evaluator, Status: r.Status, Execution: r.Execution, Turn: r.Turn, TestID: r.TestID, Suite: r.Suite, Case: r.Case,
				Evaluation: r.ID, Message: cmp.Or(r.Message, r.Rationale)})
		}
	}
	slices.SortFunc(out, func(a, b Blocked) int {
		return cmp.Or(cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.Case, b.Case), cmp.Compare(a.Evaluator, b.Evaluator),
			cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Evaluation, b.Evaluation))
	})
	return out
}
