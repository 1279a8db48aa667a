package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

func writeSpool(t testing.TB, path, run string, recs ...store.Record) *spool.Store {
	t.Helper()
	s, err := spool.Open(context.Background(), &spool.Config{Database: path, RunID: run, Package: "p", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, rec := range recs {
		if err := s.Append(context.Background(), rec); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func appendTo(t testing.TB, s store.Recorder, recs ...store.Record) {
	t.Helper()
	if err := s.Append(context.Background(), recs...); err != nil {
		t.Fatal(err)
	}
}

func ingest(t *testing.T, s *Store) IngestReport {
	t.Helper()
	r, err := s.Ingest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func checkTape(t *testing.T, s *Store, tape *storetest.Tape) {
	t.Helper()
	tr, err := s.Trace(context.Background(), tape.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tr.Events(), tape.Events) {
		t.Errorf("the events of %s are not what was recorded", tape.ID)
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", filepath.Base(path), err)
	}
}

// TestTail: what is written while it is read comes in bit by bit, each once.
func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", tape.Open())
	if got, want := ingest(t, s), (IngestReport{Spools: 1, Live: 1, Records: 2}); got.Records != want.Records || got.Live != want.Live || got.Removed != 0 {
		t.Errorf("first: %+v, want %+v", got, want)
	}
	for i := range 3 {
		appendTo(t, w, tape.Frame(fmt.Appendf(nil, "%d\n", i))...)
		if got := ingest(t, s); got.Records != 1 || got.Bytes == 0 {
			t.Errorf("frame %d: %+v", i, got)
		}
		checkTape(t, s, tape)
		if got := ingest(t, s); got.Records != 0 || got.Bytes != 0 {
			t.Errorf("nothing new: %+v", got)
		}
	}
	appendTo(t, w, tape.End(trace.OutcomeCompleted, "")...)
	w.Close()
	if got := ingest(t, s); got.Records != 1 || got.Removed != 1 || got.Live != 0 || got.Interrupted != 0 {
		t.Errorf("last: %+v", got)
	}
	checkTape(t, s, tape)
	gone(t, path+".spool")
	if got := s.Ingested(); got.Records != 6 || got.Removed != 1 {
		t.Errorf("in all: %+v", got)
	}
}

// TestCut: a spool that ends in the middle of a line loses that line, wherever it is cut, and nothing else.
func TestCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.sqlite")
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", tape.Whole(storetest.Payloads()[:2]...)...)
	whole, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{}
	for i, c := range whole {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for _, cut := range append([]int{0, 1, ends[0] - 1, ends[0], ends[1] - 1, ends[1] + 1}, func() (all []int) {
		for i := ends[len(ends)-2]; i < len(whole); i += 17 {
			all = append(all, i)
		}
		return append(all, len(whole)-2, len(whole)-1, len(whole))
	}()...) {
		path := filepath.Join(dir, fmt.Sprintf("%d.sqlite", cut))
		run := filepath.Join(path+".spool", "r")
		if err := os.MkdirAll(run, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run, "id.jsonl"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := reopen(t, path)
		lines := bytes.Count(whole[:cut], []byte("\n"))
		report := s.Ingested()
		torn := 0
		if cut > 0 && whole[cut-1] != '\n' {
			torn = 1
		}
		if report.Records != lines || report.Torn != torn || report.Removed != 1 || report.Bad != 0 {
			t.Errorf("cut at %d: %+v, want %d records", cut, report, lines)
		}
		gone(t, path+".spool")
		if lines < 2 {
			continue
		}
		info, err := s.Execution(context.Background(), "e")
		if err != nil {
			t.Fatal(err)
		}
		want := trace.OutcomeInterrupted
		if lines == len(ends) {
			want = trace.OutcomeCompleted
		}
		if info.Outcome != want || info.EventCount != max(1, min(lines-2+1, len(tape.Events))) {
			t.Errorf("cut at %d, after %d lines: %s with %d events, want %s", cut, lines, info.Outcome, info.EventCount, want)
		}
	}
}

// TestTornLineOfALivingWriter is not dropped: its writer may be about to finish it.
func TestTornLineOfALivingWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	w := writeSpool(t, path, "r", &store.Run{ID: "r"})
	f, err := os.OpenFile(w.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"t":"item","v":{"run_id":"r",`); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, path)
	if got := s.Ingested(); got.Torn != 0 || got.Live != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := f.WriteString(`"package":"p"}}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if got := ingest(t, s); got.Records != 1 {
		t.Errorf("the line, finished: %+v", got)
	}
}

// TestReplay: a spool that comes back changes nothing and goes again.
func TestReplay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	tape := storetest.NewTape("r", "e")
	recs := append([]store.Record{&store.Run{ID: "r", Status: store.RunRunning, Owner: "program"}}, tape.Whole(storetest.Payloads()...)...)
	w := writeSpool(t, path, "r", append(recs, &store.Item{RunID: "r", Package: "p"}, storetest.Judged("r", "v1", "e", 1), storetest.Evaluation("r", "v2", "e", 2),
		storetest.Evaluation("r", "v3", "elsewhere", 3))...)
	lines, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := reopen(t, path)
	before := dump(t, s)
	for _, forget := range []bool{false, true} {
		if forget { // as if the spool had never been seen: the records know themselves
			if _, err := s.writeExec(`DELETE FROM spool`); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(w.Path()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.Path(), lines, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ingest(t, s); got.Removed != 1 || got.Bad != 0 || (got.Records == 0) == forget {
			t.Errorf("forgotten %v: %+v", forget, got)
		}
		if after := dump(t, s); after != before {
			t.Errorf("forgotten %v: the database changed:\n%s\nwant\n%s", forget, after, before)
		}
		gone(t, path+".spool")
	}
}

func (s *Store) writeExec(query string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res, err := s.conn.ExecContext(background, query)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// dump is what a reader sees, without the large parts.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	ctx := context.Background()
	runs, err1 := s.Runs(ctx)
	suites, err2 := s.Suites(ctx, "")
	items, err3 := s.Items(ctx, "r")
	infos, err4 := s.Executions(ctx, nil)
	rows, err5 := s.Evaluations(ctx, nil)
	var latest, words int
	err6 := s.readDB.QueryRow(`SELECT (SELECT count(*) FROM evaluation WHERE latest), (SELECT count(*) FROM word)`).Scan(&latest, &words)
	evaluations, err7 := json.Marshal(rows)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n%s %d %d\n", runs, suites, items, evaluations, latest, words)
	for _, info := range infos {
		fmt.Fprintf(&b, "%+v\n", info.Execution)
		tr, err := s.Trace(ctx, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tr.Len() {
			ev, err := tr.Event(i)
			fmt.Fprintf(&b, "%d %s %v\n", ev.Sequence, ev.Kind, err)
		}
	}
	return b.String()
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", append([]store.Record{tape.Open()}, tape.Begin()...)...)
	f, err := os.OpenFile(w.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{
		`what is this`,
		`{"t":"verdict","v":{}}`,
		`{"t":"run","v":{}}`,
		`{"t":"event","x":"none","s":0,"k":"k","b":{}}`,
		`{"t":"blob","x":"e","h":"` + strings.Repeat("0", 64) + `","n":3}`,
		``,
	}
	if _, err := f.WriteString(strings.Join(bad, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	appendTo(t, w, tape.End(trace.OutcomeCompleted, "")...)
	w.Close()
	s := reopen(t, path)
	got := s.Ingested()
	if got.Bad != len(bad) || len(got.Problems) != len(bad) || got.Removed != 1 && got.Removed != 0 {
		t.Errorf("%+v, want %d problems", got, len(bad))
	}
	for i, p := range got.Problems {
		if p.Path != w.Path() || p.Reason == "" || i > 0 && p.Offset <= got.Problems[i-1].Offset {
			t.Errorf("problem %+v", p)
		}
	}
	checkTape(t, s, tape)
	if _, err := os.Stat(w.Path() + ".bad"); err != nil {
		t.Errorf("the spool with bad lines was not set aside: %v", err)
	}
	if got := ingest(t, s); got.Spools != 0 {
		t.Errorf("and again: %+v", got)
	}
}

// TestNewerSpool is refused by name, and does not keep the others out.
func TestNewerSpool(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	tape := storetest.NewTape("r", "e")
	writeSpool(t, path, "r", tape.Whole()...).Close()
	newer := filepath.Join(path+".spool", "a", "newer.jsonl")
	if err := os.MkdirAll(filepath.Dir(newer), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newer, []byte(`{"m3_spool":3,"m3_version":"v3.0.0","run_id":"a"}`+"\n{\"t\":\"new\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Ingest(context.Background())
	if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), newer) || !strings.Contains(err.Error(), "format 3 (m3 v3.0.0), this m3 reads up to 2") {
		t.Errorf("Ingest: %v", err)
	}
	checkTape(t, s, tape)
	if _, err := os.Stat(newer); err != nil {
		t.Errorf("the newer spool: %v", err)
	}
	if _, err := Open(path); !errors.Is(err, store.ErrVersion) {
		t.Errorf("Open: %v", err)
	}
}

// TestRunEnds: who owns a run decides what its process's silence means.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := start.Add(time.Minute)
	passed := &store.Test{ID: "t", RunID: "r", Status: store.TestPassed, Started: start, Finished: &end}
	open := &store.Test{ID: "t", RunID: "r", Status: store.TestRunning, Started: start}
	for _, tt := range []struct {
		name, owner string
		test        *store.Test
		end         *time.Time
		status      store.RunStatus
	}{
		{"program, no end", "program", passed, nil, store.RunInterrupted},
		{"program, end", "program", open, &end, store.RunFinished},
		{"go test without Main, all ended", "go test", passed, nil, store.RunFinished},
		{"go test, a test open", "go test", open, nil, store.RunInterrupted},
		{"m3 test, killed", "m3 test", open, nil, store.RunInterrupted},
		{"m3 test, killed when all had ended", "m3 test", passed, nil, store.RunInterrupted},
		{"m3 test, end", "m3 test", passed, &end, store.RunFinished},
		{"a part of somebody's run", "", open, nil, store.RunRunning},
		{"a kit that was not closed", "kit", passed, nil, store.RunInterrupted},
	} {
		path := filepath.Join(t.TempDir(), "db.sqlite")
		w := writeSpool(t, path, "r", &store.Run{ID: "r", Status: store.RunRunning, Started: start, Owner: tt.owner}, tt.test)
		if tt.end != nil {
			appendTo(t, w, &store.Run{ID: "r", Status: store.RunFinished, Finished: tt.end})
		}
		s := reopen(t, path)
		if run, err := s.Run(context.Background(), "r"); err != nil || tt.end == nil && run.Status != store.RunRunning {
			t.Errorf("%s: while its process lives the run is %+v (%v)", tt.name, run, err)
		}
		w.Close()
		ingest(t, s)
		run, err := s.Run(context.Background(), "r")
		if err != nil || run.Status != tt.status || !run.Started.Equal(start) {
			t.Errorf("%s: run %+v (%v), want %s", tt.name, run, err, tt.status)
		}
		if (run.Finished != nil) != (tt.status == store.RunFinished) {
			t.Errorf("%s: run ended at %v", tt.name, run.Finished)
		}
	}
}

// TestBatches: a spool longer than a transaction, and lines longer than a read.
func TestBatches(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", tape.Open())
	for i := range batchLines + 10 {
		size := i % 50
		if i%1000 == 0 {
			size = 60 << 10
		}
		appendTo(t, w, tape.Frame(bytes.Repeat([]byte("\x01"), size))...) // six characters each
	}
	appendTo(t, w, tape.End(trace.OutcomeCompleted, "")...)
	w.Close()
	s := reopen(t, path)
	if got := s.Ingested(); got.Records != batchLines+13 || got.Removed != 1 {
		t.Errorf("%+v", got)
	}
	checkTape(t, s, tape)
}

// TestIngestWaits: one at a time, and no longer than the context.
func TestIngestWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	writeSpool(t, path, "r", &store.Run{ID: "r"})
	unlock, err := s.lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Ingest(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("Ingest under another's lock: %v", err)
	}
	done := make(chan IngestReport)
	go func() {
		r, _ := s.Ingest(context.Background())
		done <- r
	}()
	unlock()
	if r := <-done; r.Records != 2 {
		t.Errorf("after the lock: %+v", r)
	}
}

// TestConcurrentIngest: several writers, several takers, one of them deleting what another looks at.
func TestConcurrentIngest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	stores := []*Store{reopen(t, path), reopen(t, path)}
	stop := make(chan struct{})
	takers := make(chan error, len(stores))
	for _, s := range stores {
		go func() {
			for {
				if _, err := s.Ingest(context.Background()); err != nil {
					takers <- err
					return
				}
				select {
				case <-stop:
					_, err := s.Ingest(context.Background())
					takers <- err
					return
				default:
				}
			}
		}()
	}
	var tapes []*storetest.Tape
	for i := range 6 {
		tape := storetest.NewTape("r", fmt.Sprintf("e%d", i))
		tapes = append(tapes, tape)
		writeSpool(t, path, "r", tape.Whole(storetest.Payload{Bytes: make([]byte, 70<<10)}, storetest.Payload{Bytes: []byte("x")})...).Close()
	}
	close(stop)
	for range stores {
		if err := <-takers; err != nil {
			t.Error(err)
		}
	}
	for _, s := range stores {
		for _, tape := range tapes {
			checkTape(t, s, tape)
		}
	}
	if a, b := stores[0].Ingested(), stores[1].Ingested(); a.Removed+b.Removed != 6 || a.Bad+b.Bad != 0 || a.Interrupted+b.Interrupted != 0 {
		t.Errorf("%+v and %+v", a, b)
	}
	gone(t, path+".spool")
}

// TestAbandonedBlobs: an interrupted removal is made good by the next.
func TestAbandonedRemoval(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", tape.Whole(storetest.Payload{Bytes: make([]byte, 70<<10)})...)
	w.Close()
	files, err := spool.List(path)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	// Somebody still holds the run's directory: the spool goes, the blobs stay.
	dir, err := os.Open(filepath.Dir(w.Path()))
	if err != nil {
		t.Fatal(err)
	}
	if err := spool.Lock(context.Background(), dir, syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, path)
	checkTape(t, s, tape)
	gone(t, w.Path())
	if _, err := os.Stat(files[0].Blob(tape.Events[1].Frame.SHA256)); err != nil {
		t.Errorf("the blob is gone: %v", err)
	}
	dir.Close()
	ingest(t, s)
	gone(t, path+".spool")
}
