package m3

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Event records what the agent said or did.
func (h *host) Event(e harness.Event) {
	if e == nil || isNilPointer(e) {
		return
	}
	switch e := e.(type) {
	case *harness.Message:
		h.message(e)
	case *harness.Reasoning:
		h.reported(trace.KindReasoning, map[string]any{"block_id": said(e.ID), "content": e.Content})
	case *harness.ToolCall:
		h.reported(trace.KindToolCallRequested, map[string]any{"call_id": e.ID, "provider_call_id": said(e.ID), "server": e.Server, "tool": e.Tool, "name": e.Name, "arguments": e.Arguments})
	case *harness.ToolResult:
		h.reported(trace.KindToolResultReceived, map[string]any{"call_id": e.ID, "status": e.Status, "result": e.Result})
	case *harness.Usage:
		h.reported(trace.KindUsage, struct {
			trace.Usage
			Scope string `json:"scope,omitempty"`
		}{e.Usage, e.Scope})
	case harness.Facts:
		h.reported(trace.KindHarnessResolved, map[string]any{"runtime": e})
	case *harness.Notice:
		h.notice(e)
	case *harness.Activity:
		h.activity(e)
	}
}

// said is what an agent says, where it says it.
func said(text string) trace.Observation[string] {
	if text == "" {
		return trace.Observation[string]{}
	}
	return trace.Observe(text)
}

func (h *host) message(m *harness.Message) {
	kind, role := trace.KindAgentMessage, m.Role
	if role == "assistant" || role == "" {
		kind, role = trace.KindAssistantContent, "assistant"
	}
	content := m.Content
	if content == nil {
		content = []trace.Content{}
	}
	h.reported(kind, map[string]any{"message_id": said(m.ID), "role": role, "content": content, "stop_reason": said(m.StopReason)})
}

func (h *host) notice(n *harness.Notice) {
	ev := &trace.Event{Kind: trace.KindDiagnostic, Diagnostic: &trace.Diagnostic{Code: n.Code, Message: n.Message, Stage: "agent", Operation: h.x.agent.name}}
	if len(n.Data) > 0 {
		ev.Payload, _ = json.Marshal(map[string]any{"data": whole(n.Data)})
	}
	h.record(ev)
}

// activityKinds are what agents call what they do with files and terminals. Everything else is the provider's own.
var activityKinds = map[string]trace.Kind{
	"filesystem": trace.KindFilesystem, "read": trace.KindFilesystem, "write": trace.KindFilesystem, "edit": trace.KindFilesystem, "delete": trace.KindFilesystem,
	"move": trace.KindFilesystem, "search": trace.KindFilesystem, "file_change": trace.KindFilesystem,
	"terminal": trace.KindTerminal, "execute": trace.KindTerminal, "bash": trace.KindTerminal, "shell": trace.KindTerminal, "command": trace.KindTerminal,
}

func (h *host) activity(a *harness.Activity) {
	kind, known := activityKinds[strings.ToLower(a.Kind)]
	if !known {
		h.reported(trace.KindProviderEvent, map[string]any{"provider": h.x.agent.kind, "category": a.Kind, "data": trace.Observe(trace.JSON(whole(a.Data)))})
		return
	}
	h.reported(kind, map[string]any{"interaction_kind": a.Kind, "request": trace.Observe(trace.JSON(whole(a.Data))), "response": trace.Observation[trace.JSON]{}})
}

// whole is JSON that can stand in a payload: what is none becomes a string.
func whole(b trace.JSON) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	if json.Valid(b) {
		return json.RawMessage(b)
	}
	return trace.AppendString(nil, string(b))
}

// interaction records one half of an exchange that m3 took part in.
func (h *host) interaction(kind trace.Kind, id, word, half string, v any) {
	b, err := json.Marshal(v)
	if err != nil { // text and checked JSON
		b = []byte("null")
	}
	h.reported(kind, map[string]any{"interaction_id": id, "interaction_kind": word, half: trace.Observe(trace.JSON(b))})
}

// elicitation records a native prompt, and the answer when there is one. What a server asks on the wire has its entry in the trace by that.
func (h *host) elicitation(kind trace.Kind, id string, p *harness.Prompted, onWire bool, answer *elicit.Response) {
	entry := map[string]any{"interaction_id": id, "server": p.Server, "operation_kind": trace.OperationTool, "operation_name": p.Operation, "request_key": p.Key,
		"mode": orElse(p.Mode, elicit.ModeForm), "message": said(p.Message), "url": said(p.URL), "elicitation_id": said(p.ID)}
	if onWire {
		entry["on_wire"] = true
	}
	if len(p.Schema) > 0 {
		entry["requested_schema"] = trace.Observe(trace.JSON(whole(p.Schema)))
	}
	if answer != nil {
		entry["action"] = answer.Action
		if answer.Content != nil {
			b, err := json.Marshal(answer.Content)
			if err == nil { // a plan's content encodes: it was checked when it was made
				entry["content"] = trace.Observe(trace.JSON(b))
			}
		}
	}
	h.reported(kind, entry)
}

// reported records an entry that the agent told. What cannot be encoded is malformed, and said to be.
func (h *host) reported(kind trace.Kind, entry any) {
	b, err := json.Marshal(entry)
	if err != nil {
		h.record(&trace.Event{Kind: trace.KindDiagnostic, Diagnostic: &trace.Diagnostic{Code: "malformed_source", Stage: "agent", Operation: string(kind),
			Message: fmt.Sprintf("what the agent said cannot be kept: %v", err)}})
		return
	}
	h.record(&trace.Event{Kind: kind, Payload: b})
}

func (h *host) record(ev *trace.Event) {
	ev.SessionID, ev.TurnID, ev.Phase, ev.Source = h.x.session, h.x.turnNow(), trace.PhaseTurn, h.source
	if ev.TurnID == "" {
		ev.Phase = statePhases[h.x.life.now()]
	}
	h.x.tape.Record(ev)
}

// Frame records one unit of the agent's protocol.
func (h *host) Frame(dir trace.Direction, framing trace.Framing, b []byte) {
	h.record(&trace.Event{Kind: trace.KindAgentFrame, Frame: &trace.Frame{Direction: dir, Framing: framing, Bytes: b}})
}

// exchanged records one request of the agent to the provider of a scripted model: the third tape.
func (x *execution) exchanged(m *harness.ModelExchange) {
	data := map[string]any{"dialect": m.Dialect, "role": m.Role, "step": m.Step, "path": m.Path, "status": m.Status, "elapsed_seconds": m.Elapsed.Seconds(),
		"request": whole(m.Request), "response": whole(m.Response), "error": m.Error}
	b, err := json.Marshal(data)
	if err != nil { // text, numbers and checked JSON
		x.tape.Limit("capture_incomplete", "an exchange with the model could not be encoded: "+err.Error())
		return
	}
	entry := map[string]any{"provider": m.Dialect, "category": m.Role, "data": trace.Observe(trace.JSON(b))}
	if m.Error != "" || m.Status < 200 || m.Status > 299 {
		entry["status"] = trace.StatusFailed
	}
	payload, _ := json.Marshal(entry) // text and checked JSON
	ev := &trace.Event{Kind: trace.KindProviderEvent, Phase: trace.PhaseTurn, SessionID: x.session, TurnID: x.turnNow(),
		Source: trace.Source{Origin: trace.OriginWire, Source: "provider"}, Payload: payload}
	x.tape.Record(ev)
}
