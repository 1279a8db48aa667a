package expect

import (
	"github.com/m3-go/m3"
)

// StructuredContent expects that the structured content of a tool's result is v: what encoding/json makes of it (a struct, a map, a
// json.RawMessage), or [Satisfying]. Of other results it is the whole result as it stood on the wire, of a list of items their array, and a map or
// slice is asked about as it is. What is not there equals nothing: nil is an observed JSON null.
func (e *Expectation) StructuredContent(v any, opts ...CompareOption) bool {
	e.t.Helper()
	w := want("StructuredContent", v, opts)
	c := &check{matcher: "structured_content", title: "structured content", misuse: w.misuse}
	c.args.add("expected", w)
	return e.judge(c, func(s *subject) outcome {
		a, o := s.onAnswer("StructuredContent", "ResultStructured")
		switch {
		case a == nil:
			return o
		case a.value != nil:
			return s.compareJSON("structured content", w, a.value)
		case a.isTool:
			return differs("the result has no structured content; its text is %s", s.quoted(*a.text))
		default:
			return differs("the %s has no structured content", a.what)
		}
	})
}

// Content expects that the content blocks of a tool's result, or of a prompt's messages, are the list v, complete and in order unless [Unordered]
// says otherwise: a []m3.Content, or anything that is an array of blocks as JSON, with the names of the wire. With [Partial] a block may have
// members that v does not name.
func (e *Expectation) Content(v any, opts ...CompareOption) bool {
	e.t.Helper()
	w := want("Content", asBlocks(v), opts)
	c := &check{matcher: "content", title: "content", misuse: w.misuse}
	if _, list := w.value.([]any); c.misuse == "" && !list && w.predicate == nil {
		c.misuse = "Content: the expected value is no list of blocks"
	}
	c.args.add("expected", w)
	return e.judge(c, func(s *subject) outcome {
		a, o := s.onAnswer("Content", "ResultContent")
		switch {
		case a == nil:
			return o
		case a.blocks == nil:
			return misused("a %s has no content blocks: ask Text or StructuredContent", a.what)
		default:
			return s.compareJSON("content", w, joinJSON(a.blocks))
		}
	})
}

// asBlocks turns blocks of m3 into those of the wire.
func asBlocks(v any) any {
	if blocks, ok := v.([]m3.Content); ok {
		return joinJSON(rawBlocks(blocks))
	}
	return v
}
