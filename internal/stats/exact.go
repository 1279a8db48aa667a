package stats

import "math"

// Up to so many pairs, and so many possible outcomes of two samples, everything that could have happened is enumerated.
const (
	maxExactPairs    = 1000
	maxExactOutcomes = 250_000
)

// gridSteps is in how many steps a maximum over an unknown rate is looked for. Tests look at five times as many.
const gridSteps = 400

// ties is by how much two numbers may differ that are the same but for rounding.
const ties = 1e-9

// McNemarUnconditional is the two-sided exact unconditional p-value of n pairs of which so many changed one way and so many the other (Suissa & Shuster, Biometrics 47,
// 1991, 361–372; without their restriction of the nuisance parameter): the chance, at worst over how many pairs change, that McNemar's |lost − gained| / √(lost + gained) is as large. Like the conditional test
// it never finds more than it may, and it finds more of what is there. Above 1,000 pairs it is [McNemar].
func McNemarUnconditional(n, lost, gained int) float64 {
	changed := lost + gained
	if changed == 0 || lost == gained {
		return 1
	}
	if n > maxExactPairs {
		return McNemar(lost, gained)
	}
	z := math.Abs(float64(lost-gained)) / math.Sqrt(float64(changed)) * (1 - ties)
	tails := make([]float64, n+1) // the chance of as large a one among d pairs that changed
	for d := 1; d <= n; d++ {
		if k := int(math.Floor((float64(d) - z*math.Sqrt(float64(d))) / 2)); k >= 0 {
			tails[d] = McNemar(k, d-k)
		}
	}
	dist := make([]float64, n+1)
	return worst(func(q float64) float64 {
		binomials(dist, q)
		sum := 0.0
		for d, p := range dist {
			sum += p * tails[d]
		}
		return sum
	})
}

// unpairedExact is the two-sided exact unconditional p-value of two independent samples (Barnard, Biometrika 34, 1947, 123–138), which orders what could have happened by how
// wide Newcombe's interval may be before it takes in zero: the chance, at worst over the rate that both have, of an outcome that is as far from equal.
func unpairedExact(a, b Count) float64 {
	z := touching(a, b)
	if z == 0 {
		return 1
	}
	// Of each outcome of the first sample, up to where the second is as far below, and from where on it is as far above.
	below, above := make([]int, a.N+1), make([]int, a.N+1)
	for i := range below {
		below[i], above[i] = -1, b.N+1
		for j := range b.N + 1 {
			d := j*a.N - i*b.N
			if d == 0 || !apart(Count{i, a.N}, Count{j, b.N}, z*(1-ties)) {
				continue
			}
			if d < 0 {
				below[i] = j
			} else {
				above[i] = min(above[i], j)
			}
		}
	}
	first, second, upTo := make([]float64, a.N+1), make([]float64, b.N+1), make([]float64, b.N+2)
	return worst(func(p float64) float64 {
		binomials(first, p)
		binomials(second, p)
		for j, v := range second {
			upTo[j+1] = upTo[j] + v
		}
		sum := 0.0
		for i, v := range first {
			sum += v * (upTo[below[i]+1] + upTo[b.N+1] - upTo[above[i]])
		}
		return sum
	})
}

// apart reports whether Newcombe's interval with the quantile z leaves zero out.
func apart(a, b Count, z float64) bool {
	n, m := float64(a.N), float64(b.N)
	i := newcombe(b.Rate(), wilson(b.Rate(), m, z), a.Rate(), wilson(a.Rate(), n, z), 0)
	return i.Low > 0 || i.High < 0
}

// touching is the quantile with which Newcombe's interval begins to take in zero; 0 when the rates are equal.
func touching(a, b Count) float64 {
	if a.Passed*b.N == b.Passed*a.N {
		return 0
	}
	low, high := 0.0, 1.0
	for high < 1e6 && apart(a, b, high) {
		low, high = high, 2*high
	}
	for range 60 {
		if mid := (low + high) / 2; apart(a, b, mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// worst is the largest value that f has between 0 and 1: on a grid that is finer towards both ends, and around the best point of it.
func worst(f func(float64) float64) float64 {
	at, best := 0.0, 0.0
	rate := func(i float64) float64 { return (1 - math.Cos(math.Pi*i/gridSteps)) / 2 }
	for i := 1; i < gridSteps; i++ {
		if v := f(rate(float64(i))); v > best {
			at, best = float64(i), v
		}
	}
	for step := 0.5; step > 1e-4; step /= 2 {
		for _, i := range []float64{at - step, at + step} {
			if v := f(rate(i)); v > best {
				at, best = i, v
			}
		}
	}
	return min(1, best)
}

// binomials fills in the chances of 0 to len(out)−1 of as many, from the most likely one outwards, so that none underflows that matters.
func binomials(out []float64, p float64) {
	n := len(out) - 1
	mode := min(n, int(float64(n+1)*p))
	out[mode] = math.Exp(logChoose(n, mode) + float64(mode)*math.Log(p) + float64(n-mode)*math.Log1p(-p))
	odds := p / (1 - p)
	for k := mode + 1; k <= n; k++ {
		out[k] = out[k-1] * odds * float64(n-k+1) / float64(k)
	}
	for k := mode - 1; k >= 0; k-- {
		out[k] = out[k+1] / odds * float64(k+1) / float64(n-k)
	}
}
