package report_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// history is a run in pieces whose order does not matter: executions with frames, calls and evaluations of every kind, and the tests that they belong to.
func history(zone *time.Location) (head []store.Record, pieces [][]store.Record) {
	d := &storetest.Dataset{Runs: 2, Cases: 4, Configs: 2, Trials: 4, Evaluators: 2, Calls: 3, Odd: true}
	n := 0
	for s := range d.All() {
		if s.Execution == nil {
			if head == nil {
				head = s.Records
			} else {
				pieces = append(pieces, s.Records)
			}
			continue
		}
		n++
		if s.Test == nil && s.Execution.RunID == "run-000" {
			end := s.Execution.Created.Add(time.Second)
			test := &store.Test{ID: "t" + string(s.Execution.ID), RunID: "run-000", Package: "example.com/a", Name: "Test" + string(s.Execution.ID), Suite: s.Execution.Suite, Iteration: 1,
				Status: []store.TestStatus{store.TestPassed, store.TestFailed, store.TestSkipped, store.TestInterrupted}[n%4], Started: s.Execution.Created.In(zone), Finished: &end}
			s.Execution.TestID = test.ID
			s.Records = append([]store.Record{test}, s.Records...)
		}
		s.Execution.Created = s.Execution.Created.In(zone)
		pieces = append(pieces, s.Records)
	}
	tape := storetest.NewTape("run-000", "lists")
	tape.TestID = ""
	lists := slices.Concat([]store.Record{tape.Open()}, tape.Begin(), tape.List("", `{"tools":[{"name":"a"}],"nextCursor":"2"}`), tape.List(`{"cursor":"2"}`, `{"tools":[{"name":"b"}]}`),
		tape.End(trace.OutcomeFailed, "something"))
	return head, append(pieces, lists)
}

// bundle is feedback.json and every file beside it, by name.
func bundle(t *testing.T, r store.Reader, run string) map[string]string {
	t.Helper()
	f, err := report.Build(t.Context(), r, run)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "feedback.json")
	if err := f.WriteFiles(t.Context(), r, path); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name] = readFile(t, filepath.Join(dir, name))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestFeedbackEqual: the same records give the same files, whichever store holds them, in whichever order they came, and whatever the time zone.
func TestFeedbackEqual(t *testing.T) {
	t.Parallel()
	east, west := time.FixedZone("east", 5*3600+1800), time.FixedZone("west", -8*3600)
	forth := func(zone *time.Location) []store.Record {
		head, pieces := history(zone)
		return slices.Concat(head, slices.Concat(pieces...))
	}
	back := func(zone *time.Location) []store.Record {
		head, pieces := history(zone)
		slices.Reverse(pieces)
		return slices.Concat(head, slices.Concat(pieces...))
	}
	open := func() store.Store {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "x.sqlite"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	var want map[string]string
	for _, tt := range []struct {
		name string
		st   store.Store
		recs []store.Record
	}{
		{"memory", memory.New(nil), forth(time.UTC)},
		{"memory, backwards, east", memory.New(nil), back(east)},
		{"sqlite, west", open(), forth(west)},
		{"sqlite, backwards", open(), back(time.UTC)},
	} {
		filled(t, tt.st, tt.recs...)
		got := bundle(t, tt.st, "run-000")
		got["comparison"] = comparedBytes(t, tt.st)
		if want == nil {
			want = got
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the files differ:\n%.4000s", tt.name, diff)
		}
	}
	for _, folder := range []string{"executions/", "specs/", "catalogs/", "traces/", "evidence/", "tests/", "runs/"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { return strings.HasPrefix(name, folder) }) {
			t.Errorf("no file in %s: the comparison says nothing of it", folder)
		}
	}
}

// TestEvaluationStats: the rates are those of Aggregate.
func TestEvaluationStats(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	head, pieces := history(time.UTC)
	filled(t, st, slices.Concat(head, slices.Concat(pieces...))...)
	f, err := report.Build(t.Context(), st, "run-000")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.EvaluationStats) < 2 {
		t.Fatalf("%d evaluators", len(f.EvaluationStats))
	}
	for name, got := range f.EvaluationStats {
		rep, err := st.Aggregate(t.Context(), eval.Query{Filters: eval.Labels{eval.LabelRun: {"run-000"}, eval.LabelEvaluator: {name}}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(rep.Totals, got); diff != "" {
			t.Errorf("%s (-aggregate +feedback):\n%s", name, diff)
		}
	}
}
