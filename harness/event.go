package harness

import "github.com/m3-go/m3/trace"

// Event is something that an agent said or did: a *Message, *Reasoning, *ToolCall, *ToolResult, *Usage, *Facts, *Notice or *Activity. The set is closed. Text that
// streams is gathered by the driver: an event is whole.
type Event interface{ event() }

// Message is a message of the conversation. The user's own are recorded by the kit.
type Message struct {
	ID         string
	Role       string // assistant, system, tool
	Content    []trace.Content
	StopReason string
}

// Reasoning is a model's reasoning as the agent shows it. Reasoning that is only known to exist is a state, never text.
type Reasoning struct {
	ID      string
	Content trace.Observation[[]trace.Content]
}

// ToolCall is a call as the agent tells it, when its arguments are known.
type ToolCall struct {
	// ID is the agent's or model's id of the call: where the driver declares a JoinKey, the value that stands in the request's _meta.
	ID string
	// Server and Tool are the alias and the server's own name when the agent says them apart or the driver can take Name apart without doubt; else not emitted.
	Server, Tool trace.Observation[string]
	// Name is the name that the agent itself uses (calc_add, mcp__calc__add).
	Name      string
	Arguments trace.Observation[trace.JSON]
}

// ToolResult is the end of a call as the agent tells it.
type ToolResult struct {
	ID     string
	Status trace.ToolCallStatus // success, tool_error, cancelled, incomplete
	Result trace.Observation[trace.ToolResult]
}

// Usage is an account of tokens and cost that the agent gave. Scope says of what: "step", "turn", "session".
type Usage struct {
	trace.Usage
	Scope string
}

// Facts are what the agent says of itself (session id, model id, finish reason, …), by the names of spec/behaviour.md 7.6. Later facts replace earlier ones.
type Facts map[string]trace.Observation[trace.JSON]

// Notice is something said beside the conversation: a retry, a warning of an adapter, the state of a server. Code is a short word ("retry", "server_failed",
// "adapter_notice").
type Notice struct {
	Code    string
	Message string
	Data    trace.JSON
}

// Activity is what the agent did besides calling the servers' tools: a built-in tool, a plan, a file. Kind is its own word.
type Activity struct {
	Kind string
	Data trace.JSON
}

func (*Message) event()    {}
func (*Reasoning) event()  {}
func (*ToolCall) event()   {}
func (*ToolResult) event() {}
func (*Usage) event()      {}
func (Facts) event()       {}
func (*Notice) event()     {}
func (*Activity) event()   {}
