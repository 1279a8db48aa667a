package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/m3-go/m3/harness"
)

// messages is Anthropic's Messages.
type messages struct{}

func (messages) kind() harness.Dialect { return harness.AnthropicMessages }
func (messages) path() string          { return "/messages" }
func (messages) requestID() string     { return "request-id" }

func (messages) callID(answer string, i int) string { return fmt.Sprintf("toolu_%s_%d", answer, i) }

func (messages) parse(body []byte) (*request, error) {
	var b struct {
		Model         string
		Stream        bool
		MaxTokens     int64    `json:"max_tokens"`
		StopSequences []string `json:"stop_sequences"`
		OutputConfig  struct {
			Format struct{ Schema json.RawMessage }
		} `json:"output_config"`
		OutputFormat struct{ Schema json.RawMessage } `json:"output_format"`
		ToolChoice   json.RawMessage                  `json:"tool_choice"`
		System       json.RawMessage
		Messages     []block
		Tools        []json.RawMessage
	}
	if err := decodeBody(body, &b); err != nil {
		return nil, err
	}
	if len(b.Messages) == 0 {
		return nil, errors.New("it has no messages")
	}
	r := &request{
		body: body, model: b.Model, stream: b.Stream, usage: true, maxTokens: b.MaxTokens, stops: b.StopSequences,
		schema: b.OutputConfig.Format.Schema, forced: forcedTool(b.ToolChoice),
	}
	if r.schema == nil {
		r.schema = b.OutputFormat.Schema
	}
	for _, s := range blocks(b.System) {
		r.system = append(r.system, s.Text)
	}
	for _, m := range b.Messages {
		r.addMessage(m)
	}
	r.offer(b.Tools, "")
	return r, nil
}

func (r *request) addMessage(m block) {
	if m.Role == "system" {
		r.system = append(r.system, flat(m.Content))
		return
	}
	for _, c := range blocks(m.Content) {
		switch {
		case c.Type == "tool_result":
			r.add(toolResult, flat(c.Content))
		case c.Type == "tool_use":
			r.add(toolCall, c.Name)
		case c.Type == "text" && m.Role == "assistant":
			r.add(assistantText, c.Text)
		case c.Type == "text":
			r.add(userText, c.Text)
		}
	}
}

func (messages) stop(a *answer) any {
	switch {
	case !a.complete:
		return nil
	case a.stop == MaxTokens:
		return "max_tokens"
	case a.stop == Refusal:
		return "refusal"
	case a.calls():
		return "tool_use"
	}
	return "end_turn"
}

func (messages) usage(a *answer, output int64) object {
	var u Usage
	if a.usage != nil {
		u = *a.usage
	}
	return object{
		"input_tokens": u.Input - u.CacheRead - u.CacheWrite, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead, "output_tokens": output,
	}
}

func (d messages) message(a *answer, content []any, stop any, output int64) object {
	if content == nil {
		content = []any{}
	}
	return object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": content, "stop_reason": stop, "stop_sequence": nil, "usage": d.usage(a, output),
	}
}

// spent is how many tokens the answer says that it has.
func (a *answer) spent() int64 {
	if a.usage == nil {
		return 0
	}
	return a.usage.Output
}

func (d messages) whole(a *answer) any {
	var content []any
	for _, p := range a.parts {
		content = append(content, d.block(p))
	}
	output := a.spent()
	if !a.complete {
		output = min(output, 1)
	}
	return d.message(a, content, d.stop(a), output)
}

// signature stands for the provider's signature of reasoning.
const signature = "bTMtc2NyaXB0ZWQ="

func (messages) block(p part) object {
	switch p.kind {
	case thinkPart:
		return object{"type": "thinking", "thinking": p.text, "signature": signature}
	case hiddenPart:
		return object{"type": "redacted_thinking", "data": p.text}
	case sayPart:
		return object{"type": "text", "text": p.text}
	}
	return object{"type": "tool_use", "id": p.id, "name": p.call.flat(), "input": p.input()}
}

func (d messages) frames(a *answer, yield func(frame) bool) {
	send := func(f frame, typ string, data object) bool {
		data["type"] = typ
		f.event, f.data = typ, data
		return yield(f)
	}
	if !send(frame{part: -1}, "message_start", object{"message": d.message(a, nil, nil, min(a.spent(), 1))}) {
		return
	}
	for i, p := range a.parts {
		if !d.deltas(i, p, send) || !send(frame{part: -1, end: i == len(a.parts)-1}, "content_block_stop", object{"index": i}) {
			return
		}
	}
	end := frame{part: -1, end: true}
	_ = send(end, "message_delta", object{"delta": object{"stop_reason": d.stop(a), "stop_sequence": nil}, "usage": d.usage(a, a.spent())}) &&
		send(end, "message_stop", object{})
}

func (d messages) deltas(i int, p part, send func(frame, string, object) bool) bool {
	begin := p
	begin.text = ""
	first := d.block(begin)
	kind, key := "text_delta", "text"
	switch p.kind {
	case hiddenPart:
		return send(frame{part: i, text: p.text}, "content_block_start", object{"index": i, "content_block": d.block(p)})
	case thinkPart:
		first["signature"] = ""
		kind, key = "thinking_delta", "thinking"
	case callPart:
		first["input"] = object{}
		kind, key = "input_json_delta", "partial_json"
	}
	if !send(frame{part: i}, "content_block_start", object{"index": i, "content_block": first}) {
		return false
	}
	cut := pieces
	if p.kind == callPart {
		cut = halves
	}
	for _, s := range cut(p.text) {
		if !send(frame{part: i, text: s}, "content_block_delta", object{"index": i, "delta": object{"type": kind, key: s}}) {
			return false
		}
	}
	if p.kind == thinkPart {
		return send(frame{part: i}, "content_block_delta", object{"index": i, "delta": object{"type": "signature_delta", "signature": signature}})
	}
	return true
}

func (messages) fill(status int, f Failure) Failure { return anthropicError(status, f) }

func (messages) body(f Failure, id string) any {
	return object{"type": "error", "error": object{"type": f.Type, "message": f.Message}, "request_id": id}
}

func (messages) failed(_ *answer, f Failure, _ int) frame {
	return frame{event: "error", data: object{"type": "error", "error": object{"type": f.Type, "message": f.Message}}, part: -1}
}

func (messages) broken() string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_de\n\n"
}

func (messages) models(name string) any {
	return object{
		"data":     []any{object{"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z"}},
		"has_more": false, "first_id": name, "last_id": name,
	}
}

// flat is the one name of a tool where the dialect knows no namespaces.
func (o offered) flat() string {
	if o.namespace == "" {
		return o.name
	}
	return strings.TrimSuffix(o.namespace, "__") + "__" + o.name
}
