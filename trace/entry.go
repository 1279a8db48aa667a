package trace

import "time"

// Entry is one entry of a [View]'s timeline: a *ToolCallEntry, *ProtocolEntry, *RawMessageEntry and so on.
// The set is closed.
type Entry interface {
	// Common returns what all entries have.
	Common() *Base
}

// EntryKind is the stored name of an entry's type.
type EntryKind string

// The entry kinds (spec/behaviour.md 7.6, and finding).
const (
	EntryLifecycle      EntryKind = "lifecycle"
	EntryMessage        EntryKind = "message"
	EntryReasoning      EntryKind = "reasoning"
	EntryToolCall       EntryKind = "tool_call"
	EntryProtocol       EntryKind = "protocol"
	EntryTransport      EntryKind = "transport"
	EntryInitialization EntryKind = "initialization"
	EntryUsage          EntryKind = "usage"
	EntryInteraction    EntryKind = "interaction"
	EntryElicitation    EntryKind = "elicitation"
	EntryProcess        EntryKind = "process"
	EntryWorkspace      EntryKind = "workspace"
	EntryArtifact       EntryKind = "artifact"
	EntryDiagnostic     EntryKind = "diagnostic"
	EntryRawMessage     EntryKind = "raw_message"
	EntryProvider       EntryKind = "provider"
	EntryFinding        EntryKind = "finding"
)

// Status is how the thing an entry describes ended.
type Status string

// The statuses.
const (
	StatusCompleted      Status = "completed"
	StatusFailed         Status = "failed"
	StatusToolError      Status = "tool_error"
	StatusProtocolError  Status = "protocol_error"
	StatusTransportError Status = "transport_error"
	StatusTimedOut       Status = "timed_out"
	StatusCancelled      Status = "cancelled"
	StatusInterrupted    Status = "interrupted"
	StatusIncomplete     Status = "incomplete"
	StatusUnavailable    Status = "unavailable"
)

// ToolCallStatus is how a tool call ended. Success is the word of a call, completed that of a finished attempt.
type ToolCallStatus string

// The tool call statuses.
const (
	ToolSuccess        ToolCallStatus = "success"
	ToolCompleted      ToolCallStatus = "completed"
	ToolError          ToolCallStatus = "tool_error"
	ToolProtocolError  ToolCallStatus = "protocol_error"
	ToolTransportError ToolCallStatus = "transport_error"
	ToolCancelled      ToolCallStatus = "cancelled"
	ToolTimedOut       ToolCallStatus = "timed_out"
	ToolIncomplete     ToolCallStatus = "incomplete"
)

// Correlation says how a tool call's two tapes were joined.
type Correlation string

// The correlations. A direct call is wire_only.
const (
	Correlated   Correlation = "correlated"    // both tapes have it: one entry
	ReportedOnly Correlation = "reported_only" // the agent told it, and it did not pass on the wire
	WireOnly     Correlation = "wire_only"     // it passed on the wire, and the agent did not tell it
	// Ambiguous: several calls of one tape equal several of the other, or, on the wire, two open requests had one id. Each call keeps an entry
	// of its own, with what its own tape says.
	Ambiguous Correlation = "ambiguous"
	// CorrelationUnavailable: it may be on the other tape too, but what would tell is not in the evidence.
	CorrelationUnavailable Correlation = "unavailable"
)

// PolicyDenied is the value of [ToolCallEntry].Policy of a call that m3's tool restriction refused.
const PolicyDenied = "policy_denied"

// OperationKind is which of the three operations may pause for input.
type OperationKind string

// The operation kinds.
const (
	OperationTool     OperationKind = "tool"
	OperationPrompt   OperationKind = "prompt"
	OperationResource OperationKind = "resource"
)

// Action is an answer to an elicitation.
type Action string

// The actions.
const (
	ActionAccept  Action = "accept"
	ActionDecline Action = "decline"
	ActionCancel  Action = "cancel"
)

// Timing is when something happened. Offsets are monotonic since the execution was created.
type Timing struct {
	StartedAt   time.Time     `json:"started_at"`
	FinishedAt  *time.Time    `json:"finished_at,omitempty"` // nil while it never finished
	StartOffset time.Duration `json:"start_offset_ns"`
	EndOffset   time.Duration `json:"end_offset_ns"`
}

// Duration is EndOffset - StartOffset.
func (t Timing) Duration() time.Duration { return t.EndOffset - t.StartOffset }

// Base is what every entry has.
type Base struct {
	// EntryID is "<kind>:<first sequence>", unique in its trace; of several elicitations in one answer the second ends in ".1",
	// the third in ".2".
	EntryID string    `json:"entry_id"`
	Kind    EntryKind `json:"kind"`
	// ParentID is the call that a frame, elicitation or diagnostic belongs to, or the frame that a finding is about.
	ParentID      string       `json:"parent_id,omitempty"`
	ExecutionID   ExecutionID  `json:"execution_id"`
	SessionID     SessionID    `json:"session_id,omitempty"`
	TurnID        TurnID       `json:"turn_id,omitempty"`
	ServerBinding string       `json:"server_binding,omitempty"`
	ConnectionID  ConnectionID `json:"connection_id,omitempty"`
	SequenceStart int64        `json:"sequence_start"`
	SequenceEnd   int64        `json:"sequence_end"`
	Timing        Timing       `json:"timing"`
	Status        Status       `json:"status"`
	Provenance    []Source     `json:"provenance"`
	// Limitations are codes of what is wrong with the entry as a whole: late_response, ambiguous_id, capture_failed,
	// malformed_source, redacted_by_policy, correlation_unavailable.
	Limitations []string `json:"limitations,omitempty"`
	// Own marks what m3 did for itself (schema validation); exact-call matchers leave it out.
	Own bool `json:"own,omitempty"`
}

// Common returns b: it makes every type that embeds Base an [Entry].
func (b *Base) Common() *Base { return b }

// Content is one content block. Type is "text", "image", "audio", "resource_link", "resource", or a provider's own word;
// Raw is the block as it stood on the wire.
type Content struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	Raw  JSON   `json:"raw,omitempty"`
}

// LifecycleEntry is a step in the life of an execution, session or turn.
type LifecycleEntry struct {
	Base
	Phase   Phase  `json:"phase"`
	Event   Kind   `json:"event"` // execution.created, turn.state_changed, …
	State   string `json:"state,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// Error is what ended the execution, in its last step: {code, message}, redacted. Nil when nothing did.
	Error JSON `json:"error,omitempty"`
}

// MessageEntry is a message of a conversation.
type MessageEntry struct {
	Base
	MessageID  Observation[string] `json:"message_id"`
	Role       string              `json:"role"` // user, assistant, system, tool
	Content    []Content           `json:"content"`
	StopReason Observation[string] `json:"stop_reason"`
}

// ReasoningEntry is a model's reasoning. Hidden or encrypted reasoning is a state, never invented text.
type ReasoningEntry struct {
	Base
	BlockID Observation[string]    `json:"block_id"`
	Content Observation[[]Content] `json:"content"`
}

// ToolResult is the result of a tool.
type ToolResult struct {
	Content           []Content         `json:"content"`
	StructuredContent Observation[JSON] `json:"structured_content"`
	IsError           bool              `json:"is_error"`
	Error             Observation[JSON] `json:"error"` // the JSON-RPC error, when there was one
}

// Text joins the result's text blocks with newlines.
func (r ToolResult) Text() string { return JoinText(r.Content) }

// WireToolCall is a tool call as it passed between client and server.
type WireToolCall struct {
	RPCID     RPCID                      `json:"jsonrpc_id"`
	Server    string                     `json:"server"`
	Tool      string                     `json:"tool"`
	Arguments Observation[JSON]          `json:"arguments"`
	Result    Observation[ToolResult]    `json:"result"`
	Status    ToolCallStatus             `json:"status"`
	Latency   Observation[time.Duration] `json:"latency_ns"`
}

// ReportedToolCall is a tool call as the agent told it.
type ReportedToolCall struct {
	ProviderCallID Observation[string] `json:"provider_call_id"`
	// Name is what the agent itself calls the tool (calc_add, mcp__calc__add); empty when it uses the server's words.
	Name string `json:"name,omitempty"`
	// Server and Tool are the server's words. Where the agent says only Name, they are what the name can alone mean among the tools seen on the wire,
	// with the provenance derived; not emitted when it can mean several, or none.
	Server    Observation[string]     `json:"server"`
	Tool      Observation[string]     `json:"tool"`
	Arguments Observation[JSON]       `json:"arguments"`
	Result    Observation[ToolResult] `json:"result"`
	Status    ToolCallStatus          `json:"status"`
	// SequenceStart and SequenceEnd are the agent's first and last event about the call.
	SequenceStart int64 `json:"sequence_start"`
	SequenceEnd   int64 `json:"sequence_end"`
}

// Conflict is a field on which the two tapes disagree. A side that has nothing of it is null.
type Conflict struct {
	Field    string `json:"field"` // server, tool, arguments, result, status
	Reported JSON   `json:"reported"`
	Wire     JSON   `json:"wire"`
}

// ToolCallEntry is one logical tool call. When both tapes have it, it stands where it passed on the wire: all fields take the wire's value but
// CallID and ProviderCallID, which only the agent knows. Of a call that m3's restriction refused (see Policy) the fields are those of the request as it
// came from the agent, and Wire is not emitted: nothing reached the server.
type ToolCallEntry struct {
	Base
	CallID         string                        `json:"call_id"`
	ProviderCallID Observation[string]           `json:"provider_call_id"`
	Server         Observation[string]           `json:"server"`
	Tool           Observation[string]           `json:"tool"`
	Arguments      Observation[JSON]             `json:"arguments"`
	Result         Observation[ToolResult]       `json:"result"`
	ToolStatus     ToolCallStatus                `json:"tool_status"`
	Correlation    Correlation                   `json:"correlation"`
	RPCID          Observation[RPCID]            `json:"jsonrpc_id"`
	ServerLatency  Observation[time.Duration]    `json:"server_latency_ns"`
	Policy         Observation[string]           `json:"policy"` // [PolicyDenied] when m3 refused the call
	Wire           Observation[WireToolCall]     `json:"wire"`
	Reported       Observation[ReportedToolCall] `json:"reported"`
	Conflicts      []Conflict                    `json:"conflicts,omitempty"`
	Attempts       []ToolCallAttempt             `json:"attempts,omitempty"` // empty for a one-shot call
}

// ToolCallAttempt is one wire try of a logical tool call that paused for input.
type ToolCallAttempt struct {
	AttemptIndex      int                     `json:"attempt_index"` // from 0
	RPCID             Observation[RPCID]      `json:"jsonrpc_id"`
	RequestState      Observation[string]     `json:"request_state"`      // sent
	ContinuationState Observation[string]     `json:"continuation_state"` // received
	InputResponses    Observation[JSON]       `json:"input_responses"`    // sent
	OperationParams   Observation[JSON]       `json:"operation_params"`
	InputRequired     bool                    `json:"input_required"`
	Result            Observation[ToolResult] `json:"result"`
	RawResult         Observation[JSON]       `json:"raw_result"`
	Status            ToolCallStatus          `json:"status"` // completed when finished, else incomplete
	SequenceStart     int64                   `json:"sequence_start"`
	SequenceEnd       int64                   `json:"sequence_end"`
	Timing            Timing                  `json:"timing"`
}

// ProtocolCallAttempt is the same for prompts and resources.
type ProtocolCallAttempt struct {
	AttemptIndex      int                 `json:"attempt_index"`
	RPCID             Observation[RPCID]  `json:"jsonrpc_id"`
	RequestState      Observation[string] `json:"request_state"`
	ContinuationState Observation[string] `json:"continuation_state"`
	InputResponses    Observation[JSON]   `json:"input_responses"`
	OperationParams   Observation[JSON]   `json:"operation_params"`
	InputRequired     bool                `json:"input_required"`
	Result            Observation[JSON]   `json:"result"`
	RawResult         Observation[JSON]   `json:"raw_result"`
	Status            Status              `json:"status"`
	SequenceStart     int64               `json:"sequence_start"`
	SequenceEnd       int64               `json:"sequence_end"`
	Timing            Timing              `json:"timing"`
}

// RPCError is a JSON-RPC error object.
type RPCError struct {
	Code    JSON              `json:"code"` // as on the wire: some servers send fractions or text
	Message string            `json:"message"`
	Data    Observation[JSON] `json:"data"`
}

// ProtocolEntry is one protocol exchange: a request with its answer, or a notification.
type ProtocolEntry struct {
	Base
	Protocol      string                `json:"protocol"` // mcp, acp, provider_http, provider_stream
	Method        Observation[string]   `json:"method"`
	Direction     Direction             `json:"direction"`
	RPCID         Observation[RPCID]    `json:"jsonrpc_id"`
	Request       Observation[JSON]     `json:"request"`  // params
	Response      Observation[JSON]     `json:"response"` // result
	Error         Observation[RPCError] `json:"error"`
	HTTP          Observation[HTTPInfo] `json:"http"` // headers cut to content-type, content-length, retry-after, request-id, x-request-id
	OperationKind OperationKind         `json:"operation_kind,omitempty"`
	OperationName Observation[string]   `json:"operation_name"`
	Attempts      []ProtocolCallAttempt `json:"attempts,omitempty"`
}

// TransportEntry is a connection opened or closed.
type TransportEntry struct {
	Base
	Phase        string            `json:"phase"`      // connected, disconnected
	Transport    string            `json:"transport"`  // stdio, streamable_http, sse, pipe
	Configured   Observation[JSON] `json:"configured"` // redacted endpoint or command
	Instrumented Observation[JSON] `json:"instrumented"`
	// BytesRead and BytesKept tell, on disconnected, whether the capture is complete.
	BytesRead int64 `json:"bytes_read"`
	BytesKept int64 `json:"bytes_kept"`
	// Close says which step ended an owned process: "eof", "sigterm", "sigkill", "exited".
	Close string `json:"close,omitempty"`
}

// InitializationEntry is what a server said of itself.
type InitializationEntry struct {
	Base
	ProtocolVersion Observation[string] `json:"protocol_version"`
	ServerName      Observation[string] `json:"server_name"`
	ServerVersion   Observation[string] `json:"server_version"`
	Instructions    Observation[string] `json:"instructions"`
	Capabilities    Observation[JSON]   `json:"capabilities"`
}

// Usage is a provider's account of tokens and cost. Each may be absent.
type Usage struct {
	InputTokens         Observation[int64]   `json:"input_tokens"`
	OutputTokens        Observation[int64]   `json:"output_tokens"`
	ReasoningTokens     Observation[int64]   `json:"reasoning_tokens"`
	CacheCreationTokens Observation[int64]   `json:"cache_creation_tokens"`
	CacheReadTokens     Observation[int64]   `json:"cache_read_tokens"`
	CacheWriteTokens    Observation[int64]   `json:"cache_write_tokens"`
	TotalTokens         Observation[int64]   `json:"total_tokens"`
	Cost                Observation[float64] `json:"cost"`
	Currency            Observation[string]  `json:"currency"`
}

// UsageEntry is one usage report.
type UsageEntry struct {
	Base
	Usage
	// Scope says what it is an account of: "step", "turn", "session"; empty when that was not told.
	Scope string `json:"scope,omitempty"`
}

// InteractionEntry is a permission, sampling, filesystem or terminal exchange.
type InteractionEntry struct {
	Base
	InteractionKind string            `json:"interaction_kind"`
	Request         Observation[JSON] `json:"request"`
	Response        Observation[JSON] `json:"response"`
}

// ElicitationEntry is one request for input and its answer. From 2026-07-28 on it is a keyed request of an input_required result; before, a
// request of the server's own (elicitation/create), or, in 2025-11-25, one of the URLs that an error -32042 asks for. Those have no key on the
// wire: RequestKey is then that of the plan's leaf that answered, and empty when none did. Which call they belong to is known by the HTTP exchange, by
// m3's own note, or because one call alone was open; else the four fields about the operation are empty, RoundIndex is 0, and Limitations has
// correlation_unavailable.
type ElicitationEntry struct {
	Base
	Server             string              `json:"server"`
	OperationKind      OperationKind       `json:"operation_kind"`
	OperationName      string              `json:"operation_name"`
	LogicalOperationID string              `json:"logical_operation_id"`
	RoundIndex         int                 `json:"round_index"` // from 1; before 2026-07-28 each request is a round
	RequestKey         string              `json:"request_key"`
	Mode               string              `json:"mode"` // form, url
	Message            Observation[string] `json:"message"`
	RequestedSchema    Observation[JSON]   `json:"requested_schema"`
	URL                Observation[string] `json:"url"`
	ElicitationID      Observation[string] `json:"elicitation_id"` // of URLs in 2025-11-25 only
	RequestState       Observation[string] `json:"request_state"`
	// InputResponses is what was sent for the whole round, by key. Before 2026-07-28 that is the one answer, under RequestKey.
	InputResponses Observation[JSON] `json:"input_responses"`
	Action         Action            `json:"action,omitempty"`
	Content        Observation[JSON] `json:"content"`
}

// ProcessEntry is a process that m3 started.
type ProcessEntry struct {
	Base
	Executable Observation[string] `json:"executable"`
	PID        Observation[int]    `json:"pid"`
	ExitCode   Observation[int]    `json:"exit_code"`
	Signal     Observation[string] `json:"signal"`
	Stderr     Observation[string] `json:"stderr"` // the last 64 KiB
	// Ended says which step of the ladder was needed: "exited", "eof", "sigterm", "sigkill"; empty while it runs.
	Ended string `json:"ended,omitempty"`
	// Survivors lists processes of its tree that outlived it and were ended by the mark.
	Survivors []int `json:"survivors,omitempty"`
}

// WorkspaceEntry is a change of an agent's workspace.
type WorkspaceEntry struct {
	Base
	Change Observation[JSON] `json:"change"`
}

// ArtifactEntry is a file kept with the execution.
type ArtifactEntry struct {
	Base
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size_bytes"`
}

// DiagnosticEntry is a note of m3's own about the execution, free of values.
type DiagnosticEntry struct {
	Base
	Code      string        `json:"code"`
	Message   string        `json:"message"`
	Stage     string        `json:"stage,omitempty"`
	Operation string        `json:"operation,omitempty"`
	Elapsed   time.Duration `json:"elapsed_ns,omitempty"`
	Timeout   time.Duration `json:"timeout_ns,omitempty"`
}

// RawMessageEntry is one frame, or one stderr line, with a reference to its exact bytes.
type RawMessageEntry struct {
	Base
	Source      string              `json:"source"` // mcp, process_stderr, acp, opencode, claude_code, …
	Direction   Direction           `json:"direction"`
	Framing     Framing             `json:"framing"`
	Verdict     string              `json:"verdict"` // request, response, error, notification, malformed, http, stderr, policy_denied, filtered, agent
	MediaType   string              `json:"media_type"`
	RPCID       RPCID               `json:"jsonrpc_id,omitempty"`
	Method      string              `json:"method,omitempty"`
	Preview     Observation[string] `json:"preview"` // observed, redacted or truncated (64 KiB); base64 text when not UTF-8, marked "base64:"
	EvidenceRef *EvidenceRef        `json:"evidence_ref,omitempty"`
	SizeBytes   int64               `json:"size_bytes"` // on the wire
	Dropped     int64               `json:"dropped_bytes,omitempty"`
	Partial     bool                `json:"partial,omitempty"`
	HTTP        *HTTPInfo           `json:"http,omitempty"`
	Redactions  []Redaction         `json:"redactions,omitempty"`
}

// ProviderEntry is traffic between an agent and its model.
type ProviderEntry struct {
	Base
	Provider string            `json:"provider"`
	Category string            `json:"category"`
	Data     Observation[JSON] `json:"data"`
}

// FindingEntry is a [Finding] in its place on the timeline.
type FindingEntry struct {
	Base
	Finding
}
