package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// m3Test runs m3 test over one test of testdata/module/faults, and returns what it said and its exit code.
func m3Test(t *testing.T, module, db, test string, env ...string) (string, int) {
	t.Helper()
	m3 := built.get(t, "m3", "../..", "build", "./cmd/m3")
	cmd := command(t, module, environ(append(goEnvironment(t), env...)...), m3, "test", "--results-db", db, "./faults", "--", "-vet=off", "-run=^"+test+"$", "-v")
	return output(t, cmd)
}

// called holds that the calls of a view are the first ones, in order and whole, and returns how many there are.
func called(t *testing.T, db *sqlite.Store, view trace.View) int {
	t.Helper()
	calls := view.ToolCalls()
	for i, c := range calls.All() {
		raw, ok := c.Arguments.Get()
		if !ok {
			t.Errorf("call %d has no arguments", i)
			continue
		}
		var args struct{ Text string }
		if err := json.Unmarshal(raw, &args); err != nil || !strings.HasPrefix(args.Text, strconv.Itoa(i)+":") {
			t.Errorf("call %d has the arguments %.80s (%v)", i, raw, err)
		}
	}
	evidence(t, fromStore(db), view, trace.ServerToClient) // fails when a byte of what is listed cannot be read
	return calls.Len()
}

// limited returns the message of the limitation with that code.
func limited(view trace.View, code string) string {
	for _, l := range view.Limitations() {
		if l.Code == code {
			return l.Message
		}
	}
	return ""
}

// ended holds that the database has one run and that nothing of it is open, and returns the run and its executions.
func ended(t *testing.T, db *sqlite.Store) (store.Run, []store.ExecutionInfo) {
	t.Helper()
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	if runs[0].Status == store.RunRunning {
		t.Errorf("the run is left %s", runs[0].Status)
	}
	if runs[0].Finished != nil && runs[0].Finished.Before(runs[0].Started) {
		t.Errorf("the run ends before it begins: %+v", runs[0])
	}
	execs, err := db.Executions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range execs {
		if e.Finished == nil || e.Outcome == "" {
			t.Errorf("execution %s is left open", e.ID)
		}
		viewOf(t, db, e.ID)
	}
	tests, err := db.Tests(t.Context(), runs[0].ID)
	for _, x := range tests {
		if err != nil || x.Status == store.TestRunning {
			t.Errorf("test %s is left %s (%v)", x.Name, x.Status, err)
		}
	}
	return runs[0], execs
}

// The disk on which everything is recorded, database and spools, fills up. Every call goes on; the test fails with the reason, m3 test says that
// the stored run is not whole and its exit code is that of the failed tests; what was acknowledged before can be read, and the trace says
// that it is partial and why, although there is no room left to write that into.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir, grow, inside := smallDisk(t)
	if !inside {
		return
	}
	module, path := newModule(t, t.TempDir()), filepath.Join(dir, "db.sqlite")
	said, code := m3Test(t, module, path, "TestFill")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"all calls were answered", "no space left on device", "FAIL faults.TestFill", "recording into " + path + " failed, so the stored run is not whole"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	grow()
	db := openDB(t, path)
	run, execs := ended(t, db)
	if run.Status != store.RunFinished || run.ExitCode == nil || *run.ExitCode != 1 || len(execs) != 1 {
		t.Fatalf("run %+v, %d executions", run, len(execs))
	}
	view := viewOf(t, db, execs[0].ID)
	n := called(t, db, view)
	if n < 5 || n > 55 {
		t.Errorf("%d calls were kept", n)
	}
	if why := limited(view, "persistence_failed"); !strings.Contains(why, "no space left on device") || view.Completeness() != trace.Partial {
		t.Errorf("%s, limitations %+v", view.Completeness(), view.Limitations())
	}
	if _, err := os.Stat(path + ".spool"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spools are left: %v", err)
	}
}

// The same where a file of the test process must not grow: this needs no disk of its own.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	module, path := newModule(t, t.TempDir()), filepath.Join(t.TempDir(), "db.sqlite")
	said, code := m3Test(t, module, path, "TestFill", "FILE_LIMIT=1000000")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"all calls were answered", "file too large", "FAIL faults.TestFill"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	db := openDB(t, path)
	run, execs := ended(t, db)
	if run.Status != store.RunFinished || run.ExitCode == nil || *run.ExitCode != 1 || len(execs) != 1 {
		t.Fatalf("run %+v, %d executions", run, len(execs))
	}
	view := viewOf(t, db, execs[0].ID)
	if n := called(t, db, view); n < 5 || n > 55 {
		t.Errorf("%d calls were kept", n)
	}
	if why := limited(view, "persistence_failed") + limited(view, "interrupted"); !strings.Contains(why, "file too large") && !strings.Contains(why, "could not write") {
		t.Errorf("limitations %+v", view.Limitations())
	}
	if view.Completeness() != trace.Partial {
		t.Errorf("the trace is %s", view.Completeness())
	}
}

// The directory of the spools is deleted in mid-run. The calls go on, the test fails with the reason, m3 test says what is lost, and what
// had been taken in before is there, with an end that says why there is no more.
func TestSpoolDeleted(t *testing.T) {
	t.Parallel()
	module, dir := newModule(t, t.TempDir()), t.TempDir()
	path, ready := filepath.Join(dir, "db.sqlite"), filepath.Join(dir, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	deleted := make(chan error, 1)
	go func() { deleted <- deleteSpools(ctx, ready, path) }()
	said, code := m3Test(t, module, path, "TestGone", "READY="+ready, "SPOOL="+path+".spool/*/*.jsonl")
	cancel()
	if err := <-deleted; err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"all calls were answered", "was deleted while it was recorded into", "FAIL faults.TestGone", "what was recorded there after that is lost"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	db := openDB(t, path)
	run, execs := ended(t, db)
	if run.Status != store.RunFinished || len(execs) != 1 || execs[0].Outcome != trace.OutcomeInterrupted {
		t.Fatalf("run %+v, executions %+v", run, execs)
	}
	view := viewOf(t, db, execs[0].ID)
	if n := called(t, db, view); n != 3 {
		t.Errorf("%d calls were kept", n)
	}
	if why := limited(view, "persistence_failed"); !strings.Contains(why, "deleted") || view.Completeness() != trace.Partial {
		t.Errorf("limitations %+v", view.Limitations())
	}
}

// deleteSpools deletes the spools of a database once a test is ready and what it has recorded was taken in.
func deleteSpools(ctx context.Context, ready, path string) error {
	for ; ; time.Sleep(10 * time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := os.Stat(ready); err == nil {
			break
		}
	}
	time.Sleep(2 * time.Second) // m3 test takes in every 0.15 s
	return os.RemoveAll(path + ".spool")
}
