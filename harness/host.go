package harness

import (
	"context"
	"io"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// Host is what the kit offers a driver for one execution. All methods may be called from several goroutines; events and frames of one goroutine
// keep their order.
type Host interface {
	// Event records something that the agent said or did. It does not block on the test.
	Event(e Event)
	// Frame records one unit of the agent's own protocol, whole and as it passed: a line of its stdio, a body, one server-sent event. dir is ClientToServer
	// for what the driver sent. b is valid during the call.
	Frame(dir trace.Direction, framing trace.Framing, b []byte)
	// Permission asks the test's policy whether the agent may do what it asks for. It waits for the answer; the end of ctx is a refusal.
	Permission(ctx context.Context, r *PermissionRequest) PermissionAnswer
	// Elicit hands over the agent's own prompt for a server's request for input, and waits for the answer to give it. An error means that there is no
	// answer that could be given safely: the driver then declines or cancels in the agent's way, and the kit fails the action.
	Elicit(ctx context.Context, p *Prompted) (elicit.Response, error)
	// Start starts a process for the agent: in a session of its own, with pipes, marked, watched and recorded, and ended with the execution whatever
	// happens.
	Start(ctx context.Context, c *Command) (Process, error)
	// Drain waits until everything that passed between the agent and the servers up to now has been recorded. A driver calls it at the end of a turn,
	// before Send returns.
	Drain(ctx context.Context) error
	// Served reports whether the server's tools were listed for the agent, or waits for it. A driver calls it before the first message, when the agent is ready. It fails
	// at once when the server or the relay is gone, when ctx ends, and when no process of the agent is left. An agent that runs and has not connected is waited for, for 10 s, since
	// many connect in the background, and nothing else tells that one will not; a driver that knows its agent to connect before it is ready gives a shorter ctx. The errors are of type *[Error]
	// (server_failed, server_not_initialized, servers_dropped), but for that of ctx.
	Served(ctx context.Context, server string) error
}

// Command is a program to start.
type Command struct {
	Path string // absolute, or found in PATH of Env
	Args []string
	Env  []string // complete
	Dir  string
	// Role names it in the trace: "agent", "bridge".
	Role string
}

// Process is a started program.
type Process interface {
	PID() int
	Stdin() io.WriteCloser
	Stdout() io.Reader
	// Exited is closed when the process is gone and its stderr drained.
	Exited() <-chan struct{}
	// Exit tells how it went: its code, or the signal that ended it. Ok is false while it runs.
	Exit() (code int, signal string, ok bool)
	// StderrTail is the end of what it wrote to stderr, redacted.
	StderrTail() string
	// Stop closes stdin, waits for eof, sends SIGTERM to the group, waits for term, and kills. It is idempotent and waits for the end.
	Stop(eof, term time.Duration)
}

// PermissionRequest is an agent's question whether it may do something.
type PermissionRequest struct {
	// Kind is "tool" for a tool of a server, else the agent's own word: "edit", "execute", "fetch", …
	Kind string
	// Server and Tool are set when Kind is "tool", in the words of the test (alias) and the server.
	Server, Tool string
	// Title is what the agent shows its user.
	Title string
	// CallID is the agent's id of the call it asks about.
	CallID string
	// Raw is the agent's request.
	Raw trace.JSON
}

// PermissionAnswer is the policy's answer.
type PermissionAnswer string

// The answers. Allowing is for this once: a driver never answers "always".
const (
	Allow     PermissionAnswer = "allow"
	Deny      PermissionAnswer = "deny"
	Cancelled PermissionAnswer = "cancelled" // the turn is being cancelled
)

// Prompted is an agent's own prompt for input that a server asked for. What the agent does not say is zero, never guessed.
type Prompted struct {
	Server    string // alias
	Key       string // the key in the server's round
	Mode      string // form, url
	Message   string
	Schema    trace.JSON
	URL       string
	ID        string // elicitation id
	Meta      trace.JSON
	CallID    string // the agent's id of the tool call
	Operation string // the tool's name
	// Group, if set, is the same for all prompts of one round that the agent emits before any is answered.
	Group string
	Raw   trace.JSON
}
