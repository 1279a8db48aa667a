package endtoend

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// markEnv is inherited by everything that a run starts: go, the test process, m3's reaper, the server.
const markEnv = "LEFTOVER"

// marked lists the processes with the mark, and what they are.
func marked(t *testing.T, mark string) (left []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no process table: %v", err)
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(env, []byte(markEnv+"="+mark)) {
			args, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may be gone by now
			left = append(left, filepath.Base(dir)+": "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return left
}

// kill9 ends what was found left, so that a test that fails leaves nothing either.
func kill9(left []string) {
	for _, l := range left {
		text, _, _ := strings.Cut(l, ":")
		if pid, err := strconv.Atoi(text); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
		}
	}
}

// leftIn lists what is in a directory.
func leftIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

// ending is one way to end.
type ending struct {
	test    string
	args    []string
	code    int
	says    string // what go test reports
	status  store.TestStatus
	outcome trace.Outcome
	pending []trace.ToolCallStatus // what the call that was pending may be
	signal  bool                   // the test process is interrupted when it says so
}

var endings = []ending{
	{test: "TestClose", says: "ok", status: store.TestPassed, outcome: trace.OutcomeCompleted, pending: []trace.ToolCallStatus{trace.ToolTransportError, trace.ToolCancelled}},
	{test: "TestCleanup", says: "ok", status: store.TestPassed, outcome: trace.OutcomeCompleted, pending: []trace.ToolCallStatus{trace.ToolTransportError, trace.ToolCancelled}},
	{test: "TestFail", code: 1, says: "failed on purpose", status: store.TestFailed, outcome: trace.OutcomeCompleted, pending: []trace.ToolCallStatus{trace.ToolTransportError, trace.ToolCancelled}},
	{test: "TestPanic", code: 1, says: "panic: on purpose", status: store.TestInterrupted, outcome: trace.OutcomeInterrupted, pending: []trace.ToolCallStatus{trace.ToolIncomplete}},
	{test: "TestExit", code: 1, says: "FAIL\t", status: store.TestInterrupted, outcome: trace.OutcomeInterrupted, pending: []trace.ToolCallStatus{trace.ToolIncomplete}},
	{test: "TestTimeout", args: []string{"-timeout=7s"}, code: 1, says: "panic: test timed out after 7s", status: store.TestInterrupted, outcome: trace.OutcomeTimedOut, pending: []trace.ToolCallStatus{trace.ToolTimedOut}},
	{test: "TestKill", code: 1, says: "signal: killed", status: store.TestInterrupted, outcome: trace.OutcomeInterrupted, pending: []trace.ToolCallStatus{trace.ToolIncomplete}},
	{test: "TestInterrupt", code: 1, says: "signal: interrupt", status: store.TestInterrupted, outcome: trace.OutcomeCancelled, pending: []trace.ToolCallStatus{trace.ToolCancelled}, signal: true},
}

// However a real go test ends, with a server that ignores the end of its input and SIGTERM: three seconds later nothing is left.
func TestLeftover(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found by their environment, which only Linux shows without cgo; internal/proc tests the others")
	}
	module := newModule(t, t.TempDir())
	for _, e := range endings {
		t.Run(e.test, func(t *testing.T) {
			t.Parallel()
			e.run(t, module)
		})
	}
}

func (e *ending) run(t *testing.T, module string) {
	dir, mark := t.TempDir(), rand.Text()
	temp, home, logs, db := filepath.Join(dir, "tmp"), filepath.Join(dir, "home"), filepath.Join(dir, "logs"), filepath.Join(dir, "db.sqlite")
	for _, d := range []string{temp, home, logs} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := environ(append(goEnvironment(t), markEnv+"="+mark, "TMPDIR="+temp, "HOME="+home, "LOGS="+logs, "M3_RESULTS_DB="+db)...)
	cmd := command(t, module, env, "go", append(append([]string{"test", "-vet=off", "-v"}, e.args...), "-run=^"+e.test+"$", "./leftover")...)
	out := &watchedOutput{}
	cmd.Stdout, cmd.Stderr = out, out
	if e.signal {
		out.line = func(line string) {
			if pid, err := strconv.Atoi(strings.TrimPrefix(line, "interruptible ")); err == nil {
				_ = syscall.Kill(pid, syscall.SIGINT) // seen by what it says
			}
		}
	}
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != e.code || !strings.Contains(out.String(), e.says) {
		t.Errorf("exit code %d, want %d and %q (%v):\n%s", code, e.code, e.says, err, out)
	}
	deadline := time.Now().Add(3 * time.Second)
	left := marked(t, mark)
	for len(left) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		left = marked(t, mark)
	}
	if len(left) > 0 {
		t.Errorf("left 3 s after the end:\n%s", strings.Join(left, "\n"))
		kill9(left)
	}
	if files := leftIn(t, temp); len(files) > 0 {
		t.Errorf("left in TMPDIR: %q", files)
	}
	if _, err := os.Stat(filepath.Join(logs, e.test+".pending")); err != nil {
		t.Fatalf("no call was pending: %v\n%s", err, out)
	}
	e.hold(t, db)
}

// hold holds the database to what was to be kept.
func (e *ending) hold(t *testing.T, path string) {
	t.Helper()
	db := openDB(t, path)
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	tests, err := db.Tests(t.Context(), runs[0].ID)
	if err != nil || len(tests) != 1 || tests[0].Status != e.status {
		t.Errorf("tests %+v, %v, want %s", tests, err, e.status)
	}
	execs, err := db.Executions(t.Context(), nil)
	if err != nil || len(execs) != 1 || execs[0].Outcome != e.outcome {
		t.Fatalf("executions %+v, %v, want %s", execs, err, e.outcome)
	}
	view := viewOf(t, db, execs[0].ID)
	calls := view.ToolCalls()
	if calls.Len() != 2 || calls.At(0).ToolStatus != trace.ToolSuccess || calls.At(1).Tool.Value != "hang" {
		t.Fatalf("%d calls", calls.Len())
	}
	if status := calls.At(1).ToolStatus; !slices.Contains(e.pending, status) {
		t.Errorf("the call that was pending is %s, want %s", status, e.pending)
	}
	if sent := evidence(t, fromStore(db), view, trace.ClientToServer); !bytes.Contains(sent, []byte(`"hang"`)) {
		t.Errorf("the request of the pending call is not in the evidence:\n%s", sent)
	}
	if e.outcome != trace.OutcomeInterrupted {
		if p := view.Processes(); p.Len() != 1 || p.At(0).Ended != "sigkill" {
			t.Errorf("the server's process: %+v", p)
		}
	}
}

// watchedOutput collects what is written, and calls line with each line. One goroutine writes.
type watchedOutput struct {
	all  bytes.Buffer
	line func(string)
	rest string
}

func (w *watchedOutput) String() string { return w.all.String() }

func (w *watchedOutput) Write(b []byte) (int, error) {
	if w.line != nil {
		lines := strings.Split(w.rest+string(b), "\n")
		w.rest = lines[len(lines)-1]
		for _, l := range lines[:len(lines)-1] {
			w.line(l)
		}
	}
	return w.all.Write(b)
}

// goEnvironment keeps go's caches where they are when HOME is elsewhere.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	var env []string
	out, code := output(t, command(t, "", environ(), "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 3 {
		t.Fatalf("go env: %s", out)
	}
	for i, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		env = append(env, fmt.Sprintf("%s=%s", name, lines[i]))
	}
	return append(env, "GOTELEMETRY=off")
}
