package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// How internal/gotest explains a test that failed only because one of its subtests did, and one that its process took along.
const (
	subtestFailed = "a subtest failed"
	neverEnded    = "never ended"
)

// Build makes the feedback of a run from what is stored. The same records give the same bytes, whichever store holds them.
// The error wraps store.ErrNotFound when there is no such run. A trace that cannot be read is told in its execution.
func Build(ctx context.Context, r store.Reader, runID string) (*Feedback, error) {
	b := &builder{ctx: ctx, r: r, f: &Feedback{SchemaVersion: 1, RunID: runID, Files: newFiles()}}
	steps := []func() error{b.run, b.suites, b.executions, b.findings, b.statistics, b.tests}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("feedback of run %s: %w", runID, err)
		}
	}
	b.failures()
	b.verdicts()
	b.otherFailures()
	b.summary()
	b.notNull()
	return b.f, nil
}

type builder struct {
	ctx context.Context
	r   store.Reader
	f   *Feedback
	// stopped says that the run was ended from outside, or has no end: what never ended in it did not fail.
	stopped bool
	byTest  map[string][]trace.ExecutionID
	tallies map[trace.ExecutionID]store.Tally
}

func (b *builder) run() error {
	run, err := b.r.Run(b.ctx, b.f.RunID)
	if err != nil {
		return err
	}
	b.f.ProjectName, b.f.M3Version, b.f.Command = run.Project, run.Version, run.Command
	b.f.StartedAt, b.f.FinishedAt, b.f.ExitCode = run.Started.UTC(), utc(run.Finished), run.ExitCode
	b.f.Summary.RunStatus = run.Status
	var detail struct {
		Signal string `json:"signal"`
	}
	if len(run.Detail) > 0 {
		if err := run.Detail.Decode(&detail); err != nil {
			return fmt.Errorf("the run's detail: %w", err)
		}
	}
	b.stopped = detail.Signal != "" || run.Finished == nil
	return nil
}

func (b *builder) suites() error {
	suites, err := b.r.Suites(b.ctx, b.f.RunID)
	for _, suite := range suites {
		b.f.Suites = append(b.f.Suites, Suite{suite.Name})
	}
	return err
}

func (b *builder) executions() error {
	infos, err := b.r.Executions(b.ctx, &store.ExecutionQuery{RunID: b.f.RunID})
	if err != nil {
		return err
	}
	// Of what was created at one moment, the store's order is that in which it came in.
	slices.SortStableFunc(infos, func(x, y store.ExecutionInfo) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID))
	})
	if b.f.RequiredBlocked, err = store.Blocked(b.ctx, b.r, b.f.RunID, infos); err != nil {
		return err
	}
	if b.tallies, err = b.r.Tally(b.ctx, b.f.RunID); err != nil {
		return err
	}
	b.byTest, b.f.Executions = map[string][]trace.ExecutionID{}, make([]Execution, 0, len(infos))
	for i := range infos {
		e := b.execution(&infos[i])
		if err := b.ctx.Err(); err != nil {
			return err
		}
		b.f.Executions = append(b.f.Executions, e)
		if e.TestID != "" {
			b.byTest[e.TestID] = append(b.byTest[e.TestID], e.ExecutionID)
		}
	}
	return nil
}

func (b *builder) execution(in *store.ExecutionInfo) Execution {
	e := Execution{ExecutionID: in.ID, Kind: in.Kind, Suite: in.Suite, Case: in.Case, TestID: in.TestID, Servers: list(in.Servers), Lifecycle: "open", Outcome: in.Outcome,
		EventCount: in.EventCount, Evidence: EvidencePartial, Complete: in.Complete, Limitations: []trace.Limitation{}, Findings: []trace.Finding{},
		EvaluationCounts: b.tallies[in.ID].Evaluations}
	if e.EvaluationCounts == nil {
		e.EvaluationCounts = map[eval.Status]int{}
	}
	for _, n := range e.EvaluationCounts {
		e.EvaluationCount += n
	}
	if in.Finished != nil {
		e.Lifecycle = "finished"
	}
	if in.Complete {
		e.Evidence = EvidenceComplete
	} else if err := b.limitations(&e); err != nil { // of a complete one there is nothing more to read
		e.Unavailable, e.Evidence = err.Error(), EvidenceUnavailable
	}
	return e
}

// limitations says what is missing of a trace.
func (b *builder) limitations(e *Execution) error {
	tr, err := b.r.Trace(b.ctx, e.ExecutionID)
	if err != nil {
		return err
	}
	view, err := tr.View()
	if errors.Is(err, trace.ErrNotFinalized) {
		view, err = tr.Snapshot()
	}
	if err == nil {
		e.Limitations = append(e.Limitations, view.Limitations()...)
	}
	return err
}

// tests joins what go test reported with what the test processes recorded: by the attempt's id, else by package, name and
// iteration. A recorded attempt that go test never spoke of (a run without m3 test) stands by itself.
func (b *builder) tests() error {
	items, err := b.r.Items(b.ctx, b.f.RunID)
	if err != nil {
		return err
	}
	recorded, err := b.r.Tests(b.ctx, b.f.RunID)
	if err != nil {
		return err
	}
	slices.SortStableFunc(recorded, func(x, y store.Test) int {
		return cmp.Or(x.Started.Compare(y.Started), cmp.Compare(x.Package, y.Package), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Iteration, y.Iteration), cmp.Compare(x.ID, y.ID))
	})
	ix := indexTests(recorded)
	for i := range items {
		it := &items[i]
		if it.Test == "" {
			b.f.Packages = append(b.f.Packages, b.pkg(it))
			continue
		}
		b.f.Tests = append(b.f.Tests, b.test(it, ix.take(it)))
	}
	for i := range recorded {
		if !ix.taken[recorded[i].ID] {
			b.add(&recorded[i])
		}
	}
	return nil
}

// add takes an attempt that go test did not tell of. Of a test that it told of, it is a fuzz worker's, which are as many as there were inputs, or
// one of a clean-up: they belong to that test.
func (b *builder) add(t *store.Test) {
	for i := len(b.f.Tests) - 1; i >= 0; i-- {
		if rec := &b.f.Tests[i]; rec.told && rec.Package == t.Package && rec.Name == t.Name {
			rec.Executions = append(rec.Executions, b.executionsOf(t.ID)...)
			rec.Messages = append(rec.Messages, t.Reasons...)
			return
		}
	}
	b.f.Tests = append(b.f.Tests, b.recorded(t))
}

type testIndex struct {
	byID   map[string]*store.Test
	byName map[string]*store.Test
	taken  map[string]bool
}

func indexTests(ts []store.Test) *testIndex {
	ix := &testIndex{map[string]*store.Test{}, map[string]*store.Test{}, map[string]bool{}}
	for i := range ts {
		ix.byID[ts[i].ID] = &ts[i]
		ix.byName[attempt(ts[i].Package, ts[i].Name, ts[i].Iteration)] = &ts[i]
	}
	return ix
}

func attempt(pkg, name string, iteration int) string {
	return fmt.Sprintf("%s\x00%s\x00%d", pkg, name, iteration)
}

func (ix *testIndex) take(it *store.Item) *store.Test {
	t := ix.byID[it.TestID]
	if t == nil && it.TestID == "" {
		t = ix.byName[attempt(it.Package, it.Test, it.Iteration)]
	}
	if t != nil {
		ix.taken[t.ID] = true
	}
	return t
}

func (b *builder) test(it *store.Item, t *store.Test) TestRecord {
	rec := TestRecord{told: true, cut: it.Action == "" || it.Crashed, Package: it.Package, Name: it.Test, Iteration: it.Iteration, Outcome: b.outcome(it.Action),
		ElapsedSeconds: it.Elapsed.Seconds(), TestID: it.TestID, Reason: it.Reason, Output: it.Output, Cached: it.Cached}
	if t != nil {
		rec.TestID, rec.Suite, rec.Messages = t.ID, t.Suite, t.Reasons
		if line := loggedFirst(it, t.Reasons); line != "" {
			rec.Reason = line
		}
		if rec.Outcome == store.TestInterrupted && t.Status == store.TestFailed {
			rec.Outcome, rec.Reason = store.TestFailed, failedOpen(it, t.Reasons)
		}
	}
	rec.Executions = b.executionsOf(rec.TestID)
	return rec
}

// logged is a line of t.Error and its like.
var logged = regexp.MustCompile(`^ *[^ :]+\.go:[0-9]+: `)

// loggedFirst is where the test logged the first thing that m3 found wrong. The reason of go test's output is what was logged last, which with
// several failures is a later one, or a remark.
func loggedFirst(it *store.Item, reasons []string) string {
	if it.Action != "fail" || len(reasons) == 0 || !logged.MatchString(it.Reason) {
		return ""
	}
	return loggedLine(it, reasons[0])
}

// loggedLine is where the test logged a message of m3's; empty when it did not.
func loggedLine(it *store.Item, message string) string {
	first := firstLine(message)
	for line := range strings.Lines(it.Output) {
		if logged.MatchString(line) && strings.Contains(line, first) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// failedOpen is why a test failed that had not ended when the run was stopped: what m3 found wrong, else the last that the test logged.
func failedOpen(it *store.Item, reasons []string) string {
	if len(reasons) > 0 {
		return cmp.Or(loggedLine(it, reasons[0]), firstLine(reasons[0]))
	}
	reason := it.Reason
	for line := range strings.Lines(it.Output) {
		if logged.MatchString(line) {
			reason = strings.TrimSpace(line)
		}
	}
	return reason
}

func (b *builder) recorded(t *store.Test) TestRecord {
	rec := TestRecord{Package: t.Package, Name: t.Name, Iteration: t.Iteration, Outcome: t.Status, TestID: t.ID, Suite: t.Suite,
		Messages: t.Reasons, Executions: b.executionsOf(t.ID)}
	if t.Finished != nil {
		rec.ElapsedSeconds = t.Finished.Sub(t.Started).Seconds()
	}
	if len(t.Reasons) > 0 {
		rec.Reason = firstLine(t.Reasons[0])
	}
	return rec
}

func (b *builder) executionsOf(testID string) []trace.ExecutionID {
	if ids := b.byTest[testID]; testID != "" && ids != nil {
		return ids
	}
	return []trace.ExecutionID{}
}

// outcome is what an item's action means. What never ended failed with its process, unless the run was stopped.
func (b *builder) outcome(action string) store.TestStatus {
	switch {
	case action == "pass":
		return store.TestPassed
	case action == "skip":
		return store.TestSkipped
	case action == "" && b.stopped:
		return store.TestInterrupted
	default:
		return store.TestFailed
	}
}

func (b *builder) pkg(it *store.Item) PackageRecord {
	rec := PackageRecord{Package: it.Package, ElapsedSeconds: it.Elapsed.Seconds(), Reason: it.Reason, Output: it.Output, Cached: it.Cached}
	switch {
	case it.Action == "build-fail":
		rec.Outcome = "build_failed"
	case it.Action == "skip":
		rec.Outcome = "no_tests"
	case it.Action != "pass" && b.stopped:
		rec.Outcome = "interrupted"
	default:
		rec.Outcome = string(b.outcome(it.Action))
	}
	return rec
}

// failures lists what a person has to look at: not the parents of a subtest that failed, not a package that failed only by
// its tests.
func (b *builder) failures() {
	failed, parents := map[string]bool{}, b.parents(store.TestFailed)
	for i := range b.f.Tests {
		t := &b.f.Tests[i]
		if t.Outcome != store.TestFailed {
			continue
		}
		failed[t.Package] = true
		byChild := t.Reason == subtestFailed || strings.HasPrefix(t.Reason, neverEnded) && parents[attempt(t.Package, t.Name, t.Iteration)]
		if byChild && len(t.Messages) == 0 {
			continue
		}
		b.f.Failures = append(b.f.Failures, Failure{Kind: "test", Package: t.Package, Test: t.Name, Iteration: t.Iteration,
			Seconds: t.ElapsedSeconds, Reason: t.Reason, Messages: t.Messages, Output: t.Output, Executions: t.Executions})
	}
	for i := range b.f.Packages {
		p := &b.f.Packages[i]
		kind := map[string]string{"build_failed": "build", "failed": "package"}[p.Outcome]
		if kind == "" || failed[p.Package] {
			continue
		}
		b.f.Failures = append(b.f.Failures, Failure{Kind: kind, Package: p.Package, Seconds: p.ElapsedSeconds, Reason: p.Reason,
			Output: p.Output, Executions: []trace.ExecutionID{}})
	}
}

// parents are the tests above those of an outcome (of any, when it is empty), by attempt.
func (b *builder) parents(outcome store.TestStatus) map[string]bool {
	parents := map[string]bool{}
	for i := range b.f.Tests {
		t := &b.f.Tests[i]
		if outcome != "" && t.Outcome != outcome {
			continue
		}
		for name := t.Name; strings.Contains(name, "/"); {
			name = name[:strings.LastIndexByte(name, '/')]
			parents[attempt(t.Package, name, t.Iteration)] = true
		}
	}
	return parents
}

func (b *builder) summary() {
	s := &b.f.Summary
	s.Tests, s.Executions, s.Failures = len(b.f.Tests), len(b.f.Executions), len(b.f.Failures)
	s.RequiredBlocked = len(b.f.RequiredBlocked)
	s.TestOutcomeCounts, s.FindingCounts = map[store.TestStatus]int{}, map[trace.Severity]int{}
	s.VerdictCounts, s.EffectiveVerdictCounts = map[Verdict]int{}, map[Verdict]int{}
	for i := range b.f.Tests {
		t := &b.f.Tests[i]
		s.TestOutcomeCounts[t.Outcome]++
		s.VerdictCounts[t.Verdict]++
		s.EffectiveVerdictCounts[t.EffectiveVerdict]++
	}
	for i := range b.f.Executions {
		if b.f.Executions[i].Lifecycle == "finished" {
			s.TerminalExecutions++
		}
		s.Evaluations += b.f.Executions[i].EvaluationCount
	}
	for _, c := range b.f.Findings {
		s.FindingCounts[c.Severity] += c.Count
	}
	s.SkippedTests = s.TestOutcomeCounts[store.TestSkipped]
	s.SkippedOnly = s.SkippedTests > 0 && s.Failures == 0 && !b.anyLeafRan()
	switch {
	case b.stopped:
		b.f.Limitations = append(b.f.Limitations, fmt.Sprintf("the run is %s: it holds what was there until then", s.RunStatus))
	case s.RunStatus == store.RunInterrupted:
		b.f.Limitations = append(b.f.Limitations, "a test process died before it had stored its end")
	}
	if open := s.Executions - s.TerminalExecutions; open > 0 {
		b.f.Limitations = append(b.f.Limitations, count(open, "execution")+" never ended: their traces are partial")
	}
}

// anyLeafRan looks at tests without subtests: the parent of skipped subtests passes, and did nothing.
func (b *builder) anyLeafRan() bool {
	parents := b.parents("")
	for i := range b.f.Tests {
		t := &b.f.Tests[i]
		if t.Outcome != store.TestSkipped && !parents[attempt(t.Package, t.Name, t.Iteration)] {
			return true
		}
	}
	return false
}

func (b *builder) notNull() {
	f := b.f
	f.Command, f.Suites, f.Tests = list(f.Command), list(f.Suites), list(f.Tests)
	f.Packages, f.Executions, f.Failures = list(f.Packages), list(f.Executions), list(f.Failures)
	f.Findings, f.Limitations, f.RequiredBlocked = list(f.Findings), list(f.Limitations), list(f.RequiredBlocked)
	if f.EvaluationStats == nil {
		f.EvaluationStats = map[string]eval.Values{}
	}
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
