package expect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// Outcome expects that the execution ended in one of the ways; without any, that it ended at all. Of a turn it is the turn's own.
func (e *Expectation) Outcome(accepted ...trace.Outcome) bool {
	e.t.Helper()
	c := &check{matcher: "outcome", title: "outcome"}
	for _, o := range accepted {
		if !slices.Contains(outcomes, o) {
			c.misuse = fmt.Sprintf("Outcome(%q): there is no such outcome; there are: %s", string(o), joined(outcomes))
		}
	}
	c.args.add("outcome", append([]trace.Outcome{}, accepted...))
	return e.onOutcome(c, accepted)
}

// Completed expects that the execution, or the turn, came to its end without failing. That is no verdict about what was done in it.
func (e *Expectation) Completed() bool {
	e.t.Helper()
	return e.onOutcome(&check{matcher: "completed", title: "completed"}, []trace.Outcome{trace.OutcomeCompleted})
}

var outcomes = []trace.Outcome{trace.OutcomeCompleted, trace.OutcomeFailed, trace.OutcomeTimedOut, trace.OutcomeCancelled, trace.OutcomeInterrupted}

func joined[S ~string](words []S) string {
	var text []string
	for _, w := range words {
		text = append(text, string(w))
	}
	return strings.Join(text, ", ")
}

func (e *Expectation) onOutcome(c *check, accepted []trace.Outcome) bool {
	e.t.Helper()
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView(strings.ToUpper(c.title[:1]) + c.title[1:])
		if view == nil {
			return o
		}
		got := s.outcome(view)
		switch {
		case got == "" && s.turn != "":
			return cannotTell("how the turn ended is not in the evidence")
		case got == "":
			return cannotTell("the execution is still open: it has no outcome yet")
		case len(accepted) == 0 || slices.Contains(accepted, got):
			return s.holds("the outcome is %s", got)
		}
		return differs("outcome (-want +got):\n- %s\n+ %s%s", strings.Join(strings.Split(joined(accepted), ", "), " or "), got, s.ended(view))
	})
}

// outcome is the view's, or that of the turn that it shows.
func (s *subject) outcome(view *trace.View) trace.Outcome {
	if s.turn == "" {
		return view.Outcome()
	}
	var last trace.Outcome
	for _, l := range view.Lifecycle().All() {
		if l.Outcome != "" {
			last = trace.Outcome(l.Outcome)
		}
	}
	return last
}

// ended says what ended the execution, when the evidence does.
func (s *subject) ended(view *trace.View) string {
	if f := failureOf(view); f != nil {
		return ": " + s.shown(f.text())
	}
	return ""
}

// Lifecycle expects that the steps happened, in this order; others may stand between them. They are those of the execution, its sessions and
// turns: execution.created, turn.created, turn.state_changed, cleanup.finished, execution.finished and so on.
func (e *Expectation) Lifecycle(steps ...trace.Kind) bool {
	e.t.Helper()
	c := &check{matcher: "lifecycle", title: "lifecycle"}
	if len(steps) == 0 {
		c.misuse = "Lifecycle: no step is named"
	}
	for _, k := range steps {
		if !slices.Contains(lifecycle, k) {
			c.misuse = fmt.Sprintf("Lifecycle(%q): that is no step; the steps are: %s", string(k), joined(lifecycle))
		}
	}
	c.args.add("steps", append([]trace.Kind{}, steps...))
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Lifecycle")
		if view == nil {
			return o
		}
		got := []trace.Kind{}
		for _, l := range view.Lifecycle().All() {
			got = append(got, l.Event)
		}
		lost := lost(view)
		switch at := firstMissing(steps, got); {
		case at < 0:
			return s.holds("the steps were: %s", joined(got))
		case lost != "":
			return cannotTell("there is no " + string(steps[at]) + " in its place, but " + lost)
		default:
			return differs("lifecycle (-want +got):\n- %s\n+ %s\nthere is no %s in its place", joined(steps), cut(joined(got), maxValue, "bytes more"), steps[at])
		}
	})
}

var lifecycle = []trace.Kind{trace.KindExecutionCreated, trace.KindExecutionStateChanged, trace.KindExecutionFinished, trace.KindHarnessSelection,
	trace.KindHarnessResolved, trace.KindSessionCreated, trace.KindSessionStateChanged, trace.KindTurnCreated, trace.KindTurnStateChanged,
	trace.KindCleanupStarted, trace.KindCleanupFinished}

// firstMissing finds the first of the steps that does not follow the ones before it; -1 when all do.
func firstMissing(steps, got []trace.Kind) int {
	i := 0
	for _, k := range got {
		if i < len(steps) && steps[i] == k {
			i++
		}
	}
	if i == len(steps) {
		return -1
	}
	return i
}

// Duration expects that the execution took as long as the bound says, from its creation to its end; of a turn, from its first entry to
// its last. Of a filtered view it is the whole execution's.
func (e *Expectation) Duration(b Bound) bool {
	e.t.Helper()
	c := &check{matcher: "duration", title: "duration", misuse: b.problem("Duration")}
	c.args.add("duration", b.String())
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Duration")
		if view == nil {
			return o
		}
		d, o := s.duration(view)
		switch {
		case o.verdict != met:
			return o
		case b.admits(d):
			return s.holds("it took %s", d)
		default:
			return differs("duration (-want +got):\n- %s\n+ %s", b, d)
		}
	})
}

func (s *subject) duration(view *trace.View) (time.Duration, outcome) {
	if s.turn == "" {
		t := view.Summary().Timing
		if t.FinishedAt == nil {
			return 0, cannotTell("the execution is still open: how long it takes is not known yet")
		}
		return t.Duration(), held
	}
	var first, last time.Duration
	for i, entry := range view.Timeline().All() {
		t := entry.Common().Timing
		if i == 0 || t.StartOffset < first {
			first = t.StartOffset
		}
		last = max(last, t.EndOffset)
	}
	if view.Timeline().Len() == 0 {
		return 0, cannotTell("there is nothing of the turn in the evidence")
	}
	return last - first, held
}
