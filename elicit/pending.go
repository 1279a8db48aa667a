package elicit

import (
	"time"

	"github.com/m3-go/m3/trace"
)

// PendingRound is a round that waits for answers from outside of the execution.
type PendingRound struct {
	RoundID            string              `json:"round_id"`
	ExecutionID        trace.ExecutionID   `json:"execution_id"`
	LogicalOperationID string              `json:"logical_operation_id"`
	Server             string              `json:"server"`
	OperationKind      trace.OperationKind `json:"operation_kind"`
	OperationName      string              `json:"operation_name"`
	RequestState       *string             `json:"request_state,omitempty"` // nil: the server sent none
	Requests           map[string]Request  `json:"requests"`                // never empty; each key is its request's key
	CreatedAt          time.Time           `json:"created_at"`
	Deadline           *time.Time          `json:"deadline,omitempty"` // nil: none
}

// Validate says what is wrong with the round: a missing field, no requests, a request under another key than its own. It returns a [*PlanError].
func (p *PendingRound) Validate() error { panic("todo") }

// UnmarshalJSON reads what encoding/json wrote. Unknown members, a member twice, and what [PendingRound.Validate] refuses are a [*PlanError].
func (p *PendingRound) UnmarshalJSON(b []byte) error { panic("todo") }
