package expect

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/m3-go/m3/trace"
)

// ResultText wants a call whose result's text blocks, joined with newlines, are exactly want.
func ResultText(want string) CallCondition { return onResultText(exactly(want)) }

// ResultTextContaining wants a call in whose result's text part occurs.
func ResultTextContaining(part string) CallCondition { return onResultText(containing(part)) }

// ResultTextMatching wants a call in whose result's text the regular expression matches somewhere, as [Expectation.TextMatching] does.
func ResultTextMatching(pattern string) CallCondition {
	return onResultText(matching("ResultTextMatching", pattern))
}

func onResultText(w textWant) CallCondition {
	return on("result_"+w.name, w.value, w.misuse, func(s *subject, c *call) outcome {
		r, o := observed(c.result, "result")
		if o.verdict != met {
			return o
		}
		return w.judge(s, r.Text())
	})
}

// ResultStructured wants a call whose structured content is v, compared as [Expectation.StructuredContent] does.
func ResultStructured(v any, opts ...CompareOption) CallCondition {
	w := want("ResultStructured", v, opts)
	return on("result_structured", w, w.misuse, func(s *subject, c *call) outcome {
		r, o := c.parts()
		if o.verdict != met {
			return o
		}
		content, o := observed(r.StructuredContent, "structured content")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("structured content", w, content)
	})
}

// ResultContent wants a call whose result has the content blocks v, compared as [Expectation.Content] does.
func ResultContent(v any, opts ...CompareOption) CallCondition {
	w := want("ResultContent", asBlocks(v), opts)
	return on("result_content", w, w.misuse, func(s *subject, c *call) outcome {
		r, o := observed(c.result, "result")
		if o.verdict != met {
			return o
		}
		return s.compareJSON("content", w, joinJSON(rawBlocks(r.Content)))
	})
}

// Result wants a call whose whole result is v: an object with the names of the wire (content, structuredContent, isError; error for a
// JSON-RPC error). Members that the protocol makes the same as absent (isError false, content []) are; _meta is not compared. nil is an
// observed JSON null in the place of the result.
func Result(v any, opts ...CompareOption) CallCondition {
	w := want("Result", v, opts)
	if object, ok := w.value.(map[string]any); ok && w.misuse == "" {
		normalizeResult(object)
		w.json, _ = json.Marshal(object) // it was JSON
	}
	null := w.value == nil && w.predicate == nil
	return on("result", w, w.misuse, func(s *subject, c *call) outcome {
		if null && c.nullResult {
			return held
		}
		r, o := observed(c.result, "result")
		switch {
		case o.verdict != met:
			return o
		case r.StructuredContent.State != trace.Observed && r.StructuredContent.State != trace.NotEmitted:
			return cannotTell("the structured content is not in the evidence (" + stateText(r.StructuredContent.State, r.StructuredContent.Reason) + ")")
		}
		return s.compareJSON("result", w, resultJSON(&r))
	})
}

func normalizeResult(r map[string]any) {
	if list, ok := r["content"].([]any); ok && len(list) == 0 {
		delete(r, "content")
	}
	if r["isError"] == false {
		delete(r, "isError")
	}
	delete(r, "_meta")
}

// resultJSON is the result as it stood on the wire, without what says nothing.
func resultJSON(r *trace.ToolResult) []byte {
	var b bytes.Buffer
	member := func(name string, v []byte) {
		b.WriteString(map[bool]string{true: "{", false: ","}[b.Len() == 0] + strconv.Quote(name) + ":")
		b.Write(v)
	}
	if len(r.Content) > 0 {
		member("content", joinJSON(rawBlocks(r.Content)))
	}
	if v, ok := r.StructuredContent.Get(); ok {
		member("structuredContent", v)
	}
	if r.IsError {
		member("isError", []byte("true"))
	}
	if v, ok := r.Error.Get(); ok {
		member("error", v)
	}
	if b.Len() == 0 {
		return []byte("{}")
	}
	b.WriteByte('}')
	return b.Bytes()
}

// parts returns the result for a condition on a part of it that has a state of its own: something else in it may be redacted.
func (c *call) parts() (trace.ToolResult, outcome) {
	if c.result.State == trace.Redacted {
		return c.result.Value, held
	}
	return observed(c.result, "result")
}

// isNullResult reads the frame of the answer: a result that is null is malformed, and only the frame says that it was null.
func isNullResult(view *trace.View, entry *trace.ToolCallEntry) bool {
	if entry.Wire.Value.Result.Reason != trace.ReasonMalformedSource {
		return false
	}
	frame, ok := view.Entry("raw_message:" + strconv.FormatInt(entry.SequenceEnd, 10))
	if !ok {
		return false
	}
	raw, ok := frame.(*trace.RawMessageEntry)
	if !ok || raw.Preview.State != trace.Observed {
		return false
	}
	text := raw.Preview.Value
	if raw.Framing == trace.FramingSSE {
		text = sseData(text)
	}
	var m struct{ Result json.RawMessage }
	return json.Unmarshal([]byte(text), &m) == nil && string(m.Result) == "null"
}

// sseData joins the data of a server-sent event.
func sseData(event string) string {
	var data []string
	for line := range strings.Lines(event) {
		if d, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:"); ok {
			data = append(data, strings.TrimPrefix(d, " "))
		}
	}
	return strings.Join(data, "\n")
}
