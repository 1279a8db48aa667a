package model

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// The roles of requests: what an agent asks a model for. They are the words of harness.ModelExchange.Role.
const (
	RoleTurn        = "turn"         // the next answer of the conversation: takes a step
	RoleTitle       = "title"        // a title for the session
	RoleSummary     = "summary"      // a summary, when a conversation has become too long
	RoleGuardian    = "guardian"     // a review of a planned action by a second model (Codex)
	RoleClassifier  = "classifier"   // a classification of a planned action or of a message (Claude Code)
	RoleCountTokens = "count_tokens" // how many tokens a request would have
	RoleModels      = "models"       // the list of models
	RoleProbe       = "probe"        // whether the provider is there, or has quota left
	RoleUnknown     = "unknown"      // anything else: refused, and a failure of the script
)

// scriptedRoles are those that steps may be for.
var scriptedRoles = []string{RoleTurn, RoleTitle, RoleSummary, RoleGuardian, RoleClassifier}

// Marks by which side requests are known, as the agents of these days write them. All stand in the system prompt but for the last two groups. What a test's own
// prompt says in the conversation is not looked at, except for the beginning of the last message.
var (
	titleMarks      = []string{"title generator", "Generate a concise, sentence-case title", "Write the title in ", "extract a 2-3 word title", "in under 50 characters"}
	classifierMarks = []string{"You are a security monitor for autonomous AI coding agents", "Bash command prefix detection"}
	summaryMarks    = []string{"context summarization assistant", "tasked with summarizing conversations"}
	guardianMarks   = []string{"You are judging one planned coding-agent action", "You are performing a risk assessment of a coding-agent"}
	guardianOpening = "The following is the Codex agent history whose request action you are assessing"
	summaryOpenings = []string{"You are performing a CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation"}
)

// headLength is how much of each part of a system prompt is looked at for a mark: an agent's prompt says first what it is for.
const headLength = 400

// roleOf says what a request for an answer is really for.
func roleOf(r *request, h http.Header) string {
	subagent := strings.ToLower(h.Get("X-Openai-Subagent"))
	members := schemaMembers(r.schema)
	switch {
	case strings.Contains(subagent, "guardian"), marked(r, guardianMarks), strings.HasPrefix(firstUser(r), guardianOpening), isAssessment(members):
		return RoleGuardian
	case subagent == "compact", marked(r, summaryMarks), opens(r.lastUserText(), summaryOpenings):
		return RoleSummary
	case marked(r, classifierMarks), slices.Contains(r.stops, "</block>"), slices.Contains(r.stops, "</severity>"), r.forced == "classify_result":
		return RoleClassifier
	case len(r.tools) > 0:
		return RoleTurn
	case marked(r, titleMarks), len(members) == 1 && members[0] == "title":
		return RoleTitle
	case r.maxTokens == 1:
		return RoleProbe
	}
	return RoleTurn
}

func marked(r *request, marks []string) bool {
	return slices.ContainsFunc(r.system, func(s string) bool {
		return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(s[:min(len(s), headLength)], m) })
	})
}

func opens(text string, openings []string) bool {
	head := text[:min(len(text), headLength)]
	return slices.ContainsFunc(openings, func(o string) bool { return strings.Contains(head, o) })
}

func firstUser(r *request) string {
	if all := texts(r.items, userText); len(all) > 0 {
		return all[0]
	}
	return ""
}

// isAssessment tells the schema of a guardian's verdict.
func isAssessment(members []string) bool {
	return slices.Contains(members, "risk_level") && (slices.Contains(members, "outcome") || slices.Contains(members, "risk_score"))
}

// schemaMembers are the names of the members of an object's schema.
func schemaMembers(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if schema == nil || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	return names
}
