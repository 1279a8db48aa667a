package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// message is one JSON-RPC message, taken apart.
type message struct {
	raw      []byte
	value    map[string]any
	id       string // JSON text; "" without one
	method   string
	params   map[string]any
	result   map[string]any
	hasError bool
}

var errBatch = errors.New("it is a batch")

func parse(raw []byte) (*message, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, batch := v.([]any); batch {
		return nil, errBatch
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is no JSON object")
	}
	m := &message{raw: raw, value: obj}
	if id, ok := obj["id"]; ok {
		m.id = text(id)
	}
	m.method, _ = obj["method"].(string)
	m.params, _ = obj["params"].(map[string]any)
	m.result, _ = obj["result"].(map[string]any)
	_, m.hasError = obj["error"]
	return m, nil
}

// text is a value's JSON text.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // it came from JSON
		return ""
	}
	return string(b)
}

func (m *message) meta() map[string]any {
	meta, _ := m.params["_meta"].(map[string]any)
	return meta
}

// duplicate finds a member that stands twice in the envelope, in params or in _meta. What a caller's own arguments hold is not looked at.
func duplicate(raw []byte) string {
	for _, path := range [][]string{{}, {"params"}, {"params", "_meta"}, {"result"}} {
		obj := raw
		for _, name := range path {
			var members map[string]json.RawMessage
			if json.Unmarshal(obj, &members) != nil {
				break
			}
			obj = members[name]
		}
		if name := twice(obj); name != "" {
			return name
		}
	}
	return ""
}

func twice(obj []byte) string {
	dec := json.NewDecoder(bytes.NewReader(obj))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	var seen []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return ""
		}
		name, _ := t.(string)
		if slices.Contains(seen, name) {
			return name
		}
		seen = append(seen, name)
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return ""
		}
	}
	return ""
}
