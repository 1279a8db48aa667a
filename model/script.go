package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Script is what a model answers, step by step. A nil script answers nothing: every request for an answer fails. Its JSON form is a list of steps; see [ParseScript].
type Script []Step

// Step is one answer of the model. It is made by [Call], [Calls], [CallRaw], [Say], [Think], [Empty] or [Fault], and refined by its methods, each of which returns
// a changed copy: model.Think("first I add").Say("One moment.").Call("calc:add", args) is one answer with reasoning, text and a tool call, which
// are sent in this order whatever the order of the methods. The zero value is no answer and fails [Script.Validate].
type Step struct {
	name   string
	role   string // "" is [RoleTurn]
	when   Condition
	after  time.Duration
	pace   time.Duration
	times  int // 0 is once, forever any number from one on
	think  string
	hidden string // encrypted reasoning
	say    *string
	empty  bool
	calls  []Use
	stop   Stop
	usage  *Usage
	silent bool // no usage
	fault  *Failure
}

const forever = -1

// Use is one use of a tool within a step. Exactly one of Tool and Raw is set.
type Use struct {
	// Tool is "server:tool": the alias by which the test knows the server, and the server's own name of the tool. The provider turns it into the name under
	// which the agent offers that tool; the step fails when the agent does not offer it, or when what it offers may be more than one tool.
	Tool string
	// Raw is a name to call as it stands, offered or not: a built-in tool of the agent, or one that must be refused.
	Raw string
	// Namespace goes with Raw where the agent groups tools by server (Codex: "mcp__calc"). Dialects without namespaces get it before the name.
	Namespace string
	// Args is the object of arguments: anything that encoding/json makes one of. Nil is {}.
	Args any
	// ArgsText is sent as the text of the arguments instead, whether it is JSON or not.
	ArgsText string
	// ID is the id of the call; "" makes one that is unique in the execution.
	ID string
}

// Stop is why an answer ends.
type Stop string

// The reasons. The zero value is the natural end: that of a turn, or the wait for the tools that were called.
const (
	// MaxTokens: the answer was cut at the limit of tokens ("length", "max_output_tokens", "max_tokens").
	MaxTokens Stop = "max_tokens"
	// Refusal: the model, or a filter before it, refuses ("content_filter"; Anthropic: "refusal").
	Refusal Stop = "refusal"
)

// Usage is what an answer reports that it used, in tokens. Input counts all input, that from and to a cache too; Output counts reasoning too. The provider turns it into
// the dialect's own arithmetic (Anthropic's input_tokens leaves cached tokens out). A step without usage reports the constant [DefaultUsage].
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// DefaultUsage is what a step reports that says nothing of its usage. It is made up, like everything else that a scripted model says of itself.
var DefaultUsage = Usage{Input: 100, Output: 20}

// Failure is something wrong with an answer. What the step says besides is sent before it, except for a [FailStatus].
type Failure struct {
	Kind FailureKind
	// Status is the HTTP status of a FailStatus, 400 to 599. Setting it alone is enough: the zero Kind is FailStatus.
	Status int
	// Type, Code and Message are those of the provider's error. Empty ones are what the real provider sends with that status.
	Type, Code, Message string
	// RetryAfter is told to the agent in the headers retry-after and retry-after-ms; 0 sends none.
	RetryAfter time.Duration
}

// FailureKind is what goes wrong.
type FailureKind string

// The kinds.
const (
	// FailStatus: the answer is an HTTP error.
	FailStatus FailureKind = "status"
	// FailError: the answer is an error of the provider within a stream that began well (an error event, a failed response). To a request that asks for no stream it is
	// an HTTP error with Status, or 500.
	FailError FailureKind = "error"
	// FailCut: the connection is cut in the middle of the answer.
	FailCut FailureKind = "cut"
	// FailHang: the answer stops and the connection stays open, until the agent gives up or the execution ends.
	FailHang FailureKind = "hang"
	// FailMalformed: a part of the answer is not JSON.
	FailMalformed FailureKind = "malformed"
)

// Call is an answer that calls one tool of a server, "server:tool", with an object of arguments (nil is {}).
func Call(tool string, args any) Step { return Calls(Use{Tool: tool, Args: args}) }

// CallRaw is an answer that calls a tool by the name given, whether the agent offers it or not.
func CallRaw(name string, args any) Step { return Calls(Use{Raw: name, Args: args}) }

// Calls is an answer that calls several tools at once.
func Calls(uses ...Use) Step { return Step{}.Calls(uses...) }

// Say is an answer of text.
func Say(text string) Step { return Step{}.Say(text) }

// Think begins an answer with reasoning that the agent can read. It needs something to follow: Think(…).Say(…).
func Think(text string) Step { return Step{}.Think(text) }

// Empty is an answer with nothing in it, which ends normally.
func Empty() Step { return Step{empty: true} }

// Fault is an answer that fails: Fault(Failure{Status: 429}), Fault(Failure{Kind: FailHang}).
func Fault(f Failure) Step { return Step{}.Fault(f) }

// Named gives the step a name for messages and records.
func (s Step) Named(name string) Step { s.name = name; return s }

// For makes the step the answer to a side request of that role, such as [RoleGuardian], instead of m3's own answer to it. Steps for a role are taken in their order
// among themselves, and are left over like any other.
func (s Step) For(role string) Step { s.role = role; return s }

// When demands conditions of the request that takes the step; all must hold. A request that does not meet them is a failure: steps are never skipped.
func (s Step) When(conditions ...Condition) Step {
	for _, c := range conditions {
		s.when = s.when.and(c)
	}
	return s
}

// After waits before the answer begins.
func (s Step) After(d time.Duration) Step { s.after = d; return s }

// Pace waits before each piece of a streamed answer.
func (s Step) Pace(d time.Duration) Step { s.pace = d; return s }

// Times makes the step answer n requests, n at least 1: an agent that is given a 429 asks again.
func (s Step) Times(n int) Step {
	if n < 1 {
		n = -2 // for Validate
	}
	s.times = n
	return s
}

// Forever makes the step answer this request and all that come. It is the last step of its role.
func (s Step) Forever() Step { s.times = forever; return s }

// Think adds reasoning that the agent can read.
func (s Step) Think(text string) Step { s.think = text; return s }

// ThinkHidden adds reasoning of which the agent sees that it happened, and not what it was: data is the encrypted form. Chat Completions has no such thing, and gets none.
func (s Step) ThinkHidden(data string) Step { s.hidden = data; return s }

// Say adds text.
func (s Step) Say(text string) Step { s.say = &text; return s }

// Call adds a tool call.
func (s Step) Call(tool string, args any) Step { return s.Calls(Use{Tool: tool, Args: args}) }

// CallRaw adds a tool call by the name given.
func (s Step) CallRaw(name string, args any) Step { return s.Calls(Use{Raw: name, Args: args}) }

// Calls adds tool calls.
func (s Step) Calls(uses ...Use) Step { s.calls = append(slices.Clip(s.calls), uses...); return s }

// Stop ends the answer for another reason than its natural one.
func (s Step) Stop(reason Stop) Step { s.stop = reason; return s }

// Usage reports what the answer used.
func (s Step) Usage(u Usage) Step { s.usage, s.silent = &u, false; return s }

// NoUsage reports nothing of what the answer used. Anthropic Messages cannot leave it out: there it is zeros.
func (s Step) NoUsage() Step { s.usage, s.silent = nil, true; return s }

// Fault lets the answer fail after what it says.
func (s Step) Fault(f Failure) Step {
	if f.Kind == "" {
		f.Kind = FailStatus
	}
	s.fault = &f
	return s
}

// String describes the step in a few words: call calc:add.
func (s Step) String() string {
	switch {
	case s.name != "":
		return fmt.Sprintf("%q", s.name)
	case s.fault != nil && s.fault.Kind == FailStatus:
		return fmt.Sprintf("fault %d", s.fault.Status)
	case s.fault != nil:
		return "fault " + string(s.fault.Kind)
	case len(s.calls) == 1:
		return "call " + s.calls[0].label()
	case len(s.calls) > 1:
		return fmt.Sprintf("%d calls, the first %s", len(s.calls), s.calls[0].label())
	case s.say != nil:
		return fmt.Sprintf("say %q", short(*s.say))
	case s.empty:
		return "empty"
	}
	return "nothing"
}

func (u Use) label() string {
	if u.Raw != "" {
		return u.Raw
	}
	return u.Tool
}

// arguments is the text of the arguments.
func (u Use) arguments() (string, error) {
	if u.ArgsText != "" {
		return u.ArgsText, nil
	}
	if u.Args == nil {
		return "{}", nil
	}
	b, err := encode(u.Args)
	if err != nil {
		return "", err
	}
	if string(b) == "null" {
		return "{}", nil
	}
	if b[0] != '{' {
		return "", fmt.Errorf("arguments are an object, not %s", short(string(b)))
	}
	return string(b), nil
}

func short(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

var (
	_ json.Marshaler   = Step{}
	_ json.Unmarshaler = (*Step)(nil)
)
