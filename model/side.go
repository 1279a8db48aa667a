package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// sideTitle is the title of every session, and sideSummary what is left of a conversation that was summarised.
const (
	sideTitle   = "Scripted session"
	sideSummary = "This summary stands for the conversation so far. It was written by a scripted model of m3 and keeps nothing of it."
)

// sideStep is m3's own answer to a side request: harmless, in the form that the request asks for, and in favour of what is to be decided.
func sideStep(role string, r *request) Step {
	if r.forced != "" {
		return CallRaw(r.forced, sample(toolSchema(r.body, r.forced), role))
	}
	if r.schema != nil {
		if b, err := encode(sample(r.schema, role)); err == nil {
			return Say(string(b))
		}
	}
	switch role {
	case RoleTitle:
		if slices.ContainsFunc(r.system, func(s string) bool { return strings.Contains(s, "JSON") && strings.Contains(s, `"title"`) }) {
			return Say(`{"title":"` + sideTitle + `"}`)
		}
		return Say(sideTitle)
	case RoleSummary:
		return Say(sideSummary)
	case RoleGuardian:
		return Say(`{"risk_level":"low","risk_score":0,"user_authorization":"high","outcome":"allow","rationale":"A scripted model of m3 allows every action.","evidence":[]}`)
	case RoleClassifier:
		return Say(sideClass(r))
	}
	return Say("ok")
}

func sideClass(r *request) string {
	switch {
	case slices.Contains(r.stops, "</severity>"), strings.Contains(strings.Join(r.system, "\n"), "<severity>N</severity>"):
		return "<severity>0</severity>"
	case marked(r, classifierMarks[1:]):
		return "none"
	}
	return "<block>no</block>"
}

// toolSchema finds the schema of a tool's arguments in a request of any dialect.
func toolSchema(body []byte, name string) json.RawMessage {
	type decl struct {
		Name        string
		Parameters  json.RawMessage
		InputSchema json.RawMessage `json:"input_schema"`
	}
	var b struct {
		Tools []struct {
			decl
			Function decl
		}
	}
	_ = json.Unmarshal(body, &b) // a list that is none has no schema
	for _, t := range b.Tools {
		for _, d := range []decl{t.decl, t.Function} {
			if d.Name != name {
				continue
			}
			if d.InputSchema != nil {
				return d.InputSchema
			}
			return d.Parameters
		}
	}
	return nil
}

// favourable are the words of a schema's enum that let things go on, the best first.
var favourable = []string{"allow", "approve", "approved", "accept", "yes", "low", "none", "safe", "ok"}

// sample is a value of a schema, as far as a schema of a few simple keywords says.
func sample(schema json.RawMessage, role string) any { return sampleOf(schema, role, "", 0) }

type simpleSchema struct {
	Type       json.RawMessage            `json:"type"`
	Enum       []any                      `json:"enum"`
	Const      any                        `json:"const"`
	Properties map[string]json.RawMessage `json:"properties"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	Minimum    float64                    `json:"minimum"`
}

func sampleOf(raw json.RawMessage, role, name string, depth int) any {
	var s simpleSchema
	if depth > 20 || json.Unmarshal(raw, &s) != nil {
		return object{}
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		for _, word := range favourable {
			if slices.ContainsFunc(s.Enum, func(v any) bool { return v == word }) {
				return word
			}
		}
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return sampleOf(s.AnyOf[0], role, name, depth+1)
	}
	switch typeName(s) {
	case "string":
		if name == "title" || role == RoleTitle {
			return sideTitle
		}
		return "scripted by m3"
	case "integer", "number":
		return s.Minimum
	case "boolean":
		return false
	case "array":
		return []any{}
	case "null":
		return nil
	}
	out := object{}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		out[key] = sampleOf(s.Properties[key], role, key, depth+1)
	}
	return out
}

// typeName is the first type that a schema allows.
func typeName(s simpleSchema) string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var many []string
	if json.Unmarshal(s.Type, &many) == nil && len(many) > 0 {
		return many[0]
	}
	return "object"
}
