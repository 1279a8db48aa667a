package m3test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// checkIdentity is what tells a check from others of its case, and how it ended.
type checkIdentity struct {
	Case, Matcher, Selector string
	Ordinal                 int
	Status                  eval.Status
}

func identities(t *testing.T, rows []eval.Result, err error) (all []checkIdentity) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Check == nil || r.Kind != eval.KindCheck || r.Evaluator != r.Check.Matcher || r.ID == "" || r.Created.IsZero() || r.Duration <= 0 || r.TestID == "" || len(r.SubjectDigest) != 64 {
			t.Errorf("not a whole row of a check: %+v", r)
			continue
		}
		all = append(all, checkIdentity{r.Case, r.Check.Matcher, r.Check.Selector, r.Check.Ordinal, r.Status})
	}
	return all
}

// checking makes checks of every outcome. The plain comparison is none.
func checking(f *fakeT, p *process) (id trace.ExecutionID) {
	client := p.direct(f, fixture(), &m3.DirectOptions{Protocol: "2025-11-25"})
	r, err := client.CallTool(f.Context(), "echo", m3.Args{"password": "hunter22"}, nil)
	if err != nil {
		f.Fatalf("%v", err)
	}
	if r.Text() != "ok" {
		f.Errorf("the text is %s", r.Text())
	}
	expect.That(f, r).Text("ok")
	expect.That(f, r).Text("other")
	expect.That(f, client).Completed() // it is open
	view := p.finishClient(f, client)
	expect.That(f, view).ToolCall("echo", expect.Succeeded(), expect.OnServer("fixture"))
	expect.That(f, view).ToolCall("echo", expect.WithArguments(m3.Args{"password": "hunter22"}))
	expect.That(f, view).ToolCall("echo", expect.Times(-1))
	expect.That(f, view).Not().ToolCall("echo")
	expect.Group(f, func(g expect.T) { expect.That(g, view).Completed() })
	expect.That(&fakeT{name: f.name + "/sub"}, view).Completed() // a subtest without a kit of its own
	expect.Eventually(f.Context(), f, view, func(e *expect.Expectation) { e.ToolCall("echo"); e.Completed() })
	return client.ExecutionID()
}

func checked(name string) []checkIdentity {
	return []checkIdentity{
		{name, "text", "", 1, eval.Passed},
		{name, "text", "", 2, eval.Failed},
		{name, "completed", "", 1, eval.Error},
		{name, "tool_call", "fixture/echo", 1, eval.Passed},
		{name, "tool_call", "echo", 1, eval.Passed},
		{name, "tool_call", "echo", 2, eval.Error},
		{name, "not_tool_call", "echo", 1, eval.Failed},
		{name, "completed", "", 2, eval.Passed},
		{name + "/sub", "completed", "", 1, eval.Passed},
		{name, "eventually", "echo", 1, eval.Passed},
	}
}

// With the runner recording, each check is a row, by an identity that a second run of the test has again; nothing but checks is, and no secret is in it.
func TestChecksAreRecorded(t *testing.T) {
	t.Parallel()
	p := recording(t)
	var ids []trace.ExecutionID
	for range 2 {
		run(t, "TestRecordedChecks", func(f *fakeT) { ids = append(ids, checking(f, p)) })
	}
	for _, id := range ids {
		rows, err := p.recorder().Evaluations(t.Context(), &store.EvaluationQuery{Execution: id})
		if diff := cmp.Diff(checked("TestRecordedChecks"), identities(t, rows, err)); diff != "" {
			t.Errorf("checks of %s (-want +got):\n%s", id, diff)
		}
		for _, r := range rows {
			if (r.Message == "") != (r.Status == eval.Passed) || r.Suite != "shop" || r.RunID != p.runID() {
				t.Errorf("row %+v", r)
			}
		}
		if got := string(rows[4].Check.Arguments); got != `{"tool":"echo","arguments":{"value":{"password":"[REDACTED]"}}}` {
			t.Errorf("arguments %s", got)
		}
	}
	if err := p.recorder().Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(p.settings.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Evaluations(t.Context(), &store.EvaluationQuery{Kind: eval.KindCheck})
	if diff := cmp.Diff(append(checked("TestRecordedChecks"), checked("TestRecordedChecks")...), identities(t, rows, err)); diff != "" {
		t.Errorf("checks in the database (-want +got):\n%s", diff)
	}
	digests := map[string]int{}
	for _, r := range rows {
		digests[r.SubjectDigest]++
	}
	for digest, n := range digests {
		if n != 2 {
			t.Errorf("%d rows of the digest %s, want one a run of the test", n, digest)
		}
	}
	test, err := db.Tests(t.Context(), p.runID())
	if err != nil || len(test) != 2 || test[0].Status != store.TestFailed || len(test[0].Reasons) != 4 {
		t.Errorf("test %+v, %v", test, err)
	}
}

// Without a recording checks stay in the memory of the test, readable until its kit closes; a store that the test itself gave to a kit gets none.
func TestChecksStayInMemory(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	var kept store.Store
	run(t, "TestKeptChecks", func(f *fakeT) {
		id := checking(f, p)
		kept = p.kit(f).Store()
		rows, err := kept.Evaluations(t.Context(), &store.EvaluationQuery{Execution: id})
		if diff := cmp.Diff(checked("TestKeptChecks"), identities(t, rows, err)); diff != "" {
			t.Errorf("checks (-want +got):\n%s", diff)
		}
	})
	if _, err := kept.Evaluations(t.Context(), nil); err == nil {
		t.Error("the memory of a test that is over can still be read")
	}
	own := memory.New(nil)
	run(t, "TestStoredChecks", func(f *fakeT) {
		p.newKit(f, &KitOptions{Store: own})
		checking(f, p)
	})
	if rows, err := own.Evaluations(t.Context(), nil); err != nil || len(rows) != 0 {
		t.Errorf("the test's own store has %d checks, %v", len(rows), err)
	}
	if execs, err := own.Executions(t.Context(), nil); err != nil || len(execs) != 1 {
		t.Errorf("the test's own store has %d executions, %v", len(execs), err)
	}
}

// What a check costs with a recording, beside what it costs without: a line in the spool.
func BenchmarkChecked(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		b.Run(map[bool]string{false: "memory", true: "spool"}[recorded], func(b *testing.B) {
			s := settings{pkg: "example.test/shop", module: "example.test"}
			if recorded {
				s.database = b.TempDir() + "/db.sqlite"
			}
			p := newProcess(s)
			b.Cleanup(func() { // after the end of the test
				if rec := p.recorder(); rec != nil {
					_ = rec.Close()
				}
			})
			a, err := p.attempt(b, "")
			if err != nil {
				b.Fatal(err)
			}
			c := &expect.Check{Test: b.Name(), Matcher: "tool_call", Title: `tool call "quote"`, Selector: "quote", Arguments: trace.JSON(`{"tool":"quote"}`), Status: eval.Passed, SubjectKind: "view", Began: time.Now()}
			for b.Loop() {
				a.checked(c)
			}
		})
	}
}
