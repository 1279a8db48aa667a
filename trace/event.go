package trace

import "time"

// Kind is what an [Event] is about. The list is closed: a reader may refuse a kind that it does not know.
type Kind string

// The kinds of spec/behaviour.md 7.2, and some of our own (frames that are no message, HTTP answers without a
// frame, stderr, findings, what a restriction refused or cut, an agent's own frames), which complete evidence needs.
const (
	KindExecutionCreated      Kind = "execution.created"
	KindExecutionStateChanged Kind = "execution.state_changed"
	KindExecutionFinished     Kind = "execution.finished"
	KindHarnessSelection      Kind = "harness.selection"
	KindHarnessResolved       Kind = "harness.runtime_resolved"
	KindSessionCreated        Kind = "session.created"
	KindSessionStateChanged   Kind = "session.state_changed"
	KindTurnCreated           Kind = "turn.created"
	KindTurnStateChanged      Kind = "turn.state_changed"
	KindProcessStarted        Kind = "process.started"
	KindProcessExited         Kind = "process.exited"
	KindProcessStderr         Kind = "process.stderr"
	KindTransportConnected    Kind = "transport.connected"
	KindTransportDisconnected Kind = "transport.disconnected"
	KindMCPInitialized        Kind = "mcp.initialized"
	KindMCPRequest            Kind = "mcp.request"
	KindMCPResponse           Kind = "mcp.response"
	KindMCPError              Kind = "mcp.error"
	KindMCPNotification       Kind = "mcp.notification"
	KindMCPProgress           Kind = "mcp.progress"
	KindMCPCancelRequested    Kind = "mcp.cancellation_requested"
	KindMCPCancelCompleted    Kind = "mcp.cancellation_completed"
	KindMCPPolicyDenied       Kind = "mcp.policy_denied" // an agent's message that m3's tool restriction did not let through; it never reached the server
	KindMCPFiltered           Kind = "mcp.filtered"      // an answer to tools/list as the agent got it, after the event of the answer as the server sent it
	KindMCPMalformed          Kind = "mcp.malformed"     // bytes in the message channel that are no JSON-RPC message: noise, broken JSON
	KindHTTPExchange          Kind = "mcp.http_exchange" // an HTTP answer, or its end, that carried no frame
	KindMCPCallFailed         Kind = "mcp.call_failed"   // why a call of ours ended without an answer: timeout, cancellation, transport
	KindFinding               Kind = "finding"
	KindAgentMessage          Kind = "agent.message"
	KindAgentFrame            Kind = "agent.frame" // a unit of the agent's own protocol, as it passed between driver and agent
	KindAssistantContent      Kind = "assistant.content"
	KindToolCallRequested     Kind = "tool.call_requested"
	KindToolResultReceived    Kind = "tool.result_received"
	KindPermissionRequest     Kind = "permission.request"
	KindPermissionResponse    Kind = "permission.response"
	KindSamplingRequest       Kind = "sampling.request"
	KindSamplingResponse      Kind = "sampling.response"
	KindElicitationRequest    Kind = "elicitation.request"
	KindElicitationResponse   Kind = "elicitation.response"
	KindFilesystem            Kind = "filesystem"
	KindTerminal              Kind = "terminal"
	KindReasoning             Kind = "reasoning"
	KindUsage                 Kind = "usage"
	KindArtifactRecorded      Kind = "artifact.recorded"
	KindWorkspaceChanged      Kind = "workspace.changed"
	KindCleanupStarted        Kind = "cleanup.started"
	KindCleanupFinished       Kind = "cleanup.finished"
	KindDiagnostic            Kind = "diagnostic"
	KindProviderEvent         Kind = "provider.event"
)

// Phase is the part of an execution's life in which an event happened.
type Phase string

// The lifecycle phases.
const (
	PhasePreflight      Phase = "preflight"
	PhaseStartup        Phase = "startup"
	PhaseInitialization Phase = "initialization"
	PhaseIdle           Phase = "idle"
	PhaseTurn           Phase = "turn"
	PhaseMCPCall        Phase = "mcp_call"
	PhaseCleanup        Phase = "cleanup"
	PhaseTerminal       Phase = "terminal"
	PhaseUnknown        Phase = "unknown"
)

// Direction is which way a frame went.
type Direction string

// The directions, seen from the protocol's roles, not from who recorded.
const (
	ClientToServer Direction = "client_to_server"
	ServerToClient Direction = "server_to_client"
)

// Origin says how m3 came to know something.
type Origin string

// The origins.
const (
	OriginWire       Origin = "wire_observed"
	OriginNormalized Origin = "normalized"
	OriginReported   Origin = "harness_reported"
	OriginDerived    Origin = "derived"
)

// Source is the provenance of an event or a value.
type Source struct {
	Origin Origin `json:"origin"`
	// Source is the tape: "mcp", "acp", "process", "provider", "m3", or a harness kind.
	Source string `json:"source"`
}

// Event is one entry of an execution's storage and audit stream. Sequences are contiguous from 0, offsets never
// decrease. A frame of wire traffic is one event; every other event carries a Payload: the JSON of the entry (without its
// [Base]) that a [View] shows for it. A message event without a frame is a part of a received batch; its Payload is the message.
type Event struct {
	ExecutionID  ExecutionID
	Sequence     int64
	Kind         Kind
	Time         time.Time     // UTC
	Offset       time.Duration // monotonic, since the execution was created
	Phase        Phase
	SessionID    SessionID
	TurnID       TurnID
	Server       string // the server's name in this execution
	ConnectionID ConnectionID
	Source       Source

	// RPCID and Method are set on frames that are JSON-RPC messages, as far as the message has them.
	RPCID  RPCID
	Method string
	// Own marks traffic that m3 caused for itself (schema validation, probes) rather than the test.
	Own bool

	Frame      *Frame      // the raw evidence, on frames and stderr lines
	Payload    JSON        // everything else; on a frame of m3's own, its note (see the package's text)
	Diagnostic *Diagnostic // on diagnostic events only
	// Redactions lists what was replaced in Frame.Bytes or, for an event without a frame, in Payload.
	Redactions []Redaction
}

// Framing is how a frame was delimited on its transport.
type Framing string

// The framings.
const (
	FramingLine Framing = "line" // stdio and pipes: up to and including 0x0A
	FramingSSE  Framing = "sse"  // one server-sent event, its blank line included
	FramingBody Framing = "body" // one HTTP body
)

// Frame is one unit of traffic with its exact bytes, terminator included. [Frame.Body] gives the message in it.
type Frame struct {
	Direction Direction
	Framing   Framing
	// Bytes are the bytes kept: those of the wire, after redaction. Nil while they are out of line.
	Bytes []byte
	// Size is the number of bytes kept, WireSize the number that passed on the wire.
	Size     int64
	WireSize int64
	// SHA256 is the lower-case hexadecimal digest of the bytes kept.
	SHA256 string
	// OutOfLine says that the bytes are in the store's blobs, under SHA256.
	OutOfLine bool
	// Dropped is the number of bytes over the frame cap that were drained and not kept.
	Dropped int64
	// Partial says that the stream ended before the frame's terminator.
	Partial bool
	HTTP    *HTTPInfo
}

// HTTPInfo is the HTTP side of a frame. Header values are redacted.
type HTTPInfo struct {
	Exchange int64        `json:"exchange"` // numbers the requests of a connection from 1
	Method   string       `json:"method,omitempty"`
	URL      string       `json:"url,omitempty"`
	Status   int          `json:"status,omitempty"`
	Header   []HTTPHeader `json:"header,omitempty"`
}

// HTTPHeader is one header field, in wire order as far as Go's client shows it (sorted by name).
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Redaction is one replacement: where it stands in the kept bytes, and where and how long the original was.
type Redaction struct {
	Offset         int64 `json:"offset"`          // in the kept bytes
	Length         int64 `json:"length"`          // in the kept bytes
	OriginalOffset int64 `json:"original_offset"` // in the bytes of the wire
	OriginalLength int64 `json:"original_length"`
}

// Diagnostic is the part of a diagnostic event that is safe to log.
type Diagnostic struct {
	Code      string        `json:"code"`
	Message   string        `json:"message"`
	Stage     string        `json:"stage,omitempty"`
	Operation string        `json:"operation,omitempty"`
	Elapsed   time.Duration `json:"-"` // stored as elapsed_seconds
	Timeout   time.Duration `json:"-"` // stored as timeout_seconds
}

// EvidenceRef names the raw evidence of one event. Read it with ReadRawEvidence of the kit or the store, which checks
// digest and size against what is stored.
type EvidenceRef struct {
	ID        string `json:"id"` // "re:<execution>:<sequence>"
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size_bytes"`
	MediaType string `json:"media_type"`
}
