package opencode

import "encoding/json"

// What OpenCode says, as far as the driver reads it.

type event struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties"`
}

// properties are those that the events which matter have.
type properties struct {
	SessionID string          `json:"sessionID"`
	Info      json.RawMessage `json:"info"`
	Part      json.RawMessage `json:"part"`
	Status    json.RawMessage `json:"status"`
	Error     *failure        `json:"error"`
	ID        string          `json:"id"`
	Server    string          `json:"server"`
}

// delta is message.part.delta.
type delta struct {
	SessionID string `json:"sessionID"`
	PartID    string `json:"partID"`
	Field     string `json:"field"`
	Delta     string `json:"delta"`
}

type message struct {
	Info  info              `json:"info"`
	Parts []json.RawMessage `json:"parts"`
}

type info struct {
	ID         string   `json:"id"`
	SessionID  string   `json:"sessionID"`
	Role       string   `json:"role"`
	ParentID   string   `json:"parentID"`
	ProviderID string   `json:"providerID"`
	ModelID    string   `json:"modelID"`
	Finish     string   `json:"finish"`
	Summary    boolish  `json:"summary"`
	Error      *failure `json:"error"`
	Time       struct {
		Completed float64 `json:"completed"`
	} `json:"time"`
}

// boolish is true for true alone: a user message's summary is an object.
type boolish bool

// UnmarshalJSON never fails.
func (b *boolish) UnmarshalJSON(raw []byte) error {
	*b = string(raw) == "true"
	return nil
}

// failure is an error as OpenCode tells it.
type failure struct {
	Name string `json:"name"`
	Data struct {
		Message      string `json:"message"`
		StatusCode   int    `json:"statusCode"`
		IsRetryable  bool   `json:"isRetryable"`
		ResponseBody string `json:"responseBody"`
		ProviderID   string `json:"providerID"`
		Ref          string `json:"ref"`
	} `json:"data"`
}

type part struct {
	ID        string          `json:"id"`
	MessageID string          `json:"messageID"`
	SessionID string          `json:"sessionID"`
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Synthetic bool            `json:"synthetic"`
	Ignored   bool            `json:"ignored"`
	Metadata  json.RawMessage `json:"metadata"`
	Time      struct {
		End float64 `json:"end"`
	} `json:"time"`
	CallID string   `json:"callID"`
	Tool   string   `json:"tool"`
	State  state    `json:"state"`
	Reason string   `json:"reason"`
	Tokens *tokens  `json:"tokens"`
	Cost   *float64 `json:"cost"`
}

type state struct {
	Status      string            `json:"status"`
	Input       json.RawMessage   `json:"input"`
	Raw         string            `json:"raw"`
	Output      *string           `json:"output"`
	Error       string            `json:"error"`
	Attachments []json.RawMessage `json:"attachments"`
	Metadata    struct {
		Interrupted boolish `json:"interrupted"`
		Truncated   boolish `json:"truncated"`
	} `json:"metadata"`
}

// tokens are numbers of JavaScript.
type tokens struct {
	Total     *float64 `json:"total"`
	Input     float64  `json:"input"`
	Output    float64  `json:"output"`
	Reasoning float64  `json:"reasoning"`
	Cache     struct {
		Read  float64 `json:"read"`
		Write float64 `json:"write"`
	} `json:"cache"`
}

type sessionInfo struct {
	ID     string  `json:"id"`
	Cost   float64 `json:"cost"`
	Tokens *tokens `json:"tokens"`
}

// status is session.status.
type status struct {
	Type    string `json:"type"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
}

type mcpStatus struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

// asked is a question for a permission.
type asked struct {
	ID         string          `json:"id"`
	SessionID  string          `json:"sessionID"`
	Permission string          `json:"permission"`
	Patterns   []string        `json:"patterns"`
	Metadata   json.RawMessage `json:"metadata"`
	Tool       struct {
		CallID string `json:"callID"`
	} `json:"tool"`
}

func decode(raw []byte, p *part) bool { return json.Unmarshal(raw, p) == nil }
