package expect

import (
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// check is one call of a matcher.
type check struct {
	matcher  string // the word of records: tool_call
	title    string // the words of messages: tool call "quote"
	selector string // the tool, or whatever else it was pointed at
	turn     trace.TurnID
	args     arguments
	misuse   string // what is wrong with the arguments
}

// judge asks f about the subject, unless there is nothing to ask, and reports what it says.
func (e *Expectation) judge(c *check, f func(s *subject) outcome) bool {
	e.t.Helper()
	began := time.Now()
	s := e.subject // a copy: it is changed while it is asked
	s.negated = e.negated
	var o outcome
	switch {
	case c.misuse != "":
		o = misused("%s", c.misuse)
	case s.open:
		o = outcome{notFinal, s.problem}
	case s.problem != "":
		o = misused("%s", s.problem)
	case s.err != nil && *s.err == nil && c.matcher != "error":
		o = misused("<nil> is no subject")
	default:
		o = f(&s)
	}
	if e.negated {
		c.matcher, c.title = "not_"+c.matcher, "not "+c.title
		o = o.turned()
	}
	if e.attempt != nil {
		return e.attempt.note(c, o)
	}
	return e.report(c, o, began)
}

// report tells the test, and whoever records its checks. It returns whether the expectation held.
func (e *Expectation) report(c *check, o outcome, began time.Time) bool {
	e.t.Helper()
	text := ""
	if o.verdict != met {
		text = e.message(c, o)
	}
	e.record(c, o, text, began)
	if o.verdict == met {
		if g, ok := e.t.(*group); ok {
			g.note()
		}
		return true
	}
	e.t.Errorf("%s", text)
	if e.stop {
		e.t.FailNow()
	}
	return false
}

func (e *Expectation) message(c *check, o outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "expect: %s: %s\n%s", c.title, o.verdict, indent(o.reason))
	if e.subject.snapshot() {
		b.WriteString("\n    of a snapshot: the execution was still open, and this is only a part of it")
	}
	if id := e.subject.execution; id != "" {
		b.WriteString("\n    execution " + string(id) + e.where(id))
	}
	return cut(e.subject.redact(b.String()), maxReason, "bytes more: message truncated")
}

// where says how to open an execution's trace.
func (e *Expectation) where(id trace.ExecutionID) string {
	ob := observerOf(e.t)
	if ob == nil || ob.Command == nil {
		return ", if it is recorded: m3 show " + string(id)
	}
	if command := ob.Command(id); command != "" {
		return ", open it with: " + command
	}
	return ", not recorded: m3 test, or M3_RESULTS_DB=PATH, keeps its trace"
}
