package expect

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// verdict is what a matcher found.
type verdict int

const (
	met      verdict = iota
	unmet            // the evidence is against it
	unknown          // the evidence cannot tell
	notFinal         // the execution is open
	wrongUse         // the matcher cannot be asked so
)

// outcome is a verdict and why. That of met is needed when the matcher is turned over, and only then.
type outcome struct {
	verdict verdict
	reason  string
}

var held = outcome{verdict: met}

func differs(format string, args ...any) outcome { return outcome{unmet, fmt.Sprintf(format, args...)} }

func cannotTell(reason string) outcome { return outcome{unknown, reason} }

func misused(format string, args ...any) outcome {
	return outcome{wrongUse, fmt.Sprintf(format, args...)}
}

// holds is met, with what is so when somebody will ask.
func (s *subject) holds(format string, args ...any) outcome {
	if !s.negated {
		return held
	}
	return outcome{met, fmt.Sprintf(format, args...)}
}

// turned is the outcome of the opposite.
func (o outcome) turned() outcome {
	switch o.verdict {
	case met:
		if o.reason == "" {
			o.reason = "it is so"
		}
		o.verdict = unmet
	case unmet:
		o.verdict = met
	}
	return o
}

// status is the outcome as a record has it.
func (v verdict) status() eval.Status {
	switch v {
	case met:
		return eval.Passed
	case unmet:
		return eval.Failed
	case unknown:
		return eval.Inconclusive
	default:
		return eval.Error
	}
}

func (v verdict) String() string {
	switch v {
	case met:
		return "held"
	case unmet:
		return "did not hold"
	case unknown:
		return "cannot tell"
	case notFinal:
		return "not finalized"
	default:
		return "wrong use"
	}
}

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
		return none, cannotTell(fmt.Sprintf("the evidence does not show the %s (%s)", what, stateText(o.State, o.Reason)))
	}
}

// stateText names a state, and its reason where that says more.
func stateText(s trace.State, r trace.Reason) string {
	if r == "" {
		return s.String()
	}
	return s.String() + ", " + string(r)
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// The bounds of what a failure message shows (spec/behaviour.md 8).
const (
	maxValue  = 2000  // bytes of one value
	maxDiff   = 4000  // bytes of the diffs of one check
	maxReason = 12000 // bytes of one message
)

// shown is a value as a message shows it: redacted, then cut, so that no half of a secret is left at the cut.
func (s *subject) shown(text string) string {
	if s.silent {
		return ""
	}
	return cut(s.redact(text), maxValue, "bytes more")
}

// quoted is a text in quotes as a message shows it.
func (s *subject) quoted(text string) string {
	if s.silent {
		return ""
	}
	return s.shown(quoted(text))
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
