package trace

import "encoding/json"

// runtimeNames are the facts that each agent's variant of a [Runtime] has. What an agent does not tell of them is not emitted.
var runtimeNames = map[string][]string{
	"opencode":    {"session_id", "provider_id", "model_id", "finish_reason", "http_lifecycle", "usage"},
	"claude_code": {"session_id", "model_id", "result_subtype", "stop_reason", "service_tier", "api_duration_ms", "encrypted_reasoning", "usage"},
	"codex":       {"thread_id", "turn_id", "model_id", "finish_reason", "sandbox", "usage"},
	"pi":          {"session_id", "provider_id", "model_id", "finish_reason", "usage"},
	"acp": {"session_id", "protocol_version", "agent_identity", "available_modes", "current_mode", "config_options", "selected_config",
		"plan_state_available", "usage"},
}

// runtimeFields gathers an agent's own facts: the member "runtime" in the payloads of its lifecycle events, the later over the
// earlier. The usage is that of the summary.
func (d reader) runtimeFields() map[string]Observation[JSON] {
	out := map[string]Observation[JSON]{}
	for _, name := range runtimeNames[d.ix.kind] {
		out[name] = Absent[JSON](NotEmitted, ReasonProviderDidNotEmit)
	}
	if _, known := out["usage"]; known {
		out["usage"] = d.runtimeUsage()
	}
	steps := &d.ix.byKind[codeLifecycle]
	for i := range steps.len() {
		m := d.message(d.ix.records.at(int(*steps.at(i))).start)
		payload, _ := whole(m.body)
		for w := payload.field("runtime").walk(); w.next(); {
			name := w.name()
			o := out[name]
			o.load(w.val, name, w.val.overlaps(m.spans))
			out[name] = o
		}
	}
	return out
}

func (d reader) runtimeUsage() Observation[JSON] {
	usage, _, _ := d.usage()
	if !usage.OK() {
		return Absent[JSON](usage.State, usage.Reason)
	}
	b, err := json.Marshal(usage.Value)
	if err != nil { // a cost that is no finite number was refused before
		return Absent[JSON](Unavailable, ReasonMalformedSource)
	}
	return Observe(JSON(b))
}
