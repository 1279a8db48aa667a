package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/storetest"
)

// benchRows is how many evaluations BenchmarkAggregate goes through: M3_BENCH_ROWS, else a million.
func benchRows(b *testing.B) int {
	text := os.Getenv("M3_BENCH_ROWS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("M3_BENCH_ROWS=%q is not a number of rows", text)
	}
	return n
}

// BenchmarkAggregate aggregates a generated history (four evaluators, four configurations, 100 cases, 25 trials, in as many runs as it takes) by configuration:
// one evaluator of the four, and all of them. Beside it runs the least that SQL could do for the pass rates and average scores alone, over the same rows, with a covering
// index and a table of configurations made for it. One iteration is one round: Aggregate, bare, bare, Aggregate. Reported are the medians. The promises: 0.5 s for
// one evaluator and 2.5 s for all of a million rows, and at most 1.5 times the bare SQL.
func BenchmarkAggregate(b *testing.B) {
	d := &storetest.Dataset{Cases: 100, Configs: 4, Trials: 25, Evaluators: 4, Calls: 1}
	rows := benchRows(b)
	for d.Runs = 1; d.Rows() < rows; d.Runs++ {
	}
	if per := d.Rows() / d.Runs; d.Runs == 1 && rows < per {
		d.Cases = max(1, rows*d.Cases/per)
	}
	s, want := benchHistory(b, d)
	b.Run("one evaluator of four by configuration", func(b *testing.B) {
		q := eval.Query{Filters: eval.Labels{eval.LabelEvaluator: {d.EvaluatorName(1)}}, GroupBy: []string{"metadata.harness_config"}}
		benchAggregate(b, s, q, want, `SELECT ?1, c.config, count(*), sum(e.status = 'passed'), avg(e.score) FROM evaluation e INDEXED BY bench_evaluation
			JOIN bench_config c ON c.execution = e.execution WHERE e.evaluator = (SELECT id FROM word WHERE text = ?1) AND e.latest GROUP BY c.config`, d.EvaluatorName(1))
	})
	b.Run("all by evaluator and configuration", func(b *testing.B) {
		q := eval.Query{GroupBy: []string{eval.LabelEvaluator, "metadata.harness_config"}, PassK: []int{1, 5}}
		benchAggregate(b, s, q, want, `SELECT w.text, c.config, count(*), sum(e.status = 'passed'), avg(e.score) FROM evaluation e INDEXED BY bench_evaluation
			JOIN bench_config c ON c.execution = e.execution JOIN word w ON w.id = e.evaluator WHERE e.latest GROUP BY 1, 2`)
	})
}

// tally is what is to come out of a group, by evaluator and configuration.
type tally struct{ rows, passed int }

func benchHistory(b *testing.B, d *storetest.Dataset) (*Store, map[string]tally) {
	b.Helper()
	start := time.Now()
	// M3_BENCH_DB keeps the history, and takes the one that is there: for looking at Aggregate, not for figures.
	path := os.Getenv("M3_BENCH_DB")
	if path == "" {
		path = filepath.Join(b.TempDir(), "db.sqlite")
	}
	s := reopen(b, path)
	runs, err := s.Runs(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	want := map[string]tally{}
	var batch []store.Record
	for sample := range d.All() {
		if len(runs) == 0 {
			batch = append(batch, sample.Records...)
		}
		for i, row := range sample.Rows {
			key := row.Evaluator + "/" + sampleConfig(b, sample.Execution)
			t := want[key]
			t.rows++
			if sample.Rows[i].Status == eval.Passed {
				t.passed++
			}
			want[key] = t
		}
		if len(batch) > 20_000 {
			appendTo(b, s, batch...)
			batch = batch[:0]
		}
	}
	appendTo(b, s, batch...)
	if len(runs) > 0 {
		return s, want
	}
	if _, err := s.writeExec(`CREATE TABLE bench_config (execution INTEGER PRIMARY KEY, config TEXT);
		INSERT INTO bench_config SELECT id, record ->> '$.spec.metadata.harness_config' FROM execution;
		CREATE INDEX bench_evaluation ON evaluation (evaluator, latest, execution, status, score);`); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d evaluations of %d executions written in %.1f s", d.Rows(), d.Rows()/d.Evaluators, time.Since(start).Seconds())
	return s, want
}

func sampleConfig(b *testing.B, x *store.Execution) string {
	var spec struct{ Metadata map[string]any }
	if err := x.Spec.Decode(&spec); err != nil {
		b.Fatal(err)
	}
	return fmt.Sprint(spec.Metadata["harness_config"])
}

func benchAggregate(b *testing.B, s *Store, q eval.Query, want map[string]tally, bare string, args ...any) {
	ctx := context.Background()
	ours := func() time.Duration {
		start := time.Now()
		rep, err := s.Aggregate(ctx, q)
		took := time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		seen := 0
		for _, g := range rep.Groups {
			evaluator, config := g.Key[0], g.Key[len(g.Key)-1]
			if len(g.Key) == 1 {
				evaluator = q.Filters[eval.LabelEvaluator][0]
			}
			t := want[evaluator+"/"+config]
			if v := g.Values; v.EvaluationCount != t.rows || v.PassedCount != t.passed || v.TrialCount != t.rows || v.Health.ServerLatency.Count != t.rows || *v.PassRate != float64(t.passed)/float64(t.rows) {
				b.Fatalf("%v: %+v, want %+v", g.Key, v, t)
			}
			seen += t.rows
		}
		if seen == 0 || seen != rep.Totals.EvaluationCount {
			b.Fatalf("%d rows of %d", seen, rep.Totals.EvaluationCount)
		}
		return took
	}
	plain := func() time.Duration {
		start := time.Now()
		groups := 0
		err := s.query(ctx, func(rows *sql.Rows) error {
			var evaluator, config string
			var t tally
			var score sql.NullFloat64
			if err := rows.Scan(&evaluator, &config, &t.rows, &t.passed, &score); err != nil {
				return err
			}
			if groups++; t != want[evaluator+"/"+config] {
				b.Fatalf("bare SQL: %s/%s: %+v, want %+v", evaluator, config, t, want[evaluator+"/"+config])
			}
			return nil
		}, bare, args...)
		if err != nil || groups == 0 {
			b.Fatal(groups, err)
		}
		return time.Since(start)
	}
	var seconds, sql, ratio, cpu []float64
	for b.Loop() {
		before := cpuTime(b)
		a1 := ours()
		cpu = append(cpu, cpuTime(b)-before)
		b1, b2, a2 := plain(), plain(), ours()
		seconds = append(seconds, a1.Seconds(), a2.Seconds())
		sql = append(sql, b1.Seconds(), b2.Seconds())
		ratio = append(ratio, float64(a1+a2)/float64(b1+b2))
	}
	b.ReportMetric(median(seconds), "s/aggregate")
	b.ReportMetric(median(cpu), "cpu-s/aggregate")
	b.ReportMetric(median(sql), "s/bare-sql")
	b.ReportMetric(median(ratio), "x-bare-sql")
}

// cpuTime is what the process has used, in seconds.
func cpuTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
