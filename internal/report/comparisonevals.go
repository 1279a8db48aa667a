package report

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/store"
)

// EvaluatorComparison compares one evaluator, or one kind of check, of one suite and configuration.
type EvaluatorComparison struct {
	Suite     string `json:"suite_name,omitempty"`
	Evaluator string `json:"evaluator"`
	Config    string `json:"config_digest,omitempty"`
	// Verdict is better, worse, same or cannot_tell. Same only when the interval of the difference lies within the margin.
	Verdict stats.Verdict `json:"verdict"`
	Method  string        `json:"method"` // mcnemar, newcombe
	// PassedCount and ExpectedCount are numerator and denominator of PassRate, of the cases compared.
	PassedCount   Both[int]      `json:"passed_count"`
	ExpectedCount Both[int]      `json:"expected_count"`
	PassRate      Both[float64]  `json:"pass_rate"`
	Delta         float64        `json:"delta"`
	Interval      stats.Interval `json:"interval"` // of Delta
	P             *float64       `json:"p_value,omitempty"`
	Cases         int            `json:"cases"`
}

// EvaluationChange is one evaluation of one case.
type EvaluationChange struct {
	place
	Evaluator string `json:"evaluator"`
	// In says where it is: both, baseline, current.
	In         string `json:"in"`
	Comparable bool   `json:"comparable"`
	// ChangedFields are why it is not comparable: what was asked is not the same, or cannot be known to be.
	ChangedFields []string               `json:"changed_fields,omitempty"`
	Stats         Both[*EvaluationStats] `json:"stats"`
	// Delta is the difference of the pass rates; only when comparable.
	Delta *float64 `json:"delta,omitempty"`
}

// EvaluationStats are the rows of one evaluation in one run.
type EvaluationStats struct {
	EvaluationCount int                 `json:"evaluation_count"`
	ExpectedCount   int                 `json:"expected_count"` // with the required ones that are missing
	PassedCount     int                 `json:"passed_count"`
	PassRate        float64             `json:"pass_rate"` // passed / expected
	ScoreCount      int                 `json:"score_count"`
	AverageScore    *float64            `json:"average_score"`
	StatusCounts    map[eval.Status]int `json:"status_counts"`
}

// predicateUnknown is the field that differs wherever a function of the test decided: what it does is not stored.
const predicateUnknown = "predicate_implementation_unknown"

// identity finds an evaluation again in another run.
type identity struct {
	place
	evaluator string
	ordinal   int // of a check
}

func (k identity) name() string {
	if k.ordinal > 1 {
		return fmt.Sprintf("%s #%d", k.evaluator, k.ordinal)
	}
	return k.evaluator
}

func compareIdentity(a, b identity) int {
	return cmp.Or(a.place.compare(b.place), cmp.Compare(a.evaluator, b.evaluator), cmp.Compare(a.ordinal, b.ordinal))
}

// evaluated is what one run has under an identity.
type evaluated struct {
	EvaluationStats
	sum       float64
	inputs    map[string]map[string]bool // the values of each field that was input
	predicate bool
}

func (c *comparer) evaluations() error {
	base, err := c.evaluated(c.base, &c.out.UnmatchedEvaluations.Baseline)
	if err != nil {
		return err
	}
	now, err := c.evaluated(c.now, &c.out.UnmatchedEvaluations.Current)
	if err != nil {
		return err
	}
	all := map[identity]bool{}
	seen := [2]map[identity]bool{{}, {}}
	for i, m := range []map[identity]*evaluated{base, now} {
		for k := range m {
			all[k], seen[i][k] = true, true
		}
	}
	c.out.Coverage.Evaluations = covered(seen[0], seen[1])
	groups := map[groupKey]*group{}
	for _, k := range sortedKeys(all, compareIdentity) {
		c.identity(k, base[k], now[k], groups)
	}
	for _, k := range sortedKeys(groups, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.suite, b.suite), cmp.Compare(a.evaluator, b.evaluator), cmp.Compare(a.config, b.config))
	}) {
		c.out.Evaluators = append(c.out.Evaluators, groups[k].compare(k, c.out.Margin))
	}
	return nil
}

// evaluated reads the latest rows of a run.
func (c *comparer) evaluated(s *side, unmatched *int) (map[identity]*evaluated, error) {
	rows, err := c.r.Evaluations(c.ctx, &store.EvaluationQuery{RunID: s.f.RunID, Latest: true})
	if err != nil {
		return nil, err
	}
	out := map[identity]*evaluated{}
	at := func(k identity) *evaluated {
		if out[k] == nil {
			out[k] = &evaluated{EvaluationStats: EvaluationStats{StatusCounts: map[eval.Status]int{}}, inputs: map[string]map[string]bool{}}
		}
		return out[k]
	}
	for i := range rows {
		row := &rows[i]
		k, x := s.identify(row)
		if k.Case == "" {
			*unmatched++
			continue
		}
		at(k).add(row, x)
	}
	for i := range s.f.RequiredBlocked {
		if b := &s.f.RequiredBlocked[i]; b.Status == eval.Missing {
			if x := s.executions[b.Execution]; x != nil && x.Case != "" {
				e := at(identity{place: x.place, evaluator: b.Evaluator})
				e.ExpectedCount++
			}
		}
	}
	for _, e := range out {
		e.finish()
	}
	return out, nil
}

func (s *side) identify(row *eval.Result) (identity, *compared) {
	k := identity{place: place{Suite: row.Suite, Case: trial.ReplaceAllString(row.Case, "")}, evaluator: row.Evaluator}
	x := s.executions[row.Execution]
	if x != nil {
		k.place = x.place
		if row.Case != "" { // a check's is the test, an evaluator's is the execution's
			k.Case = trial.ReplaceAllString(row.Case, "")
		}
	}
	if ch := row.Check; ch != nil {
		k.evaluator, k.ordinal = ch.Matcher, ch.Ordinal
		if ch.Selector != "" {
			k.evaluator += "(" + ch.Selector + ")"
		}
	}
	return k, x
}

func (e *evaluated) add(row *eval.Result, x *compared) {
	e.EvaluationCount++
	e.ExpectedCount++
	e.StatusCounts[row.Status]++
	if row.Status == eval.Passed {
		e.PassedCount++
	}
	if row.Score != nil {
		e.ScoreCount++
		e.sum += *row.Score
	}
	e.input("subject_kind", row.SubjectKind)
	if row.Status != eval.Error { // one that could not decide did not get to say who decides
		e.input("evaluation_kind", string(row.Kind))
		provenance := eval.Provenance{}
		if row.Provenance != nil {
			provenance = *row.Provenance
		}
		e.input("provenance", fmt.Sprintf("%+v", provenance))
	}
	if row.Check != nil {
		e.input("expected", string(row.Check.Arguments))
		e.predicate = e.predicate || hasPredicate(row.Check.Arguments)
	}
	if x == nil {
		return
	}
	for _, name := range append([]string{"prompt"}, inputFields...) {
		e.input(name, x.input[name])
	}
}

// hasPredicate looks for how package expect records that a function of the test decided.
func hasPredicate(arguments []byte) bool {
	return bytes.Contains(arguments, []byte(`"predicate":true`))
}

func (e *evaluated) input(name, value string) {
	if e.inputs[name] == nil {
		e.inputs[name] = map[string]bool{}
	}
	e.inputs[name][value] = true
}

func (e *evaluated) finish() {
	if e.ExpectedCount > 0 {
		e.PassRate = float64(e.PassedCount) / float64(e.ExpectedCount)
	}
	if e.ScoreCount > 0 {
		mean := e.sum / float64(e.ScoreCount)
		e.AverageScore = &mean
	}
}

// changedFields are the inputs that were not the same in both runs, as far as both are known: of rows that are all missing nothing is.
func changedFields(a, b *evaluated) []string {
	var out []string
	for name, values := range a.inputs {
		if other, known := b.inputs[name]; known && !maps.Equal(values, other) {
			out = append(out, name)
		}
	}
	if a.predicate || b.predicate {
		out = append(out, predicateUnknown)
	}
	slices.Sort(out)
	return out
}

type groupKey struct{ suite, evaluator, config string }

type group struct{ base, now map[string]stats.Count }

// identity compares one evaluation, and takes it into its group when it can be.
func (c *comparer) identity(k identity, a, b *evaluated, groups map[groupKey]*group) {
	change := EvaluationChange{place: k.place, Evaluator: k.name(), In: "both"}
	if a != nil {
		change.Stats.Baseline = &a.EvaluationStats
	}
	if b != nil {
		change.Stats.Current = &b.EvaluationStats
	}
	switch {
	case a == nil:
		change.In = "current"
	case b == nil:
		change.In = "baseline"
	default:
		change.ChangedFields = changedFields(a, b)
		change.Comparable = len(change.ChangedFields) == 0
	}
	if change.Comparable {
		d := b.PassRate - a.PassRate
		change.Delta = &d
		g := groups[groupKey{k.Suite, k.evaluator, k.Config}]
		if g == nil {
			g = &group{map[string]stats.Count{}, map[string]stats.Count{}}
			groups[groupKey{k.Suite, k.evaluator, k.Config}] = g
		}
		// Equal checks of one case are a cluster, as its trials are: they are not cases of their own.
		g.base[k.Case] = plus(g.base[k.Case], a)
		g.now[k.Case] = plus(g.now[k.Case], b)
		if maps.Equal(a.StatusCounts, b.StatusCounts) && a.ExpectedCount == b.ExpectedCount && a.sum == b.sum {
			return // no change
		}
	}
	c.out.EvaluationChanges = append(c.out.EvaluationChanges, change)
}

func plus(c stats.Count, e *evaluated) stats.Count {
	return stats.Count{Passed: c.Passed + e.PassedCount, N: c.N + e.ExpectedCount}
}

func (g *group) compare(k groupKey, margin float64) EvaluatorComparison {
	r := stats.Compare(g.base, g.now, margin)
	return EvaluatorComparison{Suite: k.suite, Evaluator: k.evaluator, Config: k.config, Verdict: r.Verdict, Method: r.Method,
		PassedCount: Both[int]{r.Baseline.Passed, r.Now.Passed}, ExpectedCount: Both[int]{r.Baseline.N, r.Now.N}, PassRate: Both[float64]{r.Baseline.Rate(), r.Now.Rate()},
		Delta: r.Difference, Interval: r.Interval, P: r.P, Cases: len(g.now)}
}
