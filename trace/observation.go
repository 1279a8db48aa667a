package trace

import "fmt"

// State says whether a value is there, and if not, what kind of absence it is.
// The zero value is NotEmitted.
type State uint8

// The states, with the texts that JSON, SQLite and messages use.
const (
	NotEmitted     State = iota // not_emitted: the source did not provide the field
	Observed                    // observed: the value is there; it may be JSON null
	Unavailable                 // unavailable: capture or correlation failed
	Unsupported                 // unsupported: the source cannot expose it
	ProviderHidden              // provider_hidden: the provider keeps it to itself
	Encrypted                   // encrypted: present, but only as ciphertext
	Truncated                   // truncated: only a part was kept
	Redacted                    // redacted: removed by the redaction policy
)

var stateNames = [...]string{"not_emitted", "observed", "unavailable", "unsupported", "provider_hidden", "encrypted", "truncated", "redacted"}

// String returns the seed's lower-case word for the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText returns the seed's word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts the seed's words only.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("trace: unknown observation state %q", b)
}

// Reason says why a value is not there. An observed value has none.
type Reason string

// The reasons and the states that they belong to (spec/behaviour.md 7.4).
const (
	ReasonProviderDidNotEmit     Reason = "provider_did_not_emit"    // not_emitted
	ReasonHarnessUnsupported     Reason = "harness_unsupported"      // unsupported
	ReasonTransportNotApplicable Reason = "transport_not_applicable" // unsupported
	ReasonCaptureDisabled        Reason = "capture_disabled"         // unavailable
	ReasonCaptureFailed          Reason = "capture_failed"           // unavailable
	ReasonCorrelationUnavailable Reason = "correlation_unavailable"  // unavailable
	ReasonMalformedSource        Reason = "malformed_source"         // unavailable
	ReasonProviderHidden         Reason = "provider_hidden"          // provider_hidden
	ReasonProviderEncrypted      Reason = "provider_encrypted"       // encrypted
	ReasonRedactedByPolicy       Reason = "redacted_by_policy"       // redacted
	ReasonEvidenceTruncated      Reason = "evidence_truncated"       // truncated
)

// Observation is a value together with why it is, or is not, there. A bare zero value is never the only
// sign of absence: look at State, and at Reason when there is one.
//
// The zero Observation is NotEmitted without a reason.
type Observation[T any] struct {
	State       State        `json:"state"`
	Value       T            `json:"value,omitzero"`
	Reason      Reason       `json:"reason,omitempty"`
	Provenance  *Source      `json:"provenance,omitempty"`
	EvidenceRef *EvidenceRef `json:"evidence_ref,omitempty"`
}

// Observe returns an observed value.
func Observe[T any](v T) Observation[T] { return Observation[T]{State: Observed, Value: v} }

// Absent returns an observation without a value, in the given state and for the given reason.
func Absent[T any](s State, r Reason) Observation[T] { return Observation[T]{State: s, Reason: r} }

// OK reports whether the value was observed whole.
func (o Observation[T]) OK() bool { return o.State == Observed }

// Get returns the value and whether it was observed whole.
func (o Observation[T]) Get() (T, bool) { return o.Value, o.State == Observed }
