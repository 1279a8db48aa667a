package eval

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Builtin is the evaluator of one of the names that every kit has.
func Builtin(name string) (Func, bool) {
	switch name {
	case ExecutionCompleted:
		return executionCompleted, true
	case ToolCallSucceeded:
		return toolCallSucceeded, true
	case OutputHasText:
		return outputHasText, true
	}
	return nil, false
}

// executionCompleted goes by the outcome that the subject names, else by that of the execution's trace.
func executionCompleted(_ context.Context, e Context) (Decision, error) {
	var s struct {
		Outcome  trace.Outcome `json:"outcome"`
		Snapshot struct {
			Outcome trace.Outcome `json:"outcome"`
		} `json:"snapshot"`
	}
	_ = json.Unmarshal(e.Subject, &s) // another shape names no outcome
	outcome := s.Outcome
	if outcome == "" {
		outcome = s.Snapshot.Outcome
	}
	if outcome == "" && e.Execution != "" {
		v, err := e.View()
		if errors.Is(err, trace.ErrNotFinalized) {
			return Decision{Status: Inconclusive, Rationale: "the execution has not ended"}, nil
		}
		if err == nil {
			outcome = v.Outcome()
		}
	}
	if outcome == "" {
		return Decision{Status: Inconclusive, Rationale: "there is no outcome"}, nil
	}
	return PassIf(outcome == trace.OutcomeCompleted, "the outcome is "+string(outcome)), nil
}

func toolCallSucceeded(_ context.Context, e Context) (Decision, error) {
	fields, _ := object(e.Subject)
	for _, key := range []string{"isError", "is_error"} {
		var failed bool
		if raw, ok := fields[key]; ok && json.Unmarshal(raw, &failed) == nil && string(raw) != "null" {
			if failed {
				return PassIf(false, "the tool reported failure"), nil
			}
			return PassIf(true, "the tool reported no failure"), nil
		}
	}
	return Decision{Status: NotRun, Rationale: "the subject is no result of a tool call"}, nil
}

func outputHasText(_ context.Context, e Context) (Decision, error) {
	var v any
	if err := e.Subject.Decode(&v); err != nil {
		return Decision{}, err
	}
	switch found, place := hasText(v); {
	case found:
		return PassIf(true, "there is text"), nil
	case place:
		return PassIf(false, "there is no text, or only blanks"), nil
	}
	return Decision{Status: NotRun, Rationale: "the subject has no place for text"}, nil
}

// textKeys are the members of an object in which its output stands.
var textKeys = []string{"text", "response", "direct_result", "turns", "content", "contents", "messages"}

// hasText reports whether there is text that is not blank, and whether there is a place for any.
func hasText(v any) (found, place bool) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v) != "", true
	case []any:
		for _, el := range v {
			f, p := hasText(el)
			found, place = found || f, place || p
		}
	case map[string]any:
		for _, key := range textKeys {
			el, ok := v[key]
			if !ok {
				continue
			}
			f, _ := hasText(el)
			found, place = found || f, true
		}
	}
	return found, place
}

func object(j trace.JSON) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	return m, json.Unmarshal(j, &m) == nil && m != nil
}
