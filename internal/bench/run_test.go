package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
)

// BenchmarkRecordedRun measures what m3 test adds to go test over a package of 200 tests of 5 calls: the median of pairs, warm
// cache, built binary, ingest and feedback included.
func BenchmarkRecordedRun(b *testing.B) {
	dir := b.TempDir()
	bin := filepath.Join(dir, "m3")
	run(b, nil, "go", "build", "-o", bin, "../../cmd/m3")
	db := filepath.Join(dir, "runs.sqlite")
	plain := func() time.Duration { return run(b, nil, "go", "test", "-count=1", "./twohundred") }
	recorded := func() time.Duration {
		return run(b, nil, bin, "test", "--results-db", db, "./twohundred")
	}
	plain()
	recorded()
	var extra []float64
	n := setting("M3_BENCH_PAIRS", 9)
	for range n {
		p := plain()
		r := recorded()
		extra = append(extra, (r - p).Seconds())
	}
	slices.Sort(extra)
	b.ReportMetric(median(extra), "extra-s")
	b.ReportMetric(0, "ns/op")
	checkRecorded(b, db, n+1)
}

// checkRecorded holds that every run was kept whole.
func checkRecorded(b *testing.B, db string, runs int) {
	b.Helper()
	st, err := sqlite.Open(db)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	list, err := st.Runs(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	if len(list) != runs {
		b.Errorf("%d runs in the database, want %d", len(list), runs)
	}
	for _, r := range list {
		ex, err := st.Executions(context.Background(), &store.ExecutionQuery{RunID: r.ID})
		if err != nil {
			b.Fatal(err)
		}
		if len(ex) != 200 {
			b.Errorf("run %s has %d executions, want 200", r.ID, len(ex))
		}
		for _, e := range ex {
			if !e.Complete {
				b.Errorf("execution %s is not complete", e.ID)
			}
		}
	}
}

func run(b *testing.B, env []string, name string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return time.Since(start)
}
