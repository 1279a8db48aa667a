package elicit

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// The modes of a request.
const (
	ModeForm = "form"
	ModeURL  = "url"
)

// Request is one request of a server for input: a [*FormRequest] or a [*URLRequest], and nothing else.
type Request interface {
	// Mode is [ModeForm] or [ModeURL].
	Mode() string
	// Key is the request's key in its round.
	Key() string
	// Validate says what is wrong with the request: a [*PlanError].
	Validate() error

	request() // sealed
}

// FormRequest asks for the input that a schema describes. What was absent is the zero value.
type FormRequest struct {
	RequestKey string `json:"request_key"` // the key in inputRequests; never empty
	Message    string `json:"message"`
	// RequestedSchema is a JSON object; of a decoded request, its numbers are json.Number.
	RequestedSchema map[string]any `json:"requested_schema"`
	// Meta and Task are kept as they came, and never matched.
	Meta          Meta                `json:"meta,omitzero"`
	Task          map[string]any      `json:"task,omitzero"`
	Server        string              `json:"server,omitempty"` // the binding's name, else what the server calls itself
	OperationKind trace.OperationKind `json:"operation_kind,omitempty"`
	OperationName string              `json:"operation_name,omitempty"`
}

// URLRequest asks the user to open a URL. m3 never does. What was absent is the zero value.
type URLRequest struct {
	RequestKey    string              `json:"request_key"` // the key in inputRequests; never empty
	Message       string              `json:"message"`
	URL           string              `json:"url"`
	ElicitationID string              `json:"elicitation_id,omitempty"` // absent on 2026-07-28
	Meta          Meta                `json:"meta,omitzero"`            // kept as it came, never matched
	Task          map[string]any      `json:"task,omitzero"`            // kept as it came, never matched
	Server        string              `json:"server,omitempty"`         // the binding's name, else what the server calls itself
	OperationKind trace.OperationKind `json:"operation_kind,omitempty"`
	OperationName string              `json:"operation_name,omitempty"`
}

// Mode is [ModeForm].
func (r *FormRequest) Mode() string { return ModeForm }

// Mode is [ModeURL].
func (r *URLRequest) Mode() string { return ModeURL }

// Key is RequestKey.
func (r *FormRequest) Key() string {
	if r == nil {
		return ""
	}
	return r.RequestKey
}

// Key is RequestKey.
func (r *URLRequest) Key() string {
	if r == nil {
		return ""
	}
	return r.RequestKey
}

func (r *FormRequest) request() {}
func (r *URLRequest) request()  {}

// Validate says what is wrong with the request: a [*PlanError].
func (r *FormRequest) Validate() error { return r.check().at(r.label()).orNil() }

// Validate says what is wrong with the request: a [*PlanError].
func (r *URLRequest) Validate() error { return r.check().at(r.label()).orNil() }

func (r *FormRequest) label() string { return "request " + quote(r.Key()) }
func (r *URLRequest) label() string  { return "request " + quote(r.Key()) }

func (r *FormRequest) check() *PlanError {
	if r == nil {
		return failure("nil", "the request is nil")
	}
	if r.RequestedSchema == nil {
		return failure("missing", "the requested schema is missing")
	}
	return checkRequest(r.OperationKind, []string{r.RequestKey, r.Message, r.Server, r.OperationName},
		map[string]map[string]any{"requested_schema": r.RequestedSchema, "meta": r.Meta, "task": r.Task}, r.RequestKey)
}

func (r *URLRequest) check() *PlanError {
	if r == nil {
		return failure("nil", "the request is nil")
	}
	return checkRequest(r.OperationKind, []string{r.RequestKey, r.Message, r.URL, r.ElicitationID, r.Server, r.OperationName},
		map[string]map[string]any{"meta": r.Meta, "task": r.Task}, r.RequestKey)
}

func checkRequest(kind trace.OperationKind, texts []string, objects map[string]map[string]any, key string) *PlanError {
	if key == "" {
		return failure("empty_key", "the request key is empty")
	}
	if kind != "" && !knownKind(kind) {
		return failure("bad_operation_kind", "the operation kind "+quote(string(kind))+" is none of tool, prompt, resource")
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return failure("bad_text", "a text "+errUTF8.Error())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if _, err := clean(objects[name]); err != nil {
			return failure("bad_"+name, name+" "+err.Error())
		}
	}
	return nil
}

// MarshalJSON writes the request with its mode.
func (r FormRequest) MarshalJSON() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	type plain FormRequest
	return json.Marshal(struct {
		Mode string `json:"mode"`
		plain
	}{ModeForm, plain(r)})
}

// MarshalJSON writes the request with its mode.
func (r URLRequest) MarshalJSON() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	type plain URLRequest
	return json.Marshal(struct {
		Mode string `json:"mode"`
		plain
	}{ModeURL, plain(r)})
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members, a member twice, another mode and what [FormRequest.Validate] refuses are
// a [*PlanError].
func (r *FormRequest) UnmarshalJSON(b []byte) error {
	m := decode(b)
	m.mode(ModeForm)
	out, err := formFrom(m)
	if err != nil {
		return err.at(out.label())
	}
	*r = *out
	return nil
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members, a member twice, another mode and what [URLRequest.Validate] refuses are
// a [*PlanError].
func (r *URLRequest) UnmarshalJSON(b []byte) error {
	m := decode(b)
	m.mode(ModeURL)
	out, err := urlFrom(m)
	if err != nil {
		return err.at(out.label())
	}
	*r = *out
	return nil
}

// requestFrom reads a request of either mode.
func requestFrom(m *members) (Request, *PlanError) {
	switch mode := m.optional("mode"); mode {
	case ModeForm:
		return formFrom(m)
	case ModeURL:
		return urlFrom(m)
	default:
		m.fail("bad_mode", "the mode "+quote(mode)+" is none of form, url")
		return nil, m.err
	}
}

func formFrom(m *members) (*FormRequest, *PlanError) {
	r := &FormRequest{RequestKey: m.required("request_key"), Message: m.required("message"), RequestedSchema: m.object("requested_schema"),
		Meta: m.object("meta"), Task: m.object("task"), Server: m.optional("server"),
		OperationKind: m.kind("operation_kind"), OperationName: m.optional("operation_name")}
	if err := m.done(); err != nil {
		return r, err
	}
	return r, r.check()
}

func urlFrom(m *members) (*URLRequest, *PlanError) {
	r := &URLRequest{RequestKey: m.required("request_key"), Message: m.required("message"), URL: m.required("url"),
		ElicitationID: m.optional("elicitation_id"), Meta: m.object("meta"), Task: m.object("task"), Server: m.optional("server"),
		OperationKind: m.kind("operation_kind"), OperationName: m.optional("operation_name")}
	if err := m.done(); err != nil {
		return r, err
	}
	return r, r.check()
}
