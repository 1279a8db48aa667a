package trace

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The three models of elicitation have the fields of the reference, under its names, and every observation in them is not emitted until something is observed.
func TestElicitationModels(t *testing.T) {
	t.Parallel()
	base := "entry_id kind parent_id execution_id session_id turn_id server_binding connection_id sequence_start sequence_end timing status provenance limitations"
	attempt := "attempt_index jsonrpc_id request_state continuation_state input_responses operation_params input_required result raw_result status sequence_start sequence_end timing"
	for _, tc := range []struct {
		value  any
		fields string
	}{
		{ElicitationEntry{}, base + " server operation_kind operation_name logical_operation_id round_index request_key mode message requested_schema url elicitation_id request_state input_responses action content"},
		{ToolCallAttempt{}, attempt},
		{ProtocolCallAttempt{}, attempt},
	} {
		typ := reflect.TypeOf(tc.value)
		var names []string
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			names = append(names, name)
			if o, ok := reflect.ValueOf(tc.value).FieldByIndex(f.Index).Interface().(interface{ OK() bool }); ok && o.OK() {
				t.Errorf("%s.%s is observed from the beginning", typ.Name(), f.Name)
			}
		}
		for _, want := range strings.Fields(tc.fields) {
			if !slices.Contains(names, want) {
				t.Errorf("%s has no %s", typ.Name(), want)
			}
		}
	}
	var o ElicitationEntry
	for name, state := range map[string]State{"message": o.Message.State, "schema": o.RequestedSchema.State, "url": o.URL.State, "id": o.ElicitationID.State, "state": o.RequestState.State, "responses": o.InputResponses.State, "content": o.Content.State} {
		if state != NotEmitted {
			t.Errorf("%s begins as %s", name, state)
		}
	}
}

// An attempt that was never answered is incomplete; one that was, with a result or an error, is completed.
func TestUnfinishedAttempts(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "book", `{}`)
	b.result("1", oneLine(askAddress))
	b.request("2", "tools/call", `{"name":"book","arguments":{},"requestState":"st-1","inputResponses":{"address":{"action":"cancel"}}}`)
	b.request("3", "prompts/get", `{"name":"checkout"}`)
	b.result("3", oneLine(askAddress))
	b.request("4", "prompts/get", `{"name":"checkout","requestState":"st-1"}`)
	b.fault("4", `{"code":-32602,"message":"no"}`)
	v := b.view()
	tool := v.ToolCalls().At(0)
	if len(tool.Attempts) != 2 || tool.Attempts[1].Status != ToolIncomplete || tool.Attempts[1].Result.State != NotEmitted || tool.ToolStatus != ToolIncomplete || tool.Attempts[1].AttemptIndex != 1 {
		t.Errorf("%+v", tool)
	}
	for _, p := range v.Protocol().All() {
		if p.OperationKind == OperationPrompt && (len(p.Attempts) != 2 || p.Attempts[0].Status != StatusIncomplete || p.Attempts[1].Status != StatusCompleted || p.Status != StatusProtocolError || !strings.Contains(p.Attempts[1].RawResult.Value.String(), "-32602")) {
			t.Errorf("%+v", p)
		}
	}
}
