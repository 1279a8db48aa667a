package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Completeness expects that the trace is complete, or that it is partial: that something of the execution was not captured.
func (e *Expectation) Completeness(want trace.Completeness) bool {
	e.t.Helper()
	c := &check{matcher: "completeness", title: "completeness"}
	if want != trace.Complete && want != trace.Partial {
		c.misuse = fmt.Sprintf("Completeness(%q): use trace.Complete or trace.Partial", string(want))
	}
	c.args.add("completeness", want)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Completeness")
		if view == nil {
			return o
		}
		if got := view.Completeness(); got != want {
			return differs("completeness (-want +got):\n- %s\n+ %s%s", want, got, limitations(view))
		}
		return s.holds("the trace is %s%s", want, limitations(view))
	})
}

// Limitation expects that the trace names the limitation: capture_incomplete, capture_disabled, persistence_failed, interrupted and so on.
func (e *Expectation) Limitation(code string) bool {
	e.t.Helper()
	c := &check{matcher: "limitation", title: "limitation " + quoted(code), selector: code}
	if code == "" {
		c.misuse = "Limitation: the code is empty"
	}
	c.args.add("code", code)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Limitation")
		if view == nil {
			return o
		}
		for _, l := range view.Limitations() {
			if l.Code == code {
				return s.holds("the trace has it: %s", l.Message)
			}
		}
		return differs("limitation (-want +got):\n- %s\n+ %s", code, orNone(limitations(view)))
	})
}

func limitations(view *trace.View) string {
	var text strings.Builder
	for _, l := range view.Limitations() {
		fmt.Fprintf(&text, " (%s: %s)", l.Code, cut(l.Message, 400, "bytes more"))
	}
	return text.String()
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return strings.TrimSpace(text)
}

// EntryOption says where [Expectation.Entries] looks and how many it wants: [InTurn], [OnServer], [Times], [MinTimes], [MaxTimes].
type EntryOption interface{ entryOption(*entrySpec) }

type entrySpec struct {
	common
	count
}

// entryKinds are the public kinds of entries.
var entryKinds = []trace.EntryKind{trace.EntryLifecycle, trace.EntryMessage, trace.EntryReasoning, trace.EntryToolCall, trace.EntryProtocol,
	trace.EntryTransport, trace.EntryInitialization, trace.EntryUsage, trace.EntryInteraction, trace.EntryElicitation, trace.EntryProcess,
	trace.EntryWorkspace, trace.EntryArtifact, trace.EntryDiagnostic, trace.EntryRawMessage, trace.EntryProvider, trace.EntryFinding}

// Entries expects entries of the kind on the timeline: at least one, or as many as the options say. m3's own are left out. The kinds of stored
// events (mcp.request, execution.created, …) are no kinds of entries, and are refused.
func (e *Expectation) Entries(kind trace.EntryKind, opts ...EntryOption) bool {
	e.t.Helper()
	spec := &entrySpec{}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.entryOption(spec)
	}
	if wrong := spec.count.check(); wrong != "" {
		spec.wrong("%s", wrong)
	}
	if !slices.Contains(entryKinds, kind) {
		spec.wrong("Entries(%q): that is no kind of entry; how events are stored is nothing to rely on. The kinds are: %s", string(kind), joined(entryKinds))
	}
	c := &check{matcher: "entries", title: "entries of kind " + quoted(string(kind)), selector: spec.selector(string(kind)), turn: spec.turn, misuse: spec.common.misuse}
	c.args.add("kind", kind)
	c.args = append(append(c.args, spec.common.args...), spec.count.args...)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Entries")
		if view == nil {
			return o
		}
		if view, o = spec.narrow(view); view == nil {
			return o
		}
		n := 0
		for _, entry := range view.Timeline().All() {
			b := entry.Common()
			if b.Kind == kind && !b.Own && (spec.server == "" || b.ServerBinding == spec.server) {
				n++
			}
		}
		return spec.weigh(s, n, 0, lost(view), func() string {
			return fmt.Sprintf("entries of kind %s (-want +got):\n- %s\n+ %d", kind, &spec.count, n)
		})
	})
}

// Artifact expects that a file was kept with the execution, by its name or by the SHA-256 of what is in it, in hexadecimal digits.
func (e *Expectation) Artifact(name string) bool {
	e.t.Helper()
	c := &check{matcher: "artifact", title: "artifact " + quoted(name), selector: name}
	if name == "" {
		c.misuse = "Artifact: the name is empty"
	}
	c.args.add("artifact", name)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("Artifact")
		if view == nil {
			return o
		}
		var names []string
		hidden := false
		for _, a := range view.Artifacts().All() {
			if a.Name == name || a.SHA256 != "" && a.SHA256 == name {
				return s.holds("there is the artifact %s, sha256 %s", quoted(a.Name), a.SHA256)
			}
			hidden = hidden || a.Name == "" || slices.Contains(a.Limitations, string(trace.ReasonRedactedByPolicy))
			names = append(names, a.Name)
		}
		switch lost := lost(view); {
		case lost != "":
			return cannotTell("there is no such artifact, but " + lost)
		case hidden:
			return cannotTell("there is no such artifact, but the names of some are not in the evidence")
		default:
			return differs("artifact (-want +got):\n- %s\n+ %s", s.quoted(name), orNone(list(names)))
		}
	})
}

// WorkspaceDiff expects that the last change of the agent's workspace is v, compared as [Expectation.StructuredContent] does: an object such as
// {"added": […], "modified": […], "deleted": […]}; with [Partial] the lists that v does not name do not matter.
func (e *Expectation) WorkspaceDiff(v any, opts ...CompareOption) bool {
	e.t.Helper()
	w := want("WorkspaceDiff", v, opts)
	c := &check{matcher: "workspace_diff", title: "workspace diff", misuse: w.misuse}
	c.args.add("expected", w)
	return e.judge(c, func(s *subject) outcome {
		view, o := s.onView("WorkspaceDiff")
		if view == nil {
			return o
		}
		changes := view.Workspace()
		if changes.Len() == 0 {
			if lost := lost(view); lost != "" {
				return cannotTell("there is no change of a workspace, but " + lost)
			}
			return differs("there is no change of a workspace in the evidence")
		}
		change, o := observed(changes.At(changes.Len()-1).Change, "change of the workspace")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("workspace diff", w, change)
	})
}
