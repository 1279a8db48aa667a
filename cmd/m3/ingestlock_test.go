package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/sqlite"
)

// ingestLocked is a database whose ingest lock somebody else holds, and a module with a test that takes a second.
func ingestLocked(t *testing.T) (dir, path string, unlock func()) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"go.mod": signalGoMod, "x_test.go": "package signals\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestDone(t *testing.T) { time.Sleep(time.Second) }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(dir, "db.sqlite")
	st, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path+".ingest.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := spool.Lock(t.Context(), f, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return dir, path, func() { f.Close() }
}

// Somebody who takes in spools for seconds, as another m3 may, delays m3 test and costs it nothing.
func TestIngestLockedForAWhile(t *testing.T) {
	t.Parallel()
	dir, path, unlock := ingestLocked(t)
	time.AfterFunc(5*time.Second, unlock)
	var out, errs strings.Builder
	c := &cli{in: strings.NewReader(""), out: &out, err: &errs, dir: dir}
	code := c.run(t.Context(), []string{"test", "--results-db", path, "."})
	if code != 0 || !strings.Contains(out.String(), "PASS  1 of 1 test passed") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	st, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	runs, err := st.Runs(context.Background())
	if err != nil || len(runs) != 1 || runs[0].Status != store.RunFinished || runs[0].ExitCode == nil || *runs[0].ExitCode != 0 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

// One who never lets go does not make m3 test hang: after its patience it says what is the matter, with an exit code of its own, and what the tests left
// is taken in by whoever opens the database next.
func TestIngestLockedForever(t *testing.T) {
	t.Parallel()
	dir, path, unlock := ingestLocked(t)
	var out, errs strings.Builder
	c := &cli{in: strings.NewReader(""), out: &out, err: &errs, dir: dir, patience: 2 * time.Second}
	began := time.Now()
	code := c.run(t.Context(), []string{"test", "--results-db", path, "."})
	if took := time.Since(began); code != exitUsage || took > 60*time.Second || !strings.Contains(errs.String(), "another process is taking in spools") {
		t.Errorf("exit code %d after %v\n%s%s", code, took, out.String(), errs.String())
	}
	unlock()
	st, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	runs, err := st.Runs(context.Background())
	if err != nil || len(runs) != 1 || runs[0].Status != store.RunFinished || runs[0].ExitCode == nil || *runs[0].ExitCode != 0 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}
