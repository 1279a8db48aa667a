package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/store/storetest"
)

// BenchmarkFeedback makes feedback.json and the files beside it of a run with 10,000 tests, 30,000 executions and 210,000 evaluations, and reports the time and the peak of the process's resident
// memory meanwhile (Linux). The promise: under 5 s and 300 MB. M3_BENCH_ROWS is the number of evaluations, about.
func BenchmarkFeedback(b *testing.B) {
	trials := 100
	if rows, err := strconv.Atoi(os.Getenv("M3_BENCH_ROWS")); err == nil {
		trials = max(1, rows/(100*3*7))
	}
	path := filepath.Join(b.TempDir(), "db.sqlite")
	executions := fillFeedback(b, path, &storetest.Dataset{Runs: 1, Cases: 100, Configs: 3, Trials: trials, Evaluators: 7, Calls: 2})
	st, err := sqlite.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew; where it cannot, the figure is the whole process's
	b.ResetTimer()
	for b.Loop() {
		f, err := report.Build(b.Context(), st, "run-000")
		if err != nil {
			b.Fatal(err)
		}
		out := filepath.Join(b.TempDir(), "feedback.json")
		if err := f.WriteFiles(b.Context(), st, out); err != nil {
			b.Fatal(err)
		}
		if err := f.WriteFile(out); err != nil {
			b.Fatal(err)
		}
		if len(f.Executions) != executions || len(f.Tests) != (executions+2)/3 || f.Summary.Evaluations != 7*executions || len(f.EvaluationStats) != 7 || len(f.TraceFiles) == 0 {
			b.Fatalf("%d executions, %d tests, %d evaluations of %d evaluators, %d traces: the run has %d executions", len(f.Executions), len(f.Tests), f.Summary.Evaluations, len(f.EvaluationStats), len(f.TraceFiles), executions)
		}
	}
	b.ReportMetric(float64(executions), "executions")
	if mb := peakMB(); mb > 0 {
		b.ReportMetric(mb, "peak-MB")
	}
}

// fillFeedback writes the run: three executions to a test, each tenth of which failed.
func fillFeedback(b *testing.B, path string, d *storetest.Dataset) (executions int) {
	b.Helper()
	st, err := sqlite.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	var batch []store.Record
	flush := func() {
		if err := st.Append(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	for s := range d.All() {
		if s.Execution != nil {
			n := executions / 3
			id := fmt.Sprintf("t%06d", n)
			s.Execution.TestID = id
			if executions%3 == 0 {
				batch = append(batch, test(n, id, s.Execution.Created)...)
			}
			executions++
		}
		if batch = append(batch, s.Records...); len(batch) > 20_000 {
			flush()
		}
	}
	flush()
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	return executions
}

func test(n int, id string, began time.Time) []store.Record {
	status, action := store.TestPassed, "pass"
	if n%10 == 9 {
		status, action = store.TestFailed, "fail"
	}
	end, pkg, name := began.Add(time.Second), fmt.Sprintf("example.com/p%d", n%20), fmt.Sprintf("TestCase%06d", n)
	return []store.Record{
		&store.Test{ID: id, RunID: "run-000", Package: pkg, Name: name, Suite: "suite", Iteration: 1, Status: status, Started: began, Finished: &end},
		&store.Item{RunID: "run-000", Package: pkg, Test: name, Iteration: 1, Action: action, Elapsed: time.Second, TestID: id},
	}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMB is the peak of resident memory; 0 where it is not told.
func peakMB() float64 {
	text, err := os.ReadFile("/proc/self/status")
	m := peak.FindSubmatch(text)
	if err != nil || m == nil {
		return 0
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024
}
