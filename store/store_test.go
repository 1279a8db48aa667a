package store_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func after(d time.Duration) *time.Time {
	t := start.Add(d)
	return &t
}

// TestEncodeDecode: times become UTC, names are trimmed, JSON is compacted but keeps its numbers, its doubles and its characters.
func TestEncodeDecode(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("z", -3600)
	end := after(time.Second).In(zone)
	for _, tt := range []struct{ in, want store.Record }{
		{&store.Run{ID: "r", Started: start.In(zone), Finished: &end, Detail: trace.JSON("{\n \"a\": 1e400, \"a\": \"<&>\"\n}")},
			&store.Run{ID: "r", Started: start, Finished: after(time.Second), Detail: trace.JSON(`{"a":1e400,"a":"<&>"}`)}},
		{&store.Test{ID: "t", RunID: "r", Suite: "\t s \n", Started: start.In(zone), Finished: &end}, &store.Test{ID: "t", RunID: "r", Suite: "s", Started: start, Finished: after(time.Second)}},
		{&store.Item{RunID: "r", Output: "\x1b[31m\u2028\n", Elapsed: 3}, &store.Item{RunID: "r", Output: "\x1b[31m\u2028\n", Elapsed: 3}},
		{&store.Execution{ID: "e", RunID: "r", Suite: " s", Created: start.In(zone)}, &store.Execution{ID: "e", RunID: "r", Suite: "s", Created: start, Spec: trace.JSON("null")}},
	} {
		b, err := store.Encode(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(b), "\n\r") || !json.Valid(b) {
			t.Errorf("%s is not one line of JSON: %q", tt.in.Type(), b)
		}
		got, err := store.Decode(tt.in.Type(), b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.in.Type(), d)
		}
	}
	if end.Location() != zone {
		t.Error("Encode changed the record")
	}
}

func TestMergeRuns(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	first := &store.Run{ID: "r", Status: store.RunFinished, Started: *after(2), Finished: after(9), ExitCode: &one, Project: "p", Owner: "go test"}
	for _, tt := range []struct {
		name        string
		a, b, merge store.Run
	}{
		{"an earlier process", *first, store.Run{ID: "r", Status: store.RunRunning, Started: *after(1)},
			store.Run{ID: "r", Status: store.RunFinished, Started: *after(1), Finished: after(9), ExitCode: &one, Project: "p", Owner: "go test"}},
		{"a later end", *first, store.Run{ID: "r", Status: store.RunFinished, Started: *after(3), Finished: after(10), ExitCode: &two, Command: []string{"c"}},
			store.Run{ID: "r", Status: store.RunFinished, Started: *after(2), Finished: after(10), ExitCode: &two, Command: []string{"c"}, Project: "p", Owner: "go test"}},
		{"an earlier end", *first, store.Run{ID: "r", Status: store.RunFinished, Finished: after(8), ExitCode: &two},
			store.Run{ID: "r", Status: store.RunFinished, Started: *after(2), Finished: after(9), ExitCode: &one, Project: "p", Owner: "go test"}},
		{"a later end without a code", *first, store.Run{ID: "r", Status: store.RunFinished, Finished: after(10)},
			store.Run{ID: "r", Status: store.RunFinished, Started: *after(2), Finished: after(10), ExitCode: &one, Project: "p", Owner: "go test"}},
		{"an interruption", *first, store.Run{ID: "r", Status: store.RunInterrupted},
			store.Run{ID: "r", Status: store.RunInterrupted, Started: *after(2), Finished: after(9), ExitCode: &one, Project: "p", Owner: "go test"}},
	} {
		a, b := tt.a, tt.b
		if d := cmp.Diff(&tt.merge, store.Merge(&a, &b)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
		if !reflect.DeepEqual(a, tt.a) || !reflect.DeepEqual(b, tt.b) {
			t.Errorf("%s: Merge changed what it was given", tt.name)
		}
	}
}

// TestMergeTests: whichever of begin and end is seen first.
func TestMergeTests(t *testing.T) {
	t.Parallel()
	begin := &store.Test{ID: "t", RunID: "r", Package: "p", Name: "TestX", Suite: "s", Iteration: 2, Status: store.TestRunning, Started: start}
	end := &store.Test{ID: "t", RunID: "r", Status: store.TestFailed, Started: start, Finished: after(time.Second), Reasons: []string{"why"}}
	want := &store.Test{ID: "t", RunID: "r", Package: "p", Name: "TestX", Suite: "s", Iteration: 2, Status: store.TestFailed, Started: start, Finished: after(time.Second), Reasons: []string{"why"}}
	if d := cmp.Diff(want, store.Merge(begin, end)); d != "" {
		t.Errorf("begin, end (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, store.Merge(end, begin)); d != "" {
		t.Errorf("end, begin (-want +got):\n%s", d)
	}
}

func TestEvidenceID(t *testing.T) {
	t.Parallel()
	for _, id := range []trace.ExecutionID{"e", "a:b:c", ":", "re:x:1", "é \n"} {
		s := store.EvidenceID(id, 17)
		if got, seq, err := store.ParseEvidenceID(s); err != nil || got != id || seq != 17 {
			t.Errorf("%q is parsed as %q, %d, %v", s, got, seq, err)
		}
	}
}

func FuzzParseEvidenceID(f *testing.F) {
	for _, s := range []string{"re:e:1", "re:a:b:0", "re::1", "re:e:01", "re:e:-1", "re:e:9223372036854775808", ""} {
		f.Add(s)
	}
	wiretest.Seed(f, func(sent []byte) { f.Add("re:" + string(sent) + ":1") })
	f.Fuzz(func(t *testing.T, s string) {
		id, seq, err := store.ParseEvidenceID(s)
		if err != nil {
			if !errors.Is(err, store.ErrEvidenceUnavailable) {
				t.Errorf("%q: %v", s, err)
			}
		} else if store.EvidenceID(id, seq) != s || id == "" || seq < 0 {
			t.Errorf("%q is parsed as %q, %d", s, id, seq)
		}
	})
}

// FuzzDecode: what is decoded can be encoded, and is the same when it is decoded again.
func FuzzDecode(f *testing.F) {
	for _, typ := range []string{"run", "test", "item", "execution"} {
		f.Add(typ, []byte(`{"run_id":"r","test_id":"t","execution_id":"e","started_at":"2026-01-02T03:04:05.000000006+01:00","suite_name":" s ","spec":{"a":[1e400]},"detail":null}`))
	}
	f.Add("event", []byte(`{}`))
	f.Fuzz(func(t *testing.T, typ string, b []byte) {
		rec, err := store.Decode(typ, b)
		if err != nil {
			return
		}
		once, err := store.Encode(rec)
		if err != nil {
			return // a year of five digits after it was moved to UTC
		}
		again, err := store.Decode(typ, once)
		if err != nil {
			t.Fatalf("%q was decoded from %q and is not decoded again: %v", once, b, err)
		}
		if twice, err := store.Encode(again); err != nil || string(twice) != string(once) {
			t.Errorf("%q becomes %q (%v)", once, twice, err)
		}
	})
}

// An end before its begin, which a clock that was set back in between makes, is the begin: in one record and over several.
func TestNothingEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	early := start.Add(-time.Hour)
	for _, rec := range []store.Record{&store.Run{ID: "r", Started: start, Finished: &early}, &store.Test{ID: "t", RunID: "r", Started: start, Finished: &early}} {
		b, err := store.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.Decode(rec.Type(), b)
		if err != nil || !end(got).Equal(start) {
			t.Errorf("%s ends at %v, %v", rec.Type(), end(got), err)
		}
	}
	for _, pair := range [][2]store.Record{
		{&store.Run{ID: "r", Started: start, Status: store.RunRunning}, &store.Run{ID: "r", Finished: &early, Status: store.RunFinished}},
		{&store.Test{ID: "t", RunID: "r", Started: start, Status: store.TestRunning}, &store.Test{ID: "t", RunID: "r", Finished: &early, Status: store.TestPassed}},
	} {
		if got := store.Merge(pair[0], pair[1]); !end(got).Equal(start) {
			t.Errorf("%s ends at %v", got.Type(), end(got))
		}
	}
}

func end(rec store.Record) time.Time {
	switch r := rec.(type) {
	case *store.Run:
		return *r.Finished
	case *store.Test:
		return *r.Finished
	}
	return time.Time{}
}
