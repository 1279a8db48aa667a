package expect

import "strings"

// Text expects that the result's text blocks, joined with newlines, are exactly want.
func (e *Expectation) Text(want string) bool {
	e.t.Helper()
	r, o := e.onResult("Text")
	if r != nil {
		o = e.subject.exactText(want, r.Text())
	}
	return e.report("text", o)
}

// TextContaining expects that part occurs in the result's text.
func (e *Expectation) TextContaining(part string) bool {
	e.t.Helper()
	r, o := e.onResult("TextContaining")
	if r != nil {
		o = e.subject.containedText(part, r.Text())
	}
	return e.report("text containing", o)
}

// StructuredContent expects that the result's structured content is the JSON of v: a struct, a map, a json.RawMessage. Numbers are
// compared by value, exactly; the order of an object's members does not matter.
func (e *Expectation) StructuredContent(v any) bool {
	e.t.Helper()
	r, o := e.onResult("StructuredContent")
	switch {
	case r == nil:
	case r.StructuredContent == nil:
		o = differs("the result has no structured content; its text is %s", e.subject.shown(quoted(r.Text())))
	default:
		o = e.subject.compareJSON("structured content", want(v), r.StructuredContent)
	}
	return e.report("structured content", o)
}

func (s *subject) exactText(want, got string) outcome {
	if want == got {
		return held
	}
	return differs("text (-want +got):\n- %s\n+ %s", s.shown(quoted(want)), s.shown(quoted(got)))
}

func (s *subject) containedText(part, got string) outcome {
	if strings.Contains(got, part) {
		return held
	}
	return differs("%s does not occur in the text %s", s.shown(quoted(part)), s.shown(quoted(got)))
}
