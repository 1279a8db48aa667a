package acp

import (
	"context"
	"fmt"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// frame records a line of either side.
func (s *session) frame(dir trace.Direction, line []byte) { s.host.Frame(dir, trace.FramingLine, line) }

// odd tells what is no message, or no answer to anything. It never ends a session.
func (s *session) odd(code, message string, data raw) {
	s.host.Event(&harness.Notice{Code: code, Message: message, Data: data.json()})
}

// notify takes a notification.
func (s *session) notify(method string, params raw) {
	if method != "session/update" {
		s.host.Event(&harness.Activity{Kind: method, Data: params.json()})
		return
	}
	p := params.obj()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch id := p["sessionId"].str(); {
	case s.id != "" && id != s.id:
		s.host.Event(&harness.Activity{Kind: "foreign_update", Data: params.json()})
	case s.turn != nil:
		s.turn.update(p["update"])
	default:
		s.between(p["update"])
	}
}

// between takes an update that belongs to no turn: before the first prompt, or after an answer.
func (s *session) between(r raw) {
	u := r.obj()
	switch kind := u["sessionUpdate"].str(); kind {
	case "tool_call", "tool_call_update":
		c := &toolCall{Call: Call{ID: u["toolCallId"].str()}}
		c.merge(u)
		if message, yes := startupFailure(c); yes {
			s.serverFailed(message, r)
			return
		}
		s.host.Event(&harness.Activity{Kind: "late_update", Data: r.json()})
	case "agent_message_chunk", "agent_thought_chunk":
		c := content(u["content"])
		code, known := "adapter_notice", false
		if notice := s.cfg.quirks.notice; notice != nil {
			if code, known = notice(c.Text, u); !known {
				code = "adapter_notice"
			}
		}
		if code == "server_failed" {
			s.serverFailed(c.Text, r)
			return
		}
		s.host.Event(&harness.Notice{Code: code, Message: c.Text, Data: r.json()})
	default:
		s.other(kind, u, r)
	}
}

// serverFailed keeps what the agent says of a server that did not start: it explains why the wire shows none.
func (s *session) serverFailed(message string, r raw) {
	s.startup = message
	s.host.Event(&harness.Notice{Code: "server_failed", Message: message, Data: r.json()})
}

// other takes the updates that are no part of the conversation. What it does not know it tells on whole.
func (s *session) other(kind string, u object, r raw) {
	switch kind {
	case "usage_update":
		if c := u["cost"].obj(); c != nil {
			s.cost = c
		}
	case "plan":
		s.host.Event(&harness.Activity{Kind: "plan", Data: r.json()})
		s.host.Event(harness.Facts{"plan_state_available": fact(true)})
	case "current_mode_update":
		s.host.Event(harness.Facts{"current_mode": fact(u["currentModeId"])})
	case "config_option_update":
		s.host.Event(harness.Facts{"config_options": fact(u["configOptions"])})
	case "notice":
		s.host.Event(&harness.Notice{Code: "agent_notice", Message: u["title"].str(), Data: r.json()})
	case "available_commands_update", "session_info_update": // about the agent's own screen: the frames have them
	default:
		if kind == "" {
			kind = "session/update"
		}
		s.host.Event(&harness.Activity{Kind: kind, Data: r.json()})
	}
}

func fact(v any) trace.Observation[trace.JSON] { return trace.Observe(encode(v).json()) }

// answer answers a request of the agent.
func (s *session) answer(ctx context.Context, method string, params raw) (any, *rpcError) {
	switch {
	case method == "session/request_permission":
		return s.permission(ctx, params)
	case method == "elicitation/create" && s.elicits:
		return s.elicitation(ctx, params)
	}
	s.host.Event(&harness.Notice{Code: "unknown_request", Message: "the agent asked for " + method + ", which was not offered to it", Data: params.json()})
	return nil, &rpcError{Code: codeMethodNotFound, Message: "method not found: " + method}
}

// elicitation answers a server's request for input that the agent passes on.
func (s *session) elicitation(ctx context.Context, params raw) (any, *rpcError) {
	ctx, release := s.bound(ctx)
	defer release()
	p := params.obj()
	q := &harness.Prompted{
		Mode: p["mode"].str(), Message: p["message"].str(), URL: p["url"].str(), ID: p["elicitationId"].str(),
		CallID: p["toolCallId"].str(), Raw: params.json(),
	}
	if schema := p["requestedSchema"]; !schema.null() {
		q.Schema = schema.json()
	}
	if meta := p["_meta"]; !meta.null() {
		q.Meta = meta.json()
	}
	response, err := s.host.Elicit(ctx, q)
	if err == nil {
		err = response.Validate()
	}
	switch {
	case ctx.Err() != nil:
		return elicit.Cancel(), nil
	case err != nil:
		s.host.Event(&harness.Notice{Code: "elicitation_unanswered", Message: fmt.Sprintf("answered cancel: %v", err), Data: params.json()})
		return elicit.Cancel(), nil
	}
	return response, nil
}
