package expect

import (
	"slices"
	"strconv"

	"github.com/m3-go/m3/trace"
)

// AnyTool in the place of a tool's name stands for every tool.
const AnyTool = "*"

// CallOption says more about the call that [Expectation.ToolCall] looks for, about where to look, or about how many there are.
type CallOption interface{ callOption(*callSpec) }

// callSpec is what the options add up to.
type callSpec struct {
	common
	count
	evidence   evidenceKind
	conditions []condition
}

// condition is one thing that must be true of a call.
type condition func(s *subject, c *call) outcome

// CallCondition is what the options return that say something about a call: [Succeeded], [WithArguments], [Latency] and others.
type CallCondition struct{ apply func(*callSpec) }

func (o CallCondition) callOption(s *callSpec) {
	if o.apply == nil {
		s.wrong(emptyOption)
		return
	}
	o.apply(s)
}

// on is a condition, with what is recorded of it.
func on(name string, value any, misuse string, c condition) CallCondition {
	return CallCondition{func(s *callSpec) {
		if misuse != "" {
			s.wrong("%s", misuse)
			return
		}
		s.common.args.add(name, value)
		s.conditions = append(s.conditions, c)
	}}
}

// ToolCall expects a call of the tool that all options hold for: at least one, or as many as [Times], [MinTimes] and [MaxTimes] say. Other
// calls do not matter. A call is what passed on the wire between client and server, unless [Reported], [Any] or [Denied] says otherwise; m3's own are left
// out. A name that more than one server has is ambiguous without [OnServer], and fails.
func (e *Expectation) ToolCall(name string, opts ...CallOption) bool {
	e.t.Helper()
	c, spec := newCallCheck("tool_call", "tool call", name, opts)
	return e.judge(c, func(s *subject) outcome { return s.judgeCalls("ToolCall", name, spec) })
}

// NoToolCall expects that no call of the tool is such that all options hold for it: without options, that there is none at all.
func (e *Expectation) NoToolCall(name string, opts ...CallOption) bool {
	e.t.Helper()
	c, spec := newCallCheck("no_tool_call", "no tool call", name, opts)
	if c.misuse == "" && len(spec.count.args) > 0 {
		c.misuse = "NoToolCall: it wants none: Times, MinTimes and MaxTimes belong to ToolCall"
	}
	none := 0
	spec.count = count{times: &none}
	return e.judge(c, func(s *subject) outcome { return s.judgeCalls("NoToolCall", name, spec) })
}

func newCallCheck(matcher, title, name string, opts []CallOption) (*check, *callSpec) {
	spec := &callSpec{}
	if name == "" {
		spec.wrong("the tool's name is empty: expect.AnyTool stands for every tool")
	}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.callOption(spec)
	}
	if wrong := spec.count.check(); wrong != "" {
		spec.wrong("%s", wrong)
	}
	c := &check{matcher: matcher, title: title + " " + callName(name), selector: spec.selector(name), turn: spec.turn, misuse: spec.common.misuse}
	c.args.add("tool", name)
	c.args = append(append(c.args, spec.common.args...), spec.count.args...)
	return c, spec
}

func callName(name string) string {
	if name == AnyTool {
		return "of any tool"
	}
	return strconv.Quote(cut(name, 200, "bytes more"))
}

// Succeeded wants a call that the tool answered without an error.
func Succeeded() CallCondition { return status("success", trace.ToolSuccess, trace.ToolCompleted) }

// ToolError wants a call that the tool itself answered with isError.
func ToolError() CallCondition { return status("tool_error", trace.ToolError) }

// Failed wants a call that ended in any other way than success: tool error, protocol error, transport error, timeout or
// cancellation.
func Failed() CallCondition {
	return status("a failure", trace.ToolError, trace.ToolProtocolError, trace.ToolTransportError, trace.ToolTimedOut, trace.ToolCancelled)
}

// Status wants a call that ended in the given way.
func Status(want trace.ToolCallStatus) CallCondition {
	known := []trace.ToolCallStatus{trace.ToolSuccess, trace.ToolCompleted, trace.ToolError, trace.ToolProtocolError, trace.ToolTransportError,
		trace.ToolCancelled, trace.ToolTimedOut, trace.ToolIncomplete}
	switch {
	case !slices.Contains(known, want):
		return on("status", want, "Status("+quoted(string(want))+"): there is no such status of a call", nil)
	case want == trace.ToolCompleted: // the word of an attempt
		return Succeeded()
	}
	return status(string(want), want)
}

func status(want string, accepted ...trace.ToolCallStatus) CallCondition {
	return on("status", want, "", func(s *subject, c *call) outcome {
		switch {
		case c.status == "":
			return cannotTell("how the call ended was not told")
		case c.lost:
			return cannotTell("how the call ended is not in the evidence")
		case slices.Contains(accepted, c.status):
			return held
		}
		return differs("status (-want +got):\n- %s\n+ %s%s", want, c.status, s.errorText(c))
	})
}

// errorText adds what the tool said, where that is the likely reason of a surprise.
func (s *subject) errorText(c *call) string {
	r, ok := c.result.Get()
	switch {
	case !ok:
		return ""
	case r.IsError:
		return ": " + s.quoted(r.Text())
	case r.Error.OK():
		return ": " + s.shown(r.Error.Value.String())
	}
	return ""
}

// WithArguments wants a call whose arguments are v: what encoding/json makes of it (a map such as m3.Args, a struct, a json.RawMessage), or
// [Satisfying]. Arguments that were not sent equal nothing, see [NoArguments]; nil is an observed JSON null.
func WithArguments(v any, opts ...CompareOption) CallCondition {
	w := want("WithArguments", v, opts)
	return on("arguments", w, w.misuse, func(s *subject, c *call) outcome {
		args, o := observed(c.arguments, "arguments member")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("arguments", w, args)
	})
}

// NoArguments wants a call that was sent without an arguments member.
func NoArguments() CallCondition {
	return on("no_arguments", true, "", func(s *subject, c *call) outcome {
		switch c.arguments.State {
		case trace.NotEmitted:
			return held
		case trace.Observed:
			return differs("arguments (-want +got):\n- none\n+ %s", s.shown(c.arguments.Value.String()))
		default:
			return cannotTell("whether there were arguments is not in the evidence (" + stateText(c.arguments.State, c.arguments.Reason) + ")")
		}
	})
}

// Latency wants a call that the server answered within the bound: from the request written to the response read, of a call with several attempts
// their sum. A reported call has none.
func Latency(b Bound) CallCondition {
	return on("latency", b.String(), b.problem("Latency"), func(_ *subject, c *call) outcome {
		d, o := observed(c.latency, "latency")
		switch {
		case o.verdict != met:
			return o
		case b.admits(d):
			return held
		default:
			return differs("latency (-want +got):\n- %s\n+ %s", b, d)
		}
	})
}

// Where wants a call for which f returns true. It is given the whole entry, whichever evidence is asked for, and must look at the state of
// each observation itself. A panic of f is a failure that names the panic's type only.
func Where(f func(trace.ToolCallEntry) bool) CallCondition {
	misuse := ""
	if f == nil {
		misuse = "Where: the function is nil"
	}
	return on("predicate", true, misuse, func(_ *subject, c *call) outcome {
		return runPredicate(func() bool { return f(*c.entry) })
	})
}
