package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clauseTool   = "schema: Tool"
	clausePaging = "server/utilities/pagination"
)

// eachTool is the run of a probe that looks at the tools as they are listed.
func eachTool(look func(b *bench, t *m3.ToolInfo) (wrong string)) func(ctx context.Context, b *bench) verdict {
	return func(_ context.Context, b *bench) verdict {
		if len(b.tools) == 0 {
			return skip("the server lists no tools")
		}
		var all []string
		for i := range b.tools {
			if wrong := look(b, &b.tools[i]); wrong != "" {
				all = append(all, "tool "+nameOf(&b.tools[i])+": "+wrong)
			}
		}
		if all == nil {
			return ok
		}
		return fired("%s", some(all))
	}
}

// some shows the first few of a list.
func some(all []string) string {
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], "; ") + "; and " + itoa(len(all)-most) + " more"
	}
	return strings.Join(all, "; ")
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func nameOf(t *m3.ToolInfo) string {
	if t.Name == "" {
		return "without a name"
	}
	return t.Name
}

var (
	strictName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anyName    = regexp.MustCompile(`^[a-zA-Z0-9_./-]{1,128}$`)
)

func listProbes() []*Probe {
	return []*Probe{
		{Name: "tool-malformed", About: "every item of tools/list can be read as a tool", Clause: clauseTool, Severity: trace.SeverityError, Case: "D02",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string { return t.Malformed })},
		{Name: "tool-input-schema", About: "every tool has an input schema of type object", Clause: clauseTool + ".inputSchema", Severity: trace.SeverityError,
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string { return objectSchema(t.InputSchema, true) })},
		{Name: "tool-properties", About: "properties is an object, also when it is empty", Clause: "JSON Schema: properties", Severity: trace.SeverityError, Case: "H14",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				if p := member(t.InputSchema, "properties"); p != nil && p[0] != '{' {
					return "/inputSchema/properties is " + short(p)
				}
				return ""
			})},
		{Name: "tool-schema-invalid", About: "the schemas of every tool are valid in their own dialect, and every reference resolves", Clause: "JSON Schema; " + clauseTool, Severity: trace.SeverityError, Case: "D01",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				if _, err := compile(t.InputSchema); err != nil {
					return "inputSchema: " + reason(err)
				}
				if _, err := compile(t.OutputSchema); err != nil {
					return "outputSchema: " + reason(err)
				}
				return ""
			})},
		{Name: "tool-old-dialect", About: "schemas are in the default dialect, 2020-12: strict clients know no other", Clause: "basic: JSON Schema usage", Severity: trace.SeverityNote, Case: "D04",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				for _, s := range []trace.JSON{t.InputSchema, t.OutputSchema} {
					if d := member(s, "$schema"); d != nil && !bytes.Contains(d, []byte("2020-12")) {
						return "$schema is " + short(d)
					}
				}
				return ""
			})},
		{Name: "tool-references", About: "schemas do without $ref: several known clients cannot follow it", Clause: clauseTool, Severity: trace.SeverityNote, Case: "D01",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				if bytes.Contains(t.InputSchema, []byte(`"$ref"`)) || bytes.Contains(t.OutputSchema, []byte(`"$ref"`)) {
					return "it uses $ref"
				}
				return ""
			})},
		{Name: "tool-name", About: "tool names have 1 to 128 letters, digits, _, -, . or /", Clause: "server/tools: tool names", Severity: trace.SeverityWarning, Case: "D11",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				if !anyName.MatchString(t.Name) {
					return "the name is not one"
				}
				return ""
			})},
		{Name: "tool-name-hosts", About: "tool names have at most 64 letters, digits, _ or -: some hosts refuse the rest", Clause: "hosts' own rule", Severity: trace.SeverityNote, Case: "D11",
			run: eachTool(func(_ *bench, t *m3.ToolInfo) string {
				if anyName.MatchString(t.Name) && !strictName.MatchString(t.Name) {
					return "some hosts refuse the name"
				}
				return ""
			})},
		{Name: "tool-name-twice", About: "no two tools have the same name", Clause: "server/tools: names are unique", Severity: trace.SeverityError, Case: "D13",
			run: func(ctx context.Context, b *bench) verdict {
				seen := map[string]bool{}
				return eachTool(func(_ *bench, t *m3.ToolInfo) string {
					if seen[t.Name] {
						return "it is listed twice"
					}
					seen[t.Name] = true
					return ""
				})(ctx, b)
			}},
		{Name: "cursor-unknown", About: "a cursor that the server never gave is refused with -32602", Clause: clausePaging + ": invalid cursors", Severity: trace.SeverityWarning,
			run: cursor(`"m3-no-such-cursor"`)},
		{Name: "cursor-type", About: "a cursor that is no string is refused", Clause: clausePaging, Severity: trace.SeverityWarning,
			run: cursor(`{"a":1}`)},
		{Name: "cursor-loop", About: "the cursors of a list come to an end", Clause: clausePaging, Severity: trace.SeverityError, Case: "D14",
			run: runCursors},
	}
}

// member is a member of a JSON object, or nil.
func member(object trace.JSON, name string) json.RawMessage {
	var m map[string]json.RawMessage
	_ = object.Decode(&m) // what is no object has no members
	return m[name]
}

func short(b []byte) string {
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "") + "…"
	}
	return string(b)
}

// objectSchema says what keeps a schema from being one of an object.
func objectSchema(schema trace.JSON, required bool) string {
	switch kind := member(schema, "type"); {
	case schema == nil && required:
		return "there is no inputSchema"
	case schema != nil && string(kind) != `"object"`:
		return "the type of the schema is " + orNone(kind) + `, not "object"`
	}
	return ""
}

func orNone(b []byte) string {
	if b == nil {
		return "missing"
	}
	return short(b)
}

// refuse fetches nothing.
type refuse struct{}

// Load refuses.
func (refuse) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// compile reads a schema in its own dialect; no schema is nil.
func compile(raw trace.JSON) (*jsonschema.Schema, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuse{})
	if err := c.AddResource("m3:schema", doc); err != nil {
		return nil, err
	}
	return c.Compile("m3:schema")
}

func reason(err error) string {
	return short([]byte(strings.Join(strings.Fields(err.Error()), " ")))
}

// cursor is the run of a probe that lists with a cursor of its own making.
func cursor(text string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		method := b.lists()
		if !strings.HasSuffix(method, "/list") {
			return skip("the server has no list")
		}
		r, _ := b.ask(ctx, method, `{"cursor":`+text+`}`)
		return r.refused()
	}
}

func runCursors(ctx context.Context, b *bench) verdict {
	method := b.lists()
	if !strings.HasSuffix(method, "/list") {
		return skip("the server has no list")
	}
	seen := map[string]bool{}
	params := ""
	for range 1000 {
		r, id := b.ask(ctx, method, params)
		if v := r.served(id); v.state != Clean {
			return v
		}
		next := member(r.answer(id).Result, "nextCursor")
		switch {
		case next == nil:
			return ok
		case next[0] != '"':
			return fired("nextCursor is %s, not a string", short(next))
		case seen[string(next)]:
			return fired("the cursor %s comes again after %d pages", short(next), len(seen))
		}
		seen[string(next)] = true
		params = `{"cursor":` + string(next) + `}`
	}
	return fired("more than 1,000 pages")
}
