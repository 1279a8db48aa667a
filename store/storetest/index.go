package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func ptr[T any](v T) *T { return &v }

func testRuns(t *testing.T, s *Subject) {
	zone := time.FixedZone("somewhere", 3600)
	appendAll(t, s.Store,
		&store.Run{ID: "b", Status: store.RunRunning, Started: at(1).In(zone), Owner: "program"},
		&store.Run{ID: "c/../x y", Status: store.RunFinished, Started: at(3), Finished: ptr(at(4)), ExitCode: ptr(2), Explicit: true,
			Command: []string{"go", "test", "./..."}, Project: "example.com/p", Version: "v0.1.0", Owner: "m3 test", Detail: trace.JSON(`{"counts":{"a":1.50}}`)},
		&store.Run{ID: "a", Status: store.RunRunning, Started: at(1)},
		&store.Run{ID: "b", Status: store.RunFinished, Started: at(1), Finished: ptr(at(2).In(zone)), ExitCode: ptr(0)},
	)
	want := []store.Run{
		{ID: "c/../x y", Status: store.RunFinished, Started: at(3), Finished: ptr(at(4)), ExitCode: ptr(2), Explicit: true,
			Command: []string{"go", "test", "./..."}, Project: "example.com/p", Version: "v0.1.0", Owner: "m3 test", Detail: trace.JSON(`{"counts":{"a":1.50}}`)},
		{ID: "a", Status: store.RunRunning, Started: at(1)},
		{ID: "b", Status: store.RunFinished, Started: at(1), Finished: ptr(at(2)), ExitCode: ptr(0), Owner: "program"},
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		diff(t, "Runs", must[[]store.Run](t)(r.Runs(context.Background())), want)
		diff(t, "Run", must[store.Run](t)(r.Run(context.Background(), "b")), want[2])
		_, err := r.Run(context.Background(), "none")
		wantErr(t, "Run", err, store.ErrNotFound)
	})
}

func testRunMerge(t *testing.T, s *Subject) {
	appendAll(t, s.Store,
		&store.Run{ID: "r", Status: store.RunFinished, Started: at(5), Finished: ptr(at(9)), ExitCode: ptr(1), Owner: "go test"},
		&store.Run{ID: "r", Status: store.RunFinished, Started: at(2), Finished: ptr(at(7)), ExitCode: ptr(0), Owner: "go test"},
		&store.Run{ID: "r", Status: store.RunRunning, Started: at(3), Owner: "go test"},
		&store.Run{ID: "i", Status: store.RunInterrupted, Started: at(1), Owner: "go test"},
		&store.Run{ID: "i", Status: store.RunFinished, Started: at(1), Finished: ptr(at(2)), Owner: "go test"},
	)
	// Read at once: in what a store left, the run of a process that is gone may have been interrupted.
	got := must[store.Run](t)(s.Store.Run(context.Background(), "r"))
	diff(t, "Run", got, store.Run{ID: "r", Status: store.RunFinished, Started: at(2), Finished: ptr(at(9)), ExitCode: ptr(1), Owner: "go test"})
	got = must[store.Run](t)(s.Store.Run(context.Background(), "i"))
	diff(t, "interrupted Run", got, store.Run{ID: "i", Status: store.RunInterrupted, Started: at(1), Finished: ptr(at(2)), Owner: "go test"})
}

func testSuites(t *testing.T, s *Subject) {
	appendAll(t, s.Store,
		&store.Test{ID: "t1", RunID: "r1", Suite: " smoke ", Status: store.TestPassed, Started: at(1)},
		&store.Test{ID: "t2", RunID: "r1", Suite: "api", Status: store.TestPassed, Started: at(2)},
		&store.Test{ID: "t3", RunID: "r2", Suite: "smoke", Status: store.TestPassed, Started: at(3)},
		&store.Test{ID: "t4", RunID: "r1", Suite: "  ", Status: store.TestPassed, Started: at(4)},
		&store.Execution{ID: "e1", RunID: "r1", Suite: "smoke", Created: at(5)},
	)
	s.reading(t, func(t *testing.T, r store.Reader) {
		ctx := context.Background()
		got := must[[]store.Suite](t)(r.Suites(ctx, "r1"))
		diff(t, "Suites", names(got), []string{"r1/api", "r1/smoke"})
		diff(t, "all Suites", names(must[[]store.Suite](t)(r.Suites(ctx, ""))), []string{"r1/api", "r1/smoke", "r2/smoke"})
		info := must[store.ExecutionInfo](t)(r.Execution(ctx, "e1"))
		if len(got) == 2 && (info.SuiteID == 0 || info.SuiteID != got[1].ID || got[0].ID == got[1].ID) {
			t.Errorf("the execution has suite %d, the suites are %v", info.SuiteID, got)
		}
	})
}

func names(suites []store.Suite) []string {
	var out []string
	for _, s := range suites {
		out = append(out, s.RunID+"/"+s.Name)
	}
	return out
}

func testTwoWriters(t *testing.T, s *Subject) {
	if s.Second == nil || s.Reopen == nil {
		t.Skip("one writer only")
	}
	second := s.Second(t)
	one, two := NewTape("r", "e1"), NewTape("r", "e2")
	two.Suite = "\tsuite "
	two.Created = at(1)
	appendAll(t, s.Store, one.Open())
	appendAll(t, second, two.Open(), &store.Test{ID: "t", RunID: "r", Suite: "suite", Status: store.TestPassed, Started: at(1)})
	large := Payload{"large", binary(BlobBytes + 1)}
	appendAll(t, s.Store, one.Begin()...)
	appendAll(t, second, two.Begin()...)
	appendAll(t, s.Store, append(one.Frame(large.Bytes), one.End(trace.OutcomeCompleted, "")...)...)
	appendAll(t, second, append(two.Frame(large.Bytes), two.End(trace.OutcomeCompleted, "")...)...)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	r := s.Reopen(t)
	diff(t, "Suites", names(must[[]store.Suite](t)(r.Suites(context.Background(), "r"))), []string{"r/suite"})
	infos := must[[]store.ExecutionInfo](t)(r.Executions(context.Background(), &store.ExecutionQuery{Suite: "suite"}))
	if len(infos) != 2 || infos[0].ID != "e1" || infos[1].ID != "e2" || infos[0].SuiteID != infos[1].SuiteID {
		t.Errorf("executions of the suite: %+v", infos)
	}
	checkTrace(t, r, one)
	checkTrace(t, r, two)
}

func testTests(t *testing.T, s *Subject) {
	appendAll(t, s.Store,
		&store.Test{ID: "2", RunID: "r", Package: "p", Name: "TestB", Suite: "s", Iteration: 1, Status: store.TestRunning, Started: at(2)},
		&store.Test{ID: "1", RunID: "r", Package: "p", Name: "TestA/x", Suite: "s", Iteration: 2, Status: store.TestRunning, Started: at(1)},
		&store.Test{ID: "3", RunID: "other", Package: "p", Name: "TestA", Suite: "s", Status: store.TestPassed, Started: at(1)},
		&store.Test{ID: "1", RunID: "r", Package: "p", Name: "TestA/x", Suite: "s", Iteration: 2, Status: store.TestFailed, Started: at(1), Finished: ptr(at(3)), Reasons: []string{"want <1>", "\"2\""}},
		&store.Test{ID: "2", RunID: "r", Status: store.TestPassed, Finished: ptr(at(4))},
	)
	want := []store.Test{
		{ID: "1", RunID: "r", Package: "p", Name: "TestA/x", Suite: "s", Iteration: 2, Status: store.TestFailed, Started: at(1), Finished: ptr(at(3)), Reasons: []string{"want <1>", "\"2\""}},
		{ID: "2", RunID: "r", Package: "p", Name: "TestB", Suite: "s", Iteration: 1, Status: store.TestPassed, Started: at(2), Finished: ptr(at(4))},
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		diff(t, "Tests", must[[]store.Test](t)(r.Tests(context.Background(), "r")), want)
		diff(t, "Tests of no run", must[[]store.Test](t)(r.Tests(context.Background(), "none")), []store.Test{})
	})
}

func testItems(t *testing.T, s *Subject) {
	a := store.Item{RunID: "r", Package: "p", Test: "TestA", Iteration: 1, Action: "pass", Elapsed: 3 * time.Second, TestID: "t"}
	b := store.Item{RunID: "r", Package: "p", Test: "TestA", Iteration: 2, Action: "fail", Output: "line\n\tline\n", Reason: "panic: x"}
	pkg := store.Item{RunID: "r", Package: "p", Action: "fail", Cached: true}
	open := b
	open.Action, open.TestID = "", "t2"
	appendAll(t, s.Store, &a, &open, &pkg, &b, &store.Item{RunID: "other", Package: "p", Action: "pass"})
	b.TestID = "t2"
	s.reading(t, func(t *testing.T, r store.Reader) {
		diff(t, "Items", must[[]store.Item](t)(r.Items(context.Background(), "r")), []store.Item{a, b, pkg})
	})
}

func testExecutions(t *testing.T, s *Subject) {
	late, early, partial := NewTape("r", "late"), NewTape("r", "early"), NewTape("r", "partial")
	late.Created, early.Created, partial.Created = at(9), at(1), at(5)
	appendAll(t, s.Store, late.Whole()...)
	appendAll(t, s.Store, early.Whole(Payloads()[:2]...)...)
	appendAll(t, s.Store, append(append([]store.Record{partial.Open()}, partial.Begin()...), partial.End(trace.OutcomeTimedOut, "lost")...)...)
	s.reading(t, func(t *testing.T, r store.Reader) {
		infos := must[[]store.ExecutionInfo](t)(r.Executions(context.Background(), nil))
		if len(infos) != 3 {
			t.Fatalf("%d executions, want 3", len(infos))
		}
		for i, want := range []struct {
			tape     *Tape
			outcome  trace.Outcome
			complete bool
		}{{early, trace.OutcomeCompleted, true}, {partial, trace.OutcomeTimedOut, false}, {late, trace.OutcomeCompleted, true}} {
			info := infos[i]
			end := want.tape.Events[len(want.tape.Events)-1].Time
			diff(t, string(want.tape.ID), info, store.ExecutionInfo{Execution: *want.tape.Open(), SuiteID: infos[0].SuiteID, Finished: &end,
				Outcome: want.outcome, EventCount: len(want.tape.Events), Complete: want.complete})
			diff(t, "Execution", must[store.ExecutionInfo](t)(r.Execution(context.Background(), info.ID)), info)
		}
		_, err := r.Execution(context.Background(), "none")
		wantErr(t, "Execution", err, store.ErrNotFound)
		_, err = r.Trace(context.Background(), "none")
		wantErr(t, "Trace", err, store.ErrNotFound)
	})
}

func testQueries(t *testing.T, s *Subject) {
	for i, x := range []store.Execution{
		{ID: "1", RunID: "r", Suite: "s", Case: "c", TestID: "t"},
		{ID: "2", RunID: "q", Suite: "s", Case: "c", TestID: "t"},
		{ID: "3", RunID: "r", Suite: "u", Case: "c", TestID: "t"},
		{ID: "4", RunID: "r", Suite: "s", Case: "d", TestID: "t"},
		{ID: "5", RunID: "r", Suite: "s", Case: "c", TestID: "u"},
		{ID: "6", RunID: "r"},
	} {
		x.Created = at(i)
		appendAll(t, s.Store, &x)
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		for _, tt := range []struct {
			q    *store.ExecutionQuery
			want string
		}{
			{nil, "123456"},
			{&store.ExecutionQuery{}, "123456"},
			{&store.ExecutionQuery{RunID: "r"}, "13456"},
			{&store.ExecutionQuery{Suite: " s "}, "1245"},
			{&store.ExecutionQuery{Case: "d"}, "4"},
			{&store.ExecutionQuery{TestID: "u"}, "5"},
			{&store.ExecutionQuery{RunID: "r", Suite: "s", Case: "c", TestID: "t"}, "1"},
			{&store.ExecutionQuery{RunID: "none"}, ""},
		} {
			got := ""
			for _, info := range must[[]store.ExecutionInfo](t)(r.Executions(context.Background(), tt.q)) {
				got += string(info.ID)
			}
			if got != tt.want {
				t.Errorf("Executions(%+v) = %s, want %s", tt.q, got, tt.want)
			}
		}
	})
}

func testSpec(t *testing.T, s *Subject) {
	x := NewTape("r", "e").Open()
	second := *x
	second.Spec, second.Case, second.Created, second.Kind = trace.JSON(`{"other":true}`), "other", at(7), "agent"
	bare := store.Execution{ID: "bare", RunID: "r", Created: at(1)}
	appendAll(t, s.Store, x, &second, &bare)
	bare.Spec = trace.JSON("null")
	bad := *x
	bad.ID, bad.Spec = "bad", trace.JSON(`{"not json`)
	if err := s.Store.Append(context.Background(), &bad); err == nil {
		t.Error("a spec that is no JSON was kept")
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		diff(t, "Execution", must[store.ExecutionInfo](t)(r.Execution(context.Background(), "e")).Execution, *x)
		diff(t, "bare Execution", must[store.ExecutionInfo](t)(r.Execution(context.Background(), "bare")).Execution, bare)
	})
}
