package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clauseInput  = "server/tools, security: servers must validate all tool inputs"
	clauseCall   = "schema: CallToolRequest"
	clauseResult = "schema: CallToolResult"
	clauseErrors = "server/tools: error handling"

	maxToolCalls = 12 // tools that one probe calls at most
)

func toolProbes() []*Probe {
	return []*Probe{
		{Name: "tool-unknown", About: "a call of a tool that does not exist is an error", Clause: clauseErrors, Severity: trace.SeverityError,
			run: call(`{"name":"m3-no-such-tool","arguments":{}}`, (*reply).refused)},
		{Name: "tool-unknown-code", About: "a call of a tool that does not exist is the JSON-RPC error -32602", Clause: clauseErrors + ": unknown tools", Severity: trace.SeverityWarning,
			run: call(`{"name":"m3-no-such-tool","arguments":{}}`, func(r *reply) verdict { return r.refusedWith(-32602) })},
		{Name: "tool-name-missing", About: "a call without a tool's name is refused", Clause: clauseCall, Severity: trace.SeverityError,
			run: call(`{"arguments":{}}`, (*reply).refused)},
		{Name: "tool-name-type", About: "a call whose tool name is a number is refused", Clause: clauseCall, Severity: trace.SeverityError,
			run: call(`{"name":5,"arguments":{}}`, (*reply).refused)},
		{Name: "arguments-text", About: "arguments that are a string are refused, and the server works on", Clause: clauseCall + ".arguments", Severity: trace.SeverityError, Case: "B11",
			run: invalid(func(*m3.ToolInfo, *jsonschema.Schema) string { return `"{}"` })},
		{Name: "arguments-array", About: "arguments that are an array are refused", Clause: clauseCall + ".arguments", Severity: trace.SeverityError,
			run: invalid(func(*m3.ToolInfo, *jsonschema.Schema) string { return `[]` })},
		{Name: "arguments-number", About: "arguments that are a number are refused", Clause: clauseCall + ".arguments", Severity: trace.SeverityError,
			run: invalid(func(*m3.ToolInfo, *jsonschema.Schema) string { return `42` })},
		{Name: "arguments-missing", About: "a call that lacks a required argument fails", Clause: clauseInput, Severity: trace.SeverityError,
			run: invalid(func(*m3.ToolInfo, *jsonschema.Schema) string { return `{}` })},
		{Name: "arguments-null", About: "null for required arguments fails", Clause: clauseInput, Severity: trace.SeverityError,
			run: invalid(func(t *m3.ToolInfo, _ *jsonschema.Schema) string { return everyProperty(t, "null") })},
		{Name: "argument-type", About: "an argument of another JSON type than the schema's fails", Clause: clauseInput, Severity: trace.SeverityError,
			run: invalid(wrongType)},
		{Name: "argument-enum", About: "an argument that is not in the schema's enum fails", Clause: clauseInput, Severity: trace.SeverityError,
			run: invalid(wrongEnum)},
		{Name: "argument-extra", About: "an argument that a closed schema does not know fails", Clause: clauseInput, Severity: trace.SeverityWarning,
			run: invalid(extraArgument)},
		{Name: "tool-result-shape", About: "a tool's result has a content array whose blocks have a type", Clause: clauseResult, Severity: trace.SeverityError,
			run: valid(func(_ *m3.ToolInfo, r *reply, m *m3.RawMessage) string { return resultShape(m.Result) })},
		{Name: "tool-output-schema", About: "the structured result fits the tool's output schema", Clause: "server/tools: output schema", Severity: trace.SeverityError, Case: "D07",
			run: valid(outputFits)},
		{Name: "tool-result-doubled", About: "an image is not carried a second time in the structured content", Clause: "cost of a result", Severity: trace.SeverityNote, Case: "D19",
			run: valid(func(_ *m3.ToolInfo, _ *reply, m *m3.RawMessage) string { return doubled(m.Result) })},
		{Name: "tool-progress-uninvited", About: "no progress comes for a call that gave no token", Clause: clauseProgress, Severity: trace.SeverityError, Case: "D17",
			run: valid(func(_ *m3.ToolInfo, r *reply, _ *m3.RawMessage) string {
				for _, m := range r.own {
					if m.Method == "notifications/progress" {
						return "progress came: " + m.String()
					}
				}
				return ""
			})},
	}
}

// call is the run of a probe that sends tools/call with the params as they are.
func call(params string, judge func(*reply) verdict) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		if !b.has("tools") {
			return skip("the server declares no tools")
		}
		r, _ := b.ask(ctx, "tools/call", params)
		return judge(r)
	}
}

// invalid is the run of a probe that calls the server's own tools with arguments that their schema refuses. make gives the arguments, empty for none that
// would do. What the schema would take is never sent.
func invalid(make func(t *m3.ToolInfo, s *jsonschema.Schema) string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		calls := 0
		var wrong []string
		for i := range b.tools {
			t := &b.tools[i]
			args := b.refusedBySchema(t, make)
			if args == "" || calls >= maxToolCalls {
				continue
			}
			calls++
			r, _ := b.ask(ctx, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s}`, quoted(t.Name), args))
			if v := r.refused(); v.state == Fired {
				wrong = append(wrong, fmt.Sprintf("tool %s with %s: %s", t.Name, short([]byte(args)), v.message))
			}
			if r.err != nil && r.any() == nil {
				break // the server may be gone: what follows tells
			}
		}
		switch {
		case wrong != nil:
			return fired("%s", some(wrong))
		case calls == 0:
			return skip("no tool has a schema that would refuse such arguments")
		}
		return ok
	}
}

// refusedBySchema makes arguments for a tool that may be called with invalid ones, and makes sure that they are invalid.
func (b *bench) refusedBySchema(t *m3.ToolInfo, make func(t *m3.ToolInfo, s *jsonschema.Schema) string) string {
	schema, err := compile(t.InputSchema)
	if err != nil || schema == nil || t.Name == "" || b.hint(t, "destructiveHint") && !b.opts.CallTools {
		return ""
	}
	args := make(t, schema)
	if args == "" || fits(schema, args) {
		return ""
	}
	return args
}

func fits(s *jsonschema.Schema, text string) bool {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	return err == nil && s.Validate(v) == nil
}

// hint reads an annotation.
func (b *bench) hint(t *m3.ToolInfo, name string) bool {
	return string(member(t.Annotations, name)) == "true"
}

func quoted(s string) string { return string(trace.AppendString(nil, s)) }

// properties are the tool's arguments with their schemas, sorted by name.
func properties(t *m3.ToolInfo) (names []string, schemas map[string]json.RawMessage) {
	_ = json.Unmarshal(member(t.InputSchema, "properties"), &schemas) // a broken one has none
	dec := json.NewDecoder(bytes.NewReader(member(t.InputSchema, "properties")))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, schemas
	}
	for dec.More() {
		name, err := dec.Token()
		var skipped json.RawMessage
		if err != nil || dec.Decode(&skipped) != nil {
			break
		}
		names = append(names, fmt.Sprint(name))
	}
	return names, schemas
}

func requiredOf(schema json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(schema, &s) // none, then
	return s.Required
}

func everyProperty(t *m3.ToolInfo, value string) string {
	names := requiredOf(json.RawMessage(t.InputSchema))
	if len(names) == 0 {
		return ""
	}
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = quoted(n) + ":" + value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// wrongType gives every required argument a value of another type; a tool that requires none gets its first argument so.
func wrongType(t *m3.ToolInfo, s *jsonschema.Schema) string {
	names, schemas := properties(t)
	required := requiredOf(json.RawMessage(t.InputSchema))
	if len(required) == 0 && len(names) > 0 {
		required = names[:1]
	}
	var parts []string
	for _, n := range required {
		value := `{"m3":["wrong type"]}`
		if kind := string(member(trace.JSON(schemas[n]), "type")); kind == `"object"` || kind == `"array"` {
			value = `7`
		}
		parts = append(parts, quoted(n)+":"+value)
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// wrongEnum gives valid arguments, but for one that has an enum.
func wrongEnum(t *m3.ToolInfo, s *jsonschema.Schema) string {
	names, schemas := properties(t)
	for _, n := range names {
		if member(trace.JSON(schemas[n]), "enum") == nil {
			continue
		}
		if args := arguments(t, map[string]string{n: `"m3-not-in-the-enum"`}); args != "" {
			return args
		}
	}
	return ""
}

// extraArgument gives valid arguments and one more.
func extraArgument(t *m3.ToolInfo, s *jsonschema.Schema) string {
	return arguments(t, map[string]string{"m3_unknown_argument": `1`})
}

// arguments makes arguments from the tool's own schema: what is required, and what set says. Empty when there is no telling.
func arguments(t *m3.ToolInfo, set map[string]string) string {
	_, schemas := properties(t)
	var parts []string
	for _, n := range requiredOf(json.RawMessage(t.InputSchema)) {
		if _, given := set[n]; given {
			continue
		}
		v := sample(schemas[n], 0)
		if v == "" {
			return ""
		}
		parts = append(parts, quoted(n)+":"+v)
	}
	for n, v := range set {
		parts = append(parts, quoted(n)+":"+v)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// sample makes a value for a schema; empty when it is too involved.
func sample(schema json.RawMessage, depth int) string {
	var s struct {
		Type     any                        `json:"type"`
		Const    json.RawMessage            `json:"const"`
		Default  json.RawMessage            `json:"default"`
		Enum     []json.RawMessage          `json:"enum"`
		Examples []json.RawMessage          `json:"examples"`
		Minimum  json.RawMessage            `json:"minimum"`
		MinItems int                        `json:"minItems"`
		Items    json.RawMessage            `json:"items"`
		Props    map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || depth > 4 {
		return ""
	}
	for _, v := range append([]json.RawMessage{s.Const, s.Default}, append(s.Examples, s.Enum...)...) {
		if v != nil && string(v) != "null" {
			return string(v)
		}
	}
	switch s.Type {
	case "string":
		return `"m3"`
	case "integer", "number":
		if s.Minimum != nil {
			return string(s.Minimum)
		}
		return `1`
	case "boolean":
		return `false`
	case "array":
		if s.MinItems == 0 {
			return `[]`
		}
		item := sample(s.Items, depth+1)
		if item == "" || s.MinItems > 10 {
			return ""
		}
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", s.MinItems), ",") + "]"
	case "object":
		var parts []string
		for _, n := range requiredOf(schema) {
			v := sample(s.Props[n], depth+1)
			if v == "" {
				return ""
			}
			parts = append(parts, quoted(n)+":"+v)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return ""
}

// valid is the run of a probe that calls, with valid arguments, the tools that may be called so.
func valid(look func(t *m3.ToolInfo, r *reply, m *m3.RawMessage) (wrong string)) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		calls := 0
		var wrong []string
		for i := range b.tools {
			t := &b.tools[i]
			args := b.harmless(t)
			if args == "" || calls >= maxToolCalls {
				continue
			}
			c := b.callOnce(ctx, t, args)
			calls++
			if c.answer == nil || c.answer.Result == nil || toolError(c.answer) {
				continue // its own failure is its own affair, and its own time
			}
			if w := look(t, c.reply, c.answer); w != "" {
				wrong = append(wrong, "tool "+t.Name+": "+w)
			}
		}
		switch {
		case wrong != nil:
			return fired("%s", some(wrong))
		case calls == 0:
			return skip("no tool is annotated readOnlyHint and can be called by its schema alone; --call-tools allows the others")
		}
		return ok
	}
}

// toolCall is a valid call and what came of it.
type toolCall struct {
	reply  *reply
	answer *m3.RawMessage // nil: none within the patience
}

// callOnce calls a tool, the first time that it is asked to. A call that takes too long is cancelled.
func (b *bench) callOnce(ctx context.Context, t *m3.ToolInfo, args string) *toolCall {
	if c := b.calls[t.Name]; c != nil {
		return c
	}
	r, id := b.ask(ctx, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s}`, quoted(t.Name), args))
	c := &toolCall{r, r.answer(id)}
	b.calls[t.Name] = c
	if c.answer == nil && !b.http {
		b.send(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id), "")
	}
	return c
}

// harmless makes valid arguments for a tool that may be called with them: it is annotated readOnlyHint, or the caller allows all.
func (b *bench) harmless(t *m3.ToolInfo) string {
	schema, err := compile(t.InputSchema)
	if err != nil || schema == nil || t.Name == "" || !b.hint(t, "readOnlyHint") && !b.opts.CallTools {
		return ""
	}
	args := arguments(t, nil)
	if args == "" || !fits(schema, args) {
		return ""
	}
	return args
}

func resultShape(result trace.JSON) string {
	if string(member(result, "resultType")) == `"input_required"` {
		return ""
	}
	var blocks []map[string]json.RawMessage
	if err := json.Unmarshal(member(result, "content"), &blocks); err != nil || blocks == nil {
		return "content is no array of objects: " + orNone(member(result, "content"))
	}
	for i, block := range blocks {
		if kind := block["type"]; len(kind) < 2 || kind[0] != '"' {
			return fmt.Sprintf("content[%d] has no type", i)
		}
	}
	return ""
}

func outputFits(t *m3.ToolInfo, _ *reply, m *m3.RawMessage) string {
	schema, err := compile(t.OutputSchema)
	structured := member(m.Result, "structuredContent")
	switch {
	case err != nil || schema == nil || string(member(m.Result, "resultType")) == `"input_required"`:
		return "" // tool-schema-invalid tells
	case structured == nil:
		return "it has an output schema, and its result no structured content"
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(structured))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		return "the structured content does not fit the output schema: " + reason(err)
	}
	return ""
}

// doubled looks for the data of an image or audio block in the structured content.
func doubled(result trace.JSON) string {
	var blocks []struct {
		Data string `json:"data"`
	}
	structured := member(result, "structuredContent")
	_ = json.Unmarshal(member(result, "content"), &blocks) // resultShape tells
	for _, block := range blocks {
		if len(block.Data) > 64 && bytes.Contains(structured, []byte(block.Data)) {
			return fmt.Sprintf("%d bytes of base64 stand in the content and again in the structured content", len(block.Data))
		}
	}
	return ""
}
