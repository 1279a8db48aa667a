package model

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/m3-go/m3/harness"
)

// responses is OpenAI's Responses.
type responses struct{ openAI }

func (responses) kind() harness.Dialect { return harness.OpenAIResponses }
func (responses) path() string          { return "/responses" }

func (responses) callID(answer string, i int) string { return fmt.Sprintf("call_%s_%d", answer, i) }

func (responses) parse(body []byte) (*request, error) {
	var b struct {
		Model           string
		Stream          bool
		Instructions    string
		MaxOutputTokens int64 `json:"max_output_tokens"`
		Text            struct {
			Format struct{ Schema json.RawMessage }
		}
		ToolChoice json.RawMessage `json:"tool_choice"`
		Input      json.RawMessage
		Tools      []json.RawMessage
	}
	if err := decodeBody(body, &b); err != nil {
		return nil, err
	}
	items := blocks(b.Input)
	if len(items) == 0 {
		return nil, errors.New("it has no input")
	}
	r := &request{
		body: body, model: b.Model, stream: b.Stream, usage: true, maxTokens: b.MaxOutputTokens,
		schema: b.Text.Format.Schema, forced: forcedTool(b.ToolChoice),
	}
	if b.Instructions != "" {
		r.system = append(r.system, b.Instructions)
	}
	r.offer(b.Tools, "")
	for _, it := range items {
		r.addResponses(it)
	}
	return r, nil
}

func (r *request) addResponses(it block) {
	switch {
	case it.Type == "text": // input as one text
		r.add(userText, it.Text)
	case it.Type == "function_call_output" || it.Type == "custom_tool_call_output" || it.Type == "mcp_tool_call_output" || it.Type == "tool_search_output":
		r.add(toolResult, flat(it.Output))
	case it.Type == "function_call" || it.Type == "custom_tool_call" || it.Type == "tool_search_call":
		r.add(toolCall, it.Name)
	case it.Type == "additional_tools":
		r.offer(it.Tools, "")
	case it.Role == "system" || it.Role == "developer":
		for _, b := range blocks(it.Content) {
			r.system = append(r.system, b.Text)
		}
	case it.Role == "assistant":
		r.add(assistantText, flat(it.Content))
	case it.Role == "user":
		for _, b := range blocks(it.Content) {
			r.add(userText, b.Text)
		}
	}
}

func (responses) usage(a *answer) any {
	if a.usage == nil || !a.complete {
		return nil
	}
	u := a.usage
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details":  object{"cached_tokens": u.CacheRead},
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// status is the state of the response, and why it is incomplete.
func (responses) status(a *answer) (string, any) {
	switch {
	case !a.complete:
		return "in_progress", nil
	case a.stop == MaxTokens:
		return "incomplete", object{"reason": "max_output_tokens"}
	case a.stop == Refusal:
		return "incomplete", object{"reason": "content_filter"}
	}
	return "completed", nil
}

func (d responses) response(a *answer, status string, why any, output []any) object {
	if output == nil {
		output = []any{}
	}
	return object{
		"id": "resp_" + a.id, "object": "response", "created_at": createdAt, "model": a.model, "status": status, "incomplete_details": why, "error": nil,
		"output": output, "usage": d.usage(a), "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
	}
}

func (d responses) whole(a *answer) any {
	status, why := d.status(a)
	var output []any
	for i := range a.parts {
		state := "completed"
		if !a.complete && i == len(a.parts)-1 {
			state = "in_progress"
		}
		output = append(output, d.item(a, i, state, true))
	}
	return d.response(a, status, why, output)
}

// item is the output item of a part, empty or whole.
func (responses) item(a *answer, i int, status string, whole bool) object {
	p := a.parts[i]
	text := p.text
	if !whole {
		text = ""
	}
	switch p.kind {
	case thinkPart, hiddenPart:
		o := object{"type": "reasoning", "id": partID("rs", a, i), "summary": []any{}}
		if p.kind == hiddenPart && whole {
			o["encrypted_content"] = text
		} else if p.kind == thinkPart && whole {
			o["summary"] = []any{object{"type": "summary_text", "text": text}}
		}
		return o
	case sayPart:
		o := object{"type": "message", "id": partID("msg", a, i), "role": "assistant", "status": status, "content": []any{}}
		if whole {
			o["content"] = []any{outputText(text)}
		}
		return o
	}
	o := object{"type": "function_call", "id": partID("fc", a, i), "call_id": p.id, "name": p.call.name, "arguments": text, "status": status}
	if p.call.namespace != "" {
		o["namespace"] = p.call.namespace
	}
	return o
}

func partID(prefix string, a *answer, i int) string { return fmt.Sprintf("%s_%s_%d", prefix, a.id, i) }

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}}
}

func (d responses) frames(a *answer, yield func(frame) bool) {
	sequence := 0
	send := func(f frame, typ string, data object) bool {
		data["type"], data["sequence_number"] = typ, sequence
		sequence++
		f.event, f.data = typ, data
		return yield(f)
	}
	none := frame{part: -1}
	if !send(none, "response.created", object{"response": d.response(a.begun(), "in_progress", nil, nil)}) {
		return
	}
	for i := range a.parts {
		if !send(none, "response.output_item.added", object{"output_index": i, "item": d.item(a, i, "in_progress", false)}) || !d.deltas(a, i, send) {
			return
		}
		done := frame{part: -1, end: i == len(a.parts)-1}
		if a.parts[i].kind == hiddenPart { // it comes whole
			done = frame{part: i, text: a.parts[i].text}
		}
		if !send(done, "response.output_item.done", object{"output_index": i, "item": d.item(a, i, "completed", true)}) {
			return
		}
	}
	status, _ := d.status(a)
	send(frame{part: -1, end: true}, "response."+status, object{"response": d.whole(a)})
}

// begun is an answer of which nothing was said.
func (a *answer) begun() *answer { return &answer{id: a.id, model: a.model} }

// deltas sends the pieces of a part, within what opens and closes its content. What closes it comes after the end for a fault.
func (responses) deltas(a *answer, i int, send func(frame, string, object) bool) bool {
	p := a.parts[i]
	open, closed := frame{part: -1}, frame{part: -1, end: i == len(a.parts)-1}
	piece := func(s string) frame { return frame{part: i, text: s} }
	at := func(id string, more object) object {
		more["item_id"], more["output_index"] = id, i
		return more
	}
	switch p.kind {
	case hiddenPart:
		return true
	case thinkPart:
		id := partID("rs", a, i)
		if !send(open, "response.reasoning_summary_part.added", at(id, object{"summary_index": 0, "part": object{"type": "summary_text", "text": ""}})) {
			return false
		}
		for _, s := range pieces(p.text) {
			if !send(piece(s), "response.reasoning_summary_text.delta", at(id, object{"summary_index": 0, "delta": s})) {
				return false
			}
		}
		return send(closed, "response.reasoning_summary_text.done", at(id, object{"summary_index": 0, "text": p.text})) &&
			send(closed, "response.reasoning_summary_part.done", at(id, object{"summary_index": 0, "part": object{"type": "summary_text", "text": p.text}}))
	case sayPart:
		id := partID("msg", a, i)
		if !send(open, "response.content_part.added", at(id, object{"content_index": 0, "part": outputText("")})) {
			return false
		}
		for _, s := range pieces(p.text) {
			if !send(piece(s), "response.output_text.delta", at(id, object{"content_index": 0, "delta": s})) {
				return false
			}
		}
		return send(closed, "response.output_text.done", at(id, object{"content_index": 0, "text": p.text})) &&
			send(closed, "response.content_part.done", at(id, object{"content_index": 0, "part": outputText(p.text)}))
	}
	id := partID("fc", a, i)
	for _, s := range halves(p.text) {
		if !send(piece(s), "response.function_call_arguments.delta", at(id, object{"delta": s})) {
			return false
		}
	}
	return send(closed, "response.function_call_arguments.done", at(id, object{"arguments": p.text}))
}

func (d responses) failed(a *answer, f Failure, sequence int) frame {
	response := d.response(a.begun(), "failed", nil, nil)
	response["error"] = object{"code": f.Code, "message": f.Message}
	return frame{event: "response.failed", data: object{"type": "response.failed", "sequence_number": sequence, "response": response}, part: -1}
}

func (responses) broken() string {
	return "event: response.output_text.delta\ndata: {\"type\":\"response.output_te\n\n"
}
