package stats

import "math"

// Verdict says how one set of evaluations compares with an earlier one.
type Verdict string

// The verdicts. CannotTell is the honest one for most small samples.
const (
	Better     Verdict = "better"
	Worse      Verdict = "worse"
	Same       Verdict = "same"
	CannotTell Verdict = "cannot_tell"
)

// The methods of a [Comparison].
const (
	MethodPaired   = "mcnemar"  // exact McNemar, unconditional, with Newcombe's paired interval
	MethodUnpaired = "newcombe" // Newcombe's interval, clustered by case where cases have several trials
)

// strict is the 98.25 % quantile of the normal distribution. Newcombe's 95 % interval leaves zero out by chance alone up to 6 % of the time in small samples
// (5.7 % at 40 against 40). So unpaired samples are called better or worse by an exact test that orders outcomes by his interval, and, where they
// are too many to enumerate or are clusters, when his 96.5 % interval leaves zero out.
const strict = 2.108358399314274

// DefaultMargin is how far two rates may lie apart and still be the same: 5 points.
const DefaultMargin = 0.05

// Comparison is how the rate now compares with that of the baseline.
type Comparison struct {
	Verdict    Verdict
	Method     string
	Baseline   Count
	Now        Count
	Difference float64  // now − baseline
	Interval   Interval // of the difference
	Margin     float64
	// P is the p-value of the paired test; nil for the unpaired method, which has an interval alone.
	P *float64
	// The cases of a paired comparison that changed: passed before and not now, and the other way round.
	Lost, Gained int
}

// Compare compares the evaluations of cases, by case. When both have the same cases, each evaluated once, they are pairs, and [Paired] is used; else [Unpaired].
// A margin of 0 or less is [DefaultMargin].
func Compare(baseline, now map[string]Count, margin float64) Comparison {
	if t, ok := pairs(baseline, now); ok {
		return Paired(t.both, t.lost, t.gained, t.neither, margin)
	}
	return Unpaired(values(baseline), values(now), margin)
}

type table struct{ both, lost, gained, neither int }

func pairs(baseline, now map[string]Count) (t table, ok bool) {
	if len(baseline) != len(now) || len(now) == 0 {
		return t, false
	}
	for id, a := range baseline {
		b, there := now[id]
		if !there || a.N != 1 || b.N != 1 {
			return t, false
		}
		switch {
		case a.Passed == 1 && b.Passed == 1:
			t.both++
		case a.Passed == 1:
			t.lost++
		case b.Passed == 1:
			t.gained++
		default:
			t.neither++
		}
	}
	return t, true
}

func values(m map[string]Count) []Count {
	out := make([]Count, 0, len(m))
	for _, c := range m {
		out = append(out, c)
	}
	return out
}

// Paired compares the same cases evaluated twice: both passed, passed before only (lost), passes now only (gained), neither. The test is the exact one of
// McNemar, unconditional; the interval of the difference Newcombe's for pairs.
func Paired(both, lost, gained, neither int, margin float64) Comparison {
	n := both + lost + gained + neither
	p := McNemarUnconditional(n, lost, gained)
	c := Comparison{Method: MethodPaired, Baseline: Count{both + lost, n}, Now: Count{both + gained, n}, P: &p, Lost: lost, Gained: gained,
		Interval: NewcombePaired(both, gained, lost, neither)}
	return c.judge(p < 1-Level, margin)
}

// Unpaired compares two sets of evaluations that are not pairs. Each is given by case: the trials of a case are a cluster.
func Unpaired(baseline, now []Count, margin float64) Comparison {
	a, b := tally(baseline), tally(now)
	c := Comparison{Method: MethodUnpaired, Baseline: Count{a.passed, a.n}, Now: Count{b.passed, b.n}, Interval: unpaired(a, b, z)}
	return c.judge(unequal(a, b), margin)
}

// unequal reports whether the two rates surely differ.
func unequal(a, b totals) bool {
	if a.plain() && b.plain() && a.n > 0 && b.n > 0 && (a.n+1)*(b.n+1) <= maxExactOutcomes {
		return unpairedExact(Count{a.passed, a.n}, Count{b.passed, b.n}) < 1-Level
	}
	sure := unpaired(a, b, strict)
	return sure.Low > 0 || sure.High < 0
}

// unpaired is the interval of b − a.
func unpaired(a, b totals, z float64) Interval {
	if a.n == 0 || b.n == 0 {
		return Interval{-1, 1}
	}
	return newcombe(b.rate(), wilson(b.rate(), b.effective(), z), a.rate(), wilson(a.rate(), a.effective(), z), 0)
}

// judge: a difference that is surely smaller than the margin does not matter, even where it is surely there. Otherwise one that is
// surely there is better or worse. And what is left cannot be told.
func (c Comparison) judge(significant bool, margin float64) Comparison {
	if margin <= 0 {
		margin = DefaultMargin
	}
	c.Margin = margin
	c.Difference = c.Now.Rate() - c.Baseline.Rate()
	switch {
	case c.Baseline.N == 0 || c.Now.N == 0:
		c.Verdict = CannotTell
	case c.Interval.Low >= -margin && c.Interval.High <= margin:
		c.Verdict = Same
	case !significant || c.Difference == 0:
		c.Verdict = CannotTell
	case c.Difference > 0:
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
	return c
}

// McNemar is the two-sided exact p-value of so many pairs that changed one way and so many that changed the other (McNemar, Psychometrika 12, 1947; the
// conditional test: twice the smaller tail of a fair binomial, at most 1). Pairs that did not change say nothing.
func McNemar(lost, gained int) float64 {
	n, k := lost+gained, min(lost, gained)
	if n <= 0 || lost == gained {
		return 1
	}
	// From the largest term down: what is smaller than the last bit ends the sum.
	term := math.Exp(logChoose(n, k) - float64(n)*math.Ln2)
	sum := 0.0
	for i := k; i >= 0 && term > sum*1e-17; i-- {
		sum += term
		term *= float64(i) / float64(n-i+1)
	}
	return min(1, 2*sum)
}

func logChoose(n, k int) float64 {
	if n <= 60 { // exact: the numbers are below 2^57
		c := 1
		for i := range k {
			c = c * (n - i) / (i + 1)
		}
		return math.Log(float64(c))
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	d, _ := math.Lgamma(float64(n - k + 1))
	return a - b - d
}

// Newcombe is the interval of the difference a − b of two independent rates (method 10 of Newcombe, Statistics in Medicine 17, 1998, 873–890).
func Newcombe(a, b Count) Interval {
	if a.N == 0 || b.N == 0 {
		return Interval{-1, 1}
	}
	return newcombe(a.Rate(), Wilson(a), b.Rate(), Wilson(b), 0)
}

// NewcombePaired is the interval of the difference a − b of two rates of the same cases (method 10 of Newcombe, Statistics in Medicine 17, 1998,
// 2635–2650): both passed, a alone, b alone, neither. This is the form with his continuity correction of the correlation, which is also
// that of Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, 2017.
func NewcombePaired(both, onlyA, onlyB, neither int) Interval {
	n := both + onlyA + onlyB + neither
	if n == 0 {
		return Interval{-1, 1}
	}
	a, b := Count{both + onlyA, n}, Count{both + onlyB, n}
	return newcombe(a.Rate(), Wilson(a), b.Rate(), Wilson(b), correlation(both, onlyA, onlyB, neither))
}

func correlation(both, onlyA, onlyB, neither int) float64 {
	n11, n12, n21, n22 := float64(both), float64(onlyA), float64(onlyB), float64(neither)
	product := (n11 + n12) * (n21 + n22) * (n11 + n21) * (n12 + n22)
	if product == 0 {
		return 0
	}
	d := n11*n22 - n12*n21
	if d > 0 {
		d = max(0, d-(n11+n12+n21+n22)/2)
	}
	return d / math.Sqrt(product)
}

// newcombe squares and adds the distances of two rates to the ends of their own intervals.
func newcombe(pa float64, a Interval, pb float64, b Interval, phi float64) Interval {
	d := pa - pb
	low := math.Sqrt(max(0, sq(pa-a.Low)-2*phi*(pa-a.Low)*(b.High-pb)+sq(b.High-pb)))
	high := math.Sqrt(max(0, sq(a.High-pa)-2*phi*(a.High-pa)*(pb-b.Low)+sq(pb-b.Low)))
	return Interval{max(-1, d-low), min(1, d+high)}
}

func sq(v float64) float64 { return v * v }
