package expect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// ErrorOption says more about the error that [Expectation.Error] wants.
type ErrorOption struct{ apply func(*errorSpec) }

type errorSpec struct {
	args       arguments
	misuse     string
	conditions []func(s *subject, f *failure) outcome
	goErrors   bool // some condition needs a Go error
}

// ErrorCode wants the code: that of an error of m3 (transport_error, timeout, …), tool_error for a tool's own, or the number of a JSON-RPC error.
func ErrorCode(code string) ErrorOption {
	return ErrorOption{func(spec *errorSpec) {
		spec.args.add("code", code)
		if code == "" {
			spec.misuse = "ErrorCode: the code is empty"
		}
		spec.conditions = append(spec.conditions, func(s *subject, f *failure) outcome {
			for _, c := range f.codes {
				if c == code {
					return held
				}
			}
			if len(f.codes) == 0 {
				return cannotTell("the error's code is not in the evidence: " + s.shown(f.message))
			}
			return differs("code (-want +got):\n- %s\n+ %s: %s", code, strings.Join(f.codes, ", "), s.shown(f.message))
		})
	}}
}

// ErrorContaining wants an error in whose text part occurs.
func ErrorContaining(part string) ErrorOption {
	return ErrorOption{func(spec *errorSpec) {
		spec.args.add("containing", part)
		spec.conditions = append(spec.conditions, func(s *subject, f *failure) outcome {
			switch {
			case strings.Contains(f.message, part):
				return held
			case f.hidden:
				return cannotTell("the error's text is not all in the evidence (redacted): " + s.shown(f.message))
			}
			return differs("error (-want +got):\n- containing %s\n+ %s", s.quoted(part), s.quoted(f.message))
		})
	}}
}

// ErrorIs wants an error for which errors.Is(err, target) is true. Only an error itself can be asked so.
func ErrorIs(target error) ErrorOption {
	return ErrorOption{func(spec *errorSpec) {
		spec.goErrors = true
		if target == nil {
			spec.misuse = "ErrorIs: the target is nil"
			return
		}
		spec.args.add("is", target.Error())
		spec.conditions = append(spec.conditions, func(s *subject, f *failure) outcome {
			if errors.Is(f.err, target) {
				return held
			}
			return differs("error (-want +got):\n- %s (errors.Is)\n+ %s", s.quoted(target.Error()), s.quoted(f.message))
		})
	}}
}

// failure is an error as one of the subjects has it.
type failure struct {
	codes   []string
	message string
	hidden  bool // a part of the message was redacted
	err     error
}

func (f *failure) text() string {
	if len(f.codes) == 0 {
		return f.message
	}
	return f.codes[0] + ": " + f.message
}

// Error expects that the subject is, or ended with, an error that all options hold for: an error value, a tool's result with IsError, or an execution
// that failed. A nil error is none. The errors of single calls are for [Expectation.ToolCall] with [Failed].
func (e *Expectation) Error(opts ...ErrorOption) bool {
	e.t.Helper()
	spec := &errorSpec{}
	for _, opt := range opts {
		if opt.apply == nil {
			spec.misuse = "Error: an option is empty"
			continue
		}
		opt.apply(spec)
	}
	c := &check{matcher: "error", title: "error", args: spec.args, misuse: spec.misuse}
	return e.judge(c, func(s *subject) outcome {
		if spec.goErrors && s.err == nil {
			return misused("ErrorIs: the subject is no Go error: use ErrorCode or ErrorContaining")
		}
		f, o := s.failure()
		if f == nil {
			return o
		}
		result := s.holds("the error is %s", s.shown(f.text()))
		for _, condition := range spec.conditions {
			if o := condition(s, f); o.verdict == unmet || o.verdict != met && result.verdict == met {
				result = o
			}
		}
		return result
	})
}

func (s *subject) failure() (*failure, outcome) {
	switch {
	case s.err != nil && *s.err == nil:
		return nil, differs("there is no error")
	case s.err != nil:
		return failureOfError(*s.err), held
	case s.answer != nil && s.answer.isTool:
		if !s.answer.isError {
			return nil, differs("the tool reported no error; its text is %s", s.quoted(*s.answer.text))
		}
		return &failure{codes: []string{"tool_error"}, message: *s.answer.text}, held
	case s.view == nil:
		return nil, misused("a %s has no error", s.kind)
	case s.turn != "" || s.view.Outcome() == "":
		return nil, s.openFailure()
	}
	if f := failureOf(s.view); f != nil {
		return f, held
	}
	return nil, differs("the execution ended without an error (%s)", s.view.Outcome())
}

func (s *subject) openFailure() outcome {
	if s.turn != "" {
		return misused("a turn has no error of its own in the evidence: ask Outcome")
	}
	return cannotTell("the execution is still open: how it ends is not known yet")
}

func failureOfError(err error) *failure {
	f := &failure{message: err.Error(), err: err}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		f.codes = append(f.codes, coded.Code())
	}
	var protocol *m3.ProtocolError
	if errors.As(err, &protocol) {
		if n, ok := protocol.RPCCode(); ok {
			f.codes = append(f.codes, fmt.Sprint(n))
		}
	}
	return f
}

// failureOf reads what ended an execution; nil when nothing did.
func failureOf(view *trace.View) *failure {
	for _, l := range view.Lifecycle().All() {
		if l.Event != trace.KindExecutionFinished || l.Error == nil {
			continue
		}
		var told struct{ Code, Message string }
		if json.Unmarshal(l.Error, &told) != nil {
			return &failure{message: string(l.Error)}
		}
		f := &failure{message: told.Message, hidden: strings.Contains(told.Message, "[REDACTED]")}
		if told.Code != "" {
			f.codes = []string{told.Code}
		}
		return f
	}
	switch o := view.Outcome(); o {
	case trace.OutcomeCompleted, "":
		return nil
	default:
		return &failure{message: "the execution ended " + string(o)}
	}
}
