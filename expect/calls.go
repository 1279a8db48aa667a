package expect

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// search is what the calls of a view say about a name and its conditions.
type search struct {
	named     int      // calls of the name
	met       int      // of which all conditions hold
	uncertain int      // of which none is violated, but some cannot be judged
	notes     []string // why calls were not met, for the first few
	other     tally
}

// maxNotes is how many calls a failure explains.
const maxNotes = 5

func (s *subject) judgeCalls(view *trace.View, name string, spec *callSpec) outcome {
	var f search
	for _, entry := range view.ToolCalls().All() {
		if entry.Common().Own {
			continue
		}
		s.judgeCall(&f, &entry, name, spec)
	}
	return f.outcome(name, spec, lost(view))
}

// judgeCall adds one call to the search. A call that was only reported, by an agent that talked about it, is none.
func (s *subject) judgeCall(f *search, entry *trace.ToolCallEntry, name string, spec *callSpec) {
	wire := entry.Wire.Value
	switch entry.Wire.State {
	case trace.Observed, trace.Redacted, trace.Truncated: // its parts say what of them is there
	case trace.Unavailable:
		if tool, ok := entry.Tool.Get(); ok && tool == name {
			f.named++
			f.uncertain++
			f.note("call at +%s: it was not captured on the wire (%s)", round(entry.Timing.StartOffset), entry.Wire.Reason)
		}
		return
	default:
		return
	}
	if o := entry.Tool; o.State != trace.Observed && o.State != trace.NotEmitted && o.Value != name {
		f.uncertain++
		f.note("call at +%s: its tool's name is not in the evidence (%s)", round(entry.Timing.StartOffset), o.State)
		return
	}
	if wire.Tool != name {
		f.other.add(wire.Tool)
		return
	}
	f.named++
	s.quiet = len(f.notes) == maxNotes
	switch o := s.all(&wire, spec.conditions); o.verdict {
	case met:
		f.met++
	case unknown:
		f.uncertain++
		f.note("call %d, at +%s: cannot tell: %s", f.named, round(entry.Timing.StartOffset), o.reason)
	default:
		f.note("call %d, at +%s: %s", f.named, round(entry.Timing.StartOffset), o.reason)
	}
}

// all holds when each condition does. One that is violated settles it; else one that cannot be judged leaves it open.
func (s *subject) all(c *trace.WireToolCall, conditions []condition) outcome {
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

func (f *search) note(format string, args ...any) {
	if len(f.notes) < maxNotes {
		f.notes = append(f.notes, fmt.Sprintf(format, args...))
	}
}

// outcome weighs what was found against the number that was asked for. Calls that cannot be judged, or that may have been lost, might
// or might not count.
func (f *search) outcome(name string, spec *callSpec, lost string) outcome {
	least, most := f.met, f.met+f.uncertain
	if lost != "" {
		most = math.MaxInt
	}
	lowest, highest := 1, math.MaxInt
	if spec.times >= 0 {
		lowest, highest = spec.times, spec.times
	}
	switch {
	case least >= lowest && most <= highest:
		return held
	case least > highest || most < lowest:
		return outcome{unmet, f.explain(name, spec)}
	case lost != "":
		return cannotTell(f.explain(name, spec) + "\n" + lost)
	default:
		return cannotTell(f.explain(name, spec))
	}
}

func (f *search) explain(name string, spec *callSpec) string {
	want := "at least one"
	if spec.times >= 0 {
		want = "exactly " + strconv.Itoa(spec.times)
	}
	var b strings.Builder
	switch {
	case f.named == 0:
		fmt.Fprintf(&b, "no call of %q, want %s; %s", name, want, &f.other)
	case len(spec.conditions) == 0:
		fmt.Fprintf(&b, "%s of %q, want %s", plural(f.named, "call"), name, want)
	default:
		fmt.Fprintf(&b, "%s of %q, %d as expected, want %s", plural(f.named, "call"), name, f.met, want)
	}
	for _, note := range f.notes {
		b.WriteString("\n" + note)
	}
	if rest := f.named - f.met - len(f.notes); rest > 0 && len(f.notes) == maxNotes {
		fmt.Fprintf(&b, "\nand %s more that did not match", plural(rest, "call"))
	}
	return b.String()
}

// lost says why calls may be missing in the view; empty when none can be.
func lost(view *trace.View) string {
	for _, l := range view.Limitations() {
		switch l.Code {
		case "cleanup_failed": // the frames are all there
		case "open":
			return "the execution is still open: more calls may follow"
		default:
			return fmt.Sprintf("the trace is partial (%s: %s): calls may be missing", l.Code, l.Message)
		}
	}
	return ""
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
