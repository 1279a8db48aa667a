package stats

import (
	"math"
	"slices"
)

// Sum adds numbers exactly, so that it does not depend on their order: every store gives the same average. The zero Sum is ready. (Shewchuk, Discrete &
// Computational Geometry 18, 1997: a sum is kept as numbers that do not overlap.)
type Sum struct {
	parts []float64
	n     int
}

// Add adds a finite number.
func (s *Sum) Add(v float64) {
	s.n++
	i := 0
	for _, p := range s.parts {
		if math.Abs(v) < math.Abs(p) {
			v, p = p, v
		}
		high := v + p
		if low := p - (high - v); low != 0 {
			s.parts[i] = low
			i++
		}
		v = high
	}
	s.parts = append(s.parts[:i], v)
}

// Merge adds what o has added up.
func (s *Sum) Merge(o *Sum) {
	n := s.n + o.n
	for _, p := range o.parts {
		s.Add(p)
	}
	s.n = n
}

// Count is how many numbers were added.
func (s *Sum) Count() int { return s.n }

// Value is the sum, rounded once.
func (s *Sum) Value() float64 {
	n := len(s.parts)
	if n == 0 {
		return 0
	}
	high := s.parts[n-1]
	for i := n - 2; i >= 0; i-- {
		v := high
		high = v + s.parts[i]
		low := s.parts[i] - (high - v)
		if low == 0 {
			continue
		}
		// Half-way cases are rounded to even by the parts below.
		if i > 0 && (low < 0) == (s.parts[i-1] < 0) {
			if w := high + 2*low; 2*low == w-high {
				high = w
			}
		}
		break
	}
	return high
}

// Mean is the sum through the count; false for nothing.
func (s *Sum) Mean() (float64, bool) {
	if s.n == 0 {
		return 0, false
	}
	return s.Value() / float64(s.n), true
}

// Percentile is the p-th percentile (0 to 1) of numbers, by linear interpolation between the two nearest (type 7 of Hyndman & Fan). Of none it is 0. It
// reorders them: finding two of them takes a fraction of sorting all.
func Percentile(numbers []int64, p float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	at := p * float64(len(numbers)-1)
	i := min(int(at), len(numbers)-1)
	low := nth(numbers, i)
	if i == len(numbers)-1 {
		return float64(low)
	}
	high := slices.Min(numbers[i+1:]) // all of them are at least as large
	return float64(low) + float64(high-low)*(at-float64(i))
}

// nth moves numbers so that the i-th is where it would be if they were sorted, with none larger before and none smaller after it (Hoare's selection).
func nth(numbers []int64, i int) int64 {
	low, high := 0, len(numbers)-1
	for low < high {
		pivot := median3(numbers[low], numbers[low+(high-low)/2], numbers[high])
		a, b := low, high
		for a <= b {
			for numbers[a] < pivot {
				a++
			}
			for numbers[b] > pivot {
				b--
			}
			if a <= b {
				numbers[a], numbers[b] = numbers[b], numbers[a]
				a++
				b--
			}
		}
		switch {
		case i <= b:
			high = b
		case i >= a:
			low = a
		default:
			return numbers[i]
		}
	}
	return numbers[i]
}

func median3(a, b, c int64) int64 { return max(min(a, b), min(max(a, b), c)) }
