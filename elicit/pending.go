package elicit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
func (p *PendingRound) Validate() error { return p.check().at("pending round").orNil() }

func (p *PendingRound) check() *PlanError {
	if p == nil {
		return failure("nil", "the round is nil")
	}
	for _, field := range []struct{ name, text string }{
		{"round id", p.RoundID}, {"execution id", string(p.ExecutionID)}, {"logical operation id", p.LogicalOperationID},
		{"server", p.Server}, {"operation kind", string(p.OperationKind)}, {"operation name", p.OperationName},
	} {
		switch {
		case field.text == "":
			return failure("missing", "the "+field.name+" is missing")
		case !utf8.ValidString(field.text):
			return failure("bad_text", "the "+field.name+" "+errUTF8.Error())
		}
	}
	switch {
	case !knownKind(p.OperationKind):
		return failure("bad_operation_kind", "the operation kind "+quote(string(p.OperationKind))+" is none of tool, prompt, resource")
	case p.RequestState != nil && !utf8.ValidString(*p.RequestState):
		return failure("bad_text", "the request state "+errUTF8.Error())
	case p.CreatedAt.IsZero():
		return failure("missing", "the time of creation is missing")
	}
	return checkRequests(p.Requests)
}

func checkRequests(requests map[string]Request) *PlanError {
	if len(requests) == 0 {
		return failure("empty_round", "there are no requests")
	}
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r := requests[key]
		if r == nil {
			return failure("nil", "the request "+quote(key)+" is nil")
		}
		if err := r.Validate(); err != nil {
			return failure("bad_request", strings.TrimPrefix(err.Error(), "elicit: "))
		}
		if r.Key() != key {
			return failure("wrong_key", "the request "+quote(r.Key())+" stands under the key "+quote(key))
		}
	}
	return nil
}

// MarshalJSON writes the round, after [PendingRound.Validate].
func (p PendingRound) MarshalJSON() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	type plain PendingRound
	return json.Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members, a member twice, and what [PendingRound.Validate] refuses are a [*PlanError].
func (p *PendingRound) UnmarshalJSON(b []byte) error {
	out, err := pendingFrom(decode(b))
	if err != nil {
		return err.at("pending round")
	}
	*p = *out
	return nil
}

func pendingFrom(m *members) (*PendingRound, *PlanError) {
	p := &PendingRound{RoundID: m.required("round_id"), ExecutionID: trace.ExecutionID(m.required("execution_id")),
		LogicalOperationID: m.required("logical_operation_id"), Server: m.required("server"), OperationKind: m.kind("operation_kind"),
		OperationName: m.required("operation_name"), RequestState: m.text("request_state"), Requests: map[string]Request{}, Deadline: m.time("deadline")}
	if created := m.time("created_at"); created != nil {
		p.CreatedAt = *created
	}
	requests := m.object("requests")
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		r, err := requestFrom(membersOf(requests[key]))
		if err != nil {
			return nil, err.at("pending round request " + quote(key))
		}
		p.Requests[key] = r
	}
	if err := m.done(); err != nil {
		return nil, err
	}
	return p, p.check()
}

// time is nil for an absent member.
func (m *members) time(name string) *time.Time {
	text := m.text(name)
	if text == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		m.fail("bad_time", name+" is no time as RFC 3339 writes it")
		return nil
	}
	return &t
}
