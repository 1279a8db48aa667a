package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// TestLostSpool: what was taken in of a spool that somebody deleted gets an end that says so, whether its writer lives or not, and not twice.
func TestLostSpool(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	tape := storetest.NewTape("r", "e")
	w := writeSpool(t, path, "r", &store.Run{ID: "r", Status: store.RunRunning, Owner: "go test"}, &store.Test{ID: "t", RunID: "r", Status: store.TestRunning}, tape.Open())
	appendTo(t, w, tape.Frame([]byte("taken in\n"))...)
	ingest(t, s)
	appendTo(t, w, tape.Frame([]byte("lost\n"))...)
	if err := os.RemoveAll(path + ".spool"); err != nil {
		t.Fatal(err)
	}
	if got := ingest(t, s); got.Lost != 1 || got.Interrupted != 2 {
		t.Errorf("after the spool was deleted: %+v", got)
	}
	if got := ingest(t, s); got.Lost != 0 || got.Interrupted != 0 {
		t.Errorf("again: %+v", got)
	}
	if got := s.Ingested().Lost; got != 1 {
		t.Errorf("%d lost in all", got)
	}
	run, err := s.Run(context.Background(), "r")
	if err != nil || run.Status != store.RunInterrupted {
		t.Errorf("run %+v, %v", run, err)
	}
	tests, err := s.Tests(context.Background(), "r")
	if err != nil || len(tests) != 1 || tests[0].Status != store.TestInterrupted {
		t.Errorf("tests %+v, %v", tests, err)
	}
	tr, err := s.Trace(context.Background(), "e")
	if err != nil {
		t.Fatal(err)
	}
	view, err := tr.View()
	if err != nil || len(view.Limitations()) != 1 || view.Limitations()[0].Code != "persistence_failed" || !strings.Contains(view.Limitations()[0].Message, "deleted") {
		t.Errorf("limitations %+v, %v", view.Limitations(), err)
	}
	if info, err := s.Execution(context.Background(), "e"); err != nil || info.Outcome != trace.OutcomeInterrupted || info.EventCount != 2 {
		t.Errorf("execution %+v, %v", info, err)
	}
}

// TestRunOfAKilledOwner: m3 test records the end of its run in the database and in a spool of its own. Either is enough, and neither undoes the other.
func TestRunOfAKilledOwner(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := start.Add(time.Minute)
	running := &store.Run{ID: "r", Status: store.RunRunning, Started: start, Owner: "m3 test"}
	finished := &store.Run{ID: "r", Status: store.RunFinished, Started: start, Finished: &end, Owner: "m3 test"}
	for _, tt := range []struct {
		name                string
		inSpool, inDatabase bool
		want                store.RunStatus
	}{
		{"nowhere", false, false, store.RunInterrupted},
		{"in the spool", true, false, store.RunFinished},
		{"in the database", false, true, store.RunFinished},
		{"in both", true, true, store.RunFinished},
	} {
		path := filepath.Join(t.TempDir(), "db.sqlite")
		s := reopen(t, path)
		w := writeSpool(t, path, "r", running)
		appendTo(t, s, running)
		ingest(t, s)
		if run, err := s.Run(context.Background(), "r"); err != nil || run.Status != store.RunRunning {
			t.Errorf("%s: while its owner lives: %+v, %v", tt.name, run, err)
		}
		if tt.inSpool {
			appendTo(t, w, finished)
		}
		if tt.inDatabase {
			appendTo(t, s, finished)
		}
		w.Close()
		run, err := reopen(t, path).Run(context.Background(), "r")
		if err != nil || run.Status != tt.want || (run.Finished != nil) != (tt.want == store.RunFinished) {
			t.Errorf("%s: %+v, %v, want %s", tt.name, run, err, tt.want)
		}
		gone(t, path+".spool")
	}
}

// TestIngestWithin: an owner of the ingest lock who keeps it is waited for as long as one says, and Open names it.
func TestIngestWithin(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	writeSpool(t, path, "r", &store.Run{ID: "r"})
	unlock, err := s.lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.IngestWithin(context.Background(), 30*time.Millisecond); !errors.Is(err, ErrLocked) {
		t.Errorf("under another's lock: %v", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	unlock()
	if r, err := s.IngestWithin(context.Background(), time.Minute); err != nil || r.Records != 2 {
		t.Errorf("after the lock: %+v, %v", r, err)
	}
}
