package expect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// search is what the calls of a view say about a name and its conditions.
type search struct {
	name      string
	spec      *callSpec
	named     int      // calls of the name
	met       int      // of which all conditions hold
	uncertain int      // of which none is violated, but some cannot be judged
	told      int      // calls that an agent only told
	notes     []string // why calls were not met, for the first few
	other     tally
}

// maxNotes is how many calls a failure explains.
const maxNotes = 5

func (s *subject) judgeCalls(matcher, name string, spec *callSpec) outcome {
	whole, o := s.onView(matcher)
	if whole == nil {
		return o
	}
	view, o := spec.narrow(whole)
	if view == nil {
		return o
	}
	if o := ambiguous(whole, &spec.common, name); o.verdict != met {
		return o
	}
	quick := *s
	quick.silent = true // mostly it holds: what to say of the calls that do not match is worked out when somebody will read it
	if o := quick.search(view, name, spec); o.verdict == met && !s.negated {
		return o
	}
	return s.search(view, name, spec)
}

func (s *subject) search(view *trace.View, name string, spec *callSpec) outcome {
	f := search{name: name, spec: spec}
	for _, entry := range view.ToolCalls().All() {
		if !entry.Own {
			s.judgeCall(&f, view, &entry)
		}
	}
	return spec.weigh(s, f.met, f.uncertain, lost(view), f.explain)
}

// judgeCall adds one call to the search.
func (s *subject) judgeCall(f *search, view *trace.View, entry *trace.ToolCallEntry) {
	c, p := f.spec.evidence.of(view, entry)
	switch p {
	case absent:
		return
	case onlyTold:
		if f.is(entry.Tool.Value) {
			f.told++
		}
		return
	}
	if o := f.concerns(&c); o.verdict != met {
		if o.verdict == unknown {
			f.uncertain++
			f.note(&c, "%s", o.reason)
		}
		return
	}
	f.named++
	if p == missing {
		f.uncertain++
		f.note(&c, "cannot tell: it was not captured on the wire")
		return
	}
	s.quiet = s.silent || len(f.notes) >= maxNotes
	switch o := s.all(&c, f.spec.conditions); o.verdict {
	case met:
		f.met++
	case unknown:
		f.uncertain++
		f.note(&c, "cannot tell: %s", o.reason)
	default:
		f.note(&c, "%s", o.reason)
	}
}

func (f *search) is(tool string) bool { return f.name == AnyTool || f.name == tool }

// concerns says whether a call is one of the name, on the server.
func (f *search) concerns(c *call) outcome {
	known := c.tool.OK() || c.tool.State == trace.NotEmitted
	switch {
	case !known && f.name != AnyTool && c.tool.Value != f.name:
		return cannotTell("its tool's name is not in the evidence (" + stateText(c.tool.State, c.tool.Reason) + ")")
	case known && !f.is(c.tool.Value):
		f.other.add(c.tool.Value)
		return outcome{verdict: unmet}
	case f.spec.server == "":
		return held
	case c.server.OK() && c.server.Value != f.spec.server:
		f.other.add(c.server.Value + ": " + c.tool.Value)
		return outcome{verdict: unmet}
	case !c.server.OK():
		return cannotTell("its server is not in the evidence (" + stateText(c.server.State, c.server.Reason) + ")")
	}
	return held
}

// all holds when each condition does. One that is violated settles it; else one that cannot be judged leaves it open.
func (s *subject) all(c *call, conditions []condition) outcome {
	result := held
	var violated []string
	for _, condition := range conditions {
		switch o := condition(s, c); o.verdict {
		case unmet:
			violated = append(violated, o.reason)
		case unknown:
			result = o
		}
	}
	if len(violated) > 0 {
		return outcome{unmet, strings.Join(violated, "\n")}
	}
	return result
}

func (f *search) note(c *call, format string, args ...any) {
	if len(f.notes) < maxNotes {
		f.notes = append(f.notes, fmt.Sprintf("call at +%s: %s", round(c.entry.Timing.StartOffset), fmt.Sprintf(format, args...)))
	}
}

func (f *search) explain() string {
	var b strings.Builder
	name := callName(f.name)
	if f.spec.server != "" {
		name += " on " + quoted(f.spec.server)
	}
	switch want := f.spec.count.String(); {
	case f.named == 0:
		fmt.Fprintf(&b, "no call of %s, want %s; %s", strings.TrimPrefix(name, "of "), want, &f.other)
	case len(f.spec.conditions) == 0:
		fmt.Fprintf(&b, "%s of %s, want %s", plural(f.named, "call"), strings.TrimPrefix(name, "of "), want)
	default:
		fmt.Fprintf(&b, "%s of %s, %d as expected, want %s", plural(f.named, "call"), strings.TrimPrefix(name, "of "), f.met, want)
	}
	for _, note := range f.notes {
		b.WriteString("\n" + note)
	}
	if rest := f.named - f.met - len(f.notes); rest > 0 && len(f.notes) == maxNotes {
		fmt.Fprintf(&b, "\nand %s more that did not match", plural(rest, "call"))
	}
	if f.told > 0 {
		fmt.Fprintf(&b, "\nthe agent reported %s that did not pass on the wire: expect.Reported() asks for what it said", plural(f.told, "such call"))
	}
	return b.String()
}

// ambiguous refuses a name without a server that more than one server has, by the calls or by what the servers listed.
func ambiguous(view *trace.View, c *common, name string) outcome {
	if c.server != "" || name == AnyTool {
		return held
	}
	known := serversOf(view)
	if len(known) == 1 {
		return held
	}
	var servers []string
	add := func(server string) {
		if server != "" && !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	for _, entry := range view.ToolCalls().All() {
		if entry.Tool.Value == name && !entry.Own {
			add(entry.Server.Value)
		}
	}
	if len(known) > 1 {
		for _, server := range listedOn(view, name) {
			add(server)
		}
	}
	if len(servers) < 2 {
		return held
	}
	slices.Sort(servers)
	return cannotTell(fmt.Sprintf("%q is ambiguous: more than one server has such a tool: %s. Say which is meant: expect.OnServer(%s)", name, list(servers), quoted(servers[0])))
}

// listedOn finds the servers whose lists name a tool.
func listedOn(view *trace.View, name string) (servers []string) {
	for _, p := range view.Protocol().All() {
		if p.Method.Value != "tools/list" || p.Direction != trace.ClientToServer {
			continue
		}
		var result struct{ Tools []struct{ Name string } }
		if json.Unmarshal(p.Response.Value, &result) != nil {
			continue
		}
		for _, tool := range result.Tools {
			if tool.Name == name {
				servers = append(servers, p.ServerBinding)
			}
		}
	}
	return servers
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
		part := quoted(cut(name, 200, "bytes more"))
		if n := t.counts[name]; n > 1 {
			part += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, part)
	}
	return "called were: " + strings.Join(parts, ", ")
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
