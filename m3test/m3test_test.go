package m3test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

var (
	_ T         = (*testing.T)(nil)
	_ T         = (*testing.B)(nil)
	_ deadliner = (*testing.T)(nil)
)

func TestKitIsMadeOncePerTest(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{pkg: "example.test/shop"})
	var first *m3.Kit
	var client *m3.Client
	f := run(t, "TestA", func(f *fakeT) {
		var wg sync.WaitGroup
		kits := make([]*m3.Kit, 8)
		for i := range kits {
			wg.Go(func() { kits[i] = p.kit(f) })
		}
		wg.Wait()
		first = kits[0]
		for _, k := range kits {
			if k != first {
				t.Error("one test has two kits")
			}
		}
		sub := run(t, "TestA/sub", func(f *fakeT) {
			if p.kit(f) == first {
				t.Error("the subtest has its parent's kit")
			}
		})
		if sub.failed {
			t.Error(sub.messages)
		}
		client = p.direct(f, fixture(), nil)
	})
	if f.failed || len(f.attrs) != 0 {
		t.Errorf("messages %q, attributes %q", f.messages, f.attrs)
	}
	if _, err := first.Direct(t.Context(), fixture(), nil); !errors.Is(err, m3.ErrKitClosed) {
		t.Errorf("the kit is still open: %v", err)
	}
	if err := client.Ping(t.Context(), nil); !errors.Is(err, m3.ErrClientClosed) {
		t.Errorf("the client is still open: %v", err)
	}
	if len(p.attempts) != 0 {
		t.Error("the process still knows the test")
	}
}

// In a clean-up the test's context has ended, and a server can be connected to all the same.
func TestDirectInCleanup(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	for _, deadline := range []time.Time{{}, time.Now().Add(time.Minute)} {
		f := run(t, "TestA", func(f *fakeT) {
			f.deadline = deadline
			p.kit(f)
			f.Cleanup(func() {
				if f.Context().Err() == nil {
					t.Error("the context of the test has not ended")
				}
				client := p.direct(f, fixture(), nil)
				if _, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil {
					t.Error(err)
				}
			})
		})
		if f.failed {
			t.Error(f.messages)
		}
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	f := run(t, "TestA", func(f *fakeT) {
		client := p.direct(f, fixture(), &m3.DirectOptions{Protocol: "2025-11-25"})
		if _, err := client.CallTool(f.Context(), "echo", nil, nil); err != nil {
			f.Fatalf("%v", err)
		}
		expect.That(t, p.finishClient(f, client)).ToolCall("echo")
		expect.That(t, p.finishClient(f, client)).ToolCall("echo")
		info, err := p.kit(f).Store().Execution(f.Context(), client.ExecutionID())
		if err != nil || info.Case != "TestA" || info.RunID != p.runID() {
			t.Errorf("execution %+v, %v", info, err)
		}
		p.finishClient(f, nil)
	})
	if len(f.messages) != 1 || !f.says("the client is nil") {
		t.Errorf("messages: %q", f.messages)
	}
}

func TestSuites(t *testing.T) {
	t.Parallel()
	type testCase struct {
		test    string
		given   string
		cfg     Config
		module  string
		want    string
		failure string
	}
	for name, tc := range map[string]testCase{
		"own":               {test: "TestA", given: " mine ", cfg: Config{Suite: "package"}, want: "mine"},
		"inherited":         {test: "TestOuter/a/b", want: "outer"},
		"not a prefix":      {test: "TestOuterMost", cfg: Config{Suite: "package"}, want: "package"},
		"package":           {test: "TestA", cfg: Config{Suite: "\tpackage "}, want: "package"},
		"path":              {test: "TestA", module: "example.test", want: "shop/cart"},
		"module's root":     {test: "TestA", module: "example.test/shop/cart", want: "example.test/shop/cart"},
		"other module":      {test: "TestA", module: "example.test/sh", want: "example.test/shop/cart"},
		"blank":             {test: "TestA", given: "  ", failure: "the name is blank"},
		"control character": {test: "TestA", given: "a\nb", failure: "control character"},
		"long":              {test: "TestA", given: strings.Repeat("x", 257), failure: "at most 256"},
		"required":          {test: "TestA", cfg: Config{RequireSuite: true}, failure: "RequireSuite asks for one"},
		"required, given":   {test: "TestA", given: "mine", cfg: Config{RequireSuite: true}, want: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(settings{pkg: "example.test/shop/cart", module: tc.module})
			p.suites["TestOuter"] = "outer"
			var got string
			code := p.main(runs(func() int {
				f := run(t, tc.test, func(f *fakeT) {
					p.newKit(f, &KitOptions{Suite: tc.given})
					got = p.attemptOf(f).record.Suite
				})
				if tc.failure != "" && !f.says("m3: this test cannot have a kit", tc.failure) {
					t.Errorf("messages: %q", f.messages)
				}
				return 0
			}), &tc.cfg, &bytes.Buffer{})
			if got != tc.want || code != 0 {
				t.Errorf("suite %q with exit code %d, want %q", got, code, tc.want)
			}
		})
	}
}

type runs func() int

func (r runs) Run() int { return r() }

func TestMainRefusesBlankSuite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	code := newProcess(settings{}).main(runs(func() int { t.Error("the tests ran"); return 0 }), &Config{Suite: " "}, &out)
	if code != 2 || !strings.Contains(out.String(), "Config.Suite: the name is blank") {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

func TestConnectMessages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server m3.Server
		opts   *m3.DirectOptions
		want   []string
	}{
		"nil":           {nil, nil, []string{"cannot connect to nil", "the server is nil"}},
		"no definition": {m3.StdioServer{Name: "shop"}, nil, []string{"cannot connect to shop", "set Command"}},
		"no program":    {m3.StdioServer{Command: "m3-no-such-program"}, nil, []string{"m3-no-such-program", "fix: check Command"}},
		"exits":         {m3.StdioServer{Command: "sh", Args: []string{"-c", "echo cannot open the shop >&2; exit 3"}}, nil, []string{"code 3", "cannot open the shop", "fix: start the server by hand", "--command sh --arg …"}},
		"silent":        {m3.StdioServer{Command: "sleep", Args: []string{"60"}}, &m3.DirectOptions{StartTimeout: 300 * time.Millisecond}, []string{"within 300ms", "fix: see whether the server answers at all", "StartTimeout"}},
		"dead URL":      {m3.HTTPServer{URL: "http://127.0.0.1:1/mcp"}, nil, []string{"fix: check the URL", "--server http"}},
		"private":       {m3.HTTPServer{URL: "http://10.255.255.1/mcp"}, nil, []string{"fix: if you mean to test at that address", "TrustedPrivate"}},
		"protocol":      {fixture(), &m3.DirectOptions{Protocol: "1999-01-01"}, []string{"fix: leave Protocol empty"}},
		"build":         {m3.StdioServer{Build: "./testdata/nothing"}, nil, []string{"fix: make the package"}},
		"no secret":     {m3.StdioServer{Command: "true", Secrets: map[string]m3.SecretRef{"KEY": m3.EnvSecret("M3_NO_SUCH_VARIABLE")}}, nil, []string{"M3_NO_SUCH_VARIABLE", "set it in the environment"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(settings{})
			f := run(t, "TestA", func(f *fakeT) {
				p.direct(f, tc.server, tc.opts)
				t.Error("it connected")
			})
			if len(f.messages) != 1 || !f.says(tc.want...) || f.says("m3 show") {
				t.Errorf("messages %q, want all of %q", f.messages, tc.want)
			}
		})
	}
}

// recording is a process that records into a spool in a directory of the test.
func recording(t *testing.T) *process {
	t.Helper()
	p := newProcess(settings{database: filepath.Join(t.TempDir(), "db.sqlite"), pkg: "example.test/shop", module: "example.test"})
	t.Cleanup(func() {
		if rec := p.recorder(); rec != nil {
			rec.Close()
		}
	})
	return p
}

func TestRecording(t *testing.T) {
	t.Parallel()
	p := recording(t)
	var id trace.ExecutionID
	for range 2 {
		f := run(t, t.Name(), func(f *fakeT) {
			client := p.direct(f, fixture(), nil)
			id = client.ExecutionID()
			expect.That(f, p.finishClient(f, client)).ToolCall("never")
		})
		if !f.failed || len(f.attrs) != 4 || f.attrs[3] != "m3.execution "+string(id) {
			t.Errorf("messages %q, attributes %q", f.messages, f.attrs)
		}
	}
	tests, err := p.recorder().Tests(t.Context(), p.runID())
	if err != nil || len(tests) != 2 {
		t.Fatalf("tests %+v, %v", tests, err)
	}
	for i, test := range tests {
		if test.Iteration != i+1 || test.Status != store.TestFailed || len(test.Reasons) != 1 || !strings.Contains(test.Reasons[0], "never") || test.Suite != "shop" {
			t.Errorf("test: %+v", test)
		}
	}
	execs, err := p.recorder().Executions(t.Context(), &store.ExecutionQuery{TestID: tests[1].ID})
	if err != nil || len(execs) != 1 || execs[0].ID != id || execs[0].Outcome != trace.OutcomeCompleted || execs[0].RunID != p.runID() || execs[0].Suite != "shop" {
		t.Errorf("executions %+v, %v", execs, err)
	}
}

// A store that a test names is used instead of the recording, which still knows the test.
func TestExplicitStore(t *testing.T) {
	t.Parallel()
	p := recording(t)
	own := memory.New(nil)
	f := run(t, "TestA", func(f *fakeT) {
		k := p.newKit(f, &KitOptions{Store: own, RunID: "mine"})
		if k.RunID() != "mine" || p.kit(f) != k {
			t.Error("the kit is not the one that was asked for")
		}
		p.direct(f, fixture(), nil)
	})
	if f.failed {
		t.Fatal(f.messages)
	}
	if execs, err := own.Executions(t.Context(), nil); err != nil || len(execs) != 1 || execs[0].RunID != "mine" || execs[0].TestID != "" {
		t.Errorf("executions %+v, %v", execs, err)
	}
	if execs, err := p.recorder().Executions(t.Context(), nil); err != nil || len(execs) != 0 {
		t.Errorf("executions in the recording: %+v, %v", execs, err)
	}
	if tests, err := p.recorder().Tests(t.Context(), p.runID()); err != nil || len(tests) != 1 || tests[0].Status != store.TestPassed {
		t.Errorf("tests %+v, %v", tests, err)
	}
}

func TestStderrGoesToTheTestsOutput(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	f := run(t, "TestA", func(f *fakeT) {
		p.direct(f, m3.StdioServer{Name: "shop", Command: "sh", Args: []string{"-c", "printf 'opening\\nhalf'; printf 'opening\\nhalf' >&2; exit 1"}}, &m3.DirectOptions{Protocol: "2025-11-25"})
	})
	if got := f.out.String(); got != "shop: opening\nshop: half\n" {
		t.Errorf("output %q", got)
	}
}

func TestGrace(t *testing.T) {
	t.Parallel()
	for remaining, want := range map[time.Duration]time.Duration{10 * time.Minute: 5 * time.Second, 50 * time.Second: 5 * time.Second, 12 * time.Second: 2 * time.Second, 4 * time.Second: time.Second, -1: 0} {
		if got := grace(remaining); got != want {
			t.Errorf("grace(%s) = %s, want %s", remaining, got, want)
		}
	}
}

func TestDeadlineEndsExecutions(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	f := run(t, "TestA", func(f *fakeT) {
		f.deadline = time.Now().Add(2 * time.Second)
		client := p.direct(f, fixture(), nil)
		_, err := client.CallTool(f.Context(), "hang", nil, nil)
		var timeout *m3.TimeoutError
		if !errors.As(err, &timeout) {
			t.Errorf("the call ended with %v", err)
		}
		if view := p.finishClient(f, client); view.Outcome() != trace.OutcomeTimedOut {
			t.Errorf("outcome %s", view.Outcome())
		}
	})
	if f.failed {
		t.Error(f.messages)
	}
}

func TestInterrupt(t *testing.T) {
	p := recording(t)
	raised := make(chan os.Signal, 1)
	p.signals.raise = func(sig os.Signal) { raised <- sig }
	f := run(t, "TestA", func(f *fakeT) {
		client := p.direct(f, fixture(), nil)
		p.signals.ch <- syscall.SIGTERM
		_, err := client.CallTool(f.Context(), "hang", nil, nil)
		var cancelled *m3.CancelledError
		if !errors.As(err, &cancelled) {
			t.Errorf("the call ended with %v", err)
		}
		if sig := <-raised; sig != syscall.SIGTERM {
			t.Errorf("raised %v", sig)
		}
		f.Errorf("failed because it was cancelled")
	})
	if f.skipped || !p.interrupted() {
		t.Error(f.messages)
	}
	late := run(t, "TestB", func(f *fakeT) { p.kit(f) })
	if !late.says("interrupted") {
		t.Errorf("a test after the signal: %q", late.messages)
	}
	db, err := readSpool(t.Context(), p)
	if err != nil || !strings.Contains(db, `"cancelled"`) || strings.Contains(db, `"failed"`) {
		t.Errorf("%v\n%s", err, db)
	}
}

func readSpool(_ context.Context, p *process) (string, error) {
	b, err := os.ReadFile(p.recorder().(*spool.Store).Path())
	return string(b), err
}

func TestSettings(t *testing.T) {
	t.Setenv("M3_RESULTS_DB", " out/db.sqlite ")
	t.Setenv("M3_RUN_ID", "run-1")
	t.Setenv("M3_SUITE", "")
	s := takeSettings()
	if s.database != "out/db.sqlite" || s.runID != "run-1" || s.suite != "" || s.pkg != "github.com/m3-go/m3/m3test" || s.module != "github.com/m3-go/m3" {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"M3_RESULTS_DB", "M3_RUN_ID", "M3_SUITE"} {
		if _, ok := os.LookupEnv(name); ok {
			t.Errorf("%s is still in the environment", name)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil || s.databasePath() != filepath.Join(root, "out", "db.sqlite") {
		t.Errorf("path %s, %v", s.databasePath(), err)
	}
	for path, want := range map[string]string{
		filepath.Join(root, ".m3", "executions.sqlite"): "m3 show",
		"/elsewhere/.m3/executions.sqlite":              "m3 show --results-db /elsewhere/.m3/executions.sqlite",
		"/tmp/it's here.sqlite":                         `m3 show --results-db '/tmp/it'\''s here.sqlite'`,
	} {
		s.database = path
		if got := s.showCommand(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if s.packageSuite() != "m3test" {
		t.Errorf("suite %s", s.packageSuite())
	}
}

func TestRunID(t *testing.T) {
	t.Parallel()
	if id := newProcess(settings{runID: "given"}).runID(); id != "given" {
		t.Errorf("run %s", id)
	}
	id, ok := goTestRun()
	if !ok {
		t.Skip("this test binary was not started by go test: there is no run to share")
	}
	if a, b := newProcess(settings{}).runID(), newProcess(settings{}).runID(); a != id || a != b || !strings.HasPrefix(a, "gotest-") {
		t.Errorf("runs %s and %s", a, b)
	}
}
