package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// maxSteps bounds a script.
const maxSteps = 10_000

// ScriptError is why a script is none. It matches trace.ErrValidation (m3.ErrValidation).
type ScriptError struct {
	// Step is the number of the step from 1, 0 for the script as a whole.
	Step int
	// Path is where in the step's JSON form the trouble is: "calls[1].args"; empty for the step as a whole.
	Path string
	// Message is one clear sentence.
	Message string
}

func (e *ScriptError) Error() string {
	where := "script"
	if e.Step > 0 {
		where = fmt.Sprintf("step %d", e.Step)
	}
	if e.Path != "" {
		where += ", " + e.Path
	}
	return "model: " + where + ": " + e.Message
}

// Is reports whether target is trace.ErrValidation.
func (e *ScriptError) Is(target error) bool { return target == trace.ErrValidation }

// Validate reports the first fault of the script as a *[ScriptError], nil when there is none. [Scripted] providers check it before they open.
func (s Script) Validate() error {
	if len(s) > maxSteps {
		return &ScriptError{Message: fmt.Sprintf("there are %d steps, and %d is the limit", len(s), maxSteps)}
	}
	endless := map[string]int{}
	for i, step := range s {
		if path, msg := step.invalid(); msg != "" {
			return &ScriptError{Step: i + 1, Path: path, Message: msg}
		}
		role := step.roleOrTurn()
		if n, ok := endless[role]; ok {
			return &ScriptError{Step: i + 1, Message: fmt.Sprintf("it is never reached, because step %d answers for ever", n)}
		}
		if step.times == forever {
			endless[role] = i + 1
		}
	}
	return nil
}

func (s Step) roleOrTurn() string {
	if s.role == "" {
		return RoleTurn
	}
	return s.role
}

// invalid says what is wrong with a step and where.
func (s Step) invalid() (path, msg string) {
	for _, check := range []func() (string, string){s.invalidKind, s.invalidNumbers, s.invalidFault, s.invalidCalls, s.invalidWhen} {
		if path, msg := check(); msg != "" {
			return path, msg
		}
	}
	return "", ""
}

func (s Step) invalidKind() (path, msg string) {
	speaks := s.say != nil || len(s.calls) > 0
	switch {
	case !slices.Contains(scriptedRoles, s.roleOrTurn()):
		return "for", fmt.Sprintf("there is no role %q; the roles are %s", s.role, strings.Join(scriptedRoles, ", "))
	case s.empty && (speaks || s.think != "" || s.hidden != "" || s.fault != nil):
		return "empty", "an empty answer has nothing else in it"
	case !s.empty && !speaks && s.fault == nil && (s.think != "" || s.hidden != ""):
		return "think", "reasoning alone is no answer: add say, call or a fault"
	case !s.empty && !speaks && s.fault == nil:
		return "", "it answers nothing: it needs say, call, calls, empty or fault"
	case s.stop != "" && s.stop != MaxTokens && s.stop != Refusal:
		return "stop", fmt.Sprintf("there is no reason %q; use max_tokens or refusal, or leave it out", string(s.stop))
	}
	return "", ""
}

func (s Step) invalidNumbers() (path, msg string) {
	switch {
	case s.times < forever:
		return "times", "a step answers once at least"
	case s.after < 0:
		return "after", "a wait is not negative"
	case s.pace < 0:
		return "pace", "a wait is not negative"
	}
	u := s.usage
	switch {
	case u == nil:
		return "", ""
	case min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0:
		return "usage", "a number of tokens is not negative"
	case u.CacheRead > u.Input || u.CacheWrite > u.Input-u.CacheRead:
		return "usage", fmt.Sprintf("input counts cached tokens too, so it is not less than cache_read and cache_write together (%d < %d + %d)", u.Input, u.CacheRead, u.CacheWrite)
	case u.Reasoning > u.Output:
		return "usage", fmt.Sprintf("output counts reasoning too, so it is not less than it (%d < %d)", u.Output, u.Reasoning)
	}
	return "", ""
}

func (s Step) invalidFault() (path, msg string) {
	f := s.fault
	if f == nil {
		return "", ""
	}
	kinds := []FailureKind{FailStatus, FailError, FailCut, FailHang, FailMalformed}
	switch {
	case !slices.Contains(kinds, f.Kind):
		return "fault.kind", fmt.Sprintf("there is no kind %q; use status, error, cut, hang or malformed", string(f.Kind))
	case f.Kind == FailStatus && (f.Status < 400 || f.Status > 599):
		return "fault.status", fmt.Sprintf("an HTTP error is 400 to 599, not %d", f.Status)
	case f.Kind == FailError && f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return "fault.status", fmt.Sprintf("an HTTP error is 400 to 599, not %d", f.Status)
	case f.Kind != FailStatus && f.Kind != FailError && f.Status != 0:
		return "fault.status", fmt.Sprintf("a fault of kind %s has no status", f.Kind)
	case f.RetryAfter < 0:
		return "fault.retry_after", "a wait is not negative"
	case f.Kind == FailStatus && (s.say != nil || len(s.calls) > 0 || s.think != "" || s.hidden != ""):
		return "fault", "an HTTP error says nothing besides: use kind error, cut, hang or malformed after text"
	case s.stop != "":
		return "stop", "an answer that fails has no reason to stop"
	}
	return "", ""
}

func (s Step) invalidCalls() (path, msg string) {
	ids := map[string]bool{}
	for i, u := range s.calls {
		at := fmt.Sprintf("calls[%d]", i)
		server, tool, ok := strings.Cut(u.Tool, ":")
		switch {
		case (u.Tool == "") == (u.Raw == ""):
			return at, "a call has either a tool or a raw name"
		case u.Tool != "" && (!ok || server == "" || tool == ""):
			return at + ".tool", fmt.Sprintf("%q is not of the form server:tool; a name as the agent offers it is a raw one", u.Tool)
		case u.Namespace != "" && u.Raw == "":
			return at + ".namespace", "a namespace goes with a raw name"
		case u.Args != nil && u.ArgsText != "":
			return at + ".args_text", "a call has either args or args_text"
		case u.ID != "" && ids[u.ID]:
			return at + ".id", fmt.Sprintf("the id %q is used twice in one answer", u.ID)
		}
		if _, err := u.arguments(); err != nil {
			return at + ".args", err.Error()
		}
		ids[u.ID] = true
	}
	return "", ""
}

func (s Step) invalidWhen() (path, msg string) {
	lists := s.when.lists()
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		if slices.Contains(lists[key], "") {
			return "when." + key, "it names nothing"
		}
	}
	return "", ""
}
