package gotest

import (
	"strings"

	"github.com/m3-go/m3/store"
)

// What a run record keeps of one test or package, in bytes.
const (
	maxItemOutput = 20_000
	maxItemReason = 500
)

// Items is what a change ended: tests, then the package, for those who watch. redact is applied to every text that came out of a test or a
// build, names included; nil leaves them alone.
func (r *Result) Items(runID string, ch Change, redact func(string) string) []store.Item {
	in := itemizer{runID, redact}
	var items []store.Item
	if ch.Test != nil {
		items = append(items, in.test(ch.Test))
	}
	for _, t := range ch.Cut {
		items = append(items, in.test(t))
	}
	if ch.Package != nil {
		items = append(items, in.pkg(r, ch.Package))
	}
	return items
}

// Records are what a run keeps of a package that has ended: its tests in the order in which they began, then itself. They are made when its end
// is known, because a test may tell late that the name of an earlier one is a secret.
func (r *Result) Records(runID string, p *Package, redact func(string) string) []store.Item {
	in := itemizer{runID, redact}
	items := make([]store.Item, 0, len(p.Tests)+1)
	for _, t := range p.Tests {
		it := in.test(t)
		it.Cached = p.Cached
		items = append(items, it)
	}
	return append(items, in.pkg(r, p))
}

// OpenItems are the items of what never ended, of packages as [Result.Close] returned them, for those who watch.
func (r *Result) OpenItems(runID string, open []*Package, redact func(string) string) []store.Item {
	in := itemizer{runID, redact}
	var items []store.Item
	for _, p := range open {
		for _, t := range p.Tests {
			if t.Action == "" {
				items = append(items, in.test(t))
			}
		}
		items = append(items, in.pkg(r, p))
	}
	return items
}

type itemizer struct {
	runID  string
	redact func(string) string
}

func (in itemizer) clean(s string) string {
	if in.redact == nil || s == "" {
		return s
	}
	return in.redact(s)
}

func (in itemizer) test(t *Test) store.Item {
	it := store.Item{RunID: in.runID, Package: t.Package, Test: in.clean(t.Name), Iteration: t.Iteration, Action: t.Action,
		Elapsed: t.Elapsed, TestID: t.Attr(AttrTest), Reason: in.reason(t.Reason)}
	if it.Action == ActionBench {
		it.Action = ActionPass
	}
	if t.Failed() {
		it.Crashed = crashOf(t.Output.String()) != ""
		it.Output = in.output(WithoutFraming(t.Output.String()))
	}
	return it
}

func (in itemizer) pkg(r *Result, p *Package) store.Item {
	it := store.Item{RunID: in.runID, Package: p.Path, Iteration: 1, Action: p.Action, Elapsed: p.Elapsed, Cached: p.Cached,
		Reason: in.reason(p.Reason)}
	switch p.Action {
	case ActionBuildFail:
		if out := r.Builds[p.FailedBuild]; out != nil {
			it.Output = in.output(out.String())
			it.Reason = in.reason("does not build: " + buildError(out.String()))
		}
	case ActionFail, "":
		it.Output = in.output(p.Output.String())
	}
	return it
}

// output redacts before it cuts, so that no half of a secret is left at the seam.
func (in itemizer) output(s string) string { return Bound(in.clean(s), maxItemOutput) }

func (in itemizer) reason(s string) string {
	if s = in.clean(s); len(s) > maxItemReason {
		s = strings.ToValidUTF8(s[:maxItemReason], "") + "…"
	}
	return s
}

// buildError is the first line of a build's output that is not its heading.
func buildError(out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
			return line
		}
	}
	return "go test does not say why"
}
