package expect

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// verdict is what a matcher found.
type verdict int

const (
	met     verdict = iota
	unmet           // the evidence is against it
	unknown         // the evidence cannot tell
)

// outcome is a verdict and, unless it is met, why.
type outcome struct {
	verdict verdict
	reason  string
}

var held = outcome{verdict: met}

func differs(format string, args ...any) outcome { return outcome{unmet, fmt.Sprintf(format, args...)} }

func cannotTell(reason string) outcome { return outcome{unknown, reason} }

// observed returns the value of an observation, or the outcome of not having it. Only a value that the source did not send counts
// against an expectation; whatever was there and is not to be seen cannot be judged.
func observed[V any](o trace.Observation[V], what string) (V, outcome) {
	var none V
	switch o.State {
	case trace.Observed:
		return o.Value, held
	case trace.NotEmitted:
		return none, differs("there is no %s", what)
	default:
		why := o.State.String()
		if o.Reason != "" {
			why += ", " + string(o.Reason)
		}
		return none, cannotTell(fmt.Sprintf("the %s is not in the evidence (%s)", what, why))
	}
}

// report tells the test, and whoever records its checks. It returns whether the expectation held.
func (e *Expectation) report(check string, o outcome) bool {
	e.t.Helper()
	if o.verdict == met {
		return true
	}
	text := e.message(check, o)
	if ob := observerOf(e.t); ob != nil && ob.Failed != nil {
		ob.Failed(Failure{Check: check, CannotTell: o.verdict == unknown, Execution: e.subject.execution, Message: text})
	}
	e.t.Errorf("%s", text)
	if e.stop {
		e.t.FailNow()
	}
	return false
}

func (e *Expectation) message(check string, o outcome) string {
	word := "did not hold"
	if o.verdict == unknown {
		word = "cannot tell"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "expect: %s: %s\n%s", check, word, indent(o.reason))
	if id := e.subject.execution; id != "" {
		b.WriteString("\n    execution " + string(id) + e.where(id))
	}
	return e.subject.redact(b.String())
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

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// The bounds of what a failure message shows (spec/behaviour.md 8).
const (
	maxValue = 2000 // bytes of one value
	maxDiff  = 4000 // bytes of one diff
)

// shown is a value as a message shows it: redacted, then cut, so that no half of a secret is left at the cut.
func (s *subject) shown(text string) string {
	return cut(s.redact(text), maxValue, "bytes more")
}

// cut shortens text to most bytes, at the end of a rune, and says what is missing.
func cut(text string, most int, unit string) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d %s)", text[:end], len(text)-end, unit)
}
