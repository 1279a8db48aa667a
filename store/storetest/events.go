package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

func testPayloads(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	appendAll(t, s.Store, tape.Whole(Payloads()...)...)
	s.reading(t, func(t *testing.T, r store.Reader) {
		checkTrace(t, r, tape)
		for i, p := range Payloads() {
			ev, err := r.ReadRawEvidence(context.Background(), tape.Ref(i+1), 64<<20)
			if err != nil {
				t.Errorf("%s: ReadRawEvidence: %v", p.Name, err)
			} else if !bytes.Equal(ev.Bytes, p.Bytes) || ev.Truncated {
				t.Errorf("%s: the evidence is not what was recorded", p.Name)
			}
		}
	})
}

func testOpen(t *testing.T, s *Subject) {
	ctx := context.Background()
	tape := NewTape("r", "e")
	appendAll(t, s.Store, tape.Open())
	tr := must[*trace.Trace](t)(s.Store.Trace(ctx, "e"))
	if n := tr.Len(); n != 0 {
		t.Errorf("Len is %d before the first event", n)
	}
	for i, recs := range [][]store.Record{tape.Begin(), tape.Frame([]byte("one\n")), tape.Frame([]byte("two\n"))} {
		appendAll(t, s.Store, recs...)
		if tr.Len() != i+1 || tr.Finalized() {
			t.Errorf("Len %d, Finalized %v after %d events", tr.Len(), tr.Finalized(), i+1)
		}
		diff(t, "event", must[trace.Event](t)(tr.Event(i)), tape.Events[i])
	}
	info := must[store.ExecutionInfo](t)(s.Store.Execution(ctx, "e"))
	diff(t, "Execution", info, store.ExecutionInfo{Execution: *tape.Open(), SuiteID: info.SuiteID, EventCount: 3})
	appendAll(t, s.Store, tape.End(trace.OutcomeCancelled, "")...)
	if tr.Len() != 4 || !tr.Finalized() {
		t.Errorf("Len %d, Finalized %v after the end", tr.Len(), tr.Finalized())
	}
	if _, err := tr.Event(4); err == nil {
		t.Error("an event after the last was read")
	}
	if _, err := tr.Event(-1); err == nil {
		t.Error("an event before the first was read")
	}
}

func testOneAppend(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	recs := append([]store.Record{&store.Run{ID: "r", Started: at(0), Status: store.RunFinished, Finished: ptr(at(1))},
		&store.Test{ID: "t", RunID: "r", Status: store.TestPassed, Started: at(0)}}, tape.Whole(Payloads()...)...)
	if err := s.Store.Append(context.Background(), recs...); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.Append(context.Background()); err != nil {
		t.Errorf("Append of nothing: %v", err)
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		checkTrace(t, r, tape)
		if n := len(must[[]store.Test](t)(r.Tests(context.Background(), "r"))); n != 1 {
			t.Errorf("%d tests, want 1", n)
		}
	})
}

func testRefused(t *testing.T, s *Subject) {
	ctx := context.Background()
	tape := NewTape("r", "e")
	appendAll(t, s.Store, tape.Open())
	appendAll(t, s.Store, tape.Begin()...)
	event := func(id string, seq int64) *store.Event {
		return &store.Event{ExecutionID: trace.ExecutionID(id), Sequence: seq, Kind: "diagnostic", Body: []byte(fmt.Sprintf(`{"seq":%d,"kind":"diagnostic","time_ns":1}`, seq))}
	}
	for _, tt := range []struct {
		name string
		rec  store.Record
		is   error
	}{
		{"nothing", nil, nil},
		{"nil run", (*store.Run)(nil), nil},
		{"nil event", (*store.Event)(nil), nil},
		{"a run without id", &store.Run{}, nil},
		{"a test without run", &store.Test{ID: "t"}, nil},
		{"an item without run", &store.Item{}, nil},
		{"an execution without run", &store.Execution{ID: "x"}, nil},
		{"an evaluation without evaluator", &store.Evaluation{Result: eval.Result{ID: "v", RunID: "r", Kind: eval.KindEvaluator, Status: eval.Passed, Created: epoch}}, nil},
		{"an evaluation of no time", &store.Evaluation{Result: eval.Result{ID: "v", RunID: "r", Evaluator: "a", Kind: eval.KindEvaluator, Status: eval.Passed}}, nil},
		{"an evaluation of another status", &store.Evaluation{Result: eval.Result{ID: "v", RunID: "r", Evaluator: "a", Kind: eval.KindEvaluator, Status: "fine", Created: epoch}}, nil},
		{"an evaluation without a number for its score", &store.Evaluation{Result: eval.Result{ID: "v", RunID: "r", Evaluator: "a", Kind: eval.KindEvaluator, Status: eval.Passed, Created: epoch, Score: eval.Score(math.NaN())}}, nil},
		{"nil evaluation", (*store.Evaluation)(nil), nil},
		{"an event without body", &store.Event{ExecutionID: "e", Sequence: 1, Kind: "finding"}, nil},
		{"an event before the first", event("e", -1), nil},
		{"an event that is there", event("e", 0), nil},
		{"an event of no execution", event("none", 0), store.ErrNotFound},
		{"a blob of no execution", &store.Blob{ExecutionID: "none", SHA256: strings.Repeat("a", 64)}, store.ErrNotFound},
		{"a blob under no digest", &store.Blob{ExecutionID: "e", SHA256: "../../etc/passwd"}, nil},
		{"an end that says nothing", &store.Event{ExecutionID: "e", Sequence: 1, Kind: trace.KindExecutionFinished, Body: []byte("{")}, nil},
	} {
		err := s.Store.Append(ctx, tt.rec)
		if err == nil {
			t.Errorf("%s was kept", tt.name)
		}
		if tt.is != nil {
			wantErr(t, tt.name, err, tt.is)
		}
	}
	appendAll(t, s.Store, tape.Frame([]byte("after the errors\n"))...)
	appendAll(t, s.Store, tape.End(trace.OutcomeCompleted, "")...)
	if err := s.Store.Append(ctx, event("e", 3)); err == nil {
		t.Error("an event after the end was kept")
	}
	s.reading(t, func(t *testing.T, r store.Reader) { checkTrace(t, r, tape) })
}

// testGap: a caller that could not append one event may go on with the next. The trace is there and says what it lacks.
func testGap(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	recs := tape.Whole(Payloads()[:3]...)
	appendAll(t, s.Store, append(recs[:3:3], recs[4:]...)...) // the execution, events 0, 1, 3, 4
	s.reading(t, func(t *testing.T, r store.Reader) {
		tr := must[*trace.Trace](t)(r.Trace(context.Background(), "e"))
		if tr.Len() != len(tape.Events) || !tr.Finalized() {
			t.Fatalf("Len %d, Finalized %v, want %d, true", tr.Len(), tr.Finalized(), len(tape.Events))
		}
		for i, want := range tape.Events {
			got, err := tr.Event(i)
			if i == 2 {
				wantErr(t, "the missing event", err, trace.ErrUnavailable)
			} else if err != nil {
				t.Errorf("event %d: %v", i, err)
			} else {
				diff(t, "event", got, want)
			}
		}
	})
}

func testNoMemory(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	x := tape.Open()
	appendAll(t, s.Store, x)
	x.Servers[0], x.Spec[2] = "changed", 'X'
	run := &store.Run{ID: "r", Started: at(0), Finished: ptr(at(1)), Status: store.RunFinished, Command: []string{"go"}}
	appendAll(t, s.Store, run)
	*run.Finished, run.Command[0] = at(2), "changed"
	for _, recs := range [][]store.Record{tape.Begin(), tape.Frame(binary(100)), tape.Frame(binary(BlobBytes + 1)), tape.End(trace.OutcomeCompleted, "")} {
		for _, rec := range recs {
			appendAll(t, s.Store, rec)
			switch r := rec.(type) {
			case *store.Event:
				clear(r.Body)
			case *store.Blob:
				clear(r.Data)
			}
		}
	}
	s.reading(t, func(t *testing.T, r store.Reader) {
		checkTrace(t, r, tape)
		diff(t, "Execution", must[store.ExecutionInfo](t)(r.Execution(context.Background(), "e")).Execution, *tape.Open())
		diff(t, "Run", must[store.Run](t)(r.Run(context.Background(), "r")), store.Run{ID: "r", Started: at(0), Finished: ptr(at(1)), Status: store.RunFinished, Command: []string{"go"}})
	})
}

func testEvidence(t *testing.T, s *Subject) {
	tape := NewTape("r", "e:with:colons")
	appendAll(t, s.Store, tape.Whole(Payload{"small", []byte("0123456789")}, Payload{"large", binary(3 << 20)})...)
	s.reading(t, func(t *testing.T, r store.Reader) {
		ctx := context.Background()
		read := must[store.Evidence](t)
		diff(t, "cut evidence", read(r.ReadRawEvidence(ctx, tape.Ref(1), 4)),
			store.Evidence{Ref: tape.Ref(1), Bytes: []byte("0123"), Truncated: true, Redactions: tape.Events[1].Redactions})
		diff(t, "whole evidence", read(r.ReadRawEvidence(ctx, tape.Ref(1), 10)),
			store.Evidence{Ref: tape.Ref(1), Bytes: []byte("0123456789"), Redactions: tape.Events[1].Redactions})
		if ev := read(r.ReadRawEvidence(ctx, tape.Ref(2), 0)); len(ev.Bytes) != 1<<20 || !ev.Truncated {
			t.Errorf("without a limit: %d bytes, truncated %v; want 1 MiB, true", len(ev.Bytes), ev.Truncated)
		}
		for _, tt := range []struct {
			field  string
			change func(ref *trace.EvidenceRef)
		}{
			{"sha256", func(ref *trace.EvidenceRef) { ref.SHA256 = strings.Repeat("0", 64) }},
			{"sha256", func(ref *trace.EvidenceRef) { ref.SHA256 = "" }},
			{"size_bytes", func(ref *trace.EvidenceRef) { ref.Size++ }},
		} {
			ref := tape.Ref(1)
			tt.change(&ref)
			ev, err := r.ReadRawEvidence(ctx, ref, 0)
			var integrity *store.IntegrityError
			if !errors.As(err, &integrity) || integrity.Field != tt.field || integrity.Ref != ref {
				t.Errorf("ReadRawEvidence of an altered %s: %v", tt.field, err)
			}
			if len(ev.Bytes) > 0 {
				t.Error("bytes that failed their check were handed out")
			}
		}
	})
}

func testNoEvidence(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	appendAll(t, s.Store, tape.Whole(Payload{"small", []byte("0123456789")})...)
	// A frame whose blob was never appended.
	lost := NewTape("r", "lost")
	appendAll(t, s.Store, append(append([]store.Record{lost.Open()}, lost.Begin()...), lost.Frame(binary(BlobBytes + 1))[1])...)
	s.reading(t, func(t *testing.T, r store.Reader) {
		for _, id := range []string{"", "re:", "re:e", "re:e:", "re::1", "re:e:x", "re:e:-1", "re:e:01", "re:e:+1", "re:e:9", "re:none:1", "re:e:0", "rx:e:1", "re:e:99999999999999999999", "re:lost:1"} {
			ref := tape.Ref(1)
			ref.ID = id
			_, err := r.ReadRawEvidence(context.Background(), ref, 0)
			wantErr(t, "ReadRawEvidence of "+id, err, store.ErrEvidenceUnavailable)
		}
	})
}

// testEqual: what a store gives back does not depend on which it is.
func testEqual(t *testing.T, s *Subject) {
	ctx := context.Background()
	reference := memory.New(nil)
	defer reference.Close()
	tape := NewTape("r", "e")
	recs := tape.Whole(Payloads()...)
	appendAll(t, reference, recs...)
	appendAll(t, s.Store, recs...)
	want := must[*trace.Trace](t)(reference.Trace(ctx, "e"))
	s.reading(t, func(t *testing.T, r store.Reader) {
		got := must[*trace.Trace](t)(r.Trace(ctx, "e"))
		diff(t, "the trace's events", got.Events(), want.Events())
		diff(t, "the view's JSON", viewJSON(t, got), viewJSON(t, want))
		a := must[store.ExecutionInfo](t)(reference.Execution(ctx, "e"))
		b := must[store.ExecutionInfo](t)(r.Execution(ctx, "e"))
		diff(t, "Execution", b, a)
	})
}

func viewJSON(t *testing.T, tr *trace.Trace) string {
	t.Helper()
	v, err := tr.View()
	if err != nil {
		return "no view: " + err.Error()
	}
	return string(must[[]byte](t)(json.Marshal(v)))
}

func testConcurrency(t *testing.T, s *Subject) {
	const writers, frames = 8, 40
	ctx := context.Background()
	tapes := make([]*Tape, writers)
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for i := range writers {
		tapes[i] = NewTape("r", fmt.Sprintf("e%d", i))
		writing.Go(func() { write(t, s.Store, tapes[i], frames) })
	}
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					readWhile(ctx, t, s.Store)
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	s.reading(t, func(t *testing.T, r store.Reader) {
		for _, tape := range tapes {
			checkTrace(t, r, tape)
		}
		if n := len(must[[]store.Suite](t)(r.Suites(ctx, "r"))); n != 1 {
			t.Errorf("%d suites, want 1", n)
		}
	})
}

func write(t *testing.T, s store.Store, tape *Tape, frames int) {
	recs := append([]store.Record{tape.Open()}, tape.Begin()...)
	for i := range frames {
		size := i * 10
		if i%20 == 19 {
			size = BlobBytes + 1 // the same of every writer
		}
		recs = append(recs, tape.Frame(binary(size))...)
	}
	for _, rec := range append(recs, tape.End(trace.OutcomeCompleted, "")...) {
		if err := s.Append(context.Background(), rec); err != nil {
			t.Errorf("Append(%s): %v", rec.Type(), err)
			return
		}
	}
}

// readWhile reads everything there is while it grows. What is there must be whole.
func readWhile(ctx context.Context, t *testing.T, s store.Store) {
	infos, err := s.Executions(ctx, nil)
	if err != nil {
		t.Errorf("Executions: %v", err)
	}
	for _, info := range infos {
		tr, err := s.Trace(ctx, info.ID)
		if err != nil {
			t.Errorf("Trace: %v", err)
			continue
		}
		if n := tr.Len(); n < info.EventCount {
			t.Errorf("%s has %d events, had %d before", info.ID, n, info.EventCount)
		}
		for i := max(0, info.EventCount-2); i < info.EventCount; i++ {
			if ev, err := tr.Event(i); err != nil || ev.Sequence != int64(i) {
				t.Errorf("event %d of %s: %v", i, info.ID, err)
			}
		}
	}
}

func testContext(t *testing.T, s *Subject) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, "Append", s.Store.Append(ctx, &store.Run{ID: "r"}), context.Canceled)
	for what, err := range queries(ctx, s.Store) {
		wantErr(t, what, err, context.Canceled)
	}
	if runs := must[[]store.Run](t)(s.Store.Runs(context.Background())); len(runs) > 0 {
		t.Errorf("what was appended with a cancelled context is there: %v", runs)
	}
}

func testClosed(t *testing.T, s *Subject) {
	tape := NewTape("r", "e")
	appendAll(t, s.Store, tape.Whole()...)
	for range 2 {
		if err := s.Store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	wantErr(t, "Append", s.Store.Append(context.Background(), &store.Run{ID: "r"}), store.ErrClosed)
	for what, err := range queries(context.Background(), s.Store) {
		wantErr(t, what, err, store.ErrClosed)
	}
}

// queries makes every query and yields its error.
func queries(ctx context.Context, r store.Reader) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		_, runs := r.Runs(ctx)
		_, run := r.Run(ctx, "r")
		_, suites := r.Suites(ctx, "r")
		_, tests := r.Tests(ctx, "r")
		_, items := r.Items(ctx, "r")
		_, executions := r.Executions(ctx, nil)
		_, execution := r.Execution(ctx, "e")
		_, tr := r.Trace(ctx, "e")
		_, evaluations := r.Evaluations(ctx, nil)
		_, evidence := r.ReadRawEvidence(ctx, trace.EvidenceRef{ID: "re:e:0"}, 0)
		_ = yield("Runs", runs) && yield("Run", run) && yield("Suites", suites) && yield("Tests", tests) && yield("Items", items) &&
			yield("Executions", executions) && yield("Execution", execution) && yield("Trace", tr) && yield("ReadRawEvidence", evidence) && yield("Evaluations", evaluations)
	}
}
