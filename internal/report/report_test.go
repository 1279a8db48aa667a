package report_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/gotest"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const runID = "run-1"

var start = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// streamItems reads a captured stream of internal/gotest. Its times are made even, so that goldens hold.
func streamItems(t *testing.T, path string) (items []store.Item, live []func(*report.Live)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r gotest.Result
	add := func(its []store.Item) {
		for _, it := range its {
			it.Elapsed = 10 * time.Millisecond
			items = append(items, it)
			live = append(live, func(l *report.Live) { l.Item(&it) })
		}
	}
	if err := gotest.Scan(f, func(ev *gotest.Event) {
		ch := r.Add(ev)
		if b := ch.Began; b != nil {
			live = append(live, func(l *report.Live) { l.Began(b.Package, b.Name) })
		}
		add(r.Items(runID, ch, nil))
	}); err != nil {
		t.Fatal(err)
	}
	add(r.OpenItems(runID, r.Close("stopped by interrupt"), nil))
	return items, live
}

func run(status store.RunStatus, code int) *store.Run {
	end := start.Add(1500 * time.Millisecond)
	return &store.Run{ID: runID, Status: status, Started: start, Finished: &end, ExitCode: &code, Project: "example.test/x",
		Version: "0.1.0", Owner: "m3 test", Command: []string{"go", "test", "-json"}}
}

func filled(t *testing.T, st store.Recorder, recs ...store.Record) {
	t.Helper()
	for _, r := range recs {
		if err := st.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStreams prints, for every captured stream of go test, what a user sees: a golden for plain lines, and one for a
// terminal.
func TestStreams(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../gotest/testdata/streams/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d streams, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, live := streamItems(t, path)
			recs := []store.Record{run(store.RunFinished, 1)}
			if !strings.Contains(readFile(t, path), `"fail"`) && name != "silentexit" {
				recs[0] = run(store.RunFinished, 0)
			}
			for i := range items {
				recs = append(recs, &items[i])
			}
			st := memory.New(nil)
			filled(t, st, recs...)
			f, err := report.Build(t.Context(), st, runID)
			if err != nil {
				t.Fatal(err)
			}
			junit, err := f.JUnit()
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, name+".junit.xml", string(junit))
			checkGolden(t, name+".github", github(f, name))
			style := report.Style{Module: "example.test/" + name}
			checkGolden(t, name+".plain", output(t, f, live, &report.LiveConfig{Style: style}))
			style.Color = true
			checkGolden(t, name+".tty", output(t, f, live, &report.LiveConfig{Style: style, Progress: true, Width: 60,
				Now: func() time.Time { return start }}))
		})
	}
}

// github is what GitHub Actions gets of a run.
func github(f *report.Feedback, name string) string {
	g := &report.GitHub{Token: "TOKEN", Module: "example.test/" + name, Show: "m3 show"}
	var b strings.Builder
	g.Annotate(&b, f)
	return b.String() + "\n" + g.Summary(f)
}

func output(t *testing.T, f *report.Feedback, live []func(*report.Live), cfg *report.LiveConfig) string {
	t.Helper()
	var b bytes.Buffer
	l := report.NewLive(&b, cfg)
	for _, step := range live {
		step(l)
	}
	l.Close()
	if err := report.Print(&b, f, &report.PrintConfig{Style: cfg.Style, FeedbackPath: ".m3/reports/run-1/feedback.json"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(readFile(t, path), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// shipping is a run of two suites with everything in it that a feedback can hold.
func shipping() []store.Record {
	end := start.Add(time.Second)
	test := func(id, name, suite string, status store.TestStatus, reasons ...string) *store.Test {
		return &store.Test{ID: id, RunID: runID, Package: "example.test/x/shipping", Name: name, Suite: suite, Iteration: 1,
			Status: status, Started: start, Finished: &end, Reasons: reasons}
	}
	recs := []store.Record{
		&store.Run{ID: runID, Status: store.RunRunning, Started: start, Owner: "m3 test"},
		test("t1", "TestQuote", "shipping", store.TestFailed, "quote: want success, got tool_error\n  at the call of 12:00"),
		test("t2", "TestBook", "booking", store.TestPassed),
	}
	recs = append(recs, execution("x1", "t1", "shipping", true)...)
	recs = append(recs, execution("x2", "t2", "booking", true)...)
	recs = append(recs, execution("x3", "t1", "shipping", false)...)
	for _, it := range []store.Item{
		{Test: "TestQuote", Action: "fail", TestID: "t1", Reason: "shipping_test.go:9: quote: want success, got tool_error",
			Output: "    shipping_test.go:9: quote: want success, got tool_error\n          at the call of 12:00\n"},
		{Test: "TestBook", Action: "pass", TestID: "t2"},
		{Test: "TestPlain", Action: "skip", Reason: "no key"},
		{Action: "fail"},
	} {
		it.RunID, it.Package, it.Iteration, it.Elapsed = runID, "example.test/x/shipping", 1, 20*time.Millisecond
		recs = append(recs, &it)
	}
	return append(recs, run(store.RunFinished, 1))
}

// execution is one with a finding; an open one lacks its end.
func execution(id, testID, suite string, finished bool) []store.Record {
	xid := trace.ExecutionID(id)
	recs := []store.Record{&store.Execution{ID: xid, RunID: runID, Suite: suite, TestID: testID, Kind: "direct", Created: start,
		Servers: []string{"shipping"}, Spec: trace.JSON(`{"kind":"direct"}`)}}
	evs := []trace.Event{
		{Kind: trace.KindExecutionCreated, Phase: trace.PhaseStartup, Payload: trace.JSON(`{"kind":"direct","run_id":"run-1"}`)},
		{Kind: trace.KindFinding, Phase: trace.PhaseMCPCall, Server: "shipping",
			Payload: trace.JSON(`{"code":"stdout-noise","severity":"warning","message":"a line of text: \"\u001b]0;owned\u0007\"","frame_sequence":0,"offset":7}`)},
		{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(`{"outcome":"completed","limitations":[{"code":"capture_incomplete","message":"3 bytes lost"}]}`)},
	}
	if !finished {
		evs = evs[:2]
	}
	for i, ev := range evs {
		ev.ExecutionID, ev.Sequence, ev.Time = xid, int64(i), start
		ev.Source = trace.Source{Origin: trace.OriginDerived, Source: "m3"}
		recs = append(recs, &store.Event{ExecutionID: xid, Sequence: int64(i), Kind: ev.Kind, Body: trace.AppendEvent(nil, &ev)})
	}
	return recs
}

func TestFeedbackIsTheSameFromEveryStore(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "x.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got []string
	for _, st := range []store.Store{memory.New(nil), db} {
		filled(t, st, shipping()...)
		for range 2 {
			f, err := report.Build(t.Context(), st, runID)
			if err != nil {
				t.Fatal(err)
			}
			b, err := f.JSON()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(b))
		}
	}
	for i := range got {
		if diff := gocmp.Diff(got[0], got[i]); diff != "" {
			t.Errorf("feedback %d differs:\n%s", i, diff)
		}
	}
	checkGolden(t, "feedback.json", got[0])
}

func TestPrintShipping(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	filled(t, st, shipping()...)
	f, err := report.Build(t.Context(), st, runID)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	cfg := &report.PrintConfig{Style: report.Style{Module: "example.test/x"}, Suite: "nosuch", Stopped: "interrupt"}
	if err := report.Print(&b, f, cfg); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "shipping", b.String())
}

func TestBuildErrors(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	if _, err := report.Build(t.Context(), st, "nosuch"); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("unknown run: %v", err)
	}
}

func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := run(store.RunInterrupted, 130)
	r.Detail = trace.JSON(`{"signal":"interrupt"}`)
	filled(t, st, r,
		&store.Item{RunID: runID, Package: "p", Test: "TestDone", Iteration: 1, Action: "pass"},
		&store.Item{RunID: runID, Package: "p", Test: "TestOpen", Iteration: 1, Reason: "never ended: stopped by interrupt"},
		&store.Item{RunID: runID, Package: "p", Iteration: 1, Action: "fail", Reason: "signal: interrupt"})
	f, err := report.Build(t.Context(), st, runID)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Failures) != 0 || f.Summary.TestOutcomeCounts[store.TestInterrupted] != 1 || f.Packages[0].Outcome != "interrupted" {
		t.Errorf("failures %v, counts %v, package %v", f.Failures, f.Summary.TestOutcomeCounts, f.Packages)
	}
}

// What had failed when the run was stopped has failed, and is told with its trace.
func TestInterruptedFailure(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := run(store.RunInterrupted, 143)
	r.Detail = trace.JSON(`{"signal":"SIGTERM"}`)
	filled(t, st, r,
		&store.Test{ID: "t1", RunID: runID, Package: "p", Name: "TestOpen", Iteration: 1, Status: store.TestFailed, Reasons: []string{"expect: no\nmore"}},
		&store.Test{ID: "t2", RunID: runID, Package: "p", Name: "TestLogs", Iteration: 1, Status: store.TestFailed},
		&store.Test{ID: "t3", RunID: runID, Package: "p", Name: "TestHangs", Iteration: 1, Status: store.TestRunning},
		&store.Execution{ID: "e1", RunID: runID, TestID: "t1", Kind: "direct"},
		&store.Item{RunID: runID, Package: "p", Test: "TestOpen", Iteration: 1, TestID: "t1", Output: "first\n    x_test.go:3: expect: no\n        more\nlast\n", Reason: "never ended"},
		&store.Item{RunID: runID, Package: "p", Test: "TestLogs", Iteration: 1, TestID: "t2", Output: "    x_test.go:4: own\n", Reason: "never ended"},
		&store.Item{RunID: runID, Package: "p", Test: "TestHangs", Iteration: 1, TestID: "t3", Output: "    x_test.go:5: a remark\n", Reason: "never ended"},
		&store.Item{RunID: runID, Package: "p", Iteration: 1, Action: "fail", Reason: "signal: terminated"})
	f, err := report.Build(t.Context(), st, runID)
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Summary.TestOutcomeCounts; c[store.TestFailed] != 2 || c[store.TestInterrupted] != 1 || len(f.Failures) != 2 {
		t.Errorf("counts %v, failures %+v", c, f.Failures)
	}
	var b bytes.Buffer
	if err := report.Print(&b, f, &report.PrintConfig{Stopped: "SIGTERM"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"FAIL p.TestOpen (0.00s)\n  x_test.go:3: expect: no\n        more\n    first\n    last\n  trace: m3 show e1\n",
		"FAIL p.TestLogs (0.00s)\n  x_test.go:4: own\n", "stopped by SIGTERM", "2 failed, 1 interrupted",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Attempts of fuzz workers belong to the fuzz test that go test told of: they are not tests of their own.
func TestFuzzWorkers(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	recs := []store.Record{run(store.RunFinished, 1),
		&store.Item{RunID: runID, Package: "p", Test: "FuzzX", Iteration: 1, Action: "fail"},
		&store.Item{RunID: runID, Package: "p", Iteration: 1, Action: "fail"},
		&store.Test{ID: "other", RunID: runID, Package: "q", Name: "FuzzX", Iteration: 1, Status: store.TestPassed}}
	for i := range 3 {
		id := fmt.Sprint("t", i)
		recs = append(recs, &store.Test{ID: id, RunID: runID, Package: "p", Name: "FuzzX", Iteration: i + 1, Status: store.TestFailed, Reasons: []string{"of " + id}},
			&store.Execution{ID: trace.ExecutionID("e" + id), RunID: runID, TestID: id, Kind: "direct"})
	}
	filled(t, st, recs...)
	f, err := report.Build(t.Context(), st, runID)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tests) != 2 || len(f.Tests[0].Executions) != 3 || len(f.Tests[0].Messages) != 3 || f.Tests[1].Package != "q" {
		t.Errorf("tests %+v", f.Tests)
	}
}

func TestSkippedOnly(t *testing.T) {
	t.Parallel()
	item := func(name, action string) *store.Item {
		return &store.Item{RunID: runID, Package: "p", Test: name, Iteration: 1, Action: action}
	}
	for _, tc := range []struct {
		name string
		recs []store.Record
		want bool
	}{
		{"all skipped", []store.Record{item("A", "skip")}, true},
		{"the parent of skipped ones", []store.Record{item("A/x", "skip"), item("A", "pass")}, true},
		{"one ran", []store.Record{item("A/x", "skip"), item("A/y", "pass"), item("A", "pass")}, false},
		{"none at all", nil, false},
	} {
		st := memory.New(nil)
		filled(t, st, append([]store.Record{run(store.RunFinished, 0)}, tc.recs...)...)
		f, err := report.Build(t.Context(), st, runID)
		if err != nil {
			t.Fatal(err)
		}
		if f.Summary.SkippedOnly != tc.want {
			t.Errorf("%s: SkippedOnly = %v", tc.name, f.Summary.SkippedOnly)
		}
	}
}

func TestWriteFileIsAtomic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b", "feedback.json")
	f := &report.Feedback{RunID: runID}
	for range 2 {
		if err := f.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("%v %v: want feedback.json alone", names, err)
	}
	if err := f.WriteFile(filepath.Join(path, "x", "feedback.json")); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("below a file: %v", err)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                     "plain",
		"größe 東京 👩\u200d🚀":         "größe 東京 👩\u200d🚀",
		"a\tb\nc":                   "a\tb\nc",
		"crlf\r\nend":               "crlf\nend",
		"\x1b]0;owned\a\x1b[2J":     `\x1b]0;owned\x07\x1b[2J`,
		"back\b\rover\x7f":          `back\x08\x0dover\x7f`,
		"c1 \u009b31m":              `c1 \u{009b}31m`,
		"flip \u202etxt.exe\u2066":  `flip \u{202e}txt.exe\u{2066}`,
		"bad \xff\xfe utf8":         `bad \xff\xfe utf8`,
		"hidden \u200b\ufeff\u00ad": `hidden \u{200b}\u{feff}\u{00ad}`,
		"line\u2028sep":             `line\u{2028}sep`,
	} {
		if got := report.Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := report.CleanLine("a\nb\tc"); got != `a\nb c` {
		t.Errorf("CleanLine = %q", got)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[0m\xff\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		for i, c := range []byte(report.CleanLine(in)) {
			if c < ' ' || c == 0x7f {
				t.Fatalf("a control byte %#x at %d of the cleaned %q", c, i, in)
			}
		}
	})
}

func ExampleClean() {
	fmt.Println(report.Clean("a title: \x1b]0;owned\a"))
	// Output: a title: \x1b]0;owned\x07
}
