package m3

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/m3-go/m3/trace"
)

// tie finds the execution and the turn of an evaluation. They may be named in several places, which must agree.
func (s *evalSubject) tie(operation string, v any, o *EvaluateOptions) error {
	var execution, turn agreement
	execution.name("EvaluateOptions.Execution", string(o.Execution))
	if isNilPointer(o.Turn) {
		return validationf("%s: EvaluateOptions.Turn is a nil %T", operation, o.Turn)
	}
	if o.Turn != nil {
		turn.name("EvaluateOptions.Turn", string(o.Turn.SelectTurn()))
	}
	if o.Trace != nil {
		execution.name("EvaluateOptions.Trace", string(o.Trace.ExecutionID()))
	}
	switch v := v.(type) {
	case traced:
		execution.name("the subject", string(v.ExecutionID()))
	case *ToolCallResult:
		execution.name("the subject", string(v.Execution))
	}
	if v, ok := v.(trace.TurnSelector); ok {
		turn.name("the subject", string(v.SelectTurn()))
	}
	if s.kind == "json" {
		nameMembers("the subject", s.json, &execution, &turn)
	}
	for _, name := range slices.Sorted(maps.Keys(s.artifacts)) {
		nameMembers("the artifact "+name, s.artifacts[name], &execution, &turn)
	}
	if err := execution.err(operation, "execution"); err != nil {
		return err
	}
	if err := turn.err(operation, "turn"); err != nil {
		return err
	}
	s.execution, s.turn = trace.ExecutionID(execution.id), trace.TurnID(turn.id)
	return nil
}

// agreement is one id that several places may name.
type agreement struct {
	id, place           string
	otherID, otherPlace string // the first that differs
}

func (a *agreement) name(place, id string) {
	switch {
	case id == "" || id == a.id:
	case a.id == "":
		a.id, a.place = id, place
	case a.otherID == "":
		a.otherID, a.otherPlace = id, place
	}
}

func (a *agreement) err(operation, what string) error {
	if a.otherID == "" {
		return nil
	}
	e := validationf("%s: %s names the %s %.100q, and %s names %.100q", operation, a.place, what, a.id, a.otherPlace, a.otherID)
	e.Details = map[string]any{"operation": operation, "kind": "conflicting_" + what + "s"}
	return e
}

// nameMembers looks for ids in an object: among its own members, and in those of its trace and snapshot.
func nameMembers(place string, j trace.JSON, execution, turn *agreement) {
	var m map[string]json.RawMessage
	if json.Unmarshal(j, &m) != nil {
		return
	}
	text := func(m map[string]json.RawMessage, key string) (s string) {
		_ = json.Unmarshal(m[key], &s) // what is no text names nothing
		return s
	}
	execution.name(place+"'s execution_id", text(m, "execution_id"))
	turn.name(place+"'s turn_id", text(m, "turn_id"))
	for _, key := range []string{"trace", "snapshot"} {
		var inner map[string]json.RawMessage
		if json.Unmarshal(m[key], &inner) == nil {
			execution.name(place+"'s "+key+".execution_id", text(inner, "execution_id"))
			turn.name(place+"'s "+key+".turn_id", text(inner, "turn_id"))
		}
	}
}
