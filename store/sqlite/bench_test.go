package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// ingestEvents is how many events a round takes in: those of eight executions with 2,500 calls each.
const ingestEvents = 40_000

// BenchmarkIngest compares taking in a spool with the least that could be done: a prepared insert of the same rows, in memory
// already, into the same table with the same index, in transactions of the same size. One iteration is one round, in the order
// bare, ingest, replay, ingest, bare. Reported are the medians over the rounds: how fast taking in is against bare (the promise is at least 0.5), and
// how long taking in the same spool again is against the first time (at most 0.2).
func BenchmarkIngest(b *testing.B) {
	lines, recs := benchSpool(b)
	var speed, replay, rate []float64
	for b.Loop() {
		bare := benchBare(b, recs)
		first, again := benchTake(b, lines)
		second, _ := benchTake(b, lines)
		bare += benchBare(b, recs)
		speed = append(speed, float64(bare)/float64(first+second))
		replay = append(replay, float64(again)/float64(first))
		rate = append(rate, 2*ingestEvents/(first+second).Seconds())
	}
	b.ReportMetric(median(speed), "x-bare-rate")
	b.ReportMetric(median(replay), "x-replay-time")
	b.ReportMetric(median(rate), "events/s")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func benchSpool(b *testing.B) (lines []byte, recs []*store.Event) {
	b.Helper()
	var tapes []*storetest.Tape
	w := writeSpool(b, filepath.Join(b.TempDir(), "db.sqlite"), "r")
	for i := range 8 {
		tapes = append(tapes, storetest.NewTape("r", fmt.Sprintf("0191e4a0-7f6c-7b2e-9c1d-00000000000%d", i)))
		appendTo(b, w, tapes[i].Open())
	}
	for i := range ingestEvents {
		tape := tapes[i%len(tapes)]
		tape.Events = append(tape.Events[:0], make([]trace.Event, i/len(tapes))...) // only its length counts
		rec := tape.Frame(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"hello, number %d"}]}}`+"\n", i, i))
		appendTo(b, w, rec...)
		recs = append(recs, rec[0].(*store.Event))
	}
	lines, err := os.ReadFile(w.Path())
	if err != nil {
		b.Fatal(err)
	}
	return lines, recs
}

func benchBare(b *testing.B, recs []*store.Event) time.Duration {
	s := reopen(b, filepath.Join(b.TempDir(), "db.sqlite"))
	ctx := context.Background()
	start := time.Now()
	st, err := s.conn.PrepareContext(ctx, `INSERT INTO event (execution, sequence, kind, body) VALUES (?, ?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	for batch := range slices.Chunk(recs, batchLines) {
		tx, err := s.conn.BeginTx(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		stmt := tx.Stmt(st)
		for i, r := range batch {
			if _, err := stmt.ExecContext(ctx, i%8, r.Sequence, string(r.Kind), r.Body); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

func benchTake(b *testing.B, lines []byte) (first, again time.Duration) {
	path := filepath.Join(b.TempDir(), "db.sqlite")
	s := reopen(b, path)
	take := func() time.Duration {
		run := filepath.Join(path+".spool", "r")
		if err := os.MkdirAll(run, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run, "id.jsonl"), lines, 0o600); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if _, err := s.Ingest(context.Background()); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	first, again = take(), take()
	if got := s.Ingested(); got.Records != ingestEvents+9 || got.Bad != 0 {
		b.Fatalf("%+v", got)
	}
	return first, again
}

// BenchmarkOpen is what m3 pays at its start: of a new database, and of one that is there.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	open := func(b *testing.B, path string) {
		s, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			open(b, filepath.Join(dir, fmt.Sprintf("%p-%d.sqlite", b, i)))
		}
	})
	b.Run("there", func(b *testing.B) {
		for b.Loop() {
			open(b, filepath.Join(dir, "there.sqlite"))
		}
	})
}

// BenchmarkReadTrace reads a stored trace from its first event to its last, an event an iteration.
func BenchmarkReadTrace(b *testing.B) {
	path := filepath.Join(b.TempDir(), "db.sqlite")
	s := reopen(b, path)
	tape := storetest.NewTape("r", "e")
	recs := []store.Record{tape.Open()}
	for range 10_000 {
		recs = append(recs, tape.Frame([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`))...)
	}
	appendTo(b, s, recs...)
	log, err := s.log(context.Background(), "e")
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for i := 0; b.Loop(); i++ {
		if buf, err = log.AppendEvent(buf[:0], i%10_000); err != nil {
			b.Fatal(err)
		}
	}
}
