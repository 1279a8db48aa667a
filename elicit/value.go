package elicit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// A JSON value here is nil, a bool, a string, a json.Number, a []any or a map[string]any, and owned by nobody else.

const (
	// maxDepth is how deep one value may nest: content, a schema, metadata.
	maxDepth = 100
	// maxText is how deep a JSON text may nest: a plan as deep as plans go, and a value in its deepest leaf.
	maxText = 2*maxPlanDepth + maxDepth + 8
)

// What is wrong with a value. The texts hold nothing of it.
var (
	errDeep   = errors.New("nests too deep")
	errUTF8   = errors.New("is not valid UTF-8")
	errObject = errors.New("is no JSON object")
	errNil    = errors.New("is nil")
	errSyntax = errors.New("is not one JSON value")
)

// clean returns v as a JSON value of our own.
func clean(v any) (any, error) { return cleanAt(v, 0) }

func cleanAt(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errUTF8
		}
		return v, nil
	case json.Number:
		return v, checkNumber(string(v))
	case map[string]any:
		return cleanMap(v, depth)
	case Content:
		return cleanMap(v, depth)
	case Meta:
		return cleanMap(v, depth)
	case []any:
		return cleanList(v, depth)
	default:
		return cleanOther(v, depth)
	}
}

func cleanMap(v map[string]any, depth int) (any, error) {
	if v == nil {
		return nil, nil
	}
	out := make(map[string]any, len(v))
	for name, member := range v {
		if !utf8.ValidString(name) {
			return nil, errUTF8
		}
		c, err := cleanAt(member, depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = c
	}
	return out, nil
}

func cleanList(v []any, depth int) (any, error) {
	if v == nil {
		return nil, nil
	}
	out := make([]any, len(v))
	for i, element := range v {
		c, err := cleanAt(element, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, nil
}

// cleanOther takes what encoding/json can write: numbers, structs, json.RawMessage. A MarshalJSON of the caller's that panics is an error.
func cleanOther(v any, depth int) (out any, err error) {
	defer func() {
		if recover() != nil {
			out, err = nil, fmt.Errorf("holds a %T, whose JSON encoding panicked", v)
		}
	}()
	b, err := json.Marshal(v)
	if err != nil { // its text may show the value
		return nil, fmt.Errorf("holds a %T, which JSON cannot hold", v)
	}
	return parse(b, maxDepth-depth)
}

// cleanObject is clean for what must be an object.
func cleanObject(v any) (map[string]any, error) {
	c, err := clean(v)
	if err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case map[string]any:
		return c, nil
	case nil:
		return nil, errNil
	default:
		return nil, errObject
	}
}

// copyOf copies the maps and lists of v.
func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return copyMap(v)
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = copyOf(out[i])
		}
		return out
	default:
		return v
	}
}

func copyMap[M ~map[string]any](v M) M {
	out := maps.Clone(v)
	for name, member := range out {
		out[name] = copyOf(member)
	}
	return out
}

// parse reads one JSON value and nothing else: no member twice, no invalid UTF-8, no nesting beyond depth.
func parse(b []byte, depth int) (any, error) {
	if !utf8.Valid(b) {
		return nil, errUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	v, err := parseValue(dec, depth)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errSyntax
	}
	return v, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, errSyntax
	}
	if n, ok := tok.(json.Number); ok {
		return n, checkExponent(string(n))
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth == 0 {
		return nil, errDeep
	}
	if delim == '[' {
		return parseList(dec, depth)
	}
	return parseObject(dec, depth)
}

func parseList(dec *json.Decoder, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := parseValue(dec, depth-1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, end(dec)
}

func parseObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return nil, errSyntax
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("has the member %s twice", quote(name))
		}
		v, err := parseValue(dec, depth-1)
		if err != nil {
			return nil, err
		}
		object[name] = v
	}
	return object, end(dec)
}

// end takes the bracket that closes a list or an object.
func end(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return errSyntax
	}
	return nil
}

// appendValue appends v with sorted members; number writes the numbers.
func appendValue(dst []byte, v any, number func([]byte, json.Number) []byte) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		if v {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case string:
		return trace.AppendString(dst, v)
	case json.Number:
		return number(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element, number)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(trace.AppendString(dst, name), ':')
			dst = appendValue(dst, v[name], number)
		}
		return append(dst, '}')
	default:
		panic(fmt.Sprintf("elicit: a %T is no clean JSON value", v)) // clean and parse make no other
	}
}

// canonical is the value in its one spelling.
func canonical(v any) string { return string(appendValue(nil, v, appendCanonicalNumber)) }

// exact is the value with its numbers as they are.
func exact(v any) []byte {
	return appendValue(nil, v, func(dst []byte, n json.Number) []byte { return append(dst, n...) })
}

const maxQuoted = 64

// quote shows a key or a name in a message, cut to a bounded length.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return fmt.Sprintf("%q", s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", s[:cut])
}
