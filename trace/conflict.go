package trace

import (
	"slices"
	"strings"
)

// conflicts lists on what the two tapes disagree. e has the wire's values. What one of them does not show is no disagreement, nor is what agents
// do to every result: they leave out structured content, or give it as the text, and join texts with line breaks of their own. ended says whether
// the wire shows how the call ended, or that it did not.
func conflicts(e *ToolCallEntry, t *ReportedToolCall, ended bool) (out []Conflict) {
	add := func(field string, reported, wire JSON) { out = append(out, Conflict{field, reported, wire}) }
	for _, f := range [...]struct {
		name       string
		told, wire Observation[string]
	}{{"server", t.Server, e.Server}, {"tool", t.Tool, e.Tool}} {
		if f.told.OK() && f.wire.OK() && f.told.Value != f.wire.Value {
			add(f.name, AppendString(nil, f.told.Value), AppendString(nil, f.wire.Value))
		}
	}
	if !sameArguments(t.Arguments, e.Arguments) {
		add("arguments", t.Arguments.Value, e.Arguments.Value)
	}
	if !ended {
		return out
	}
	switch w := e.Result; {
	case !t.Result.OK():
	case w.OK() && !sameResult(&t.Result.Value, &w.Value, t.Status):
		add("result", t.Result.Value.wireJSON(), w.Value.wireJSON())
	case w.State == NotEmitted && t.Status == ToolSuccess:
		add("result", t.Result.Value.wireJSON(), nil)
	}
	if !sameStatus(t.Status, e.ToolStatus) {
		add("status", AppendString(nil, string(t.Status)), AppendString(nil, string(e.ToolStatus)))
	}
	return out
}

// sameArguments compares what both tapes show. None, null and an empty object are the same.
func sameArguments(told, wire Observation[JSON]) bool {
	if !told.OK() || !wire.OK() && wire.State != NotEmitted {
		return true
	}
	var sides [2]value
	for i, j := range [...]JSON{told.Value, wire.Value} {
		v, ok := whole(j)
		if ok && v.null() || len(j) == 0 {
			v, ok = value{b: []byte("{}")}, true
		}
		if !ok {
			return true
		}
		sides[i] = v
	}
	return sameJSON(sides[0], sides[1])
}

// sameStatus compares what agents can tell apart: they have one word for all failures, and an unfinished call is one of which they told no end. A
// call that was never answered is a failure to its agent.
func sameStatus(told, wire ToolCallStatus) bool {
	switch told {
	case ToolIncomplete, "":
		return true
	case ToolSuccess, ToolCompleted:
		return wire == ToolSuccess
	case ToolCancelled:
		return wire != ToolSuccess && wire != ToolError && wire != ToolProtocolError
	}
	return wire != ToolSuccess
}

// sameResult compares results as far as agents keep them.
func sameResult(told, wire *ToolResult, status ToolCallStatus) bool {
	text := flatText(JoinText(told.Content))
	failed := status != ToolSuccess && status != ToolCompleted
	if fault, ok := wire.Error.Get(); ok {
		v, _ := whole(fault)
		message, _ := v.field("message").text()
		return failed && (text == "" || strings.Contains(text, flatText(message)))
	}
	structured, hasStructured := present(wire.StructuredContent)
	if mine, ok := present(told.StructuredContent); ok {
		if hasStructured && !sameJSON(mine, structured) || !hasStructured && !isText(mine, JoinText(wire.Content)) {
			return false
		}
		if len(told.Content) == 0 {
			return true
		}
	}
	if hasStructured && isText(structured, JoinText(told.Content)) {
		return true
	}
	for _, c := range told.Content {
		if c.Type != "text" && !slices.ContainsFunc(wire.Content, func(w Content) bool { return w.Type == c.Type }) {
			return false
		}
	}
	for _, want := range [...]string{flatText(JoinText(wire.Content)), flatText(allText(wire.Content))} {
		if text == want || failed && strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// present is a value that was observed and is not null.
func present(o Observation[JSON]) (value, bool) {
	if !o.OK() {
		return value{}, false
	}
	v, ok := whole(o.Value)
	return v, ok && !v.null()
}

// isText reports whether a text is a value written as JSON.
func isText(v value, text string) bool {
	w, ok := whole([]byte(text))
	return ok && sameJSON(v, w)
}

// flatText leaves out line breaks.
func flatText(s string) string { return strings.NewReplacer("\n", "", "\r", "").Replace(s) }

// allText is the text of text blocks and of embedded resources.
func allText(blocks []Content) string {
	var b strings.Builder
	for _, c := range blocks {
		b.WriteString(c.Text)
		if c.Type == "resource" {
			v, _ := whole(c.Raw)
			text, _ := v.field("resource").field("text").text()
			b.WriteString(text)
		}
	}
	return b.String()
}

// wireJSON is the result by the names of the wire, without what says nothing.
func (r *ToolResult) wireJSON() JSON {
	if fault, ok := r.Error.Get(); ok && len(r.Content) == 0 {
		return slices.Concat(JSON(`{"error":`), fault, JSON("}"))
	}
	b := JSON(`{"content":[`)
	for i, c := range r.Content {
		if i > 0 {
			b = append(b, ',')
		}
		if _, ok := whole(c.Raw); ok {
			b = append(b, c.Raw...)
			continue
		}
		b = append(AppendString(append(b, `{"type":`...), c.Type), `,"text":`...)
		b = append(AppendString(b, c.Text), '}')
	}
	b = append(b, ']')
	if s, ok := r.StructuredContent.Get(); ok && len(s) > 0 {
		b = append(append(b, `,"structuredContent":`...), s...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}
