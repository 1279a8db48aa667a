package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSum: the sum is the exact one, rounded once, in whatever order and pieces it is made.
func TestSum(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		exact := new(big.Float).SetPrec(4000)
		numbers := make([]float64, 1+r.IntN(200))
		for i := range numbers {
			numbers[i] = (r.Float64() - 0.5) * math.Pow10(r.IntN(40)-20)
			exact.Add(exact, big.NewFloat(numbers[i]))
		}
		want, _ := exact.Float64()
		var whole, left, right Sum
		for i, v := range numbers {
			whole.Add(v)
			if i%3 == 0 {
				left.Add(v)
			} else {
				right.Add(v)
			}
		}
		right.Merge(&left)
		if whole.Value() != want || right.Value() != want || right.Count() != len(numbers) {
			t.Fatalf("%v and %v, want %v", whole.Value(), right.Value(), want)
		}
	}
	var none Sum
	if _, ok := none.Mean(); ok || none.Value() != 0 {
		t.Error("nothing has a mean")
	}
	var tenths Sum
	for range 10 {
		tenths.Add(0.1)
	}
	if tenths.Value() != 1 { // as Python's math.fsum([.1] * 10); adding them up gives 0.9999999999999999
		t.Errorf("ten tenths are %v", tenths.Value())
	}
}

// TestPercentile holds it to numpy.percentile (and R's quantile, type 7).
func TestPercentile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		numbers []int64
		p, want float64
	}{
		{nil, 0.5, 0},
		{[]int64{7}, 0.95, 7},
		{[]int64{1, 2}, 0.5, 1.5},
		{[]int64{1, 2, 3, 4}, 0.5, 2.5},
		{[]int64{10, 20, 30, 40, 50}, 0.95, 48},
		{[]int64{10, 20, 30, 40, 50}, 1, 50},
	} {
		if got := Percentile(tt.numbers, tt.p); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v at %v: %v, want %v", tt.numbers, tt.p, got, tt.want)
		}
	}
}

// TestPercentileOfMany: what selection finds is what sorting finds.
func TestPercentileOfMany(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		numbers := make([]int64, 1+r.IntN(300))
		for i := range numbers {
			numbers[i] = r.Int64N(1 + r.Int64N(400))
		}
		sorted := slices.Sorted(slices.Values(numbers))
		for _, p := range []float64{0, 0.5, 0.95, 1} {
			at := p * float64(len(sorted)-1)
			i := int(at)
			want := float64(sorted[i])
			if i+1 < len(sorted) {
				want += float64(sorted[i+1]-sorted[i]) * (at - float64(i))
			}
			if got := Percentile(numbers, p); got != want {
				t.Fatalf("%v of %v: %v, want %v", p, sorted, got, want)
			}
		}
	}
}
