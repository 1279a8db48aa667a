package m3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/m3-go/m3/trace"
)

// catalogue is the connection's tools with their compiled schemas (decision 9): kept until the server says that the list changed,
// until its ttlMs has passed, or until a tool is unknown or a check fails, when it is listed once more.
type catalogue struct {
	listing chan struct{} // held, with one element, by the one who lists

	mu      sync.Mutex
	tools   map[string]*contract
	expires time.Time // zero: never
	changes int       // how often the server said that the list changed
	version int       // how often it was listed
}

// contract is one tool's schemas. Each is compiled on its own, so that a broken one hides nothing else.
type contract struct {
	input, output       *jsonschema.Schema
	inputErr, outputErr error
	version             int // of the catalogue
}

// invalidate is called on the connection's reader: it must not wait for a listing, whose answer comes there.
func (k *catalogue) invalidate() {
	k.mu.Lock()
	k.tools = nil
	k.changes++
	k.mu.Unlock()
}

// known returns the tool's contract, as of which version; ok is false when the catalogue is empty or stale, and then there is no contract.
func (k *catalogue) known(tool string) (c *contract, version int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tools == nil || !k.expires.IsZero() && time.Now().After(k.expires) {
		return nil, k.version, false
	}
	return k.tools[tool], k.version, true
}

// list returns the tool's contract by a catalogue newer than version: a fresh one, unless somebody else has listed meanwhile.
func (k *catalogue) list(ctx context.Context, c *Client, tool string, version int) (*contract, error) {
	select {
	case k.listing <- struct{}{}:
		defer func() { <-k.listing }()
	case <-ctx.Done(): // the list will not be asked for: let the call itself say how its context ended
		return nil, c.contextError(ctx, "call "+tool)
	}
	if known, v, ok := k.known(tool); ok && v > version {
		return known, nil
	}
	k.mu.Lock()
	changes := k.changes
	k.mu.Unlock()
	tools, expires, err := c.listContracts(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	for _, t := range tools {
		t.version = k.version
	}
	if k.changes == changes { // else it is out of date already: good for this check, which began before
		k.tools, k.expires = tools, expires
	}
	return tools[tool], nil
}

// listContracts lists all tools on m3's own account: the requests are marked, and exact-call matchers leave them out.
func (c *Client) listContracts(ctx context.Context) (map[string]*contract, time.Time, error) {
	tools := map[string]*contract{}
	var expires time.Time
	err := eachPage(ctx, c, "tools/list", "tools", nil, true, func(page *Page[ToolInfo]) {
		if t, ok := expiry(page.Raw); ok && (expires.IsZero() || t.Before(expires)) {
			expires = t
		}
		for _, t := range page.Items {
			if t.Malformed == "" && tools[t.Name] == nil {
				tools[t.Name] = compile(t)
			}
		}
	})
	return tools, expires, during("list the tools for ValidateSchemas", err)
}

// expiry is when a page's ttlMs has passed.
func expiry(page trace.JSON) (time.Time, bool) {
	var ttl struct {
		TTL *float64 `json:"ttlMs"`
	}
	if page.Decode(&ttl) != nil || ttl.TTL == nil {
		return time.Time{}, false
	}
	const most = 365 * 24 * time.Hour // more is never, and would overflow
	ms := min(max(*ttl.TTL, 0), float64(most/time.Millisecond))
	return time.Now().Add(time.Duration(ms * float64(time.Millisecond))), true
}

func compile(t ToolInfo) *contract {
	k := &contract{}
	k.input, k.inputErr = compileSchema(t.InputSchema)
	k.output, k.outputErr = compileSchema(t.OutputSchema)
	return k
}

// refuseLoader refuses every reference that leaves the schema: nothing is ever fetched, files included.
type refuseLoader struct{}

func (refuseLoader) Load(string) (any, error) {
	return nil, errors.New("the schema refers to another document, and m3 never fetches one")
}

// schemaBase is the fixed address under which a tool's schema is compiled, so that errors show no path of this machine. It has a path, against which a
// relative reference becomes the address of another document.
const (
	schemaRoot = "m3:///"
	schemaBase = schemaRoot + "schema"
)

// compileSchema compiles a schema by its own dialect; without $schema that is 2020-12 (SEP-1613).
func compileSchema(raw trace.JSON) (*jsonschema.Schema, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(refuseLoader{})
	if err := compiler.AddResource(schemaBase, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaBase)
}

// validateArguments checks the arguments before anything is sent. It returns the contract that they were checked by; nil when the server does not list
// the tool.
func (c *Client) validateArguments(ctx context.Context, tool string, args []byte) (*contract, error) {
	if args == nil {
		args = []byte("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil, c.contractError("call", tool, "invalid_arguments", "the arguments are not JSON")
	}
	k, version, _ := c.catalogue.known(tool)
	return c.judge(ctx, tool, k, version, func(k *contract) error {
		if k.inputErr != nil {
			return c.contractError("call", tool, "invalid_schema", "the tool's input schema cannot be used: "+schemaReason(k.inputErr))
		}
		if k.input == nil {
			return nil
		}
		if err := validate(k.input, value); err != nil {
			return c.contractError("call", tool, "invalid_arguments", "the arguments do not fit the tool's input schema: "+mismatch(err))
		}
		return nil
	})
}

// validateResult checks the structured content of a success by the contract that the call began with. A tool's own failure is never checked: it would
// hide the failure. Nor is what the server does not list.
func (c *Client) validateResult(ctx context.Context, tool string, began *contract, r *ToolCallResult) error {
	if r.IsError || began == nil {
		return nil
	}
	_, err := c.judge(ctx, tool, began, began.version, func(k *contract) error {
		switch {
		case k.outputErr != nil:
			return c.contractError("call", tool, "invalid_schema", "the tool's output schema cannot be used: "+schemaReason(k.outputErr))
		case k.output == nil:
			return nil
		case r.StructuredContent == nil:
			return c.contractError("call", tool, "invalid_result", "the tool has an output schema, and its result has no structured content")
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.StructuredContent))
		if err != nil {
			return c.contractError("call", tool, "invalid_result", "the structured content is not JSON")
		}
		if err := validate(k.output, value); err != nil {
			return c.contractError("call", tool, "invalid_result", "the structured content does not fit the tool's output schema: "+mismatch(err))
		}
		return nil
	})
	return err
}

// judge checks by the contract k of a version of the catalogue, and by that of a fresh one before it calls anything wrong, or the tool unknown.
func (c *Client) judge(ctx context.Context, tool string, k *contract, version int, check func(*contract) error) (*contract, error) {
	if k != nil && check(k) == nil {
		return k, nil
	}
	k, err := c.catalogue.list(ctx, c, tool, version)
	if err != nil || k == nil {
		return nil, err
	}
	return k, check(k)
}

// validate is s.Validate, and an error where it panics: schemas come from outside.
func validate(s *jsonschema.Schema, value any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the validator failed: %T", v)
		}
	}()
	return s.Validate(value)
}

func (c *Client) contractError(operation, tool, failure, message string) *ValidationError {
	return &ValidationError{Message: c.kit.redactor.String(fmt.Sprintf("%s %s: %s", operation, tool, message)), Details: map[string]any{"operation": operation, "tool": tool, "kind": failure}}
}

// mismatch says where and by which keyword a value does not fit, never the value: "/price: type".
func mismatch(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return "it cannot be checked"
	}
	var places []string
	leaves(v, func(leaf *jsonschema.ValidationError) {
		place := "/" + strings.Join(leaf.InstanceLocation, "/")
		text := strings.Join(leaf.ErrorKind.KeywordPath(), "/")
		switch k := leaf.ErrorKind.(type) {
		case *kind.Required:
			text = "missing " + strings.Join(k.Missing, ", ")
		case *kind.Type:
			text = "is " + k.Got + ", want " + strings.Join(k.Want, " or ")
		case *kind.AdditionalProperties:
			text = "unexpected " + strings.Join(k.Properties, ", ")
		case *kind.RefCycle:
			text = "the schema refers to itself without end"
		case *kind.Format:
			if k.Want == "regex" {
				text = "a regular expression that m3 cannot check (Go's syntax, which has no lookaround)"
			}
		}
		places = append(places, place+": "+text)
	})
	const most = 5
	if len(places) > most {
		places = append(places[:most], fmt.Sprintf("and %d more", len(places)-most))
	}
	return strings.Join(places, "; ")
}

func leaves(v *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	if len(v.Causes) == 0 {
		f(v)
		return
	}
	for _, cause := range v.Causes {
		leaves(cause, f)
	}
}

// schemaReason is why a schema cannot be used, with what is m3's own limit told apart from what is wrong with the schema.
func schemaReason(err error) string {
	var bad *jsonschema.SchemaValidationError
	if errors.As(err, &bad) {
		return "it is not a valid schema (" + mismatch(bad.Err) + ")"
	}
	return strings.NewReplacer(schemaBase, "", schemaRoot, "").Replace(err.Error())
}
