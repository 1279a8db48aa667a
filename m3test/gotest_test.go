package m3test_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// module is a module of its own with the packages of testdata/module, in which go test is run as a user would.
type module struct{ dir string }

func newModule(t *testing.T) *module {
	t.Helper()
	m := &module{dir: t.TempDir()}
	if err := os.CopyFS(m.dir, os.DirFS("testdata/module")); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The requirements of m3 are those of a module that uses it, so go needs to look for nothing.
	text := regexp.MustCompile(`(?m)^(tool|module) .*$`).ReplaceAllString(string(mod), "")
	text = "module example.test/module\n" + text + "\nrequire github.com/m3-go/m3 v0.0.0\nreplace github.com/m3-go/m3 => " + strconv.Quote(root) + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(m.dir, "go.mod"), []byte(text), 0o600), os.WriteFile(filepath.Join(m.dir, "go.sum"), sum, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// command is go test in the module. What m3 test may have told this process is no business of its.
func (m *module) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off"}, args...)...)
	cmd.Dir = m.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "M3_") })
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs go test and returns its output and exit code.
func (m *module) run(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	out, err := m.command(t, env, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func (m *module) files(t *testing.T) string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(m.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// results is what a database says after a run.
type results struct {
	*sqlite.Store
	t *testing.T
}

func open(t *testing.T, path string) *results {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &results{db, t}
}

func (r *results) runs() []store.Run {
	r.t.Helper()
	runs, err := r.Runs(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return runs
}

// test returns the only attempt of a test in the only run, and its executions.
func (r *results) test(name string) (store.Test, []store.ExecutionInfo) {
	r.t.Helper()
	runs := r.runs()
	if len(runs) != 1 {
		r.t.Fatalf("%d runs, want 1: %+v", len(runs), runs)
	}
	tests, err := r.Tests(r.t.Context(), runs[0].ID)
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(tests, func(tt store.Test) bool { return tt.Name == name })
	if i < 0 {
		r.t.Fatalf("no test %s in %+v", name, tests)
	}
	execs, err := r.Executions(r.t.Context(), &store.ExecutionQuery{TestID: tests[i].ID})
	if err != nil {
		r.t.Fatal(err)
	}
	return tests[i], execs
}

func (r *results) view(id trace.ExecutionID) trace.View {
	r.t.Helper()
	tr, err := r.Trace(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := tr.View()
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// The whole of what m3test does to a real go test. The module is shared, because linking is what takes the time.
func TestUnderGoTest(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	t.Run("unrecorded", func(t *testing.T) { unrecorded(t, m) })
	for name, f := range map[string]func(*testing.T, *module){
		"twice": twice, "outcomes": outcomes, "suites": suites, "selected suite": selectedSuite, "killed": killed, "deadline": deadline,
		"interrupted": interrupted, "artifacts": artifacts, "count": count, "cannot record": cannotRecord, "joined": joined,
		"kits of the root package": rootKits, "fuzz workers": fuzzWorkers, "bad database": badDatabase, "secret names": secretNames,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, m)
		})
	}
}

// Without recording nothing is written anywhere, and go test caches as ever.
func unrecorded(t *testing.T, m *module) {
	before := m.files(t)
	home := t.TempDir()
	env := []string{"HOME=" + home, "TMPDIR=" + home, "GOCACHE=" + goEnv(t, "GOCACHE"), "GOPATH=" + goEnv(t, "GOPATH"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE")}
	for _, want := range []string{"ok", "(cached)"} {
		out, code := m.run(t, env, "-run", "TestPass", "./plain")
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("exit code %d, want %q in\n%s", code, want, out)
		}
	}
	if after := m.files(t); after != before {
		t.Errorf("the module has other files than before:\n%s", after)
	}
	left, err := os.ReadDir(home)
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != ".config" && e.Name() != ".cache" }) {
		t.Errorf("left in the home and temporary directory: %v, %v", left, err)
	}
	// A recorded run is not answered from that cache.
	db := filepath.Join(t.TempDir(), "db.sqlite")
	if out, code := m.run(t, append(env, "M3_RESULTS_DB="+db), "-run", "TestPass", "./plain"); code != 0 || strings.Contains(out, "(cached)") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if n := len(open(t, db).runs()); n != 1 {
		t.Errorf("%d runs are recorded, want 1", n)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// One go test over several packages is one run, the same command again is a second one, and neither is ever cached. A relative path is so to
// the module's root.
func twice(t *testing.T, m *module) {
	outside := filepath.Join(t.TempDir(), "db.sqlite")
	inside := filepath.Join("out", "deep", "db.sqlite")
	for name, path := range map[string]string{inside: filepath.Join(m.dir, inside), outside: outside} {
		for range 2 {
			if out, code := m.run(t, []string{"M3_RESULTS_DB=" + name}, "-run", "TestPass|TestInherits", "./..."); code != 0 || strings.Contains(out, "(cached)") {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
		}
		if files := m.files(t); strings.Contains(files, ".m3/") {
			t.Errorf("the module has files of m3's:\n%s", files)
		}
		r := open(t, path)
		runs := r.runs()
		if len(runs) != 2 || runs[0].ID == runs[1].ID {
			t.Fatalf("runs: %+v", runs)
		}
		for _, run := range runs {
			tests, err := r.Tests(t.Context(), run.ID)
			if err != nil || len(tests) != 2 || tests[0].Package == tests[1].Package {
				t.Errorf("run %s has the tests %+v, %v", run.ID, tests, err)
			}
			if run.Owner != "go test" || run.Project != "example.test/module" || run.Explicit {
				t.Errorf("run: %+v", run)
			}
		}
	}
}

// How tests end is recorded as go test reports it, with m3's own reasons, and ties to what go test prints.
func outcomes(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	out, code := m.run(t, nil, "-v", "-run", "TestPass|TestFail|TestSkip|TestEnvironment|TestConnectFails", "./plain", "-m3.db="+db)
	if code != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	for name, want := range map[string]store.TestStatus{"TestPass": store.TestPassed, "TestFail": store.TestFailed, "TestSkip": store.TestSkipped, "TestEnvironment": store.TestPassed, "TestConnectFails": store.TestFailed} {
		test, execs := r.test(name)
		if test.Status != want || test.Finished == nil || len(execs) != 1 {
			t.Errorf("%s: %+v with %d executions, want %s", name, test, len(execs), want)
			continue
		}
		if test.Suite != "plain" || test.Package != "example.test/module/plain" || test.Iteration != 1 {
			t.Errorf("%s: %+v", name, test)
		}
		for _, attr := range []string{"m3.run " + test.RunID, "m3.suite plain", "m3.test " + test.ID, "m3.execution " + string(execs[0].ID)} {
			if !strings.Contains(out, "=== ATTR  "+name+" "+attr+"\n") {
				t.Errorf("go test's output lacks the attribute %q:\n%s", attr, out)
			}
		}
		if execs[0].Finished == nil {
			t.Errorf("the execution of %s is open", name)
		}
	}
	if test, execs := r.test("TestFail"); len(test.Reasons) != 1 || !strings.Contains(test.Reasons[0], "m3 show --results-db "+db+" "+string(execs[0].ID)) {
		t.Errorf("reasons: %q", test.Reasons)
	}
	test, execs := r.test("TestConnectFails")
	if len(test.Reasons) != 1 || !strings.Contains(test.Reasons[0], "fix: ") || !strings.Contains(test.Reasons[0], "m3 show --results-db "+db+" "+string(execs[0].ID)) {
		t.Errorf("reasons: %q", test.Reasons)
	}
}

func suites(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	if out, code := m.run(t, []string{"M3_RESULTS_DB=" + db}, "./named"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	for name, want := range map[string]string{"TestInherits": "shipping", "TestOwn": "billing", "TestOwn/sub": "billing"} {
		test, execs := r.test(name)
		if test.Suite != want || len(execs) != 1 || execs[0].Suite != want || execs[0].Case != name {
			t.Errorf("%s: suite %q, executions %+v, want %q", name, test.Suite, execs, want)
		}
	}
	if run := r.runs()[0]; run.Status != store.RunFinished || run.Finished == nil { // Main was there
		t.Errorf("run: %+v", run)
	}
}

// m3 test --suite runs the tests of one suite: the others are skipped before they begin.
func selectedSuite(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	out, code := m.run(t, []string{"M3_RESULTS_DB=" + db, "M3_SUITE=billing"}, "-v", "./named")
	if code != 0 || !strings.Contains(out, "--- SKIP: TestInherits") || !strings.Contains(out, "--- PASS: TestOwn/sub") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	tests, err := open(t, db).Tests(t.Context(), open(t, db).runs()[0].ID)
	if err != nil || len(tests) != 2 {
		t.Errorf("tests: %+v, %v", tests, err)
	}
}

// A killed process leaves what was acknowledged, and the test reads interrupted.
func killed(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	out, code := m.run(t, []string{"M3_RESULTS_DB=" + db}, "-v", "-run", "TestKill", "./plain")
	if code != 1 || !strings.Contains(out, "signal: killed") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	test, execs := r.test("TestKill")
	if test.Status != store.TestInterrupted || len(execs) != 1 || execs[0].Outcome != trace.OutcomeInterrupted {
		t.Fatalf("test %+v, executions %+v", test, execs)
	}
	if !strings.Contains(out, "acknowledged "+string(execs[0].ID)) {
		t.Errorf("output:\n%s", out)
	}
	view := r.view(execs[0].ID)
	if view.ToolCalls().Len() != 1 || view.ToolCalls().At(0).ToolStatus != trace.ToolSuccess || view.Completeness() != trace.Partial {
		t.Errorf("%d calls, %s", view.ToolCalls().Len(), view.Completeness())
	}
}

// A server that never answers: the execution ends before go test kills the process, as timed out, with its evidence.
func deadline(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	out, code := m.run(t, []string{"M3_RESULTS_DB=" + db}, "-v", "-timeout", "8s", "-run", "TestHang", "./plain")
	if code != 0 || !strings.Contains(out, "hang ended: timeout true: ") || !strings.Contains(out, "before the deadline of go test -timeout") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	test, execs := r.test("TestHang")
	if test.Status != store.TestPassed || len(execs) != 1 || execs[0].Outcome != trace.OutcomeTimedOut {
		t.Fatalf("test %+v, executions %+v", test, execs)
	}
	calls := r.view(execs[0].ID).ToolCalls()
	if calls.Len() != 2 || calls.At(0).ToolStatus != trace.ToolSuccess || calls.At(1).Tool.Value != "hang" || calls.At(1).ToolStatus == trace.ToolSuccess {
		t.Errorf("%d calls", calls.Len())
	}
}

// Ctrl-C: everything is cancelled and kept; a test that fails of it has failed.
func interrupted(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	cmd := m.command(t, []string{"M3_RESULTS_DB=" + db}, "-v", "-run", "TestInterrupt", "./plain")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(pipe, &out))
	for lines.Scan() {
		if pid, ok := strings.CutPrefix(lines.Text(), "interruptible "); ok {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(n, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || strings.Contains(out.String(), "--- PASS") {
		t.Errorf("go test: %v\n%s", err, &out)
	}
	r := open(t, db)
	test, execs := r.test("TestInterrupt")
	if test.Status != store.TestFailed || len(execs) != 1 || execs[0].Outcome != trace.OutcomeCancelled {
		t.Errorf("test %+v, executions %+v\n%s", test, execs, &out)
	}
}

// The evidence of a failed test is an artifact when artifacts are asked for; that of the others is not.
func artifacts(t *testing.T, m *module) {
	dir := t.TempDir()
	out, code := m.run(t, nil, "-v", "-run", "TestPass|TestFail", "-artifacts", "-outputdir", dir, "./plain")
	if code != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	var views, frames []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case strings.HasSuffix(path, ".frames.jsonl"):
			frames = append(frames, path)
		default:
			views = append(views, path)
		}
		return err
	})
	if err != nil || len(views) != 1 || len(frames) != 1 || !strings.Contains(out, "=== ARTIFACTS TestFail "+filepath.Dir(views[0])) {
		t.Fatalf("artifacts %q %q, %v", views, frames, err)
	}
	view, err := os.ReadFile(views[0])
	if err != nil || !bytes.Contains(view, []byte(`"tool_call"`)) {
		t.Errorf("the view: %.300s, %v", view, err)
	}
	b, err := os.ReadFile(frames[0])
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for line := range bytes.Lines(b) {
		ev, err := trace.DecodeEvent("e", bytes.TrimSpace(line))
		if err != nil || ev.Frame == nil || len(ev.Frame.Bytes) == 0 {
			t.Fatalf("%s: %v", line, err)
		}
		if ev.Kind == trace.KindMCPRequest && ev.Method == "tools/call" {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("%d calls among the frames, want 1", calls)
	}
}

func count(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	if out, code := m.run(t, []string{"M3_RESULTS_DB=" + db}, "-count", "2", "-run", "TestPass", "./plain"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	tests, err := r.Tests(t.Context(), r.runs()[0].ID)
	if err != nil || len(tests) != 2 || tests[0].Iteration != 1 || tests[1].Iteration != 2 || tests[0].ID == tests[1].ID {
		t.Errorf("tests: %+v, %v", tests, err)
	}
}

// What cannot be recorded fails, and says what to do.
func cannotRecord(t *testing.T, m *module) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := m.run(t, []string{"M3_RESULTS_DB=" + filepath.Join(file, "db.sqlite")}, "-run", "TestPass", "./plain")
	if code != 1 || !strings.Contains(out, "cannot record beside") || !strings.Contains(out, "M3_RESULTS_DB, or unset it") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// A run that m3 test made is joined, and its end is left to m3 test.
func joined(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	for _, pkg := range []string{"./plain", "./named"} {
		if out, code := m.run(t, []string{"M3_RESULTS_DB=" + db, "M3_RUN_ID=run-7"}, "-count=1", "-run", "TestPass|TestOwn|TestEnvironment", pkg); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
	}
	r := open(t, db)
	runs := r.runs()
	if len(runs) != 1 || runs[0].ID != "run-7" || runs[0].Finished != nil || runs[0].Owner != "" {
		t.Errorf("runs: %+v", runs)
	}
	for _, name := range []string{"TestPass", "TestOwn"} {
		if _, execs := r.test(name); len(execs) != 1 || execs[0].RunID != "run-7" {
			t.Errorf("%s: %+v", name, fmt.Sprint(execs))
		}
	}
}

// Kits that were made by m3.New without a store are recorded, and go's cache answers for none of them.
func rootKits(t *testing.T, m *module) {
	for range 2 {
		if out, code := m.run(t, nil, "-v", "./early"); code != 0 || !strings.Contains(out, "ran early") || strings.Contains(out, "(cached)") {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
	}
	flagged, named := filepath.Join(t.TempDir(), "db.sqlite"), filepath.Join(t.TempDir(), "db.sqlite")
	for db, run := range map[string]func() (string, int){
		flagged: func() (string, int) { return m.run(t, nil, "./early", "-m3.db="+flagged) },
		named:   func() (string, int) { return m.run(t, []string{"M3_RESULTS_DB=" + named}, "./early") },
	} {
		for n := range 2 {
			if out, code := run(); code != 0 || strings.Contains(out, "(cached)") {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
			r := open(t, db)
			execs, err := r.Executions(t.Context(), nil)
			if err != nil || len(execs) != 3*(n+1) {
				t.Fatalf("executions %+v, %v", execs, err)
			}
			got := map[string]store.ExecutionInfo{}
			for _, e := range execs {
				got[e.Case] = e
			}
			for name, suite := range map[string]string{"early": "example.test/module/early", "plain": "mornings", "own run": "evenings"} {
				e := got[name]
				if e.Outcome != trace.OutcomeCompleted || !e.Complete || (e.RunID == "mine") != (name == "own run") || name != "early" && e.Suite != suite {
					t.Errorf("%s: %+v", name, e)
				}
			}
			if got["early"].Suite != "early" { // Main, which names another, is called later
				t.Errorf("early: suite %q", got["early"].Suite)
			}
			if run, err := r.Run(t.Context(), got["early"].RunID); err != nil || run.Owner != "go test" || run.Status != store.RunFinished {
				t.Errorf("run %+v, %v", run, err)
			}
		}
	}
}

// What fuzz workers call is recorded in the run of the process that started them.
func fuzzWorkers(t *testing.T, m *module) {
	for _, flagged := range []bool{false, true} {
		db := filepath.Join(t.TempDir(), "db.sqlite")
		args := []string{"-run=^$", "-fuzz=FuzzCall", "-fuzztime=20x", "-parallel=2", "./fuzzed"}
		env := []string{"M3_RESULTS_DB=" + db}
		if flagged {
			args, env = append(args, "-m3.db="+db), nil
		}
		if out, code := m.run(t, env, args...); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		r := open(t, db)
		runs := r.runs()
		if len(runs) != 1 || runs[0].Owner != "go test" || !strings.HasPrefix(runs[0].ID, "gotest-") {
			t.Fatalf("runs %+v", runs)
		}
		execs, err := r.Executions(t.Context(), &store.ExecutionQuery{RunID: runs[0].ID})
		if err != nil || len(execs) < 20 || execs[0].TestID == "" {
			t.Errorf("%d executions, %v", len(execs), err)
		}
	}
}

// A path that no database can be at fails the test at once, and leaves nothing behind.
func badDatabase(t *testing.T, m *module) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	open(t, good).Close()
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	newer, other := bytes.Clone(b), bytes.Clone(b)
	newer[63], other[68] = 99, 0
	for name, content := range map[string][]byte{"garbage": []byte("this is no database at all"), "newer": newer, "other": other, "short": b[:50]} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink(good, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"garbage": "is not an SQLite database", "newer": "has schema 99, written by a newer m3", "other": "not one of m3",
		"short": "damaged", "folder": "not a regular file", "link": "not a regular file"} {
		out, code := m.run(t, []string{"M3_RESULTS_DB=" + filepath.Join(dir, name)}, "-run", "TestPass", "./plain")
		if code != 1 || !strings.Contains(out, want) || !strings.Contains(out, "M3_RESULTS_DB or -m3.db, or unset it") {
			t.Errorf("%s: exit code %d, want %q in:\n%s", name, code, want, out)
		}
		if _, err := os.Stat(filepath.Join(dir, name+".spool")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a spool is left: %v", name, err)
		}
	}
	if out, code := m.run(t, []string{"M3_RESULTS_DB=" + good}, "-run", "TestPass", "./plain"); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// A secret that is the name of a test or a suite is in no record.
func secretNames(t *testing.T, m *module) {
	db := filepath.Join(t.TempDir(), "db.sqlite")
	env := []string{"M3_RESULTS_DB=" + db, "SHOP_API_KEY=hunter2hunter2", "PLAINLY_NAMED=swordfish77"}
	if out, code := m.run(t, env, "-run", "TestSecretNames", "./named"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	r := open(t, db)
	tests, err := r.Tests(t.Context(), r.runs()[0].ID)
	if err != nil || len(tests) != 2 {
		t.Fatalf("tests %+v, %v", tests, err)
	}
	for _, test := range tests {
		if s := test.Name + " " + test.Suite; !strings.Contains(s, "[REDACTED]") || strings.Contains(s, "hunter2") || strings.Contains(s, "swordfish") {
			t.Errorf("recorded: %s", s)
		}
	}
}
