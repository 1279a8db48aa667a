package model

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/m3-go/m3/harness"
)

// chat is OpenAI's Chat Completions.
type chat struct{ openAI }

func (chat) kind() harness.Dialect { return harness.OpenAIChat }
func (chat) path() string          { return "/chat/completions" }

func (chat) callID(answer string, i int) string { return fmt.Sprintf("call_%s_%d", answer, i) }

func (chat) parse(body []byte) (*request, error) {
	var b struct {
		Model         string
		Stream        bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		MaxTokens           int64           `json:"max_tokens"`
		MaxCompletionTokens int64           `json:"max_completion_tokens"`
		Stop                json.RawMessage `json:"stop"`
		ResponseFormat      struct {
			JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
		} `json:"response_format"`
		ToolChoice json.RawMessage `json:"tool_choice"`
		Messages   []block
		Tools      []json.RawMessage
	}
	if err := decodeBody(body, &b); err != nil {
		return nil, err
	}
	if len(b.Messages) == 0 {
		return nil, errors.New("it has no messages")
	}
	r := &request{
		body: body, model: b.Model, stream: b.Stream, usage: b.StreamOptions.IncludeUsage, maxTokens: max(b.MaxTokens, b.MaxCompletionTokens),
		schema: b.ResponseFormat.JSONSchema.Schema, forced: forcedTool(b.ToolChoice), stops: stopTexts(b.Stop),
	}
	for _, m := range b.Messages {
		r.addChat(m)
	}
	r.offer(b.Tools, "")
	return r, nil
}

func (r *request) addChat(m block) {
	switch m.Role {
	case "system", "developer":
		r.system = append(r.system, flat(m.Content))
	case "tool", "function":
		r.add(toolResult, flat(m.Content))
	case "assistant":
		r.add(assistantText, flat(m.Content))
		for _, c := range m.ToolCalls {
			r.add(toolCall, c.Function.Name)
		}
	default:
		r.add(userText, flat(m.Content))
	}
}

// stopTexts are stop sequences: one or a list.
func stopTexts(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	var many []string
	_ = json.Unmarshal(raw, &many) // anything else stops nothing
	return many
}

func (chat) finish(a *answer) any {
	switch {
	case !a.complete:
		return nil
	case a.stop == MaxTokens:
		return "length"
	case a.stop == Refusal:
		return "content_filter"
	case a.calls():
		return "tool_calls"
	}
	return "stop"
}

func (chat) usage(a *answer) any {
	if a.usage == nil || !a.complete {
		return nil
	}
	u := a.usage
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (c chat) whole(a *answer) any {
	message := object{"role": "assistant", "content": orNull(a.text(sayPart))}
	if think := a.text(thinkPart); think != "" {
		message["reasoning_content"] = think
	}
	var calls []any
	for _, p := range a.parts {
		if p.kind == callPart {
			calls = append(calls, object{"id": p.id, "type": "function", "function": object{"name": p.call.flat(), "arguments": p.text}})
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	whole := object{
		"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": createdAt, "model": a.model,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": c.finish(a)}},
	}
	if u := c.usage(a); u != nil {
		whole["usage"] = u
	}
	return whole
}

func (chat) chunk(a *answer, choices ...any) object {
	if choices == nil {
		choices = []any{}
	}
	return object{"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": createdAt, "model": a.model, "choices": choices}
}

func (c chat) delta(a *answer, delta object, part int, text string) frame {
	return frame{data: c.chunk(a, object{"index": 0, "delta": delta, "finish_reason": nil}), part: part, text: text}
}

func (c chat) frames(a *answer, yield func(frame) bool) {
	if !yield(c.delta(a, object{"role": "assistant", "content": ""}, -1, "")) {
		return
	}
	calls := 0
	for i, p := range a.parts {
		if !c.part(a, i, p, calls, yield) {
			return
		}
		if p.kind == callPart {
			calls++
		}
	}
	last := frame{data: c.chunk(a, object{"index": 0, "delta": object{}, "finish_reason": c.finish(a)}), part: -1, end: true}
	if !yield(last) {
		return
	}
	if u := c.usage(a); u != nil && a.reports {
		data := c.chunk(a)
		data["usage"] = u
		if !yield(frame{data: data, part: -1}) {
			return
		}
	}
	yield(frame{data: rawData("[DONE]"), part: -1})
}

// part sends one part; call is its index among the calls.
func (c chat) part(a *answer, i int, p part, call int, yield func(frame) bool) bool {
	switch p.kind {
	case hiddenPart:
		return yield(frame{part: i, text: p.text})
	case thinkPart, sayPart:
		key := map[partKind]string{thinkPart: "reasoning_content", sayPart: "content"}[p.kind]
		for _, s := range pieces(p.text) {
			if !yield(c.delta(a, object{key: s}, i, s)) {
				return false
			}
		}
		return true
	}
	open := object{"index": call, "id": p.id, "type": "function", "function": object{"name": p.call.flat(), "arguments": ""}}
	if !yield(c.delta(a, object{"tool_calls": []any{open}}, i, "")) {
		return false
	}
	for _, s := range halves(p.text) {
		more := object{"index": call, "function": object{"arguments": s}}
		if !yield(c.delta(a, object{"tool_calls": []any{more}}, i, s)) {
			return false
		}
	}
	return true
}

func (c chat) failed(_ *answer, f Failure, _ int) frame {
	return frame{data: c.body(f, ""), part: -1}
}

func (chat) broken() string { return "data: {\"id\":\"chatcmpl-broken\",\"choi\n\n" }
