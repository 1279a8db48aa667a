package elicit

import "github.com/m3-go/m3/trace"

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
func (r *FormRequest) Validate() error { panic("todo") }

// Validate says what is wrong with the request: a [*PlanError].
func (r *URLRequest) Validate() error { panic("todo") }

// MarshalJSON writes the request with its mode.
func (r *FormRequest) MarshalJSON() ([]byte, error) { panic("todo") }

// MarshalJSON writes the request with its mode.
func (r *URLRequest) MarshalJSON() ([]byte, error) { panic("todo") }

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members, a member twice, another mode and what [FormRequest.Validate] refuses are
// a [*PlanError].
func (r *FormRequest) UnmarshalJSON(b []byte) error { panic("todo") }

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members, a member twice, another mode and what [URLRequest.Validate] refuses are
// a [*PlanError].
func (r *URLRequest) UnmarshalJSON(b []byte) error { panic("todo") }
