package stats

import "math"

// Clustered is the interval of the rate over clusters: the trials of one case are one cluster, and are more alike than trials of different
// cases. Clusters without trials are left out.
//
// It is the Wilson interval with the effective sample size in place of the sample size: n is divided by the design effect of the ratio estimator (Rao & Scott,
// Biometrics 48, 1992, 577–585), which is never taken to be below 1, and corrected for having few clusters (Korn & Graubard, Survey Methodology 24,
// 1998, 193–201). Of such intervals Franco et al. (J. Surv. Stat. Methodol. 7, 2019, 334–364) recommend Wilson's.
//
// Where nothing can be estimated, what is known is used instead:
//   - every cluster has one trial, or there is one cluster: plain [Wilson]. The rate of one case is about its trials.
//   - all passed, or none did: each cluster counts once, as if its trials were copies of each other, as whenever trials agree within their cases.
func Clustered(clusters []Count) Interval {
	t := tally(clusters)
	return wilson(t.rate(), t.effective(), z)
}

// totals is what an interval needs to know of clusters; sums that a store can compute as it goes.
type totals struct {
	clusters int
	passed   int
	n        int
	largest  int
	// squares are the sums over the clusters of passed², passed × n and n².
	passedSquared, passedN, nSquared float64
}

func tally(clusters []Count) (t totals) {
	for _, c := range clusters {
		if c.N <= 0 {
			continue
		}
		p, n := float64(c.Passed), float64(c.N)
		t.clusters++
		t.passed += c.Passed
		t.n += c.N
		t.largest = max(t.largest, c.N)
		t.passedSquared += p * p
		t.passedN += p * n
		t.nSquared += n * n
	}
	return t
}

func (t totals) rate() float64 { return Count{t.passed, t.n}.Rate() }

// plain reports whether the trials count as independent: one cluster, or one trial in each.
func (t totals) plain() bool { return t.clusters <= 1 || t.largest == 1 }

// effective is the effective sample size.
func (t totals) effective() float64 {
	switch {
	case t.plain():
		return float64(t.n)
	case t.passed == 0 || t.passed == t.n:
		return float64(t.clusters)
	}
	few := quantileT(t.n-1) / quantileT(t.clusters-1)
	return float64(t.n) / max(1, t.designEffect()) * few * few
}

// designEffect is the variance of the ratio estimator, m/(m−1) Σ(passed − p n)² / N², through that of a binomial proportion.
func (t totals) designEffect() float64 {
	p, n, m := t.rate(), float64(t.n), float64(t.clusters)
	residuals := max(0, t.passedSquared-2*p*t.passedN+p*p*t.nSquared)
	return m / (m - 1) * residuals / (n * p * (1 - p))
}

// DesignEffect says by what factor the variance of the rate over the clusters is larger than that of so many independent trials: 1 is none.
// False: nothing can be estimated from them.
func DesignEffect(clusters []Count) (float64, bool) {
	t := tally(clusters)
	if t.clusters < 2 || t.passed == 0 || t.passed == t.n {
		return 0, false
	}
	return t.designEffect(), true
}

// quantileT is the 97.5 % quantile of Student's distribution with df degrees of freedom, df ≥ 1.
func quantileT(df int) float64 {
	switch {
	case df < 1:
		return math.Inf(1)
	case df > 1_000_000:
		return z
	}
	// The tail is convex and z is below the quantile, so Newton's method comes up to it from below and never passes it.
	v, t := float64(df), z
	for range 100 {
		step := (tailT(t, v) - (1-Level)/2) / densityT(t, v)
		t += step
		if step < 1e-13*t {
			break
		}
	}
	return t
}

func densityT(t, df float64) float64 {
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	return math.Exp(a-b-(df+1)/2*math.Log1p(t*t/df)) / math.Sqrt(df*math.Pi)
}

// tailT is the chance that a variable of Student's distribution is above t ≥ 0.
func tailT(t, df float64) float64 { return betaRatio(df/2, 0.5, df/(df+t*t)) / 2 }

// betaRatio is the regularized incomplete beta function I_x(a, b), by its continued fraction (Abramowitz & Stegun 26.5.8).
func betaRatio(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) { // where it converges slowly, the other side converges fast
		return 1 - betaRatio(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front / betaFraction(a, b, x)
}

// betaFraction evaluates 1 + d1/(1 + d2/(1 + …)) by Lentz's method.
func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := 1; i <= 500; i++ {
		m := float64(i / 2)
		var num float64
		if i%2 == 0 {
			num = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		} else {
			num = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 / away(1+num*d, tiny)
		c = away(1+num/c, tiny)
		f *= c * d
		if math.Abs(1-c*d) < 1e-15 {
			break
		}
	}
	return f
}

// away keeps a divisor away from zero.
func away(v, tiny float64) float64 {
	if math.Abs(v) < tiny {
		return tiny
	}
	return v
}
