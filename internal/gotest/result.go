package gotest

import (
	"strings"
	"time"
)

// Attr is one t.Attr of a test.
type Attr struct{ Key, Value string }

// The attributes by which m3test ties a test to what it recorded.
const (
	AttrTest      = "m3.test"      // the id of the attempt
	AttrExecution = "m3.execution" // one execution; may be repeated
	AttrSuite     = "m3.suite"
)

// Test is one attempt of one test, subtest, example, fuzz test or benchmark.
type Test struct {
	Package   string
	Name      string // as go test prints it, subtests with their slashes
	Iteration int    // from 1; the second and later ones come from -count or -cpu
	// Action is pass, fail, skip or bench; empty while it runs, and for ever when it never ended.
	Action  string
	Elapsed time.Duration
	// Output is what it printed, go test's own framing lines included. It is dropped when the test passed.
	Output    Output
	Attrs     []Attr
	Artifacts []string // directories of -artifacts
	// Reason says in one line why it failed, was skipped, or never ended.
	Reason string

	began  time.Time
	heldOK string // the last output, when it is like go's "ok" line: see Package.endSilently
}

// Attr returns the first value of an attribute, or "".
func (t *Test) Attr(key string) string {
	for _, a := range t.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Executions lists the executions that the test named.
func (t *Test) Executions() []string {
	var ids []string
	for _, a := range t.Attrs {
		if a.Key == AttrExecution {
			ids = append(ids, a.Value)
		}
	}
	return ids
}

// Failed reports whether the attempt failed or never ended.
func (t *Test) Failed() bool { return t.Action == ActionFail || t.Action == "" }

// Package is one package as go test reported it.
type Package struct {
	Path string
	// Action is pass, fail or skip (no test files), or build-fail; empty while it runs, and when it never ended.
	Action  string
	Elapsed time.Duration
	// Cached says that go test replayed an earlier run's result. Its attributes are that run's.
	Cached bool
	// FailedBuild is the build that failed, a key of [Result.Builds].
	FailedBuild string
	Tests       []*Test // in the order in which they began
	Output      Output  // what was not printed by a test
	Reason      string

	latest  map[string]*Test
	began   time.Time
	ended   bool // its tests said PASS or FAIL, so it did not die under them
	endedAt time.Time
	dump    string // what the end of the process printed, found in the words of a test that had ended
	told    bool   // by Lingering
	silent  bool
}

// Result adds up the events of one go test. It is not safe for concurrent use. The zero value is ready.
type Result struct {
	Packages []*Package // in the order in which they began
	// Builds holds the output of the builds by import path, failed or not.
	Builds map[string]*Output
	// FailedBuilds lists the builds that failed, in order.
	FailedBuilds []string
	// Plain is what stood between the events on go test's stdout.
	Plain Output

	byPath map[string]*Package
	last   time.Time // of the events
}

// Change is what an event ended: at most one test and one package.
type Change struct {
	Began *Test
	Test  *Test
	// Package is set when a package ended. Tests of it that ended by that, without an end of their own, are in Cut.
	Package *Package
	Cut     []*Test
}

// Add takes one event and says what it changed.
func (r *Result) Add(ev *Event) Change {
	switch {
	case ev.Plain:
		r.Plain.add(ev.Output)
		return Change{}
	case ev.building():
		r.addBuild(ev)
		return Change{}
	}
	if ev.Time.After(r.last) {
		r.last = ev.Time
	}
	p := r.pkg(ev.Package)
	if p.began.IsZero() {
		p.began = ev.Time
	}
	if ev.Test == "" {
		return p.add(ev)
	}
	return p.addTest(ev)
}

// Close says that no more events will come. It returns the packages that never ended, closed as far as possible: each has
// its Reason, and its running tests stay without an action.
func (r *Result) Close(reason string) []*Package {
	var open []*Package
	for _, p := range r.Packages {
		if p.Action == "" {
			p.cut(reason, r.last)
			open = append(open, p)
		}
	}
	return open
}

// Silent lists the packages whose process left with exit code 0 while a test ran. The go command (1.26) calls that a pass;
// m3 does not.
func (r *Result) Silent() []*Package {
	var ps []*Package
	for _, p := range r.Packages {
		if p.silent {
			ps = append(ps, p)
		}
	}
	return ps
}

// Lingering lists, once each, the packages whose tests ended at least d ago without the package itself ending: their process,
// or one that it left behind with its output, still runs. go test then waits without a limit when -timeout is 0.
func (r *Result) Lingering(now time.Time, d time.Duration) []*Package {
	var ps []*Package
	for _, p := range r.Packages {
		if p.Action == "" && !p.told && !p.endedAt.IsZero() && now.Sub(p.endedAt) >= d {
			p.told = true
			ps = append(ps, p)
		}
	}
	return ps
}

func (r *Result) addBuild(ev *Event) {
	if r.Builds == nil {
		r.Builds = map[string]*Output{}
	}
	out := r.Builds[ev.ImportPath]
	if out == nil {
		out = &Output{}
		r.Builds[ev.ImportPath] = out
	}
	out.add(ev.Output)
	if ev.Action == ActionBuildFail {
		r.FailedBuilds = append(r.FailedBuilds, ev.ImportPath)
	}
}

func (r *Result) pkg(path string) *Package {
	if p := r.byPath[path]; p != nil {
		return p
	}
	if r.byPath == nil {
		r.byPath = map[string]*Package{}
	}
	p := &Package{Path: path, latest: map[string]*Test{}}
	r.byPath[path] = p
	r.Packages = append(r.Packages, p)
	return p
}

func (p *Package) add(ev *Event) Change {
	switch ev.Action {
	case ActionOutput:
		if p.output(ev.Output); p.ended && p.endedAt.IsZero() {
			p.endedAt = ev.Time
		}
	case ActionPass, ActionFail, ActionSkip:
		return p.end(ev)
	}
	return Change{}
}

func (p *Package) output(s string) {
	switch {
	case s == "PASS\n" || s == "FAIL\n":
		p.ended = true
		return
	case strings.HasPrefix(s, "ok  \t"):
		p.Cached = p.Cached || strings.Contains(s, "\t(cached)")
		return
	case strings.HasPrefix(s, "FAIL\t"+p.Path):
		return
	}
	p.Output.add(s)
}

func (p *Package) end(ev *Event) Change {
	p.Action, p.Elapsed, p.FailedBuild = ev.Action, seconds(ev.Elapsed), ev.FailedBuild
	ch := Change{Package: p}
	if p.FailedBuild != "" {
		p.Action = ActionBuildFail
	}
	for _, t := range p.Tests {
		if t.Action != "" {
			continue
		}
		if (p.Action == ActionPass || p.ended) && strings.HasPrefix(t.Name, "Benchmark") {
			t.Action = ActionBench // a benchmark that is content never says so
		}
		ch.Cut = append(ch.Cut, t)
	}
	p.giveDump(ch.Cut)
	if p.Action != ActionPass {
		p.Reason = p.reason()
		p.dropUsage()
	}
	for _, t := range ch.Cut {
		if t.Action == "" {
			t.cut(p, ev.Time)
		}
	}
	return ch
}

// giveDump puts what the end of the process printed where it belongs: to the last of the tests that -timeout says were running, else to the package.
func (p *Package) giveDump(running []*Test) {
	to := &p.Output
	for _, t := range running {
		if strings.Contains(p.dump, "\t\t"+t.Name+" (") {
			to = &t.Output
		}
	}
	to.add(p.dump)
	p.dump = ""
}

// cut closes a package whose end never came: at is the last that was heard.
func (p *Package) cut(reason string, at time.Time) {
	p.Reason, p.Elapsed = reason, since(p.began, at)
	for _, t := range p.Tests {
		if t.Action == "" {
			t.cut(p, at)
		}
	}
}

// cut says why a test never ended, and how long it ran.
func (t *Test) cut(p *Package, at time.Time) {
	t.Reason, t.Elapsed = cutReason(t, p), since(t.began, at)
}

// since is how long something went on; 0 when that is not known.
func since(began, at time.Time) time.Duration {
	if began.IsZero() || at.Before(began) {
		return 0
	}
	return at.Sub(began)
}

// endSilently takes the pass that go test (1.26, golang/go#29062) gives to a test when its process leaves with code 0 in the
// middle of it: the "ok" line stands in the test's output, and the package itself gets no end at all.
func (p *Package) endSilently(ev *Event) Change {
	p.silent = true
	p.Action, p.Elapsed = ActionFail, seconds(ev.Elapsed)
	p.Reason = "the test process left with exit code 0 while a test ran; go test calls that ok"
	ch := Change{Package: p}
	for _, t := range p.Tests {
		if t.Action == "" {
			t.cut(p, ev.Time)
			ch.Cut = append(ch.Cut, t)
		}
	}
	return ch
}

func (p *Package) addTest(ev *Event) Change {
	if ev.Action == ActionRun {
		t := p.begin(ev.Test, ev.Time)
		return Change{Began: t}
	}
	t := p.latest[ev.Test]
	if t == nil {
		t = p.begin(ev.Test, ev.Time)
	}
	switch ev.Action {
	case ActionOutput:
		t.output(ev.Output, p.Path)
	case ActionAttr:
		t.Attrs = append(t.Attrs, Attr{ev.Key, ev.Value})
	case ActionArtifacts:
		t.Artifacts = append(t.Artifacts, ev.Path)
	case ActionPass, ActionFail, ActionSkip, ActionBench:
		if ev.Action == ActionPass && t.heldOK != "" {
			return p.endSilently(ev)
		}
		if dump := t.takeForeign(); dump != "" {
			p.dump = dump
		}
		t.end(ev)
		if t.Action == ActionFail && t.Reason == "" && p.failedUnder(t) {
			t.Reason = SubtestFailed
		}
		return Change{Test: t}
	}
	return Change{}
}

// output keeps a piece of output, and holds back what may be go's own "ok" line.
func (t *Test) output(s, pkg string) {
	t.Output.add(t.heldOK)
	if t.heldOK = ""; strings.HasPrefix(s, "ok  \t"+pkg+"\t") {
		t.heldOK = s
		return
	}
	t.Output.add(s)
}

// SubtestFailed is the reason of a test that failed only because one of its subtests did.
const SubtestFailed = "a subtest failed"

func (p *Package) failedUnder(t *Test) bool {
	for _, sub := range p.Tests {
		if sub.Iteration == t.Iteration && sub.Failed() && strings.HasPrefix(sub.Name, t.Name+"/") {
			return true
		}
	}
	return false
}

func (p *Package) begin(name string, at time.Time) *Test {
	t := &Test{Package: p.Path, Name: name, Iteration: 1, began: at}
	if before := p.latest[name]; before != nil {
		t.Iteration = before.Iteration + 1
	}
	p.latest[name] = t
	p.Tests = append(p.Tests, t)
	return t
}

func (t *Test) end(ev *Event) {
	t.Action, t.Elapsed = ev.Action, seconds(ev.Elapsed)
	t.output("", t.Package)
	switch t.Action {
	case ActionPass, ActionBench:
		t.Output.clear()
	case ActionSkip, ActionFail:
		t.Reason = t.reason()
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
