package elicit

import "github.com/m3-go/m3/trace"

// Expectation is what a leaf of a plan expects: a [*FormExpectation] or a [*URLExpectation], and nothing else.
type Expectation interface {
	// Mode is [ModeForm] or [ModeURL].
	Mode() string
	// Key is the key of the expected request.
	Key() string

	expectation() // sealed
}

// FormExpectation is the request that a form leaf expects. What is absent (nil, or an empty OperationKind) may be anything.
type FormExpectation struct {
	RequestKey      string              `json:"request_key"`
	Message         *string             `json:"message,omitempty"`
	RequestedSchema map[string]any      `json:"requested_schema,omitzero"`
	Meta            Meta                `json:"meta,omitzero"` // never compared
	Task            map[string]any      `json:"task,omitzero"` // never compared
	Server          *string             `json:"server,omitempty"`
	OperationKind   trace.OperationKind `json:"operation_kind,omitempty"`
	OperationName   *string             `json:"operation_name,omitempty"`
}

// URLExpectation is the request that a URL leaf expects. What is absent (nil, or an empty OperationKind) may be anything.
type URLExpectation struct {
	RequestKey    string              `json:"request_key"`
	Message       *string             `json:"message,omitempty"`
	URL           *string             `json:"url,omitempty"`
	ElicitationID *string             `json:"elicitation_id,omitempty"`
	Meta          Meta                `json:"meta,omitzero"` // never compared
	Task          map[string]any      `json:"task,omitzero"` // never compared
	Server        *string             `json:"server,omitempty"`
	OperationKind trace.OperationKind `json:"operation_kind,omitempty"`
	OperationName *string             `json:"operation_name,omitempty"`
}

// Mode is [ModeForm].
func (e *FormExpectation) Mode() string { return ModeForm }

// Mode is [ModeURL].
func (e *URLExpectation) Mode() string { return ModeURL }

// Key is RequestKey.
func (e *FormExpectation) Key() string { return e.RequestKey }

// Key is RequestKey.
func (e *URLExpectation) Key() string { return e.RequestKey }

func (e *FormExpectation) expectation() {}
func (e *URLExpectation) expectation()  {}
