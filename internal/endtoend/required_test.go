package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
)

// gateRun is one run in the module, by m3 test or by a plain go test.
type gateRun struct {
	out  string
	code int
	db   string
}

// byM3 runs m3 test, recording into a database of the test's own.
func byM3(t *testing.T, module string, args ...string) gateRun {
	t.Helper()
	r := gateRun{db: filepath.Join(t.TempDir(), "db.sqlite")}
	cli := built.get(t, "m3", ".", "build", "-ldflags=-s -w", "../../cmd/m3")
	r.out, r.code = output(t, command(t, module, environ("NO_COLOR=1"), cli, append([]string{"test", "--results-db", r.db}, args...)...))
	return r
}

// byGo runs a plain go test, recorded or not.
func byGo(t *testing.T, module string, recorded bool, args ...string) gateRun {
	t.Helper()
	r, env := gateRun{db: filepath.Join(t.TempDir(), "db.sqlite")}, environ()
	if recorded {
		env = append(env, "M3_RESULTS_DB="+r.db)
	}
	r.out, r.code = output(t, command(t, module, env, "go", append([]string{"test", "-vet=off"}, args...)...))
	return r
}

// feedback is what m3 test wrote.
func (r *gateRun) feedback(t *testing.T, module string) *report.Feedback {
	t.Helper()
	m := regexp.MustCompile(`feedback: (\S+)`).FindStringSubmatch(r.out)
	if m == nil {
		t.Fatalf("no feedback in\n%s", r.out)
	}
	path := m[1]
	if !filepath.IsAbs(path) {
		path = filepath.Join(module, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f report.Feedback
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return &f
}

// blocked is what blocks, as the database says: of the only run in it.
func (r *gateRun) blocked(t *testing.T) []string {
	t.Helper()
	db := openDB(t, r.db)
	run := onlyRun(t, db)
	infos, err := db.Executions(t.Context(), &store.ExecutionQuery{RunID: run.ID})
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.Blocked(t.Context(), db, run.ID, infos)
	if err != nil {
		t.Fatal(err)
	}
	return lines(list)
}

func onlyRun(t *testing.T, db *sqlite.Store) store.Run {
	t.Helper()
	runs, err := db.Runs(t.Context())
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	return runs[0]
}

func lines(list []eval.Blocked) []string {
	out := []string{}
	for i := range list {
		out = append(out, list[i].String())
	}
	slices.Sort(out)
	return out
}

// What each test of testdata/module/required leaves behind that blocks.
var gateCases = map[string]string{
	"TestPass": "", "TestAdvisory": "",
	"TestSwallow":   `answer.v1 failed in TestSwallow: the answer is "bad"`,
	"TestDetached":  `answer.v1 failed in TestDetached: the answer is "bad"`,
	"TestRecover":   `answer.v1 failed in TestRecover: the answer is "bad"`,
	"TestErased":    `answer.v1 failed in TestErased: the answer is "bad"`,
	"TestSkip":      "answer.v1 is missing in TestSkip",
	"TestForgotten": "answer.v1 is missing in TestForgotten",
}

// The gate of required evidence (decision 15), in real runs: whatever a test does with the error, the run is blocked, and go test's outcomes stay what they are.
func TestRequiredGate(t *testing.T) {
	t.Parallel()
	module := newModule(t, t.TempDir())
	for name, f := range map[string]func(*testing.T, string){
		"m3 test": gateOfM3Test, "go test": gateOfMain, "unrecorded go test": gateUnrecorded, "a test that fails": gateFatal, "killed": gateKilled,
		"-count=2": gateCount, "two packages": gateTwoPackages, "without Main": gateWithoutMain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, module)
		})
	}
}

func gateOfM3Test(t *testing.T, module string) {
	r := byM3(t, module, "./required", "--", "-vet=off", "-skip", "TestFatal|TestKill|TestSecondTime")
	var want []string
	for _, line := range gateCases {
		if line != "" {
			want = append(want, line)
			if !strings.Contains(r.out, "GATE "+line+"\n") {
				t.Errorf("the terminal does not say %q", line)
			}
		}
	}
	slices.Sort(want)
	f := r.feedback(t, module)
	if diff := cmp.Diff(want, lines(f.RequiredBlocked)); diff != "" {
		t.Errorf("feedback.json (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, r.blocked(t)); diff != "" {
		t.Errorf("the database (-want +got):\n%s", diff)
	}
	summary := fmt.Sprintf("FAIL  %d of %d tests passed, %d required evaluations blocked the run, 1 skipped", len(gateCases)-1, len(gateCases), len(want))
	if r.code != 1 || !strings.Contains(r.out, summary) {
		t.Errorf("exit code %d, want 1 and %q in\n%s", r.code, summary, r.out)
	}
	// What go test said stands: every test passed or was skipped, its own exit code was 0, and the only failures are the evaluations.
	failed := slices.DeleteFunc(slices.Clone(f.Failures), func(x report.Failure) bool { return x.Kind == "evaluation" })
	if *f.ExitCode != 0 || len(failed) != 0 || len(f.Failures) != len(want) || len(f.Packages) != 1 || f.Packages[0].Outcome != "passed" || len(f.Tests) != len(gateCases) {
		t.Errorf("exit code %d, failures %+v, packages %+v, %d tests", *f.ExitCode, f.Failures, f.Packages, len(f.Tests))
	}
	for _, test := range f.Tests {
		if want := map[bool]store.TestStatus{true: store.TestSkipped, false: store.TestPassed}[test.Name == "TestSkip"]; test.Outcome != want {
			t.Errorf("%s %s, want %s", test.Name, test.Outcome, want)
		}
	}
}

// gateOfMain: a plain go test, recorded. (E41)
func gateOfMain(t *testing.T, module string) {
	r := byGo(t, module, true, "-run", "TestSwallow|TestSkip", "./required")
	want := []string{gateCases["TestSwallow"], gateCases["TestSkip"]}
	holdMain(t, r, want...)
	if diff := cmp.Diff(want, r.blocked(t)); diff != "" {
		t.Errorf("the database (-want +got):\n%s", diff)
	}
	db := openDB(t, r.db)
	run := onlyRun(t, db)
	tests, err := db.Tests(t.Context(), run.ID)
	if err != nil || len(tests) != 2 || run.Status != store.RunFinished || run.ExitCode == nil || *run.ExitCode != 1 {
		t.Errorf("run %+v, %d tests, %v", run, len(tests), err)
	}
	for _, test := range tests {
		if want := map[bool]store.TestStatus{true: store.TestSkipped, false: store.TestPassed}[test.Name == "TestSkip"]; test.Status != want {
			t.Errorf("%s is recorded as %s, want %s", test.Name, test.Status, want)
		}
	}
	if !strings.Contains(r.out, "evidence: m3 show --results-db "+r.db+" ") {
		t.Errorf("no command in\n%s", r.out)
	}
	if r := byGo(t, module, true, "-run", "TestPass|TestAdvisory", "./required"); r.code != 0 {
		t.Errorf("nothing blocks, and the exit code is %d:\n%s", r.code, r.out)
	}
}

// holdMain: go test failed for what its process said after its tests, none of which failed.
func holdMain(t *testing.T, r gateRun, want ...string) {
	t.Helper()
	if r.code != 1 || strings.Contains(r.out, "--- FAIL") || !strings.Contains(r.out, "required evaluation") {
		t.Errorf("exit code %d in\n%s", r.code, r.out)
	}
	for _, line := range want {
		if !strings.Contains(r.out, "\n  "+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, r.out)
		}
	}
}

func gateUnrecorded(t *testing.T, module string) {
	holdMain(t, byGo(t, module, false, "-run", "TestDetached|TestRecover|TestForgotten", "./required"),
		gateCases["TestDetached"], gateCases["TestRecover"], gateCases["TestForgotten"])
}

// gateFatal: m3test.Evaluate fails the test itself; the gate says the same.
func gateFatal(t *testing.T, module string) {
	r := byM3(t, module, "./required", "--", "-vet=off", "-run", "TestFatal")
	f := r.feedback(t, module)
	if r.code != 1 || len(f.Failures) != 2 || f.Failures[0].Kind != "test" || f.Failures[1].Kind != "evaluation" || !strings.Contains(f.Failures[0].Reason, `m3: required evaluation failed: answer.v1: the answer is "bad"`) || len(f.RequiredBlocked) != 1 {
		t.Errorf("exit code %d, %+v, %+v", r.code, f.Failures, f.RequiredBlocked)
	}
}

// gateKilled: a process that dies before its row is stored leaves an execution without an end, and that makes what it declares missing.
func gateKilled(t *testing.T, module string) {
	r := byM3(t, module, "./required", "--", "-vet=off", "-run", "TestPass|TestKill")
	want := []string{"answer.v1 is missing in TestKill"}
	if diff := cmp.Diff(want, lines(r.feedback(t, module).RequiredBlocked)); diff != "" || r.code != 1 || !strings.Contains(r.out, "GATE "+want[0]) {
		t.Errorf("exit code %d (-want +got):\n%s\n%s", r.code, diff, r.out)
	}
	r = byGo(t, module, true, "-run", "TestPass|TestKill", "./required")
	if diff := cmp.Diff(want, r.blocked(t)); diff != "" || r.code == 0 {
		t.Errorf("plain: exit code %d (-want +got):\n%s\n%s", r.code, diff, r.out)
	}
}

// gateCount: a second attempt that is better does not make up for the first.
func gateCount(t *testing.T, module string) {
	want := `answer.v1 failed in TestSecondTime: the answer is "bad"`
	r := byM3(t, module, "./required", "--", "-vet=off", "-count=2", "-run", "TestSecondTime")
	f := r.feedback(t, module)
	if diff := cmp.Diff([]string{want}, lines(f.RequiredBlocked)); diff != "" || r.code != 1 || len(f.Tests) != 2 {
		t.Errorf("exit code %d, %d tests (-want +got):\n%s", r.code, len(f.Tests), diff)
	}
	holdMain(t, byGo(t, module, false, "-count=2", "-run", "TestSecondTime", "./required"), want)
}

// gateTwoPackages: one with Main and one without. Under m3 test the gate looks at both.
func gateTwoPackages(t *testing.T, module string) {
	plain := []string{`answer.v1 failed in TestPlain: the answer is "bad"`, "answer.v1 is missing in TestPlainToo"}
	want := append([]string{gateCases["TestSwallow"]}, plain...)
	slices.Sort(want)
	r := byM3(t, module, "./required/...", "--", "-vet=off", "-run", "TestSwallow|TestPlain")
	if diff := cmp.Diff(want, lines(r.feedback(t, module).RequiredBlocked)); diff != "" || r.code != 1 {
		t.Errorf("exit code %d (-want +got):\n%s\n%s", r.code, diff, r.out)
	}
	r = byGo(t, module, true, "-v", "-run", "TestSwallow|TestPlain", "./required/...")
	holdMain(t, r, gateCases["TestSwallow"])
	if strings.Count(r.out, noGateLine) != 1 || !regexp.MustCompile(`(?m)^ok  \t\S+/required/plain\t`).MatchString(r.out) {
		t.Errorf("the package without Main:\n%s", r.out)
	}
	if diff := cmp.Diff(want, r.blocked(t)); diff != "" {
		t.Errorf("the database knows of both (-want +got):\n%s", diff)
	}
}

const noGateLine = "m3: evaluations are required here, and the gate that checks them at the end of the run did not run: "

// gateWithoutMain: one line says that the gate did not run.
func gateWithoutMain(t *testing.T, module string) {
	r := byGo(t, module, false, "-v", "./required/plain")
	if r.code != 0 || strings.Count(r.out, noGateLine) != 1 || strings.Contains(r.out, "blocked the run") {
		t.Errorf("exit code %d:\n%s", r.code, r.out)
	}
}
