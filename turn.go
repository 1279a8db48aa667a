package m3

import (
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// TurnStatus is where a turn stands.
type TurnStatus string

// The statuses of a turn.
const (
	TurnRunning   TurnStatus = "running"
	TurnCompleted TurnStatus = "completed" // the agent ended it, whatever it said
	TurnFailed    TurnStatus = "failed"
	TurnTimedOut  TurnStatus = "timed_out"
	TurnCancelled TurnStatus = "cancelled"
)

// TurnState is a turn at one moment. It is a [trace.TurnSelector].
type TurnState struct {
	ID     trace.TurnID `json:"turn_id"`
	Index  int          `json:"index"` // from 1
	Status TurnStatus   `json:"status"`
}

// SelectTurn is the turn's id.
func (s TurnState) SelectTurn() trace.TurnID { return s.ID }

// Response is an agent's answer to one message.
type Response struct {
	// Text is the agent's final answer.
	Text    string    `json:"text"`
	Content []Content `json:"content,omitempty"`
}

// Turn is one message to an agent and how it ended. It is a [trace.TurnSelector]; what happened in it is in the execution's view: View.ForTurn(turn).
type Turn struct {
	ExecutionID trace.ExecutionID `json:"execution_id"`
	ID          trace.TurnID      `json:"turn_id"`
	State       TurnState         `json:"state"`
	// Response is the answer; nil when the agent gave none.
	Response *Response `json:"response,omitempty"`
	// StopReason is the agent's own word for why it stopped, empty when it gave none.
	StopReason string `json:"stop_reason,omitempty"`
	// Doubt says why the end may not be what the agent claims; empty when there is no reason to doubt.
	Doubt string `json:"doubt,omitempty"`
	// Failure says why the turn did not end as the agent's own answer; nil when it did.
	Failure *harness.Error `json:"-"`
	// Elapsed is how long the turn took.
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Text is the text of the answer, empty without one.
func (t *Turn) Text() string {
	if t == nil || t.Response == nil {
		return ""
	}
	return t.Response.Text
}

// SelectTurn is the turn's id.
func (t *Turn) SelectTurn() trace.TurnID { return t.ID }
