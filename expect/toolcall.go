package expect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// CallOption says more about the call that [Expectation.ToolCall] looks for, or about how many there are.
type CallOption func(*callSpec)

// callSpec is what the options add up to.
type callSpec struct {
	conditions []condition
	times      int // -1: at least one
	misuse     string
}

// condition is one thing that must be true of a call.
type condition func(s *subject, c *trace.WireToolCall) outcome

func (spec *callSpec) where(c condition) { spec.conditions = append(spec.conditions, c) }

// ToolCall expects a call of the tool that all options hold for: at least one, or as many as [Times] says. Other calls do not
// matter. A call is what passed on the wire between client and server; m3's own are left out.
func (e *Expectation) ToolCall(name string, opts ...CallOption) bool {
	e.t.Helper()
	spec := callSpec{times: -1}
	for _, opt := range opts {
		opt(&spec)
	}
	view, o := e.onView("ToolCall")
	switch {
	case view == nil:
	case spec.misuse != "":
		o = cannotTell(spec.misuse)
	default:
		o = e.subject.judgeCalls(view, name, &spec)
	}
	return e.report("tool call "+strconv.Quote(name), o)
}

// Succeeded wants a call that the tool answered without an error.
func Succeeded() CallOption { return status("success", trace.ToolSuccess, trace.ToolCompleted) }

// ToolError wants a call that the tool itself answered with isError.
func ToolError() CallOption { return status("tool_error", trace.ToolError) }

// Failed wants a call that ended in any other way than success: tool error, protocol error, transport error, timeout or
// cancellation.
func Failed() CallOption {
	return status("a failure", trace.ToolError, trace.ToolProtocolError, trace.ToolTransportError, trace.ToolTimedOut, trace.ToolCancelled)
}

func status(want string, accepted ...trace.ToolCallStatus) CallOption {
	return func(spec *callSpec) {
		spec.where(func(s *subject, c *trace.WireToolCall) outcome {
			if slices.Contains(accepted, c.Status) {
				return held
			}
			return differs("status is %s, want %s%s", c.Status, want, s.errorText(c))
		})
	}
}

// errorText adds what the tool said, where that is the likely reason of a surprise.
func (s *subject) errorText(c *trace.WireToolCall) string {
	r, ok := c.Result.Get()
	if !ok || !r.IsError {
		return ""
	}
	return ": " + s.shown(quoted(r.Text()))
}

// WithArguments wants a call whose arguments are the JSON of v: a map such as m3.Args, a struct, a json.RawMessage; nil: a call
// without arguments. Numbers are compared by value, exactly.
func WithArguments(v any) CallOption {
	wanted := want(v)
	return func(spec *callSpec) {
		spec.where(func(s *subject, c *trace.WireToolCall) outcome {
			if v == nil && c.Arguments.State == trace.NotEmitted {
				return held
			}
			args, o := observed(c.Arguments, "arguments member")
			if o.verdict != met {
				return o
			}
			return s.compareJSON("arguments", wanted, args)
		})
	}
}

// ResultText wants a call whose result's text blocks, joined with newlines, are exactly want.
func ResultText(want string) CallOption {
	return onCallResult(func(s *subject, r trace.ToolResult) outcome { return s.exactText(want, r.Text()) })
}

// ResultTextContaining wants a call in whose result's text part occurs.
func ResultTextContaining(part string) CallOption {
	return onCallResult(func(s *subject, r trace.ToolResult) outcome { return s.containedText(part, r.Text()) })
}

// ResultStructured wants a call whose structured content is the JSON of v, compared as [Expectation.StructuredContent] does.
func ResultStructured(v any) CallOption {
	wanted := want(v)
	return onCallResult(func(s *subject, r trace.ToolResult) outcome {
		content, o := observed(r.StructuredContent, "structured content")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("structured content", wanted, content)
	})
}

func onCallResult(judge func(*subject, trace.ToolResult) outcome) CallOption {
	return func(spec *callSpec) {
		spec.where(func(s *subject, c *trace.WireToolCall) outcome {
			r, o := observed(c.Result, "result")
			if o.verdict != met {
				return o
			}
			return judge(s, r)
		})
	}
}

// Bound is a limit of a duration: see [Below].
type Bound struct{ below time.Duration }

// Below is any duration shorter than d.
func Below(d time.Duration) Bound { return Bound{below: d} }

// Latency wants a call that the server answered within the bound: from the request written to the response read.
func Latency(b Bound) CallOption {
	return func(spec *callSpec) {
		if b.below <= 0 {
			spec.misuse = fmt.Sprintf("Latency(Below(%s)): the bound must be positive", b.below)
		}
		spec.where(func(_ *subject, c *trace.WireToolCall) outcome {
			d, o := observed(c.Latency, "latency")
			switch {
			case o.verdict != met:
				return o
			case d < b.below:
				return held
			default:
				return differs("latency is %s, want below %s", d, b.below)
			}
		})
	}
}

// Times wants exactly n calls that all other options hold for; 0 wants none.
func Times(n int) CallOption {
	return func(spec *callSpec) {
		if n < 0 {
			spec.misuse = fmt.Sprintf("Times(%d): a number of calls is not negative", n)
			return
		}
		spec.times = n
	}
}

func quoted(s string) string {
	if len(s) > 2*maxValue { // what is cut anyway need not be escaped first
		s = cut(s, 2*maxValue, "bytes more")
	}
	return strconv.Quote(s)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tally counts calls by tool, for "what was called instead".
type tally struct {
	names  []string
	counts map[string]int
}

func (t *tally) add(name string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if t.counts[name]++; t.counts[name] == 1 {
		t.names = append(t.names, name)
	}
}

func (t *tally) String() string {
	if len(t.names) == 0 {
		return "no tool was called"
	}
	const most = 20
	var parts []string
	for i, name := range t.names {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more tools", len(t.names)-most))
			break
		}
		part := strconv.Quote(cut(name, 200, "bytes more"))
		if n := t.counts[name]; n > 1 {
			part += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, part)
	}
	return "called were: " + strings.Join(parts, ", ")
}
