package stats

import (
	"math"
	"math/big"
	"testing"
)

// near fails unless got is want to the number of decimals that the source gives.
func near(t *testing.T, what string, got, want float64, decimals int) {
	t.Helper()
	if tolerance := 0.5001 * math.Pow10(-decimals); math.Abs(got-want) > tolerance || math.IsNaN(got) {
		t.Errorf("%s is %.*f, published is %.*f", what, decimals+2, got, decimals, want)
	}
}

func nearInterval(t *testing.T, what string, got, want Interval, decimals int) {
	t.Helper()
	near(t, what+", low", got.Low, want.Low, decimals)
	near(t, what+", high", got.High, want.High, decimals)
}

// TestWilson holds the interval to published figures.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source   string
		count    Count
		want     Interval
		decimals int
	}{
		// Newcombe, Statistics in Medicine 17, 1998, 857–872, table I, method 3.
		{"Newcombe 1998", Count{81, 263}, Interval{0.2553, 0.3662}, 4},
		{"Newcombe 1998", Count{15, 148}, Interval{0.0624, 0.1605}, 4},
		{"Newcombe 1998", Count{0, 20}, Interval{0, 0.1611}, 4},
		{"Newcombe 1998", Count{1, 29}, Interval{0.0061, 0.1718}, 4},
		// Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, 2017, chapter 2 (data of Ligarden et al., 2010); the figures
		// are those of the tests of its R package contingencytables.
		{"Ligarden 2010", Count{13, 16}, Interval{0.5699, 0.9341}, 4},
		// statsmodels 0.15, proportion_confint(method="wilson").
		{"statsmodels", Count{29, 29}, Interval{0.8830302015002592, 1}, 12},
		{"statsmodels", Count{500_000, 1_000_000}, Interval{0.4990200198900048, 0.5009799801099952}, 12},
	} {
		nearInterval(t, tt.source, Wilson(tt.count), tt.want, tt.decimals)
	}
	if got := Wilson(Count{}); got != (Interval{0, 1}) {
		t.Errorf("of nothing: %v", got)
	}
}

// TestClustered holds the clustered interval to the data of Weil (1970), survival of rats by litter, the classic of clustered proportions (also in Rao &
// Scott 1992, and as "rats" in R's package aod). The figures are those of statsmodels 0.15: OLS on a constant with cov_type="cluster" gives the variance of the
// ratio estimator; scipy.stats.t the quantiles; proportion_confint(method="wilson") the interval of the effective sample size.
func TestClustered(t *testing.T) {
	t.Parallel()
	control := litters(13, 13, 12, 12, 9, 9, 9, 9, 8, 8, 8, 8, 12, 13, 11, 12, 9, 10, 9, 10, 8, 9, 11, 13, 4, 5, 5, 7, 7, 10, 7, 10)
	treated := litters(12, 12, 11, 11, 10, 10, 9, 9, 10, 11, 9, 10, 9, 10, 8, 9, 8, 9, 4, 5, 7, 9, 4, 7, 5, 10, 3, 6, 3, 10, 0, 7)
	for _, tt := range []struct {
		name     string
		clusters []Count
		count    Count
		effect   float64
		want     Interval
	}{
		{"control", control, Count{142, 158}, 1.232495394306767, Interval{0.8282856484204121, 0.9422937153887928}},
		{"treated", treated, Count{112, 145}, 3.9528606259640733, Interval{0.6015693720826555, 0.8841134974302846}},
	} {
		if got := tally(tt.clusters); got.passed != tt.count.Passed || got.n != tt.count.N {
			t.Errorf("%s: the data add up to %d of %d, published are %v", tt.name, got.passed, got.n, tt.count)
		}
		effect, ok := DesignEffect(tt.clusters)
		if !ok {
			t.Errorf("%s: no design effect", tt.name)
		}
		near(t, tt.name+": design effect", effect, tt.effect, 10)
		nearInterval(t, tt.name, Clustered(tt.clusters), tt.want, 8)
		if plain := Wilson(tt.count); Clustered(tt.clusters).High-Clustered(tt.clusters).Low <= plain.High-plain.Low {
			t.Errorf("%s: the clustered interval is not wider than the plain one", tt.name)
		}
	}
}

func litters(v ...int) (out []Count) {
	for i := 0; i < len(v); i += 2 {
		out = append(out, Count{v[i], v[i+1]})
	}
	return out
}

// TestClusteredEdges: where dependence cannot be estimated, the interval says what is known, and never more.
func TestClusteredEdges(t *testing.T) {
	t.Parallel()
	repeat := func(n int, c Count) (out []Count) {
		for range n {
			out = append(out, c)
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		clusters []Count
		want     Interval
	}{
		{"nothing", nil, Interval{0, 1}},
		{"empty clusters", repeat(3, Count{}), Interval{0, 1}},
		{"one case", []Count{{7, 10}}, Wilson(Count{7, 10})},
		{"a trial each", append(repeat(7, Count{1, 1}), repeat(3, Count{0, 1})...), Wilson(Count{7, 10})},
		{"all passed: ten cases, not two hundred trials", repeat(10, Count{20, 20}), Wilson(Count{10, 10})},
		{"none passed", repeat(10, Count{0, 20}), Wilson(Count{0, 10})},
	} {
		if got := Clustered(tt.clusters); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	// Less varied than chance would be (each case 1 of 2) does not make it narrower than independent trials, apart from the few clusters.
	even := repeat(40, Count{1, 2})
	if got, plain := Clustered(even), Wilson(Count{40, 80}); got.Low > plain.Low || got.High < plain.High {
		t.Errorf("even cases: %v is narrower than %v", got, plain)
	}
	if _, ok := DesignEffect(repeat(5, Count{2, 2})); ok {
		t.Error("a design effect of trials that all agree")
	}
}

// TestQuantileT holds Student's quantiles to the table in every textbook (e.g. Abramowitz & Stegun, table 26.10), in the digits of scipy.stats.t.ppf.
func TestQuantileT(t *testing.T) {
	t.Parallel()
	for df, want := range map[int]float64{1: 12.706204736174694, 2: 4.302652729749462, 3: 3.1824463052837078, 9: 2.262157162798205, 15: 2.131449545559776,
		30: 2.0422724563012378, 99: 1.9842169515864174, 1000: 1.9623390808264083, 100_000: 1.9599877075346095, 10_000_000: z} {
		near(t, "t", quantileT(df), want, 8)
	}
	if !math.IsInf(quantileT(0), 1) {
		t.Error("no degrees of freedom have a finite quantile")
	}
}

// TestPassK holds pass@k and pass^k to exact integer arithmetic, for every n up to 12 and for large ones.
func TestPassK(t *testing.T) {
	t.Parallel()
	check := func(n, c, k int) {
		t.Helper()
		at, ok := PassAt(n, c, k)
		all, okAll := PassAll(n, c, k)
		if k > n || k < 1 {
			if ok || okAll {
				t.Errorf("n=%d c=%d k=%d is defined", n, c, k)
			}
			return
		}
		if !ok || !okAll {
			t.Errorf("n=%d c=%d k=%d is undefined", n, c, k)
		}
		total := new(big.Int).Binomial(int64(n), int64(k))
		none, _ := new(big.Rat).SetFrac(new(big.Int).Binomial(int64(n-c), int64(k)), total).Float64()
		every, _ := new(big.Rat).SetFrac(new(big.Int).Binomial(int64(c), int64(k)), total).Float64()
		if math.Abs(at-(1-none)) > 1e-12 || math.Abs(all-every) > 1e-12 {
			t.Errorf("n=%d c=%d k=%d: pass@k %v, want %v; pass^k %v, want %v", n, c, k, at, 1-none, all, every)
		}
	}
	for n := range 13 {
		for c := range n + 1 {
			for k := range n + 2 {
				check(n, c, k)
			}
		}
	}
	check(200, 7, 100)
	check(3000, 2999, 1500)
	check(5000, 1, 17)
}

// TestPassKLarge: a million trials neither overflow nor lose their digits. With one pass, pass@k is k/n exactly.
func TestPassKLarge(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	for _, k := range []int{1, 2, 1000, n / 2, n - 1, n} {
		got, ok := PassAt(n, 1, k)
		if want := float64(k) / n; !ok || math.Abs(got-want) > 1e-12*want {
			t.Errorf("k=%d: %v, want %v", k, got, want)
		}
		if got, ok := PassAll(n, n-1, k); !ok || math.Abs(got-float64(n-k)/n) > 1e-12 {
			t.Errorf("k=%d: pass^k is %v, want %v", k, got, float64(n-k)/n)
		}
	}
	if got, ok := PassAll(n, n/2, n/4); !ok || got != 0 && got > 1e-300 {
		t.Errorf("a chance beyond floating point is %v", got)
	}
	if _, ok := PassAt(5, 6, 1); ok {
		t.Error("more passed than there were")
	}
}

func TestFlips(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		trials       []bool
		flips, pairs int
	}{
		{nil, 0, 0},
		{[]bool{true}, 0, 0},
		{[]bool{true, true, true}, 0, 2},
		{[]bool{true, false, true, true}, 2, 3},
	} {
		if flips, pairs := Flips(tt.trials); flips != tt.flips || pairs != tt.pairs {
			t.Errorf("%v: %d of %d, want %d of %d", tt.trials, flips, pairs, tt.flips, tt.pairs)
		}
	}
}
