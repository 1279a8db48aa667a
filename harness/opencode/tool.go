package opencode

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// tool passes on a call when its arguments are known, and its result.
func (t *turn) tool(p *part, seen *told, raw []byte) {
	server, own, ours := t.s.names.read(p.Tool)
	if !ours {
		t.other(p, seen, raw)
		return
	}
	t.called = true
	st := &p.State
	if !seen.call && st.Status != "pending" {
		seen.call, seen.id = true, p.CallID
		t.calls = append(t.calls, seen)
		t.before(p.MessageID)
		call := &harness.ToolCall{ID: p.CallID, Server: server, Tool: own, Name: p.Tool, Arguments: trace.Absent[trace.JSON](trace.NotEmitted, trace.ReasonProviderDidNotEmit)}
		if len(st.Input) > 0 {
			call.Arguments = trace.Observe(trace.JSON(bytes.Clone(st.Input)))
		}
		t.s.host.Event(call)
	}
	if seen.call && !seen.result && (st.Status == "completed" || st.Status == "error") {
		seen.result = true
		t.s.host.Event(result(p))
	}
}

// unavailable is what OpenCode answers a model that calls a tool it was not offered.
const unavailable = "Model tried to call unavailable tool"

// other is a call of a tool that is no server's: of OpenCode's own, or one that does not exist.
func (t *turn) other(p *part, seen *told, raw []byte) {
	if seen.whole || p.State.Status != "completed" && p.State.Status != "error" {
		return
	}
	seen.whole = true
	t.called = true
	t.before(p.MessageID)
	if strings.Contains(p.State.Error, unavailable) || p.Tool == "invalid" {
		t.s.host.Event(&harness.Notice{Code: "tool_unavailable", Message: "the model called " + p.Tool + ", which it was not offered", Data: bytes.Clone(raw)})
		return
	}
	t.s.host.Event(&harness.Activity{Kind: p.Tool, Data: bytes.Clone(raw)})
}

// result is the end of a call as OpenCode tells it: text alone, without structured content and _meta.
func result(p *part) *harness.ToolResult {
	st := &p.State
	r := &harness.ToolResult{ID: p.CallID}
	switch {
	case st.Status == "error":
		r.Status = trace.ToolError
		if bool(st.Metadata.Interrupted) {
			r.Status = trace.ToolCancelled
		}
		r.Result = trace.Observe(trace.ToolResult{IsError: true, Content: []trace.Content{{Type: "text", Text: st.Error}}})
	case st.Output == nil:
		r.Status = trace.ToolIncomplete
		r.Result = trace.Absent[trace.ToolResult](trace.NotEmitted, trace.ReasonProviderDidNotEmit)
	default:
		r.Status = trace.ToolSuccess
		r.Result = trace.Observe(trace.ToolResult{Content: content(st)})
		if bool(st.Metadata.Truncated) {
			r.Result.State, r.Result.Reason = trace.Truncated, trace.ReasonEvidenceTruncated
		}
	}
	return r
}

func content(st *state) []trace.Content {
	out := []trace.Content{}
	if *st.Output != "" {
		out = append(out, trace.Content{Type: "text", Text: *st.Output})
	}
	for _, raw := range st.Attachments {
		var a struct{ Mime string }
		kind := "file"
		if json.Unmarshal(raw, &a) == nil && strings.HasPrefix(a.Mime, "image/") {
			kind = "image"
		}
		out = append(out, trace.Content{Type: kind, Raw: bytes.Clone(raw)})
	}
	return out
}
