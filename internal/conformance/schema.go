package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/m3-go/m3/internal/mcp"
)

// Schemas are the official schemas of all protocol versions.
type Schemas struct {
	mu       sync.Mutex // held while definitions are compiled and used
	dir      string
	versions map[string]*version
}

// version is one schema: its definitions, each compiled when it is first needed, and which of them belongs to a method. It is not for several
// goroutines at once.
type version struct {
	compiler *jsonschema.Compiler
	at       string                        // where the definitions stand, with a slash at the end
	defs     map[string]*jsonschema.Schema // nil until it is compiled
	byMethod map[string]string             // method → definition
	client   []string                      // definitions of what clients send: the members of ClientRequest and ClientNotification
}

// ClientDefinitions names the definitions of everything that a client may send in a version, but for its answers.
func (s *Schemas) ClientDefinitions(protocol string) []string {
	if v := s.versions[protocol]; v != nil {
		return slices.Clone(v.client)
	}
	return nil
}

// ErrMissing is returned by Load where the schemas are not there.
var ErrMissing = errors.New("the official schemas are not beside this repository (../shared/mcp/schema)")

// Load reads the schemas from beside the repository that the working directory belongs to.
func Load() (*Schemas, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return LoadDir(filepath.Join(root, "..", "shared", "mcp", "schema"))
}

// LoadDir reads the schemas from a directory: one file a version, named by it.
func LoadDir(dir string) (*Schemas, error) {
	s := &Schemas{dir: dir, versions: map[string]*version{}}
	for _, v := range mcp.Versions {
		b, err := os.ReadFile(filepath.Join(dir, v+".json"))
		if errors.Is(err, os.ErrNotExist) {
			return nil, ErrMissing
		}
		if err != nil {
			return nil, err
		}
		if s.versions[v], err = compile(v, b); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v, err)
		}
	}
	return s, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("the working directory belongs to no module")
		}
		dir = up
	}
}

type refuse struct{}

func (refuse) Load(url string) (any, error) { return nil, fmt.Errorf("%s: nothing is fetched", url) }

func compile(name string, b []byte) (*version, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	root, _ := doc.(map[string]any)
	key := "$defs"
	defs, ok := root[key].(map[string]any)
	if !ok {
		key = "definitions"
		defs, _ = root[key].(map[string]any)
	}
	if len(defs) == 0 {
		return nil, errors.New("it has no definitions")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	url := "m3:" + name
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	v := &version{compiler: c, at: url + "#/" + key + "/", defs: map[string]*jsonschema.Schema{}, byMethod: map[string]string{}}
	for def, schema := range defs {
		v.defs[def] = nil
		if m := methodOf(schema); m != "" && (strings.HasSuffix(def, "Request") || strings.HasSuffix(def, "Notification")) && !strings.HasPrefix(def, "Client") {
			v.byMethod[m] = def // ClientNotification of 2026-07-28 is an alias
		}
	}
	for _, union := range []string{"ClientRequest", "ClientNotification"} {
		v.client = append(v.client, v.union(defs[union])...)
	}
	return v, nil
}

// union lists the members of a union: its anyOf, or, where there is one member only, that one.
func (v *version) union(def any) []string {
	schema, _ := def.(map[string]any)
	list, _ := schema["anyOf"].([]any)
	if one := v.byMethod[methodOf(def)]; one != "" {
		return []string{one}
	}
	var names []string
	for _, e := range list {
		ref, _ := e.(map[string]any)["$ref"].(string)
		names = append(names, ref[strings.LastIndexByte(ref, '/')+1:])
	}
	return names
}

func methodOf(def any) string {
	schema, _ := def.(map[string]any)
	props, _ := schema["properties"].(map[string]any)
	method, _ := props["method"].(map[string]any)
	name, _ := method["const"].(string)
	return name
}

// envelope names the definition of a message by its parts. The responses were renamed in 2025-11-25.
func (v *version) envelope(m *message) string {
	switch {
	case m.method != "" && m.id != "":
		return "JSONRPCRequest"
	case m.method != "":
		return "JSONRPCNotification"
	case m.hasError:
		return v.first("JSONRPCErrorResponse", "JSONRPCError")
	}
	return v.first("JSONRPCResultResponse", "JSONRPCResponse")
}

func (v *version) has(def string) bool { _, ok := v.defs[def]; return ok }

func (v *version) first(names ...string) string {
	for _, n := range names {
		if v.has(n) {
			return n
		}
	}
	return ""
}

// result names the definition of a method's result, by the result's type where the version has types; "" for an extension's own.
func (v *version) result(method string, result map[string]any) string {
	request, known := v.byMethod[method]
	kind, typed := result["resultType"].(string)
	switch {
	case !known:
		return ""
	case !v.has("InputRequiredResult"), !typed, kind == mcp.ResultComplete:
		return v.first(strings.TrimSuffix(request, "Request")+"Result", "EmptyResult")
	case kind == mcp.ResultInputRequired:
		return "InputRequiredResult"
	}
	return ""
}

// validate checks a value by a definition. The error is on one line.
func (v *version) validate(def string, value any) error {
	schema, ok := v.defs[def]
	if !ok {
		return fmt.Errorf("there is no definition %q", def)
	}
	var err error
	if schema == nil {
		if schema, err = v.compiler.Compile(v.at + def); err != nil {
			return fmt.Errorf("the definition cannot be compiled: %w", err)
		}
		v.defs[def] = schema
	}
	if err = schema.Validate(value); err == nil {
		return nil
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
