package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/trace"
)

// CallsOption says how the list of [Expectation.ToolCalls] is compared, and where to look: [Unordered], [InTurn], [OnServer], [Reported], [Any].
type CallsOption interface{ callsOption(*callsSpec) }

type callsSpec struct {
	common
	evidence  evidenceKind
	unordered bool
}

// ToolCalls expects that the tools called are exactly names, one for each call, repeated ones included, in the order in which they were called
// unless [Unordered] says otherwise. One call more fails; an empty list wants none. m3's own calls are left out.
func (e *Expectation) ToolCalls(names []string, opts ...CallsOption) bool {
	e.t.Helper()
	spec := &callsSpec{}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.callsOption(spec)
	}
	if slices.Contains(names, "") {
		spec.wrong("ToolCalls: the name of a tool is empty")
	}
	c := &check{matcher: "tool_calls", title: "tool calls", selector: spec.selector(""), turn: spec.turn, misuse: spec.misuse}
	c.args.add("names", append([]string{}, names...))
	if spec.unordered {
		c.args.add("unordered", true)
	}
	c.args = append(c.args, spec.args...)
	return e.judge(c, func(s *subject) outcome { return s.judgeCallList(names, spec) })
}

// unknownTool stands for a call whose tool is not in the evidence.
const unknownTool = "\x00unknown"

func (s *subject) judgeCallList(names []string, spec *callsSpec) outcome {
	whole, o := s.onView("ToolCalls")
	if whole == nil {
		return o
	}
	view, o := spec.narrow(whole)
	if view == nil {
		return o
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if o := ambiguous(whole, &spec.common, name); o.verdict != met {
			return o
		}
	}
	got := calledTools(view, spec)
	lost := lost(view)
	unsure := slices.Contains(got, unknownTool)
	switch fits := spec.listFits(names, got, lost != ""); {
	case fits && lost == "" && !unsure:
		return s.holds("the tools called were: %s", list(got))
	case !fits:
		return differs("%s", s.listDiff(names, got, spec))
	case unsure:
		return cannotTell("the tools of some calls are not in the evidence; " + s.listDiff(names, got, spec))
	default:
		return cannotTell(lost + "; what there is: " + list(got))
	}
}

// calledTools lists the tools that were called on the tape that is asked for.
func calledTools(view *trace.View, spec *callsSpec) []string {
	got := []string{}
	for _, entry := range view.ToolCalls().All() {
		if entry.Own {
			continue
		}
		c, p := spec.evidence.of(view, &entry)
		if p == absent || p == onlyTold || spec.server != "" && c.server.OK() && c.server.Value != spec.server {
			continue
		}
		known := p == present && (c.tool.OK() || c.tool.State == trace.NotEmitted) && (spec.server == "" || c.server.OK())
		if !known {
			got = append(got, unknownTool)
			continue
		}
		got = append(got, c.tool.Value)
	}
	return got
}

// listFits reports whether got may be the list that is wanted: unknown tools may be any, and when some may have been lost, some may be missing.
func (spec *callsSpec) listFits(want, got []string, lost bool) bool {
	if len(got) > len(want) || !lost && len(got) < len(want) {
		return false
	}
	if spec.unordered {
		return restOf(want, got) != nil
	}
	i := 0
	for _, name := range got { // the first place that fits leaves the most room for the others
		for i < len(want) && name != unknownTool && name != want[i] {
			if !lost {
				return false
			}
			i++
		}
		if i == len(want) {
			return false
		}
		i++
	}
	return true
}

// restOf takes got out of want; nil when something is not there.
func restOf(want, got []string) []string {
	rest := append([]string{}, want...)
	for _, name := range got {
		if name == unknownTool {
			continue
		}
		i := slices.Index(rest, name)
		if i < 0 {
			return nil
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return rest
}

func (s *subject) listDiff(want, got []string, spec *callsSpec) string {
	show := func(names []string) []string {
		out := make([]string, len(names))
		for i, name := range names {
			out[i] = s.redact(cut(strings.ReplaceAll(name, unknownTool, "(not in the evidence)"), 200, "bytes more"))
		}
		if spec.unordered {
			slices.Sort(out)
		}
		return out
	}
	if s.silent || s.quiet {
		return ""
	}
	return fmt.Sprintf("%s, want %d (-want +got):\n%s", plural(len(got), "call"), len(want), s.budget(plain(cmp.Diff(show(want), show(got)))))
}
