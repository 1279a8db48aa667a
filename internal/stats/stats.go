// Package stats holds the statistics behind m3's pass rates and comparisons: intervals of a rate, pass@k and pass^k, flakiness, and whether one
// configuration is better than another. All are pure functions of counts; docs/aggregation.md says in plain words what they mean.
//
// Every interval is a 95 % one. The methods are named with the paper that they are from, and the tests hold them to published figures.
package stats

import "math"

// Level is the confidence of every interval, and 1 − Level the significance of every test.
const Level = 0.95

// z is the 97.5 % quantile of the normal distribution.
const z = 1.959963984540054

// Count is so many passed of so many. 0 ≤ Passed ≤ N.
type Count struct {
	Passed int
	N      int
}

// Rate is Passed / N; 0 when there is nothing to count.
func (c Count) Rate() float64 {
	if c.N == 0 {
		return 0
	}
	return float64(c.Passed) / float64(c.N)
}

// Interval is a 95 % interval of a rate, in [0, 1], or of a difference of two, in [-1, 1].
type Interval struct {
	Low  float64
	High float64
}

// Wilson is the score interval of a rate (Wilson, JASA 22, 1927; method 3 of Newcombe, Statistics in Medicine 17, 1998, 857–872). Of
// nothing it is [0, 1].
func Wilson(c Count) Interval { return wilson(c.Rate(), float64(c.N), z) }

// wilson takes a rate, a sample size that need not be an integer, and the quantile of the level.
func wilson(p, n, z float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	d := 1 + z*z/n
	mid := (p + z*z/(2*n)) / d
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / d
	out := Interval{max(0, mid-half), min(1, mid+half)}
	// In exact arithmetic these are the ends; rounding must not move them.
	if p <= 0 {
		out.Low = 0
	}
	if p >= 1 {
		out.High = 1
	}
	return out
}

// PassAt is pass@k: the chance that at least one of k trials, drawn without replacement from n of which c passed, is one that passed:
// 1 − C(n−c, k)/C(n, k) (Chen et al., 2021). It is undefined, false, for k > n, k < 1 and counts that make no sense.
func PassAt(n, c, k int) (float64, bool) {
	if !drawable(n, c, k) {
		return 0, false
	}
	if k > n-c {
		return 1, true
	}
	return 0 - math.Expm1(logNone(n, c, k)), true // not -0
}

// PassAll is pass^k: the chance that all of k trials, drawn without replacement from n of which c passed, passed: C(c, k)/C(n, k). It is
// undefined as [PassAt] is.
func PassAll(n, c, k int) (float64, bool) {
	if !drawable(n, c, k) {
		return 0, false
	}
	if k > c {
		return 0, true
	}
	return math.Exp(logNone(n, n-c, k)), true
}

func drawable(n, c, k int) bool { return k >= 1 && k <= n && c >= 0 && c <= n }

// logNone is the logarithm of C(n−c, k)/C(n, k): that none of the c is among the k. The product has as many factors as the smaller of the two, since
// drawing k and marking c are the same thing; each is exact to the last bit, which lgamma's difference of large numbers would not be.
func logNone(n, c, k int) float64 {
	c, k = max(c, k), min(c, k)
	sum := 0.0
	for i := range k {
		sum += math.Log1p(-float64(c) / float64(n-i))
	}
	return sum
}

// Flips counts how often the verdict changed between adjacent trials, and how many such pairs there are. Flakiness is the one through the other.
func Flips(passed []bool) (flips, pairs int) {
	for i := 1; i < len(passed); i++ {
		pairs++
		if passed[i] != passed[i-1] {
			flips++
		}
	}
	return flips, pairs
}
