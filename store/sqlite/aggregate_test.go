package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

var byConfig = eval.Query{GroupBy: []string{eval.LabelEvaluator, "metadata.harness_config", eval.LabelTool}, PassK: []int{1, 3}}

func aggregated(t testing.TB, r store.Reader, q eval.Query) string {
	t.Helper()
	rep, err := r.Aggregate(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(rep, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// inMemory is what the memory store says of the same records.
func inMemory(t *testing.T, q eval.Query, recs []store.Record) string {
	t.Helper()
	m := memory.New(&memory.Config{Budget: -1})
	defer m.Close()
	appendTo(t, m, recs...)
	return aggregated(t, m, q)
}

// TestAggregateAnyOrder: evaluations in whatever order, before their executions too, in transactions of one record and of all, in two handles on one file: the
// answer is that of the memory store.
func TestAggregateAnyOrder(t *testing.T) {
	t.Parallel()
	d := &storetest.Dataset{Runs: 2, Cases: 3, Configs: 2, Trials: 5, Evaluators: 3, Calls: 2, Odd: true}
	var all, rows, rest []store.Record
	for s := range d.All() {
		for _, rec := range s.Records {
			all = append(all, rec)
			if _, ok := rec.(*store.Evaluation); ok {
				rows = append(rows, rec)
			} else {
				rest = append(rest, rec)
			}
		}
	}
	backwards := make([]store.Record, 0, len(rows))
	for i := range rows {
		backwards = append(backwards, rows[len(rows)-1-i])
	}
	want := inMemory(t, byConfig, all)
	one := func(recs []store.Record) (out [][]store.Record) {
		for _, rec := range recs {
			out = append(out, []store.Record{rec})
		}
		return out
	}
	for name, batches := range map[string][][]store.Record{
		"at once":           {all},
		"one by one":        one(all),
		"evaluations first": {rows, rest},
		"backwards":         append([][]store.Record{rest}, one(backwards)...),
		"twice":             {rows, rest, rows},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "db.sqlite")
			handles := []*Store{reopen(t, path), reopen(t, path)}
			for i, recs := range batches {
				if err := handles[i%2].Append(context.Background(), recs...); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range append(handles, reopen(t, path)) {
				if got := aggregated(t, s, byConfig); got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}

// TestAggregateManyAlike: more evaluations under one set of labels than a page holds, many of them superseded, and an execution with more calls than fit beside
// its neighbours.
func TestAggregateManyAlike(t *testing.T) {
	t.Parallel()
	tape := storetest.NewTape("r", "x")
	recs := append([]store.Record{tape.Open()}, tape.Begin()...)
	for i := range 1200 {
		recs = append(recs, tape.Call(fmt.Sprintf("tool-%d", i%2), "success", 1_000_000_000)...)
	}
	recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
	for i := range 3 * pageEntries {
		e := storetest.Evaluation("r", fmt.Sprintf("e%06d", i), "x", i)
		e.SubjectDigest = fmt.Sprintf("%064d", i%(2*pageEntries))
		e.Score = eval.Score(float64(i) / 7)
		if i%3 == 0 {
			e.Status = eval.Failed
		}
		recs = append(recs, e)
	}
	q := eval.Query{GroupBy: []string{eval.LabelEvaluator, eval.LabelTool}}
	s := reopen(t, filepath.Join(t.TempDir(), "db.sqlite"))
	appendTo(t, s, recs...)
	if got, want := aggregated(t, s, q), inMemory(t, q, recs); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	rep, err := s.Aggregate(context.Background(), q)
	if v := rep.Totals; err != nil || v.EvaluationCount != 2*pageEntries || v.Health.ToolCalls.Total != 1200 || *v.Health.ServerLatency.P50 != 1000 || rep.Groups[0].Key[1] != "multiple" {
		t.Errorf("%+v, %v", v, err)
	}
	var facts, longest int
	if err := s.readDB.QueryRow(`SELECT (SELECT count(*) FROM execution_facts), (SELECT max(length(data)) FROM execution_page)`).Scan(&facts, &longest); err != nil || facts != 1 || longest > 100 {
		t.Errorf("%d facts in rows of their own, a page of %d bytes, %v", facts, longest, err)
	}
}

// TestAggregateAfterRollback: what a failed transaction wrote into pages is not there.
func TestAggregateAfterRollback(t *testing.T) {
	t.Parallel()
	s := reopen(t, filepath.Join(t.TempDir(), "db.sqlite"))
	tape := storetest.NewTape("r", "x")
	good := append(tape.Whole(), storetest.Evaluation("r", "1", "x", 1))
	bad := storetest.Evaluation("r", "2", "x", 2)
	bad.Status = eval.Failed
	appendTo(t, s, good...)
	if err := s.Append(context.Background(), bad, storetest.Evaluation("r", "3", "y", 3), &store.Event{ExecutionID: "nobody", Kind: "k", Body: []byte("{}")}); err == nil {
		t.Fatal("an event of no execution was kept")
	}
	if got, want := aggregated(t, s, byConfig), inMemory(t, byConfig, good); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	appendTo(t, s, bad)
	if got, want := aggregated(t, s, byConfig), inMemory(t, byConfig, append(good, bad)); got != want {
		t.Errorf("afterwards: got\n%s\nwant\n%s", got, want)
	}
}

// TestAggregateOldDatabase: an execution that an earlier schema kept has no facts; they are worked out from its trace.
func TestAggregateOldDatabase(t *testing.T) {
	t.Parallel()
	s := reopen(t, golden(t, 1))
	tape := goldenTape("golden-run", "golden")
	row := storetest.Evaluation("golden-run", "late", "golden", 1)
	appendTo(t, s, row)
	q := eval.Query{GroupBy: []string{eval.LabelEvaluator, eval.LabelTrial, eval.LabelServer, eval.LabelDay}}
	recs := []store.Record{tape.Open()}
	for i := range tape.Events {
		ev := &tape.Events[i]
		if f := ev.Frame; f != nil && f.OutOfLine {
			recs = append(recs, &store.Blob{ExecutionID: tape.ID, SHA256: f.SHA256, Data: bytes.Clone(f.Bytes)})
		}
		recs = append(recs, &store.Event{ExecutionID: tape.ID, Sequence: ev.Sequence, Kind: ev.Kind, Body: trace.AppendEvent(nil, ev)})
	}
	if got, want := aggregated(t, s, q), inMemory(t, q, append(recs, row)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzExecutionPage: whatever the bytes of a page are, they are read as what was written, or refused.
func FuzzExecutionPage(f *testing.F) {
	p := &executionPage{}
	p.entries[0] = executionEntry{1, elsewhere}
	p.entries[slots-1] = executionEntry{1 << 40, bytes.Repeat([]byte{7}, 300)}
	f.Add(p.append(nil))
	f.Add([]byte{slots, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &executionPage{}
		if eachExecution(b, func(slot int, labels int64, facts []byte) error {
			p.entries[slot] = executionEntry{labels, bytes.Clone(facts)}
			return nil
		}) != nil {
			return
		}
		written := p.append(nil)
		n := 0
		err := eachExecution(written, func(slot int, labels int64, facts []byte) error {
			n++
			if e := p.entries[slot]; e.labels != labels || !bytes.Equal(e.facts, facts) {
				t.Errorf("slot %d: %d %x, want %d %x", slot, labels, facts, e.labels, e.facts)
			}
			return nil
		})
		for _, e := range p.entries {
			if e.labels != 0 {
				n--
			}
		}
		if err != nil || n != 0 {
			t.Errorf("%x: %v, %d entries more", written, err, n)
		}
	})
}

// TestEntries: an evaluation is read from its page as it was written.
func TestEntries(t *testing.T) {
	t.Parallel()
	for status := range eval.Statuses() {
		for bits := range 8 {
			want := entry{evaluation: 1 << 50, execution: 1<<55 - 1, status: aggregate.Status(status), required: bits&1 != 0, infra: bits&2 != 0, scored: bits&4 != 0, score: -0.1}
			var got entry
			if got.decode(want.append(nil)); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
}
