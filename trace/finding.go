package trace

// Severity grades a [Finding].
type Severity string

// The severities, from remark to defect.
const (
	SeverityNote    Severity = "note"    // allowed, worth knowing
	SeverityWarning Severity = "warning" // against a SHOULD, or a known cause of trouble
	SeverityError   Severity = "error"   // against a MUST
)

// Finding is one defect or oddity seen on the wire. It never ends a session by itself.
type Finding struct {
	Code     string   `json:"code"` // stable, lower case with hyphens: "stdout-noise"
	Severity Severity `json:"severity"`
	Message  string   `json:"message"` // what was seen, bounded and redacted
	// Sequence is the event that holds the frame, or -1.
	Sequence int64 `json:"frame_sequence"`
	// Offset is the byte offset of the frame in its stream, or -1.
	Offset int64 `json:"offset"`
	// RPCID is the request that the finding belongs to, when there is one.
	RPCID RPCID `json:"rpc_id,omitempty"`
	// Clause is the place in the specification, when there is one.
	Clause string `json:"clause,omitempty"`
}
