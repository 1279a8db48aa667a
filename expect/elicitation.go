package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// AnyKey in the place of a request's key stands for every key.
const AnyKey = "*"

// ElicitationOption says more about the request for input that [Expectation.Elicitation] looks for, about where to look, or about how many there are.
type ElicitationOption interface{ elicitationOption(*elicitationSpec) }

type elicitationSpec struct {
	common
	count
	conditions []elicitationTest
}

// elicitationTest is one thing that must be true of a request.
type elicitationTest func(s *subject, e *trace.ElicitationEntry) outcome

// ElicitationCondition is what [Action], [Mode], [Round], [Message] and [WithContent] return.
type ElicitationCondition struct{ apply func(*elicitationSpec) }

func (o ElicitationCondition) elicitationOption(s *elicitationSpec) {
	if o.apply == nil {
		s.wrong(emptyOption)
		return
	}
	o.apply(s)
}

func onElicitation(name string, value any, misuse string, f elicitationTest) ElicitationCondition {
	return ElicitationCondition{func(s *elicitationSpec) {
		if misuse != "" {
			s.wrong("%s", misuse)
			return
		}
		s.common.args.add(name, value)
		s.conditions = append(s.conditions, f)
	}}
}

// Action wants a request that was answered so: accept, decline or cancel.
func Action(want trace.Action) ElicitationCondition {
	misuse := ""
	if !slices.Contains([]trace.Action{trace.ActionAccept, trace.ActionDecline, trace.ActionCancel}, want) {
		misuse = fmt.Sprintf("Action(%q): use trace.ActionAccept, ActionDecline or ActionCancel", string(want))
	}
	return onElicitation("action", want, misuse, func(s *subject, e *trace.ElicitationEntry) outcome {
		switch {
		case e.Action == want:
			return held
		case e.Action != "":
			return differs("action (-want +got):\n- %s\n+ %s", want, s.shown(string(e.Action)))
		case e.InputResponses.State != trace.NotEmitted && !e.InputResponses.OK():
			return cannotTell("the answer is not in the evidence (" + stateText(e.InputResponses.State, e.InputResponses.Reason) + ")")
		default:
			return differs("action (-want +got):\n- %s\n+ no answer", want)
		}
	})
}

// Mode wants a request of the mode, form or url.
func Mode(want string) ElicitationCondition {
	misuse := ""
	if want != "form" && want != "url" {
		misuse = fmt.Sprintf("Mode(%q): use form or url", want)
	}
	return onElicitation("mode", want, misuse, func(s *subject, e *trace.ElicitationEntry) outcome {
		if e.Mode == want {
			return held
		}
		return differs("mode (-want +got):\n- %s\n+ %s", want, s.shown(e.Mode))
	})
}

// Round wants a request of the round, from 1.
func Round(n int) ElicitationCondition {
	misuse := ""
	if n < 1 {
		misuse = fmt.Sprintf("Round(%d): rounds are counted from 1", n)
	}
	return onElicitation("round", n, misuse, func(_ *subject, e *trace.ElicitationEntry) outcome {
		if e.RoundIndex == n {
			return held
		}
		return differs("round (-want +got):\n- %d\n+ %d", n, e.RoundIndex)
	})
}

// Message wants a request with exactly this message for the user.
func Message(want string) ElicitationCondition {
	return onElicitation("message", want, "", func(s *subject, e *trace.ElicitationEntry) outcome {
		got, o := observed(e.Message, "message")
		switch {
		case o.verdict != met:
			return o
		case got == want:
			return held
		}
		return differs("message (-want +got):\n- %s\n+ %s", s.quoted(want), s.quoted(got))
	})
}

// WithContent wants a request that was answered with the content v, compared as [Expectation.StructuredContent] does.
func WithContent(v any, opts ...CompareOption) ElicitationCondition {
	w := want("WithContent", v, opts)
	return onElicitation("content", w, w.misuse, func(s *subject, e *trace.ElicitationEntry) outcome {
		content, o := observed(e.Content, "content")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("content", w, content)
	})
}

// Elicitation expects a request for input with the key ([AnyKey] for every key) that all options hold for: at least one, or as many as the
// options say.
func (e *Expectation) Elicitation(key string, opts ...ElicitationOption) bool {
	e.t.Helper()
	spec := &elicitationSpec{}
	if key == "" {
		spec.wrong("Elicitation: the key is empty: expect.AnyKey stands for every key")
	}
	for _, opt := range opts {
		if opt == nil {
			spec.wrong("an option is nil")
			continue
		}
		opt.elicitationOption(spec)
	}
	if wrong := spec.count.check(); wrong != "" {
		spec.wrong("%s", wrong)
	}
	c := &check{matcher: "elicitation", title: "elicitation " + keyName(key), selector: spec.selector(key), turn: spec.turn, misuse: spec.common.misuse}
	c.args.add("key", key)
	c.args = append(append(c.args, spec.common.args...), spec.count.args...)
	return e.judge(c, func(s *subject) outcome { return s.judgeElicitations(key, spec) })
}

func keyName(key string) string {
	if key == AnyKey {
		return "of any key"
	}
	return quoted(cut(key, 200, "bytes more"))
}

func (s *subject) judgeElicitations(key string, spec *elicitationSpec) outcome {
	view, o := s.onView("Elicitation")
	if view == nil {
		return o
	}
	if view, o = spec.narrow(view); view == nil {
		return o
	}
	var found, named, uncertain int
	var notes, others []string
	for _, entry := range view.Elicitations().All() {
		if entry.Own || spec.server != "" && entry.Server != spec.server {
			continue
		}
		if key != AnyKey && entry.RequestKey != key {
			others = append(others, entry.RequestKey)
			continue
		}
		named++
		o := s.allOf(&entry, spec.conditions)
		switch o.verdict {
		case met:
			found++
			continue
		case unknown:
			uncertain++
			o.reason = "cannot tell: " + o.reason
		}
		if len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf("round %d of %s %s: %s", entry.RoundIndex, entry.OperationKind, quoted(cut(entry.OperationName, 200, "bytes more")), o.reason))
		}
		s.quiet = len(notes) >= maxNotes
	}
	return spec.weigh(s, found, uncertain, lost(view), func() string {
		name := strings.TrimPrefix(keyName(key), "of ")
		text := fmt.Sprintf("%s of %s, %d as expected, want %s", plural(named, "request"), name, found, &spec.count)
		if named == 0 {
			text = fmt.Sprintf("no request of %s, want %s; asked for were: %s", name, &spec.count, orNone(list(others)))
		}
		return strings.Join(append([]string{text}, notes...), "\n")
	})
}

func (s *subject) allOf(e *trace.ElicitationEntry, conditions []elicitationTest) outcome {
	result := held
	for _, condition := range conditions {
		if o := condition(s, e); o.verdict == unmet || o.verdict != met && result.verdict == met {
			result = o
		}
	}
	return result
}
