package acpagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Script is what the agent does. As JSON it stands in a file or in the variable [Variable]. Unknown members are refused.
type Script struct {
	// Name and Version are what the agent says of itself; "scripted" and "1" when empty.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Protocol is the version that initialize is answered with; 0: 1.
	Protocol int `json:"protocol,omitempty"`
	// Join: the id of each call stands in the _meta of its request, under [JoinKey].
	Join bool `json:"join,omitempty"`
	// Unlabelled: chunks of text have no messageId.
	Unlabelled bool `json:"unlabelled,omitempty"`
	// StringIDs: the agent's own requests have strings as ids; else numbers, from 0.
	StringIDs bool `json:"string_ids,omitempty"`
	// DropServers: the servers are accepted and never connected to.
	DropServers bool `json:"drop_servers,omitempty"`
	// NoClose: there is no session/close.
	NoClose bool `json:"no_close,omitempty"`
	// Linger: the agent outlives the end of its input.
	Linger bool `json:"linger,omitempty"`
	// Modes are offered by session/new, the first is the current one.
	Modes []string `json:"modes,omitempty"`
	// Options are offered by session/new: the values of a select, the first is the current one. None: a boolean, false.
	Options map[string][]string `json:"options,omitempty"`
	// Deaf are methods that are never answered.
	Deaf []string `json:"deaf,omitempty"`
	// Refuse are methods that are answered with an error.
	Refuse map[string]Error `json:"refuse,omitempty"`
	// Turns are the steps of each turn. Empty: the prompt has them.
	Turns [][]Step `json:"turns,omitempty"`
}

// Step is one thing that the agent does. Exactly one member is set.
type Step struct {
	// Say and Think are pieces of text; {{result}} stands for the text of the last call's result. Say after anything else begins a new message.
	Say   string `json:"say,omitempty"`
	Think string `json:"think,omitempty"`
	// Notes is text without a messageId, as adapters send it.
	Notes string `json:"notes,omitempty"`
	// Call calls one tool, Parallel several at once.
	Call     *Call  `json:"call,omitempty"`
	Parallel []Call `json:"parallel,omitempty"`
	// Plan and Notice are the updates of that name; Update is any, whole.
	Plan   []string        `json:"plan,omitempty"`
	Notice string          `json:"notice,omitempty"`
	Update json.RawMessage `json:"update,omitempty"`
	// Notify and Request send any message to the client. The answer to Request becomes {{result}}.
	Notify  *Message `json:"notify,omitempty"`
	Request *Message `json:"request,omitempty"`
	// Line writes a line as it is, Huge one of so many bytes.
	Line string `json:"line,omitempty"`
	Huge int    `json:"huge,omitempty"`
	// Stderr writes to the standard error.
	Stderr string `json:"stderr,omitempty"`
	// Usage is the member usage of the turn's answer; Cost is sent in a usage_update.
	Usage json.RawMessage `json:"usage,omitempty"`
	Cost  float64         `json:"cost,omitempty"`
	// Sleep waits, and ends with the turn.
	Sleep Duration `json:"sleep,omitempty"`
	// Hang waits for the turn to be cancelled; with "deaf" it never ends.
	Hang string `json:"hang,omitempty"`
	// Stop ends the turn with the stop reason, Error with an error, Crash the process with the exit code.
	Stop  string `json:"stop,omitempty"`
	Error *Error `json:"error,omitempty"`
	Crash *int   `json:"crash,omitempty"`
	// Twice: the turn is answered twice.
	Twice bool `json:"twice,omitempty"`
}

// Call is one tool call, and how the agent tells it.
type Call struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // nil: {}
	// Ask: the client is asked for permission first.
	Ask bool `json:"ask,omitempty"`
	// ID is the call's id as it is told, "" for one of the agent's; WireID what stands in the request's _meta when the script joins, "" for ID.
	ID     string `json:"id,omitempty"`
	WireID string `json:"wire_id,omitempty"`
	// Hidden: the call is made and not told. Invented: it is told and not made.
	Hidden   bool `json:"hidden,omitempty"`
	Invented bool `json:"invented,omitempty"`
	// Open: its end is not told.
	Open bool `json:"open,omitempty"`
	// Told is what is told instead of the truth.
	Told *Told `json:"told,omitempty"`
}

// Told is what the agent says of a call that is not so. What is empty is told as it was.
type Told struct {
	Server    string          `json:"server,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // an MCP result
	Status    string          `json:"status,omitempty"` // completed, failed
}

// Message is a message to the client.
type Message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Error is an error of JSON-RPC.
type Error struct {
	Code    int             `json:"code"` // 0: -32603
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Duration is a time.Duration, written "150ms".
type Duration time.Duration

// MarshalText writes it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Parse reads a script. The error names what is wrong with it.
func Parse(b []byte) (*Script, error) {
	s := &Script{}
	if err := strict(b, s); err != nil {
		return nil, fmt.Errorf("acpagent: the script: %w", err)
	}
	return s, s.Validate()
}

// Validate says which step is none.
func (s *Script) Validate() error {
	for i, turn := range s.Turns {
		if err := validate(turn); err != nil {
			return fmt.Errorf("acpagent: turn %d: %w", i+1, err)
		}
	}
	return nil
}

func validate(steps []Step) error {
	for i := range steps {
		b, err := json.Marshal(&steps[i])
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(b, &members); err != nil || len(members) != 1 {
			return fmt.Errorf("step %d: %s: a step does exactly one thing", i+1, b)
		}
	}
	return nil
}

// parseSteps reads the steps out of a prompt.
func parseSteps(b []byte) ([]Step, error) {
	var steps []Step
	if err := strict(b, &steps); err != nil {
		return nil, err
	}
	return steps, validate(steps)
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more after its end")
	}
	return nil
}
