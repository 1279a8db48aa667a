package acp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// configure sets mode and options, each checked against what the agent offers before and what it says after.
func (s *session) configure(ctx context.Context, made object) error {
	modes, options := made["modes"].obj(), made["configOptions"]
	facts := harness.Facts{"session_id": fact(s.id), "available_modes": factOr(modes["availableModes"]), "current_mode": factOr(modes["currentModeId"]),
		"config_options": factOr(options), "plan_state_available": fact(false)}
	selected := map[string]any{}
	if s.cfg.Mode != "" {
		now, err := s.setMode(ctx, modes, options)
		if err != nil {
			return err
		}
		if now != nil {
			options = now
		}
		facts["current_mode"] = fact(s.cfg.Mode)
	}
	for _, id := range slices.Sorted(maps.Keys(s.cfg.Options)) {
		now, err := s.setOption(ctx, options, id, s.cfg.Options[id])
		if err != nil {
			return err
		}
		options = now
		selected[id] = s.cfg.Options[id]
	}
	if options != nil {
		facts["config_options"] = trace.Observe(options.json())
	}
	facts["selected_config"] = fact(selected)
	s.host.Event(facts)
	return nil
}

// setMode sets the mode by session/set_mode, or by the option of category "mode" where the agent has no modes.
func (s *session) setMode(ctx context.Context, modes object, options raw) (now raw, err error) {
	mode := s.cfg.Mode
	if modes == nil {
		for _, o := range options.list() {
			if o.at("category").str() == "mode" || o.at("id").str() == "mode" {
				return s.setOption(ctx, options, o.at("id").str(), mode)
			}
		}
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "the agent has no modes: Mode %q cannot be set", mode)
	}
	var known []string
	for _, m := range modes["availableModes"].list() {
		known = append(known, m.at("id").str())
	}
	if !slices.Contains(known, mode) {
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "the agent has no mode %q; it has %s", mode, strings.Join(known, ", "))
	}
	_, err = s.conn.call(ctx, "session/set_mode", map[string]string{"sessionId": s.id, "modeId": mode})
	return nil, s.refused(ctx, "session/set_mode", fmt.Sprintf("mode %q", mode), err)
}

// setOption sets one option. The agent's answer must say that it has the value.
func (s *session) setOption(ctx context.Context, options raw, id string, value any) (now raw, err error) {
	option := optionByID(options, id)
	if option == nil {
		var known []string
		for _, o := range options.list() {
			known = append(known, o.at("id").str())
		}
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "the agent has no option %q; it has %s", id, strings.Join(known, ", "))
	}
	params := map[string]any{"sessionId": s.id, "configId": id, "value": value}
	text, isText := value.(string)
	if !isText {
		params["type"] = "boolean"
	}
	if values := optionValues(option["options"]); isText && len(values) > 0 && !slices.Contains(values, text) {
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "the agent's option %q has no value %q; it has %s", id, text, strings.Join(values, ", "))
	}
	answer, err := s.conn.call(ctx, "session/set_config_option", params)
	if err := s.refused(ctx, "session/set_config_option", fmt.Sprintf("option %q = %v", id, value), err); err != nil {
		return nil, err
	}
	now = answer.obj()["configOptions"]
	if after := optionByID(now, id); after == nil || !sameJSON(after["currentValue"], encode(value)) {
		return nil, harness.Errorf(harness.BlameAgent, "agent_protocol", "the agent took option %q = %v, but says that it is %.80s", id, value, optionByID(now, id)["currentValue"])
	}
	return now, nil
}

func optionByID(options raw, id string) object {
	for _, o := range options.list() {
		if o.at("id").str() == id {
			return o.obj()
		}
	}
	return nil
}

// optionValues are the values of a select, whose options may stand in groups.
func optionValues(options raw) []string {
	var values []string
	for _, o := range options.list() {
		if group := o.obj()["options"]; group != nil {
			values = append(values, optionValues(group)...)
		} else if v := o.at("value"); v != nil {
			values = append(values, v.str())
		}
	}
	return values
}

// refused is why the agent did not take a mode or an option: the test's fault, unless the agent is gone.
func (s *session) refused(ctx context.Context, method, what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*rpcError](err); ok {
		return &harness.Error{Blame: harness.BlameTest, Code: "option_unknown", Message: fmt.Sprintf("the agent refused %s: %s", what, e.Message), Details: map[string]any{"rpc_code": e.Code}, Err: err}
	}
	return s.failed(ctx, method, err)
}
