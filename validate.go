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
	mu      sync.Mutex
	tools   map[string]*contract
	expires time.Time // zero: never
}

// contract is one tool's schemas. Each is compiled on its own, so that a broken one hides nothing else.
type contract struct {
	input, output       *jsonschema.Schema
	inputErr, outputErr error
}

func (k *catalogue) invalidate() {
	k.mu.Lock()
	k.tools = nil
	k.mu.Unlock()
}

// get returns the tool's contract, listing when the catalogue is empty or stale, or when fresh is asked for.
func (k *catalogue) get(ctx context.Context, c *Client, tool string, fresh bool) (*contract, error) {
	k.mu.Lock()
	stale := k.tools == nil || !k.expires.IsZero() && time.Now().After(k.expires)
	if known := k.tools[tool]; known != nil && !stale && !fresh {
		k.mu.Unlock()
		return known, nil
	}
	k.mu.Unlock()
	tools, expires, err := c.listContracts(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tools, k.expires = tools, expires
	return tools[tool], nil
}

// listContracts lists all tools on m3's own account: the requests are marked, and exact-call matchers leave them out.
func (c *Client) listContracts(ctx context.Context) (map[string]*contract, time.Time, error) {
	tools := map[string]*contract{}
	var expires time.Time
	opts := &ListOptions{}
	seen := map[string]bool{}
	for {
		page, err := listPage[ToolInfo](ctx, c, "tools/list", "tools", opts, true)
		if err != nil {
			return nil, expires, fmt.Errorf("m3: list the tools for ValidateSchemas: %w", err)
		}
		var ttl struct {
			TTL *int64 `json:"ttlMs"`
		}
		if page.Raw.Decode(&ttl) == nil && ttl.TTL != nil {
			if t := time.Now().Add(time.Duration(*ttl.TTL) * time.Millisecond); expires.IsZero() || t.Before(expires) {
				expires = t
			}
		}
		for _, t := range page.Items {
			if t.Malformed == "" && tools[t.Name] == nil {
				tools[t.Name] = compile(t)
			}
		}
		if c.last("tools/list", page.NextCursor) || seen[*page.NextCursor] {
			return tools, expires, nil
		}
		seen[*page.NextCursor] = true
		opts.Cursor = page.NextCursor
	}
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

// schemaBase is the fixed address under which a tool's schema is compiled, so that errors show no path of this machine.
const schemaBase = "m3:schema"

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

// validateArguments checks the arguments before anything is sent.
func (c *Client) validateArguments(ctx context.Context, tool string, args []byte) error {
	if args == nil {
		args = []byte("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return contractError("call", tool, "invalid_arguments", "the arguments are not JSON")
	}
	return c.judge(ctx, tool, func(k *contract) error {
		if k.inputErr != nil {
			return contractError("call", tool, "invalid_schema", "the tool's input schema cannot be used: "+schemaReason(k.inputErr))
		}
		if k.input == nil {
			return nil
		}
		if err := k.input.Validate(value); err != nil {
			return contractError("call", tool, "invalid_arguments", "the arguments do not fit the tool's input schema: "+mismatch(err))
		}
		return nil
	})
}

// validateResult checks the structured content of a success. A tool's own failure is never checked: it would hide the failure.
func (c *Client) validateResult(ctx context.Context, tool string, r *ToolCallResult) error {
	if r.IsError {
		return nil
	}
	return c.judge(ctx, tool, func(k *contract) error {
		switch {
		case k.outputErr != nil:
			return contractError("call", tool, "invalid_schema", "the tool's output schema cannot be used: "+schemaReason(k.outputErr))
		case k.output == nil:
			return nil
		case r.StructuredContent == nil:
			return contractError("call", tool, "invalid_result", "the tool has an output schema, and its result has no structured content")
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.StructuredContent))
		if err != nil {
			return contractError("call", tool, "invalid_result", "the structured content is not JSON")
		}
		if err := k.output.Validate(value); err != nil {
			return contractError("call", tool, "invalid_result", "the structured content does not fit the tool's output schema: "+mismatch(err))
		}
		return nil
	})
}

// judge checks by the catalogue that is known, and once more by a fresh one before it calls anything wrong.
func (c *Client) judge(ctx context.Context, tool string, check func(*contract) error) error {
	k, err := c.catalogue.get(ctx, c, tool, false)
	if err != nil {
		return err
	}
	if k != nil && check(k) == nil {
		return nil
	}
	if k, err = c.catalogue.get(ctx, c, tool, true); err != nil {
		return err
	}
	if k == nil {
		return nil // the server does not list it: what it answers is its own affair
	}
	return check(k)
}

func contractError(operation, tool, failure, message string) *ValidationError {
	return &ValidationError{Message: fmt.Sprintf("%s %s: %s", operation, tool, message), Details: map[string]any{"operation": operation, "tool": tool, "kind": failure}}
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
	return strings.ReplaceAll(err.Error(), schemaBase, "")
}
