package acp

import (
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// toolCall is one tool call of a turn.
type toolCall struct {
	Call
	status string
	output raw   // rawOutput
	blocks []raw // content
	meta   object
	named  Named
	told   bool // ToolCall, or Activity, was emitted
	ended  bool
	// toldInput is the input as it was told.
	toldInput raw
}

// merge takes a tool_call, a tool_call_update or the toolCall of a permission request: each member that is there replaces the one before.
func (c *toolCall) merge(u object) {
	for name, v := range u {
		if v.null() {
			continue
		}
		switch name {
		case "title":
			c.Title = v.str()
		case "name":
			c.Name = v.str()
		case "kind":
			c.Kind = v.str()
		case "status":
			c.status = v.str()
		case "rawInput":
			c.Input = v.json()
		case "rawOutput":
			c.output = v
		case "content":
			c.blocks = v.list()
		case "_meta":
			c.mergeMeta(v)
		}
	}
}

// mergeMeta keeps the members of each _meta: updates add to it.
func (c *toolCall) mergeMeta(v raw) {
	if c.meta == nil {
		c.meta = object{}
	}
	for k, m := range v.obj() {
		c.meta[k] = m
	}
	c.Meta = encode(c.meta).json()
}

// known reports whether the arguments are known: agents announce a call with an empty input, and some (claude-agent-acp) stream it, so that a pending call may have half of them.
func (c *toolCall) known() bool { return c.status != "" && c.status != "pending" }

func (c *toolCall) final() bool { return c.status == "completed" || c.status == "failed" }

// name is how the agent calls the tool.
func (c *toolCall) name() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Title
}

// name takes the call's name apart, by everything known of it so far.
func (s *session) named(c *toolCall) Named {
	if s.cfg.Naming == nil {
		return Named{}
	}
	return s.cfg.Naming(&c.Call, s.servers, &s.spec.Tools)
}

// event is the call as it is told on.
func (c *toolCall) event() harness.Event {
	if c.named.Builtin {
		return &harness.Activity{Kind: c.activity(), Data: encode(map[string]any{"tool_call_id": c.ID, "name": c.name(), "kind": c.Kind, "input": raw(c.Input), "phase": "started"}).json()}
	}
	e := &harness.ToolCall{ID: c.ID, Name: c.name(), Server: notEmitted[string](), Tool: notEmitted[string](), Arguments: notEmitted[trace.JSON]()}
	if c.named.Server != "" {
		e.Server, e.Tool = trace.Observe(c.named.Server), trace.Observe(c.named.Tool)
	}
	switch {
	case c.named.Arguments != nil:
		e.Arguments = trace.Observe(c.named.Arguments)
	case c.Input != nil:
		e.Arguments = trace.Observe(c.Input)
	}
	return e
}

// result is the end of the call as it is told on.
func (c *toolCall) result() harness.Event {
	if c.named.Builtin {
		return &harness.Activity{Kind: c.activity(), Data: encode(map[string]any{"tool_call_id": c.ID, "name": c.name(), "kind": c.Kind, "status": c.status, "output": c.output, "content": c.blocks, "phase": "ended"}).json()}
	}
	e := &harness.ToolResult{ID: c.ID, Status: trace.ToolIncomplete, Result: notEmitted[trace.ToolResult]()}
	switch c.status {
	case "completed":
		e.Status = trace.ToolSuccess
	case "failed":
		e.Status = trace.ToolError
	}
	if c.final() {
		e.Result = c.outcome()
	}
	return e
}

func (c *toolCall) activity() string {
	if c.Kind == "" {
		return "tool"
	}
	return c.Kind
}

// outcome reads the result out of whichever member has most of it: an MCP result, the blocks of one, a text; the content that the agent shows its user comes after what it got,
// for some dress it up.
func (c *toolCall) outcome() trace.Observation[trace.ToolResult] {
	r := trace.ToolResult{IsError: c.status == "failed", StructuredContent: notEmitted[trace.JSON](), Error: notEmitted[trace.JSON]()}
	out := c.output.obj()
	mcp := out
	if inner := out["result"].obj(); inner != nil {
		mcp = inner
	}
	if e := out["error"]; !e.null() {
		r.Error = trace.Observe(encode(e).json())
	}
	if s, has := mcp["structuredContent"]; has && !s.null() {
		r.StructuredContent = trace.Observe(s.json())
	}
	shown := unwrap(c.blocks)
	switch text := out["output"].str(); {
	case mcp["content"].list() != nil:
		r.Content = contents(mcp["content"].list())
	case blocksOnly(c.output.list()):
		r.Content = contents(c.output.list())
	case c.output.str() != "":
		r.Content = []trace.Content{textBlock(c.output.str())}
	case len(shown) > 0:
		r.Content = contents(shown)
	case text != "":
		r.Content = []trace.Content{textBlock(text)}
	case !r.Error.OK() && c.output.null():
		return notEmitted[trace.ToolResult]()
	}
	return trace.Observe(r)
}

// unwrap takes the blocks out of a call's content: {"type":"content","content":block}. Diffs and terminals stay what they are.
func unwrap(blocks []raw) []raw {
	var out []raw
	for _, b := range blocks {
		if o := b.obj(); o["type"].str() == "content" {
			out = append(out, o["content"])
		} else {
			out = append(out, b)
		}
	}
	return out
}

// blocksOnly reports whether every element is a content block.
func blocksOnly(l []raw) bool {
	for _, b := range l {
		if b.obj()["type"].str() == "" {
			return false
		}
	}
	return len(l) > 0
}

func contents(blocks []raw) []trace.Content {
	out := make([]trace.Content, 0, len(blocks))
	for _, b := range blocks {
		out = append(out, content(b))
	}
	return out
}

// content is a block as it stood. One of an unknown kind keeps its word and its bytes.
func content(b raw) trace.Content {
	o := b.obj()
	return trace.Content{Type: o["type"].str(), Text: o["text"].str(), Raw: b.json()}
}

// textBlock is a text block of the agent's text.
func textBlock(text string) trace.Content {
	return trace.Content{Type: "text", Text: text, Raw: encode(map[string]string{"type": "text", "text": text}).json()}
}

func notEmitted[T any]() trace.Observation[T] {
	return trace.Absent[T](trace.NotEmitted, trace.ReasonProviderDidNotEmit)
}

// startupFailure recognises how codex-acp tells that a server did not start: a tool call of its own.
func startupFailure(c *toolCall) (message string, yes bool) {
	if !strings.HasPrefix(c.ID, "mcp_startup.") || c.status != "failed" {
		return "", false
	}
	return trace.JoinText(contents(unwrap(c.blocks))), true
}
