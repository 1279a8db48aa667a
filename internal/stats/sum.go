package stats

import "math"

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

// Percentile is the p-th percentile (0 to 1) of sorted numbers, by linear interpolation between the two nearest (type 7 of Hyndman & Fan). Of none it is 0.
func Percentile(sorted []int64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i >= len(sorted)-1 {
		return float64(sorted[len(sorted)-1])
	}
	low, high := float64(sorted[i]), float64(sorted[i+1])
	return low + (high-low)*(at-float64(i))
}
