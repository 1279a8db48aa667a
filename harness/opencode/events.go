package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/m3-go/m3/harness"
)

// silent are events that tell nothing of the conversation which is not told otherwise.
var silent = map[string]bool{
	"server.connected": true, "server.heartbeat": true, "session.created": true, "session.updated": true, "session.diff": true,
	"permission.replied": true, "question.rejected": true, "catalog.updated": true, "reference.updated": true, "integration.updated": true, "plugin.added": true,
	"project.updated": true, "project.directories.updated": true, "models-dev.refreshed": true, "lsp.updated": true,
}

// event takes one event of the stream.
func (s *session) event(data []byte) {
	var e event
	var p properties
	if err := json.Unmarshal(data, &e); err != nil || e.Type == "" {
		s.host.Event(&harness.Notice{Code: "malformed_source", Message: fmt.Sprintf("an event of OpenCode's cannot be read: %.200q", data)})
		return
	}
	if silent[e.Type] {
		return
	}
	if len(e.Properties) > 0 && json.Unmarshal(e.Properties, &p) != nil {
		s.host.Event(&harness.Notice{Code: "malformed_source", Message: "an event of type " + e.Type + " cannot be read", Data: bytes.Clone(e.Properties)})
		return
	}
	switch e.Type {
	case "permission.asked":
		s.asked(bytes.Clone(e.Properties))
		return
	case "question.asked":
		s.question(p.ID)
	case "mcp.tools.changed":
		s.host.Event(&harness.Notice{Code: "tools_changed", Message: "the tools of server " + p.Server + " changed", Data: bytes.Clone(e.Properties)})
		return
	case "session.compacted", "server.instance.disposed", "global.disposed":
		s.host.Event(&harness.Notice{Code: e.Type, Message: "OpenCode says " + e.Type, Data: bytes.Clone(e.Properties)})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inTurn(&e, &p)
}

// inTurn takes an event of the turn. Those of other sessions (of subagents) are on the tape alone.
func (s *session) inTurn(e *event, p *properties) {
	if p.SessionID != "" && p.SessionID != s.id {
		return
	}
	t := s.turn
	switch e.Type {
	case "message.updated":
		var i info
		if t != nil && json.Unmarshal(p.Info, &i) == nil {
			t.message(&i)
		}
	case "message.part.updated":
		if t != nil {
			t.part(p.Part)
		}
	case "message.part.delta":
		var d delta
		if t != nil && json.Unmarshal(e.Properties, &d) == nil {
			t.delta(&d)
		}
	case "session.status":
		var st status
		if t != nil && json.Unmarshal(p.Status, &st) == nil {
			s.status(t, st, p.Status)
		}
	case "session.idle":
		if t != nil {
			t.ended()
		}
	case "session.error":
		s.errored(t, p.Error)
	default:
		s.host.Event(&harness.Activity{Kind: e.Type, Data: bytes.Clone(e.Properties)})
	}
}

func (s *session) errored(t *turn, f *failure) {
	switch {
	case f == nil || f.Name == "MessageAbortedError": // the answer says so
	case t != nil && t.failed == nil:
		t.failed = f
	case t == nil:
		s.host.Event(&harness.Notice{Code: "session_error", Message: f.Name + ": " + f.Data.Message})
	}
}

func (s *session) status(t *turn, st status, raw []byte) {
	switch st.Type {
	case "busy":
		t.busy = true
	case "idle":
		t.ended()
	case "retry":
		t.busy = true
		s.retrying(st, raw)
	}
}

// retrying: OpenCode asks the provider again after a failure. It waits longer each time, 66 s in all.
func (s *session) retrying(st status, raw []byte) {
	t := s.turn
	s.host.Event(&harness.Notice{Code: "retry", Message: fmt.Sprintf("OpenCode tries its provider again (attempt %d): %s", st.Attempt, st.Message), Data: bytes.Clone(raw)})
	if st.Attempt > s.d.cfg.Retries {
		e := providerSays(st.Message)
		e.Details = map[string]any{"attempts": st.Attempt}
		t.giveUp(e)
	}
}

// unfinished: the model's answer ended without a reason, which is a stream that was cut. OpenCode takes it for a step and asks again, without end and without a pause.
func (s *session) unfinished(t *turn) {
	n := len(t.unknowns)
	s.host.Event(&harness.Notice{Code: "retry", Message: fmt.Sprintf("the provider's answer ended without a reason to stop, and OpenCode goes on (time %d)", n)})
	if n > s.d.cfg.Retries {
		e := harness.Errorf(harness.BlameProvider, "provider_cut", "the provider's answer ended before it was finished")
		e.Details = map[string]any{"attempts": n}
		t.giveUp(e)
	}
}

// asked puts a question for a permission to the kit, and gives its answer.
func (s *session) asked(raw []byte) {
	var q asked
	if json.Unmarshal(raw, &q) != nil || q.ID == "" {
		s.host.Event(&harness.Notice{Code: "malformed_source", Message: "a question for a permission cannot be read", Data: raw})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	if t == nil || t.parts["asked "+q.ID] != nil {
		return // a turn that has ended needs none; one that was read again is answered
	}
	t.parts["asked "+q.ID] = &told{}
	r := &harness.PermissionRequest{Kind: q.Permission, Title: q.Permission, CallID: q.Tool.CallID, Raw: raw}
	if server, tool, ours := s.names.read(q.Permission); ours {
		r.Kind, r.Server, r.Tool = "tool", server.Value, tool.Value
		if !tool.OK() {
			r.Tool = q.Permission[len(s.names.keys[r.Server])+1:]
		}
	}
	t.group.Go(func() { s.permit(t, &q, r) })
}

// permit asks and answers. Refusing ends the turn at once, and refuses whatever else is asked.
func (s *session) permit(t *turn, q *asked, r *harness.PermissionRequest) {
	reply := "reject"
	if s.host.Permission(t.ctx, r) == harness.Allow {
		reply = "once"
	}
	if t.ctx.Err() != nil {
		return // the turn is being ended
	}
	if reply == "reject" {
		s.mu.Lock()
		if t.refused == "" {
			t.refused = q.Permission
		}
		s.mu.Unlock()
	}
	if err := s.api.do(t.ctx, http.MethodPost, "/permission/"+q.ID+"/reply", map[string]string{"reply": reply}, nil); err != nil && t.ctx.Err() == nil {
		s.host.Event(&harness.Notice{Code: "permission_unanswered", Message: "OpenCode did not take the answer to a permission: " + err.Error()})
	}
}

// question refuses what OpenCode's own question tool asks its user: there is none.
func (s *session) question(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	if t == nil || id == "" {
		return
	}
	t.group.Go(func() {
		_ = s.api.do(context.WithoutCancel(t.ctx), http.MethodPost, "/question/"+id+"/reject", nil, nil)
	})
}
