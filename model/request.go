package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// request is what a request of an agent says, whatever its dialect.
type request struct {
	body      []byte
	model     string
	stream    bool
	usage     bool // the stream is to end with usage
	maxTokens int64
	stops     []string        // stop sequences
	schema    json.RawMessage // the schema that the answer must have, if any
	forced    string          // the tool that must be called, if any
	system    []string
	items     []item
	tools     []offered
}

// item is a piece of the conversation.
type item struct {
	kind itemKind
	text string
}

type itemKind int

const (
	userText itemKind = iota
	assistantText
	toolCall
	toolResult
)

func (r *request) add(kind itemKind, text string) { r.items = append(r.items, item{kind, text}) }

// turn is where the current turn begins: after the last answer that called no tool. What an agent adds to results of tools belongs to their turn.
func (r *request) turn() []item {
	for i := len(r.items) - 1; i > 0; i-- {
		if r.items[i].kind == userText && r.items[i-1].kind == assistantText {
			return r.items[i:]
		}
	}
	return r.items
}

// userTexts are what the user said in the current turn.
func (r *request) userTexts() []string { return texts(r.turn(), userText) }

// freshResults are the results that came since the model's last answer.
func (r *request) freshResults() []string {
	for i := len(r.items) - 1; i >= 0; i-- {
		if k := r.items[i].kind; k == assistantText || k == toolCall {
			return texts(r.items[i:], toolResult)
		}
	}
	return texts(r.items, toolResult)
}

func texts(items []item, kind itemKind) []string {
	var out []string
	for _, it := range items {
		if it.kind == kind {
			out = append(out, it.text)
		}
	}
	return out
}

// lastUserText is the last thing that the user said.
func (r *request) lastUserText() string {
	all := texts(r.items, userText)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// block is a content block or an item of a conversation, in any dialect.
type block struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Text      string          `json:"text"`
	Refusal   string          `json:"refusal"`
	Thinking  string          `json:"thinking"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	Name      string          `json:"name"`
	ToolCalls []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tool_calls"`
	Tools []json.RawMessage `json:"tools"`
}

// blocks reads a content: a text, or a list of blocks. Anything else has none.
func blocks(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil
		}
		return []block{{Type: "text", Text: text}}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []block
	for _, r := range list {
		var b block
		if json.Unmarshal(r, &b) == nil {
			out = append(out, b)
		}
	}
	return out
}

// flat is the text of a content.
func flat(raw json.RawMessage) string {
	var parts []string
	for _, b := range blocks(raw) {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// tool is a declaration of a tool in any dialect.
type tool struct {
	Type     string                 `json:"type"`
	Name     string                 `json:"name"`
	Function *struct{ Name string } `json:"function"`
	Custom   *struct{ Name string } `json:"custom"`
	Tools    []json.RawMessage      `json:"tools"`
}

// offer adds what is offered to the model; namespaces are opened. A tool without a name (a hosted one) is none that a script could call.
func (r *request) offer(raws []json.RawMessage, namespace string) {
	for _, raw := range raws {
		var name string
		if json.Unmarshal(raw, &name) == nil && name != "" {
			r.tools = append(r.tools, offered{namespace, name})
			continue
		}
		var t tool
		if json.Unmarshal(raw, &t) != nil {
			continue
		}
		switch {
		case t.Function != nil:
			t.Name = t.Function.Name
		case t.Custom != nil:
			t.Name = t.Custom.Name
		}
		if namespace == "" && (t.Type == "namespace" || t.Tools != nil) {
			r.offer(t.Tools, t.Name)
		} else if t.Name != "" {
			r.tools = append(r.tools, offered{namespace, t.Name})
		}
	}
}

// decodeBody decodes a request's body, which must be one JSON object.
func decodeBody(body []byte, v any) error {
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("the body is not a JSON object")
	}
	return json.Unmarshal(body, v)
}

// forcedTool reads a tool_choice that names one tool.
func forcedTool(raw json.RawMessage) string {
	var c tool
	if json.Unmarshal(raw, &c) != nil {
		return ""
	}
	if c.Function != nil {
		return c.Function.Name
	}
	return c.Name
}
