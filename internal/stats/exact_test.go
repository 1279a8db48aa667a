package stats

import (
	"math"
	"testing"
)

// outcomes says of every outcome of two samples of n and m whether it is called better or worse.
func outcomes(n, m int) func(i, j int) bool {
	said := make([][]bool, n+1)
	for i := range said {
		said[i] = make([]bool, m+1)
	}
	for i := range n + 1 {
		for j := range m + 1 {
			if mirror := said[n-i][m-j]; i > n-i || i == n-i && j > m-j {
				said[i][j] = mirror // passed and not passed are the same thing: TestExactIsSymmetric
				continue
			}
			v := Unpaired(ones(i, n), ones(j, m), 0).Verdict
			said[i][j] = v == Better || v == Worse
		}
	}
	return func(i, j int) bool { return said[i][j] }
}

// chance is how likely two samples with the rates p and q have an outcome of the kind.
func chance(n, m int, p, q float64, kind func(i, j int) bool) float64 {
	a, b := make([]float64, n+1), make([]float64, m+1)
	binomials(a, p)
	binomials(b, q)
	sum := 0.0
	for i := range a {
		for j := range b {
			if kind(i, j) {
				sum += a[i] * b[j]
			}
		}
	}
	return sum
}

// changes says of every outcome of n pairs, by how many were lost and gained, whether it is called better or worse.
func changes(n int) func(lost, gained int) bool {
	said := map[[2]int]bool{}
	for lost := range n + 1 {
		for gained := range n - lost + 1 {
			if lost < gained {
				said[[2]int{lost, gained}] = McNemarUnconditional(n, lost, gained) < 1-Level
			}
		}
	}
	return func(lost, gained int) bool { return said[[2]int{min(lost, gained), max(lost, gained)}] }
}

// chanceOfChanges is how likely n pairs, each lost and gained with these chances, have an outcome of the kind.
func chanceOfChanges(n int, lost, gained float64, kind func(lost, gained int) bool) float64 {
	d, of := make([]float64, n+1), make([]float64, 0, n+1)
	binomials(d, lost+gained)
	sum := 0.0
	for changed, p := range d {
		of = of[:changed+1]
		binomials(of, lost/(lost+gained))
		for l, v := range of {
			if kind(l, changed-l) {
				sum += p * v
			}
		}
	}
	return sum
}

// TestExactSize enumerates every outcome of two equal configurations, instead of drawing some: the chance of better or worse is at most 5 %, at any rate, and for pairs also
// however alike they are.
func TestExactSize(t *testing.T) {
	t.Parallel()
	const steps = 2000
	for _, n := range [][2]int{{5, 5}, {10, 10}, {20, 20}, {30, 30}, {40, 40}, {10, 20}, {20, 40}, {10, 50}, {39, 41}} {
		said, worst := outcomes(n[0], n[1]), 0.0
		for i := 1; i < steps; i++ {
			rate := float64(i) / steps
			worst = max(worst, chance(n[0], n[1], rate, rate, said))
		}
		t.Logf("%d against %d: %.2f %%", n[0], n[1], 100*worst)
		if worst > 1-Level {
			t.Errorf("%d against %d: better or worse by chance in %.2f %%", n[0], n[1], 100*worst)
		}
	}
	for _, n := range []int{5, 8, 10, 16, 20, 40, 60} {
		said, worst := changes(n), 0.0
		for i := 1; i < steps; i++ {
			half := float64(i) / steps / 2
			worst = max(worst, chanceOfChanges(n, half, half, said))
		}
		t.Logf("%d pairs: %.2f %%", n, 100*worst)
		if worst > 1-Level {
			t.Errorf("%d pairs: better or worse by chance in %.2f %%", n, 100*worst)
		}
	}
}

// TestExactPower enumerates how often a true drop of 30 points is found at n = 40, from every rate: at least 75 % of the time for pairs that are not alike at all, which are
// the least favourable; and for two samples, but for 74.9 % around 65 to 35. docs/aggregation.md has the table.
func TestExactPower(t *testing.T) {
	t.Parallel()
	const n = 40
	said, paired := outcomes(n, n), changes(n)
	worse := func(i, j int) bool { return j < i && said(i, j) }
	lost := func(lost, gained int) bool { return lost > gained && paired(lost, gained) }
	for from := 31; from <= 99; from++ {
		p, q := float64(from)/100, float64(from-30)/100
		two, pairs := chance(n, n, p, q, worse), chanceOfChanges(n, p*(1-q), q*(1-p), lost)
		if from%10 == 0 || from == 65 || from == 97 {
			t.Logf("%d to %d: %.1f %% of two samples, %.1f %% of pairs", from, from-30, 100*two, 100*pairs)
		}
		if two < 0.749 || (from <= 62 || from >= 68) && two < 0.75 || pairs < 0.75 {
			t.Errorf("%d to %d is found in %.2f %% of two samples, and %.2f %% of pairs", from, from-30, 100*two, 100*pairs)
		}
	}
}

// TestExactIsSymmetric: which sample is the first, and whether passes or failures are counted, changes nothing.
func TestExactIsSymmetric(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]int{{3, 10, 9, 10}, {1, 7, 6, 13}, {0, 5, 5, 5}, {12, 40, 24, 41}, {0, 9, 4, 9}} {
		a, b := Count{c[0], c[1]}, Count{c[2], c[3]}
		p := unpairedExact(a, b)
		for _, other := range []float64{unpairedExact(b, a), unpairedExact(Count{a.N - a.Passed, a.N}, Count{b.N - b.Passed, b.N})} {
			if math.Abs(p-other) > 1e-6 || p <= 0 || p >= 1 {
				t.Errorf("%v: %v and %v", c, p, other)
			}
		}
	}
}

// TestExactByHand holds the p-values to ones that can be written down. All of one sample and none of the other, n each: 2 pⁿ(1−p)ⁿ, at most 2/4ⁿ. All n pairs
// changed one way: 2 (q/2)ⁿ, at most 2/2ⁿ; the conditional test says the same. And nothing changed, or as much either way, is no sign of anything.
func TestExactByHand(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 8; n++ {
		near(t, "all and none", unpairedExact(Count{n, n}, Count{0, n}), 2*math.Pow(4, -float64(n)), 10)
		near(t, "all lost", McNemarUnconditional(n, n, 0), math.Pow(2, 1-float64(n)), 10)
	}
	for _, p := range []float64{unpairedExact(Count{3, 6}, Count{2, 4}), McNemarUnconditional(9, 4, 4), McNemarUnconditional(9, 0, 0)} {
		if p != 1 {
			t.Errorf("no difference has p = %v", p)
		}
	}
	if got, want := McNemarUnconditional(5000, 10, 30), McNemar(10, 30); got != want {
		t.Errorf("of many pairs: %v, want %v", got, want)
	}
	// The largest that are enumerated neither overflow nor take long.
	if p := unpairedExact(Count{100, 499}, Count{150, 499}); p < 1e-5 || p > 1e-3 {
		t.Errorf("100 and 150 of 499: p = %v", p)
	}
	if p := McNemarUnconditional(1000, 40, 70); p < 0.002 || p > 0.01 {
		t.Errorf("40 lost and 70 gained of 1,000: p = %v", p)
	}
}
