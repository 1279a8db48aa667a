package trace

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ExecutionID names one execution: one direct client, or one agent session with all its turns.
type ExecutionID string

// SessionID names one agent conversation.
type SessionID string

// TurnID names one user message and the agent's answer to it. It is a [TurnSelector].
type TurnID string

// SelectTurn makes a plain id usable wherever a turn is selected.
func (id TurnID) SelectTurn() TurnID { return id }

// TurnSelector is anything that names a turn: a [TurnID], a turn, a turn's state.
type TurnSelector interface {
	SelectTurn() TurnID
}

// ConnectionID names one connection to a server within an execution.
type ConnectionID string

// RPCID is a JSON-RPC id exactly as it stood on the wire, with its JSON type: 1 and "1" differ.
// The zero value means that there was none.
type RPCID string

// String returns the id's JSON text.
func (id RPCID) String() string { return string(id) }

// MarshalJSON writes the id as it stood on the wire; an absent one as null.
func (id RPCID) MarshalJSON() ([]byte, error) {
	if id == "" {
		return []byte("null"), nil
	}
	return []byte(id), nil
}

// UnmarshalJSON keeps the JSON text, type included.
func (id *RPCID) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if string(b) == "null" {
		*id = ""
		return nil
	}
	*id = RPCID(b)
	return nil
}

// JSON is any JSON value, null included, as the bytes that stood on the wire: exact numbers and duplicate keys survive.
// A nil JSON is no value at all.
type JSON []byte

// MarshalJSON returns the bytes themselves, or null for no value.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON keeps a copy of the bytes.
func (j *JSON) UnmarshalJSON(b []byte) error {
	if j == nil {
		return errors.New("trace: UnmarshalJSON on a nil *JSON")
	}
	*j = append((*j)[:0:0], b...)
	return nil
}

// String returns the JSON text.
func (j JSON) String() string { return string(j) }

// Decode puts the value into v as encoding/json does, but with exact numbers where v asks for any.
func (j JSON) Decode(v any) error {
	dec := json.NewDecoder(bytes.NewReader(j))
	dec.UseNumber()
	return dec.Decode(v)
}
