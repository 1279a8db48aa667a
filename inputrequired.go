package m3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// InputRequiredResult is the answer of a server that wants input before it goes on (2026-07-28), for a test that set
// CallOptions.AllowInputRequired. Call again with its RequestState and a response to each request.
type InputRequiredResult struct {
	// RequestState goes back with the next call, as it is. Nil: the server sent none, and none goes back; empty and absent differ on the wire.
	RequestState *string
	// Requests are the requests for elicitation, by key.
	Requests map[string]elicit.Request
	// Others are the other requests, by key, as they stood on the wire: for sampling, for roots, and what is none that the protocol knows.
	Others map[string]trace.JSON
	// Raw is the whole result as it stood on the wire.
	Raw trace.JSON
}

// inputRound is one input_required result, read.
type inputRound struct {
	state   trace.JSON // a JSON string, as it stood on the wire; nil when absent
	entries []*inputEntry
}

// inputEntry is one request of a round.
type inputEntry struct {
	key    string
	method string
	params trace.JSON
	raw    trace.JSON
	// request is set for elicitation, schema for a form; bad says why it is no request.
	request elicit.Request
	schema  trace.JSON
	bad     error
}

const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// readRound reads an input_required result. What is wrong with a single request is in its entry.
func (a *asking) readRound(result trace.JSON) (*inputRound, error) {
	var wire struct {
		Requests json.RawMessage `json:"inputRequests"`
		State    json.RawMessage `json:"requestState"`
	}
	if err := unmarshal(result, &wire); err != nil {
		return nil, malformed(a.operation, "result", err)
	}
	r := &inputRound{state: trace.JSON(wire.State)}
	if wire.State != nil && wire.State[0] != '"' {
		return nil, a.badField("requestState", "is "+jsonKind(wire.State)+", not a string")
	}
	if wire.Requests == nil {
		if wire.State == nil {
			return nil, a.expectation("empty_round", "the server asks for input, with neither requests nor a state", nil)
		}
		return r, nil
	}
	if wire.Requests[0] != '{' {
		return nil, a.badField("inputRequests", "is "+jsonKind(wire.Requests)+", not an object")
	}
	seen := map[string]bool{}
	for key, raw := range members(wire.Requests) {
		if seen[key] {
			return nil, a.expectation("duplicate_key", fmt.Sprintf("the server asks under the key %q twice", shortKey(key)), map[string]any{"request_key": key})
		}
		seen[key] = true
		r.entries = append(r.entries, a.readEntry(key, raw))
	}
	if len(r.entries) == 0 && wire.State == nil {
		return nil, a.expectation("empty_round", "the server asks for input, with neither requests nor a state", nil)
	}
	return r, nil
}

func (a *asking) badField(field, what string) *ProtocolError {
	return &ProtocolError{Message: fmt.Sprintf("%s: the server asks for input, and its %s %s", a.operation, field, what),
		Details: map[string]any{"operation": a.operation, "phase": "call", "error_kind": "malformed", "field": field}}
}

// members are the members of a JSON object in their order, a name that comes twice twice.
func members(object json.RawMessage) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		dec := json.NewDecoder(bytes.NewReader(object))
		if _, err := dec.Token(); err != nil {
			return
		}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return
			}
			var value json.RawMessage
			if dec.Decode(&value) != nil {
				return
			}
			if !yield(name.(string), value) {
				return
			}
		}
	}
}

func (a *asking) readEntry(key string, raw json.RawMessage) *inputEntry {
	e := &inputEntry{key: key, raw: trace.JSON(raw)}
	var wire struct {
		Method *string         `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	switch err := unmarshal(raw, &wire); {
	case key == "":
		e.bad = errors.New("its key is empty")
	case raw[0] != '{':
		e.bad = errors.New("it is " + jsonKind(raw) + ", not an object")
	case err != nil || wire.Method == nil:
		e.bad = errors.New("it has no method")
	default:
		e.method, e.params = *wire.Method, trace.JSON(wire.Params)
		if e.method == methodElicit {
			e.request, e.schema, e.bad = a.readRequest(key, e.params)
		}
	}
	return e
}

// readRequest reads the params of elicitation/create.
func (a *asking) readRequest(key string, params trace.JSON) (elicit.Request, trace.JSON, error) {
	from := askedFrom{server: a.c.server, kind: a.kind, name: a.name, modern: a.c.session.Modern()}
	return from.read(key, params)
}

// askedFrom is where a request for input comes from.
type askedFrom struct {
	server string
	kind   trace.OperationKind
	name   string
	modern bool // 2026-07-28
}

// read reads the params of elicitation/create; of a form also its schema, as it stood on the wire.
func (a *askedFrom) read(key string, params trace.JSON) (elicit.Request, trace.JSON, error) {
	var wire struct {
		Mode    json.RawMessage `json:"mode"`
		Message json.RawMessage `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     json.RawMessage `json:"url"`
		ID      json.RawMessage `json:"elicitationId"`
		Meta    json.RawMessage `json:"_meta"`
		Task    json.RawMessage `json:"task"`
	}
	if len(params) == 0 || params[0] != '{' {
		return nil, nil, errors.New("it has no params that are an object")
	}
	if err := unmarshal([]byte(params), &wire); err != nil {
		return nil, nil, errors.New("its params cannot be read")
	}
	mode, message, url, id := elicit.ModeForm, "", "", ""
	var meta elicit.Meta
	var task, schema map[string]any
	read := func(name string, raw json.RawMessage, required bool, v any, want string) error {
		if raw == nil {
			if required {
				return errors.New("it has no " + name)
			}
			return nil
		}
		if trace.JSON(raw).Decode(v) != nil || string(raw) == "null" && required {
			return fmt.Errorf("its %s is %s, not %s", name, jsonKind(raw), want)
		}
		return nil
	}
	err := errors.Join(read("mode", wire.Mode, false, &mode, "a string"), read("message", wire.Message, true, &message, "a string"),
		read("_meta", wire.Meta, false, &meta, "an object"), read("task", wire.Task, false, &task, "an object"))
	if err != nil {
		return nil, nil, errors.New(firstLine(err.Error()))
	}
	switch mode {
	case elicit.ModeForm:
		if err := read("requestedSchema", wire.Schema, true, &schema, "an object"); err != nil {
			return nil, nil, err
		}
		return &elicit.FormRequest{RequestKey: key, Message: message, RequestedSchema: schema, Meta: meta, Task: task, Server: a.server,
			OperationKind: a.kind, OperationName: a.name}, trace.JSON(wire.Schema), nil
	case elicit.ModeURL:
		if err := read("url", wire.URL, true, &url, "a string"); err != nil {
			return nil, nil, err
		}
		if !a.modern { // 2026-07-28 has none, whatever a server sends
			if err := read("elicitationId", wire.ID, false, &id, "a string"); err != nil {
				return nil, nil, err
			}
		}
		return &elicit.URLRequest{RequestKey: key, Message: message, URL: url, ElicitationID: id, Meta: meta, Task: task, Server: a.server,
			OperationKind: a.kind, OperationName: a.name}, nil, nil
	}
	return nil, nil, errors.New("its mode is neither form nor url")
}

// jsonKind names what stands in the place of something else, without its content.
func jsonKind(raw []byte) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// shortKey keeps a key of a server's from filling a message.
func shortKey(key string) string {
	const most = 100
	if len(key) > most {
		return key[:most] + "…"
	}
	return key
}

// pending makes the typed form of an input_required result that the test asked for; nil when the result is another.
func (a *asking) pending(result trace.JSON) (*InputRequiredResult, error) {
	if !a.opts.AllowInputRequired || !a.c.session.Modern() || mcp.ResultType(result) != mcp.ResultInputRequired {
		return nil, nil
	}
	r, err := a.readRound(result)
	if err != nil {
		return nil, err
	}
	p := &InputRequiredResult{Requests: map[string]elicit.Request{}, Others: map[string]trace.JSON{}, Raw: result}
	if r.state != nil {
		p.RequestState = new(string)
		if err := r.state.Decode(p.RequestState); err != nil {
			return nil, malformed(a.operation, "requestState", err)
		}
	}
	for _, e := range r.entries {
		if e.request != nil {
			p.Requests[e.key] = e.request
		} else {
			p.Others[e.key] = e.raw
		}
	}
	return p, nil
}
