package report_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// trial is one execution of a run with what was listed in it, and one evaluation.
type trial struct {
	id, name string // of the case
	spec     string
	lists    [][2]string // params and result of tools/list
	status   eval.Status // empty: no evaluation
	edit     func(*eval.Result)
}

func trialRecords(run string, trials ...trial) []store.Record {
	end := start.Add(time.Minute)
	recs := []store.Record{&store.Run{ID: run, Status: store.RunFinished, Started: start, Finished: &end, Project: "example.test/x"}}
	for i, x := range trials {
		tape := storetest.NewTape(run, run+x.id)
		tape.Case, tape.TestID, tape.Created = x.name, "", start.Add(time.Duration(i)*time.Second)
		ex := tape.Open()
		if x.spec != "" {
			ex.Spec = trace.JSON(x.spec)
		}
		recs = append(append(recs, ex), tape.Begin()...)
		for _, l := range x.lists {
			recs = append(recs, tape.List(l[0], l[1])...)
		}
		recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
		if x.status != "" {
			row := eval.Result{ID: run + x.id + "e", RunID: run, Execution: tape.ID, Suite: tape.Suite, Case: x.name, Evaluator: "e.v1", Kind: eval.KindEvaluator, SubjectKind: "json",
				SubjectDigest: "d", Status: x.status, Created: start.Add(time.Hour)}
			if x.edit != nil {
				x.edit(&row)
			}
			recs = append(recs, &store.Evaluation{Result: row})
		}
	}
	return recs
}

func compareRuns(t *testing.T, base, now []trial) *report.Comparison {
	t.Helper()
	st := memory.New(nil)
	filled(t, st, append(trialRecords("base", base...), trialRecords("now", now...)...)...)
	return compared(t, st)
}

func compared(t *testing.T, st store.Reader) *report.Comparison {
	t.Helper()
	var f [2]*report.Feedback
	for i, run := range []string{"base", "now"} {
		var err error
		if f[i], err = report.Build(t.Context(), st, run); err != nil {
			t.Fatal(err)
		}
	}
	c, err := report.Compare(t.Context(), st, f[0], f[1], 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComparedInterfaces: before and after are told only when each run saw one catalogue.
func TestComparedInterfaces(t *testing.T) {
	t.Parallel()
	lists := func(results ...string) (out [][2]string) {
		for _, r := range results {
			out = append(out, [2]string{"", r})
		}
		return out
	}
	a, b := `{"tools":[{"name":"a","description":"x"},{"name":"z"}]}`, `{"tools":[{"name":"z"},{"name":"a","description":"y"}]}`
	for _, tt := range []struct {
		name      string
		base, now [][2]string
		want      string // kind: changes
	}{
		{"the same", lists(a), lists(a, a), ""},
		{"another order is none", lists(a), lists(`{"tools":[{"name":"z"},{"description":"x","name":"a"}]}`), ""},
		{"a change", lists(a), lists(b), "tools: wording a description"},
		{"several catalogues", lists(a, b), lists(b), "catalog_distribution: "},
		{"the same several", lists(a, b), lists(b, a), ""},
		{"incomplete", lists(a), lists(`{"tools":[],"nextCursor":"x"}`), "catalog_completeness: "},
		{"not listed", lists(a), nil, "catalog_coverage: "},
		{"unreadable", lists(a), lists(`{"tools":[{"title":"nameless"}]}`), "catalog_completeness: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := compareRuns(t, []trial{{id: "1", name: "case", lists: tt.base}, {id: "2", name: "case-trial-2", lists: tt.base}}, []trial{{id: "1", name: "case", lists: tt.now}})
			var got []string
			for _, ch := range c.InterfaceChanges {
				var parts []string
				for _, x := range ch.Changes {
					parts = append(parts, fmt.Sprintf("%s %s %s", x.Class, x.Tool, x.Path))
				}
				if ch.Comparable != (ch.Kind == report.ToolsChanged) || (ch.Reason == "") != ch.Comparable {
					t.Errorf("%+v", ch)
				}
				got = append(got, ch.Kind+": "+strings.Join(parts, ", "))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// TestComparedEvaluations: what was not asked the same is not compared, and says why.
func TestComparedEvaluations(t *testing.T) {
	t.Parallel()
	edit := func(f func(*eval.Result)) []trial {
		return []trial{{id: "1", name: "case", status: eval.Failed, edit: f}}
	}
	check := func(args string) []trial {
		return edit(func(r *eval.Result) {
			r.Kind, r.Check = eval.KindCheck, &eval.Check{Matcher: "text", Ordinal: 1, Arguments: trace.JSON(args)}
		})
	}
	for _, tt := range []struct {
		name      string
		base, now []trial
		want      string // in, comparable, fields; empty: no change
	}{
		{"equal", edit(nil), edit(nil), ""},
		{"another verdict", []trial{{id: "1", name: "case", status: eval.Passed}}, edit(nil), "both true []"},
		{"a trial of it", []trial{{id: "1", name: "case", status: eval.Passed}}, []trial{{id: "1", name: "case/trial-3", status: eval.Failed}}, "both true []"},
		{"another case", edit(nil), []trial{{id: "1", name: "other", status: eval.Failed}}, "baseline false [], current false []"},
		{"another configuration", []trial{{id: "1", name: "case", status: eval.Failed, spec: `{"model":"m1"}`}}, []trial{{id: "1", name: "case", status: eval.Failed, spec: `{"model":"m2"}`}}, "baseline false [], current false []"},
		{"what is different in every run is no configuration", []trial{{id: "1", name: "case", status: eval.Failed, spec: `{"url":"http://127.0.0.1:1"}`}}, []trial{{id: "1", name: "case", status: eval.Failed, spec: `{"url":"http://127.0.0.1:2","metadata":null}`}}, ""},
		{"another message", []trial{{id: "1", name: "case", status: eval.Failed, spec: `{"message":"a"}`}}, []trial{{id: "1", name: "case", status: eval.Passed, spec: `{"message":"b"}`}}, "both false [message]"},
		{"another judge", edit(nil), edit(func(r *eval.Result) { r.Provenance = &eval.Provenance{Kind: "llm_judge", Model: "m"} }), "both false [provenance]"},
		{"another expectation", check(`{"want":"a"}`), check(`{"want":"b"}`), "both false [expected]"},
		{"a predicate", check(`{"want":{"predicate":true}}`), check(`{"want":{"predicate":true}}`), "both false [predicate_implementation_unknown]"},
		{"an evaluator that broke", edit(func(r *eval.Result) { r.Provenance = &eval.Provenance{Kind: "mine"} }), []trial{{id: "1", name: "case", status: eval.Error}}, "both true []"},
		{"only now", []trial{{id: "1", name: "case"}}, edit(nil), "current false []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := compareRuns(t, tt.base, tt.now)
			var got []string
			for _, ch := range c.EvaluationChanges {
				if (ch.Delta != nil) != ch.Comparable {
					t.Errorf("delta %v, comparable %v", ch.Delta, ch.Comparable)
				}
				got = append(got, fmt.Sprintf("%s %v %v", ch.In, ch.Comparable, ch.ChangedFields))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
			if n := len(c.Evaluators); (n > 0) != (tt.want == "" || strings.Contains(tt.want, "both true")) {
				t.Errorf("%d comparisons", n)
			}
		})
	}
}

// TestComparedRuns: two stored runs of 40 cases are judged by their true rates: equal ones are hardly ever better or worse, and a drop of thirty points is mostly found. (All rates and
// thousands of runs are in internal/stats.)
func TestComparedRuns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 11))
	sample := func(rate float64) (out []trial) {
		for i := range 40 {
			x := trial{id: fmt.Sprint(i), name: fmt.Sprintf("case %d", i), status: eval.Failed}
			if r.Float64() < rate {
				x.status = eval.Passed
			}
			out = append(out, x)
		}
		return out
	}
	count := func(base, now float64) map[stats.Verdict]int {
		n := map[stats.Verdict]int{}
		for range 60 {
			c := compareRuns(t, sample(base), sample(now))
			if len(c.Evaluators) != 1 || c.Evaluators[0].Cases != 40 || c.Evaluators[0].ExpectedCount != (report.Both[int]{Baseline: 40, Current: 40}) {
				t.Fatalf("%+v", c.Evaluators)
			}
			n[c.Evaluators[0].Verdict]++
		}
		return n
	}
	if n := count(0.8, 0.8); n[stats.Better]+n[stats.Worse] > 7 { // 5 % are 3; more than 7 come about once in a hundred
		t.Errorf("equal: %v", n)
	}
	if n := count(0.8, 0.5); n[stats.Worse] < 37 || n[stats.Better] > 0 { // 80 % are 48
		t.Errorf("a drop: %v", n)
	}
}

// TestComparedClusters: equal checks of one case, which tend to pass and fail together, do not count as cases.
func TestComparedClusters(t *testing.T) {
	t.Parallel()
	for _, k := range []int{2, 4} {
		r := rand.New(rand.NewPCG(3, 5))
		sample := func(run string) []store.Record {
			recs := trialRecords(run)
			for i := range 20 {
				tape := storetest.NewTape(run, fmt.Sprint(run, i))
				tape.Case, tape.TestID = fmt.Sprint("case ", i), ""
				recs = append(append(recs, tape.Open()), tape.Begin()...)
				recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
				status := eval.Failed
				if r.Float64() < 0.7 {
					status = eval.Passed
				}
				for o := 1; o <= k; o++ {
					recs = append(recs, &store.Evaluation{Result: eval.Result{ID: fmt.Sprint(run, "-", i, "-", o), RunID: run, Execution: tape.ID, Suite: tape.Suite, Case: tape.Case, Evaluator: "text",
						Kind: eval.KindCheck, SubjectKind: "json", SubjectDigest: fmt.Sprint(i, "-", o), Status: status, Created: start.Add(time.Hour),
						Check: &eval.Check{Matcher: "text", Ordinal: o, Arguments: trace.JSON(`{"want":"a"}`)}}})
				}
			}
			return recs
		}
		changed := 0
		for range 100 {
			st := memory.New(nil)
			filled(t, st, append(sample("base"), sample("now")...)...)
			c := compared(t, st)
			if len(c.Evaluators) != 1 || c.Evaluators[0].Cases != 20 || c.Evaluators[0].ExpectedCount.Current != 20*k {
				t.Fatalf("%+v", c.Evaluators)
			}
			if v := c.Evaluators[0].Verdict; v == stats.Better || v == stats.Worse {
				changed++
			}
		}
		if changed > 11 { // 5 % are 5; as independent checks they would be 16 and 27
			t.Errorf("%d of 100 equal runs with %d checks a case are better or worse", changed, k)
		}
	}
}

// TestComparedPrompts: agents that were told different things are not compared; what an agent itself reports is no prompt.
func TestComparedPrompts(t *testing.T) {
	t.Parallel()
	said := func(run string, source trace.Source, texts ...string) []store.Record {
		recs := trialRecords(run, trial{id: "1", name: "case", status: eval.Passed})
		id := trace.ExecutionID(run + "1")
		var out []store.Record
		for _, rec := range recs {
			if ev, ok := rec.(*store.Event); ok && ev.Kind == trace.KindExecutionFinished {
				seq := ev.Sequence
				for _, text := range texts {
					e := trace.Event{ExecutionID: id, Sequence: seq, Kind: trace.KindAgentMessage, Time: start, Phase: trace.PhaseTurn, Source: source,
						Payload: trace.JSON(`{"role":"user","content":[{"type":"text","text":"` + text + `"}]}`)}
					out = append(out, &store.Event{ExecutionID: id, Sequence: seq, Kind: e.Kind, Body: trace.AppendEvent(nil, &e)})
					seq++
				}
				end := trace.Event{ExecutionID: id, Sequence: seq, Kind: ev.Kind, Time: start, Phase: trace.PhaseTerminal, Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"},
					Payload: trace.JSON(`{"outcome":"completed"}`)}
				rec = &store.Event{ExecutionID: id, Sequence: seq, Kind: ev.Kind, Body: trace.AppendEvent(nil, &end)}
			}
			out = append(out, rec)
		}
		return out
	}
	own, agent := trace.Source{Origin: trace.OriginDerived, Source: "m3"}, trace.Source{Origin: trace.OriginReported, Source: "acp"}
	for _, tt := range []struct {
		name      string
		base, now []store.Record
		want      int // comparisons
	}{
		{"the same", said("base", own, "a", "b"), said("now", own, "a", "b"), 1},
		{"another second message", said("base", own, "a", "b"), said("now", own, "a", "c"), 0},
		{"reported by the agent", said("base", agent, "a"), said("now", agent, "c"), 1},
	} {
		st := memory.New(nil)
		filled(t, st, append(tt.base, tt.now...)...)
		if c := compared(t, st); len(c.Evaluators) != tt.want {
			t.Errorf("%s: %d comparisons, %+v", tt.name, len(c.Evaluators), c.EvaluationChanges)
		}
	}
}

// TestNoComparison: a comparison that failed is told, and takes nothing else away.
func TestNoComparison(t *testing.T) {
	t.Parallel()
	f := &report.Feedback{}
	f.NoComparison(fmt.Errorf("the disk is gone"))
	var b strings.Builder
	if err := report.Print(&b, f, nil); err != nil || !strings.Contains(b.String(), "there is no comparison: the disk is gone") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestComparedTests: outcomes are compared by test, all attempts of it, and failures name their run.
func TestComparedTests(t *testing.T) {
	t.Parallel()
	item := func(run, name, action string, n int) store.Record {
		return &store.Item{RunID: run, Package: "p", Test: name, Action: action, Iteration: n, Reason: "because"}
	}
	st := memory.New(nil)
	filled(t, st, slices.Concat(trialRecords("base"), trialRecords("now"), []store.Record{
		item("base", "TestA", "pass", 1), item("base", "TestA", "fail", 2), item("base", "TestB", "pass", 1), item("base", "TestGone", "pass", 1),
		item("now", "TestA", "pass", 1), item("now", "TestA", "pass", 2), item("now", "TestB", "pass", 1), item("now", "TestNew", "fail", 1),
	})...)
	c := compared(t, st)
	want := []report.TestChange{
		{Package: "p", Test: "TestA", Outcomes: report.Both[[]store.TestStatus]{Baseline: []store.TestStatus{"failed", "passed"}, Current: []store.TestStatus{"passed", "passed"}}},
		{Package: "p", Test: "TestGone", Outcomes: report.Both[[]store.TestStatus]{Baseline: []store.TestStatus{"passed"}, Current: []store.TestStatus{}}},
		{Package: "p", Test: "TestNew", Outcomes: report.Both[[]store.TestStatus]{Baseline: []store.TestStatus{}, Current: []store.TestStatus{"failed"}}},
	}
	if diff := gocmp.Diff(want, c.TestChanges); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]report.ComparedFailure{{"baseline", "test", "p", "TestA", "because"}, {"current", "test", "p", "TestNew", "because"}}, c.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if c.Coverage.Tests != (report.Covered{Both: 2, BaselineOnly: 1, CurrentOnly: 1}) || len(c.Limitations) != 1 {
		t.Errorf("coverage %+v, limitations %q", c.Coverage, c.Limitations)
	}
}

// comparedBytes is the comparison of the history's two runs.
func comparedBytes(t *testing.T, r store.Reader) string {
	t.Helper()
	var f [2]*report.Feedback
	for i, run := range []string{"run-000", "run-001"} {
		var err error
		if f[i], err = report.Build(t.Context(), r, run); err != nil {
			t.Fatal(err)
		}
	}
	c, err := report.Compare(t.Context(), r, f[0], f[1], 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Evaluators) == 0 || len(c.EvaluationChanges) == 0 || c.Coverage.Evaluations.Both == 0 {
		t.Fatalf("nothing was compared: %+v", c.Coverage)
	}
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
