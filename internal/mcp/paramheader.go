package mcp

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// paramPrefix begins the name of a header that mirrors an argument (2026-07-28, basic/transports/streamable-http).
const paramPrefix = "Mcp-Param-"

// annotation marks a property of a tool's input schema whose value is mirrored into a header.
const annotation = "x-mcp-header"

// ParamHeader is one argument of a tool that HTTP requests mirror into a header.
type ParamHeader struct {
	Name string   // of the header: Mcp-Param-Region
	Path []string // of the argument: the names of the properties that lead to it
}

// MirrorsParams reports whether the session's requests mirror arguments into headers: on streamable HTTP from 2026-07-28 on.
func (s *Session) MirrorsParams() bool {
	_, ok := s.link.transport.(protocolSetter)
	return ok && s.Modern()
}

// ParamHeaders reads the annotations of a tool's input schema. The error says which annotation breaks which rule; the tool's definition is then
// invalid for a client of streamable HTTP.
func ParamHeaders(schema trace.JSON) ([]ParamHeader, error) {
	if !strings.Contains(string(schema), annotation) {
		return nil, nil
	}
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		return nil, fmt.Errorf("the input schema is no JSON: %w", err)
	}
	w := &annotations{seen: map[string]bool{}}
	w.schema(doc, nil, true)
	return w.found, w.err
}

// annotations walks a schema.
type annotations struct {
	found []ParamHeader
	seen  map[string]bool
	err   error // the first
}

func (w *annotations) fail(path []string, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s at /%s %s", annotation, strings.Join(path, "/"), fmt.Sprintf(format, args...))
	}
}

// The keywords under which schemas stand: one, a list, or one by name.
var (
	oneSchema = []string{"items", "additionalProperties", "additionalItems", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames",
		"not", "if", "then", "else", "contentSchema"}
	schemaList  = []string{"oneOf", "anyOf", "allOf", "prefixItems", "items"}
	namedSchema = []string{"$defs", "definitions", "patternProperties", "dependentSchemas"}
)

// schema looks at one schema. reachable says that nothing but properties lead to it from the root.
func (w *annotations) schema(v any, path []string, reachable bool) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	if name, has := s[annotation]; has {
		w.annotated(s, name, path, reachable)
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for _, name := range sortedKeys(props) {
			w.schema(props[name], append(slices.Clone(path), name), reachable)
		}
	}
	for _, key := range oneSchema {
		w.schema(s[key], append(slices.Clone(path), key), false)
	}
	for _, key := range schemaList {
		list, _ := s[key].([]any)
		for _, e := range list {
			w.schema(e, append(slices.Clone(path), key), false)
		}
	}
	for _, key := range namedSchema {
		named, _ := s[key].(map[string]any)
		for _, name := range sortedKeys(named) {
			w.schema(named[name], append(slices.Clone(path), key, name), false)
		}
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *annotations) annotated(s map[string]any, value any, path []string, reachable bool) {
	name, isText := value.(string)
	switch {
	case !isText || name == "":
		w.fail(path, "is no name")
	case !isToken(name):
		w.fail(path, "is %s, which cannot stand in a header's name", quote(name))
	case len(path) == 0 || !reachable:
		w.fail(path, "is not on a property that is reached through properties alone")
	case !mirrored(s["type"]):
		w.fail(path, "is on a property that is no string, integer or boolean")
	case w.seen[strings.ToLower(name)]:
		w.fail(path, "is %s, as that of another property", quote(name))
	default:
		w.seen[strings.ToLower(name)] = true
		w.found = append(w.found, ParamHeader{Name: paramPrefix + name, Path: path})
	}
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		alnum := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// mirrored reports whether a schema's type may be mirrored: one of three, or one of them and null.
func mirrored(typ any) bool {
	switch t := typ.(type) {
	case string:
		return t == "string" || t == "integer" || t == "boolean"
	case []any:
		rest := slices.DeleteFunc(slices.Clone(t), func(v any) bool { return v == "null" })
		return len(rest) == 1 && mirrored(rest[0])
	}
	return false
}

// Value returns the header's value for a tool's arguments, encoded, and whether there is one: an argument that is absent, null or no scalar
// has none.
func (h *ParamHeader) Value(arguments trace.JSON) (string, bool) {
	v := []byte(arguments)
	for _, name := range h.Path {
		if v = member(v, name); v == nil {
			return "", false
		}
	}
	if len(v) == 0 {
		return "", false
	}
	switch v[0] {
	case '"':
		return wire.HeaderValue(text(v)), true
	case '{', '[', 'n':
		return "", false
	case 't', 'f':
		return string(v), true
	}
	return decimal(string(v)), true
}

// decimal writes a whole number without exponent or fraction; other numbers, which do not fit the schema, stay as they are.
func decimal(number string) string {
	if !strings.ContainsAny(number, ".eE") || len(number) > 40 {
		return number
	}
	if _, exp, ok := strings.Cut(strings.ToLower(number), "e"); ok && len(strings.TrimLeft(exp, "+-0")) > 2 {
		return number // 1e999999999 must not be written out
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || !r.IsInt() {
		return number
	}
	return r.Num().String()
}
