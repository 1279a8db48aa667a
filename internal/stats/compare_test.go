package stats

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMcNemar holds the exact test to published p-values.
func TestMcNemar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source   string
		b, c     int
		want     float64
		decimals int
	}{
		// Fagerland, Lydersen & Laake 2017, chapter 8 (data of Cavo et al., 2012), as in the tests of the R package contingencytables.
		{"Cavo 2012", 6, 16, 0.052479, 6},
		// The online calculator of vassarstats.net, as in the tests of statsmodels.
		{"vassarstats", 121, 59, 0.000004, 6},
		{"vassarstats", 70, 59, 0.378688, 6},
		{"vassarstats", 80, 59, 0.089452, 6},
		{"vassarstats", 30, 60, 0.00206, 5},
		{"vassarstats", 10, 30, 0.002221, 6},
		{"vassarstats", 10, 10, 1, 6},
		// R's package inferr (172, 7; 6, 15).
		{"inferr", 7, 6, 1, 4},
		// Agresti 1990, p. 350, approval of the president, by statsmodels 0.15 (R's example of mcnemar.test gives the asymptotic one).
		{"Agresti 1990", 86, 150, 3.7159361395713866e-05, 12},
		{"statsmodels", 1, 7, 0.0703125, 12},
		{"statsmodels", 0, 5, 0.0625, 12},
		{"statsmodels", 25, 2, 5.647540092468262e-06, 14},
		{"statsmodels", 500, 600, 0.0028195449914364284, 10},
		{"statsmodels", 499_000, 501_000, 0.0456082998653896, 8},
	} {
		near(t, fmt.Sprintf("%s (%d, %d)", tt.source, tt.b, tt.c), McNemar(tt.b, tt.c), tt.want, tt.decimals)
		if McNemar(tt.b, tt.c) != McNemar(tt.c, tt.b) {
			t.Errorf("(%d, %d) is not symmetric", tt.b, tt.c)
		}
	}
	if McNemar(0, 0) != 1 {
		t.Error("no pair changed, and that is significant")
	}
}

// TestNewcombe holds the interval of an unpaired difference to published figures.
func TestNewcombe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source   string
		a, b     Count
		want     Interval
		decimals int
	}{
		// Newcombe, Statistics in Medicine 17, 1998, 873–890, table II, method 10.
		{"Newcombe 1998 (a)", Count{56, 70}, Count{48, 80}, Interval{0.0524, 0.3339}, 4},
		{"Newcombe 1998 (b)", Count{9, 10}, Count{3, 10}, Interval{0.1705, 0.8090}, 4},
		{"Newcombe 1998 (c)", Count{6, 7}, Count{2, 7}, Interval{0.0582, 0.8062}, 4},
		{"Newcombe 1998 (d)", Count{5, 56}, Count{0, 29}, Interval{-0.0381, 0.1926}, 4},
		{"Newcombe 1998 (e)", Count{0, 10}, Count{0, 20}, Interval{-0.1611, 0.2775}, 4},
		{"Newcombe 1998 (g)", Count{10, 10}, Count{0, 20}, Interval{0.6791, 1}, 4},
		// Fagerland, Lydersen & Laake, Statistical Methods in Medical Research 24, 2015, 224–254 (data of Perondi et al., 2004).
		{"Perondi 2004", Count{7, 34}, Count{1, 34}, Interval{0.019, 0.34}, 2},
	} {
		nearInterval(t, tt.source, Newcombe(tt.a, tt.b), tt.want, tt.decimals)
		back := Newcombe(tt.b, tt.a)
		nearInterval(t, tt.source+", the other way", Interval{-back.High, -back.Low}, tt.want, tt.decimals)
	}
	if got := Newcombe(Count{}, Count{1, 2}); got != (Interval{-1, 1}) {
		t.Errorf("against nothing: %v", got)
	}
}

// TestNewcombePaired holds the interval of a paired difference to published figures.
func TestNewcombePaired(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source     string
		a, b, c, d int
		estimate   float64
		low, high  float64
		places     int
	}{
		// Fagerland, Lydersen & Laake 2017, chapter 8, "Newcombe square-and-add" (data of Cavo et al., 2012), as in the tests of contingencytables.
		{"Cavo 2012", 59, 6, 16, 80, -0.0621, -0.1186, -0.0046, 4},
	} {
		got := NewcombePaired(tt.a, tt.b, tt.c, tt.d)
		nearInterval(t, tt.source, got, Interval{tt.low, tt.high}, tt.places)
		n := float64(tt.a + tt.b + tt.c + tt.d)
		near(t, tt.source+", estimate", float64(tt.b-tt.c)/n, tt.estimate, tt.places)
	}
	if got := NewcombePaired(0, 0, 0, 0); got != (Interval{-1, 1}) {
		t.Errorf("of nothing: %v", got)
	}
	// Without a margin in one direction there is no correlation to speak of: it is the unpaired interval.
	if got, want := NewcombePaired(0, 10, 0, 0), Newcombe(Count{10, 10}, Count{0, 10}); got != want {
		t.Errorf("all changed: %v, want %v", got, want)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  Comparison
		want Verdict
	}{
		{"paired, a clear drop", Paired(20, 15, 2, 3, 0), Worse},
		{"paired, a clear rise", Paired(20, 2, 15, 3, 0), Better},
		{"paired, small", Paired(5, 2, 1, 2, 0), CannotTell},
		{"paired, many and equal", Paired(950, 10, 10, 30, 0), Same},
		{"paired, surely there and surely within the margin", Paired(9500, 100, 200, 200, 0), Same},
		{"the same, with a margin of half a point", Paired(9500, 100, 200, 200, 0.005), Better},
		{"paired, nothing", Paired(0, 0, 0, 0, 0), CannotTell},
		{"unpaired, a clear drop", Unpaired([]Count{{36, 40}}, []Count{{20, 40}}, 0), Worse},
		{"unpaired, a clear rise", Unpaired([]Count{{20, 40}}, []Count{{36, 40}}, 0), Better},
		{"unpaired, equal but few", Unpaired([]Count{{20, 40}}, []Count{{20, 40}}, 0), CannotTell},
		{"unpaired, equal and many", Unpaired([]Count{{2000, 4000}}, []Count{{2000, 4000}}, 0), Same},
		{"unpaired, nothing before", Unpaired(nil, []Count{{20, 40}}, 0), CannotTell},
		{"equal and few is the same only within a wide margin", Unpaired([]Count{{20, 40}}, []Count{{20, 40}}, 0.3), Same},
	} {
		if tt.got.Verdict != tt.want {
			t.Errorf("%s: %s, want %s (%+v)", tt.name, tt.got.Verdict, tt.want, tt.got)
		}
	}
}

// TestCompareChoosesItsMethod: pairs only when both have the same cases, each evaluated once.
func TestCompareChoosesItsMethod(t *testing.T) {
	t.Parallel()
	one, two := Count{1, 1}, Count{1, 2}
	for _, tt := range []struct {
		name          string
		baseline, now map[string]Count
		want          string
	}{
		{"same cases", map[string]Count{"a": one, "b": {0, 1}}, map[string]Count{"a": {0, 1}, "b": one}, MethodPaired},
		{"another case", map[string]Count{"a": one}, map[string]Count{"b": one}, MethodUnpaired},
		{"one more", map[string]Count{"a": one}, map[string]Count{"a": one, "b": one}, MethodUnpaired},
		{"trials", map[string]Count{"a": two}, map[string]Count{"a": two}, MethodUnpaired},
		{"nothing", nil, nil, MethodUnpaired},
	} {
		got := Compare(tt.baseline, tt.now, 0)
		if got.Method != tt.want || got.Margin != DefaultMargin {
			t.Errorf("%s: %+v, want the method %s", tt.name, got, tt.want)
		}
		if (got.P != nil) != (tt.want == MethodPaired) {
			t.Errorf("%s: p-value %v", tt.name, got.P)
		}
	}
	got := Compare(map[string]Count{"a": one, "b": {0, 1}, "c": one, "d": one}, map[string]Count{"a": {0, 1}, "b": one, "c": one, "d": {0, 1}}, 0)
	if got.Lost != 2 || got.Gained != 1 || got.Baseline != (Count{3, 4}) || got.Now != (Count{2, 4}) {
		t.Errorf("%+v", got)
	}
}

// simulated is the number of experiments of a simulation; the seeds are fixed, so that it says the same each time.
const simulated = 1000

// experiment draws n cases for two configurations. A case has a difficulty of its own with the weight shared, which makes the pairs alike; trials of
// a case are further draws.
type experiment struct {
	n, trials   int
	before, now float64
	shared      float64
}

var ids = func() (out []string) {
	for i := range 40 {
		out = append(out, fmt.Sprint("case ", i))
	}
	return out
}()

func (e experiment) draw(r *rand.Rand) (baseline, now map[string]Count) {
	baseline, now = map[string]Count{}, map[string]Count{}
	for i := range e.n {
		difficulty := r.Float64()
		side := func(p float64) (c Count) {
			own := r.Float64() < e.shared
			for range e.trials {
				u := r.Float64()
				if own {
					u = difficulty
				}
				c.N++
				if u < p {
					c.Passed++
				}
			}
			return c
		}
		id := ids[i]
		baseline[id], now[id] = side(e.before), side(e.now)
	}
	return baseline, now
}

func (e experiment) verdicts(seed uint64, compare func(baseline, now map[string]Count) Comparison) map[Verdict]int {
	r := rand.New(rand.NewPCG(seed, 5))
	out := map[Verdict]int{}
	for range simulated {
		out[compare(e.draw(r)).Verdict]++
	}
	return out
}

func compared(baseline, now map[string]Count) Comparison { return Compare(baseline, now, 0) }
func asUnpaired(baseline, now map[string]Count) Comparison {
	return Unpaired(values(baseline), values(now), 0)
}

// TestEqualConfigurationsAreNotBetterOrWorse: two equal configurations, compared 1,000 times at each of four rates, are called better or worse at most 5 % of the time, by
// either method, with pairs that are alike or not, and with trials that repeat each other. Of a single thousand the chance itself may say a little more (2.5 standard
// errors of it); what is true of all of them is enumerated in TestExactSize.
func TestEqualConfigurationsAreNotBetterOrWorse(t *testing.T) {
	t.Parallel()
	rates := []float64{0.5, 0.7, 0.9, 0.97}
	for _, e := range []experiment{{n: 40, trials: 1}, {n: 40, trials: 1, shared: 0.7}, {n: 20, trials: 5}, {n: 20, trials: 5, shared: 0.7}} {
		for name, compare := range map[string]func(a, b map[string]Count) Comparison{"compared": remembered(compared), "unpaired": remembered(asUnpaired)} {
			all := 0
			for _, rate := range rates {
				e.before, e.now = rate, rate
				got := e.verdicts(1, compare)
				wrong := got[Better] + got[Worse]
				if all += wrong; wrong > simulated*5/100+17 {
					t.Errorf("%s %+v: %d of %d are better or worse: %v", name, e, wrong, simulated, got)
				}
			}
			if all > len(rates)*simulated*5/100 {
				t.Errorf("%s %+v: %d of %d are better or worse", name, e, all, len(rates)*simulated)
			}
		}
	}
}

// remembered computes what is compared once for each outcome, where no case has several trials.
func remembered(compare func(a, b map[string]Count) Comparison) func(a, b map[string]Count) Comparison {
	known := map[[5]int]Comparison{}
	return func(a, b map[string]Count) Comparison {
		x, y := tally(values(a)), tally(values(b))
		if !x.plain() || !y.plain() {
			return compare(a, b)
		}
		both := 0
		for id, c := range a {
			both += min(c.Passed, b[id].Passed)
		}
		key := [5]int{x.n, y.n, x.passed, y.passed, both}
		c, there := known[key]
		if !there {
			c = compare(a, b)
			known[key] = c
		}
		return c
	}
}

// TestDropOfThirtyPointsIsFound: a true drop of 30 points at n = 40 is found at least 75 % of the time. Pairs are alike to the extent that a case is
// as hard for both: that is what pairing is for. TestExactPower enumerates the same.
func TestDropOfThirtyPointsIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		before  []float64
		e       experiment
		compare func(a, b map[string]Count) Comparison
	}{
		{"pairs", []float64{0.97, 0.95, 0.9, 0.8, 0.7}, experiment{n: 40, trials: 1, shared: 0.5}, compared},
		{"independent pairs", []float64{0.97, 0.95, 0.9, 0.8}, experiment{n: 40, trials: 1}, compared},
		{"unpaired", []float64{0.97, 0.95, 0.9, 0.8}, experiment{n: 40, trials: 1}, asUnpaired},
		{"40 cases of three trials", []float64{0.97, 0.95, 0.9, 0.8, 0.7}, experiment{n: 40, trials: 3, shared: 0.3}, compared},
	} {
		for _, before := range tt.before {
			e := tt.e
			e.before, e.now = before, before-0.3
			got := e.verdicts(2, remembered(tt.compare))
			if got[Worse] < simulated*75/100 || got[Better] > 0 {
				t.Errorf("%s, from %.2f: found %d of %d times: %v", tt.name, before, got[Worse], simulated, got)
			}
			t.Logf("%s, from %.2f: %v", tt.name, before, got)
		}
	}
}

func ones(passed, n int) []Count { return []Count{{passed, n}} }
