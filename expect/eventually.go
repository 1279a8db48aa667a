package expect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// live is a subject that is still changing: an open client, for example.
type live interface {
	// Snapshot is the view of what there is so far.
	Snapshot() (trace.View, error)
	// Changed is closed when there is more than before the call.
	Changed() <-chan struct{}
}

// Eventually expects that what checks asks holds at some time before ctx ends. The subject is an open [*m3.Client], or anything else with a Snapshot and
// a Changed like its: checks is tried on a snapshot, and again whenever more has been recorded, until everything that it asks holds, or the
// execution has ended. It waits for events, not for time. Any other subject does not change, and is tried once.
//
//	expect.Eventually(ctx, t, client, func(e *expect.Expectation) { e.Finding("stdout-noise") })
//
// The matchers within checks report and record nothing: Eventually is one check. It returns whether it held.
func Eventually(ctx context.Context, t T, subject any, checks func(e *Expectation)) bool {
	t.Helper()
	began := time.Now()
	e := &Expectation{t: t, subject: resolve(t, subject)}
	c := &check{matcher: "eventually", title: "eventually"}
	l, changing := subject.(live)
	if isNil(subject) {
		changing = false
	}
	switch {
	case ctx == nil || checks == nil:
		return e.report(c, misused("Eventually: the context or the function is nil"), began)
	case !changing:
		a := e.try(checks)
		return a.report(e, c, began, "")
	}
	return e.wait(ctx, c, l, checks, began)
}

// wait tries until it holds, or nothing more can come.
func (e *Expectation) wait(ctx context.Context, c *check, l live, checks func(*Expectation), began time.Time) bool {
	e.t.Helper()
	for tries := 1; ; tries++ {
		changed, over := l.Changed(), ctx.Err()
		view, err := l.Snapshot()
		if err != nil {
			return e.report(c, misused("there is no snapshot: %s", err), began)
		}
		e.subject.look(view)
		a := e.try(checks)
		switch {
		case a.settled():
			return a.report(e, c, began, "")
		case !e.subject.snapshot():
			return a.report(e, c, began, fmt.Sprintf("and the execution has ended, after %s", triesText(tries)))
		case over != nil:
			return a.report(e, c, began, fmt.Sprintf("within %s (%v), after %s", round(time.Since(began)), context.Cause(ctx), triesText(tries)))
		}
		select {
		case <-changed:
		case <-ctx.Done(): // one more try: what came at the last moment counts
		}
	}
}

// look makes the view the subject.
func (s *subject) look(v trace.View) {
	s.problem, s.open = "", false
	s.setView(v)
}

// try runs the checks once.
func (e *Expectation) try(checks func(*Expectation)) *attempt {
	n := *e
	n.attempt = &attempt{}
	checks(&n)
	return n.attempt
}

// attempt collects what the matchers of one try found.
type attempt struct {
	checks []*check
	worst  outcome
	failed []string
}

func (a *attempt) note(c *check, o outcome) bool {
	a.checks = append(a.checks, c)
	if o.verdict == met {
		return true
	}
	a.failed = append(a.failed, fmt.Sprintf("%s: %s\n%s", c.title, o.verdict, indent(o.reason)))
	a.worst.verdict = max(a.worst.verdict, o.verdict)
	return false
}

// settled reports whether another try would find the same: it held, or it was asked wrongly.
func (a *attempt) settled() bool {
	return len(a.failed) == 0 || a.worst.verdict == wrongUse
}

// report tells what the last try found.
func (a *attempt) report(e *Expectation, c *check, began time.Time, when string) bool {
	e.t.Helper()
	for _, inner := range a.checks {
		c.args.add(inner.matcher, inner.args.json(&e.subject))
		if c.selector == "" {
			c.selector = inner.selector
		}
	}
	if len(a.checks) == 0 {
		return e.report(c, misused("Eventually: the function asks nothing of the expectation that it is given"), began)
	}
	o := a.worst
	o.reason = strings.TrimSpace(when + "\n" + strings.Join(a.failed, "\n"))
	return e.report(c, o, began)
}

func triesText(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}
