package bench

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// cost is what a block of work took: wall time, and this process's CPU time.
type cost struct{ wall, cpu time.Duration }

func (c cost) plus(d cost) cost { return cost{c.wall + d.wall, c.cpu + d.cpu} }

func measure(f func()) cost {
	cpu, wall := cpuTime(), time.Now()
	f()
	return cost{time.Since(wall), cpuTime() - cpu}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // RUSAGE_SELF cannot fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rounds is how often a pair is measured: 11 for the figures in docs/benchmarks.md, fewer where only completeness is checked.
func rounds() int { return setting("M3_BENCH_ROUNDS", 11) }

func setting(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return def
}

// compare measures a against b in the order a b b a, and reports the medians of the per-round ratios a/b.
func compare(b *testing.B, calls int, first, second func(n int)) {
	b.Helper()
	first(calls / 4) // warm up: connections, caches, the collector's pace
	second(calls / 4)
	var wall, cpu, perCall []float64
	for range rounds() {
		var x, y cost
		x = x.plus(measure(func() { first(calls) }))
		y = y.plus(measure(func() { second(calls) }))
		y = y.plus(measure(func() { second(calls) }))
		x = x.plus(measure(func() { first(calls) }))
		wall = append(wall, float64(x.wall)/float64(y.wall))
		cpu = append(cpu, float64(x.cpu)/float64(y.cpu))
		perCall = append(perCall, float64(x.wall.Microseconds())/float64(2*calls))
	}
	b.ReportMetric(median(wall), "time-ratio")
	b.ReportMetric(median(cpu), "cpu-ratio")
	b.ReportMetric(median(perCall), "µs/call")
	b.ReportMetric(0, "ns/op")
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	n := len(xs)
	if n%2 == 1 {
		return xs[n/2]
	}
	return (xs[n/2-1] + xs[n/2]) / 2
}
