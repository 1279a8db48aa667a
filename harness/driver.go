package harness

import (
	"context"
	"time"

	"github.com/m3-go/m3/trace"
)

// Driver starts agents of one kind. It is a value that a test makes (opencode.New(opencode.Config{})); all methods may be called from several
// goroutines, and Kind and Capabilities do no I/O.
type Driver interface {
	// Kind is the stored word of the agent: "opencode", "claude_code", "codex", "pi", "acp".
	Kind() string
	// Capabilities says what the driver can do. What it declares false is refused by the kit before anything starts, and skipped by the suite.
	Capabilities() Capabilities
	// Check reports whether the agent can be run here with this configuration, without starting a conversation: the executable is there and is of
	// a version that the driver knows. Its errors are *[UnavailableError].
	Check(ctx context.Context) (Installation, error)
	// Open starts the agent for one execution: process, handshake, connection to the servers. It returns when a first message can be sent. ctx bounds the
	// opening. After an error nothing of the agent is left.
	Open(ctx context.Context, spec *Spec, host Host) (Session, error)
}

// CredentialReferrer is a [Driver] whose configuration names secrets by reference (an ACP manifest). The kit resolves them like a selection's CredentialEnv, makes them known to the
// redactor, and gives them in [Spec.Credentials].
type CredentialReferrer interface {
	// CredentialEnv is the agent's name for each variable, with the name of the one that it comes from.
	CredentialEnv() map[string]string
}

// Session is one conversation with a running agent. Send is called by one goroutine at a time, Cancel and Close at any time.
type Session interface {
	// Send gives the agent one user message and waits for the end of its turn. The end of ctx cancels the turn; the driver then waits (bounded, see
	// [Spec.CancelGrace]) for the agent to end it, so that what it still says is kept. An error is a failure of the agent or of the way to it,
	// an *[Error] with the right [Blame]; a turn that the agent itself ended is a [Turn], whatever it says.
	Send(ctx context.Context, p *Prompt) (*Turn, error)
	// Close ends the agent and everything it started, orderly where it can be had within ctx. It is idempotent.
	Close(ctx context.Context) error
}

// Installation is what [Driver.Check] found.
type Installation struct {
	Executable string // absolute path
	Version    string // as the agent says
	// Runtime is further facts worth storing (a protocol version, the version of an adapter's core), by name.
	Runtime map[string]string
}

// Capabilities is what a driver can do.
type Capabilities struct {
	// MultiTurn: Send may be called again after a turn.
	MultiTurn bool
	// Cancel: a turn can be ended from outside with the session staying usable.
	Cancel bool
	// StdioServers and HTTPServers say by which kind of [Endpoint] the agent can reach a server. One at least.
	StdioServers, HTTPServers bool
	// NativeTools: the agent's own means restrict its tools exactly. The relay enforces the list underneath whatever this says.
	NativeTools bool
	// NoBuiltins: the agent can be run without any tool but those of the servers.
	NoBuiltins bool
	// Permissions: the agent can be made to ask before a tool call, and the driver passes that to [Host.Permission].
	Permissions bool
	// Elicitation is how a server's request for input reaches the user.
	Elicitation Elicitation
	// Streaming: text arrives in pieces while the turn runs.
	Streaming bool
	// Reasoning, Usage, Cost: the agent reports them.
	Reasoning, Usage, Cost bool
	// ContentKinds are the types of content blocks, beside "text", that a prompt may have: "image", "audio", "resource", "resource_link".
	ContentKinds []string
	// Dialects are the model protocols by which the agent can be pointed at an endpoint ([Spec.Model]); empty when it cannot.
	Dialects []Dialect
	// JoinKey: the agent puts an id of the call into the request's _meta, by which wire and report are joined exactly (see [ToolCall.ID]). The name
	// of the member, "" for none: "callId", "claudecode/toolUseId".
	JoinKey string
	// ModelRequired: a selection must name a model.
	ModelRequired bool
}

// Elicitation is how far an agent forwards a server's requests for input.
type Elicitation struct {
	// Native: the agent asks the client by a message of its own, which the driver passes to [Host.Elicit].
	Native bool
	// RequestKeys: that message names the request's key in its round.
	RequestKeys bool
	// MaxRounds is the number of rounds after which the agent itself gives up; 0: none known.
	MaxRounds int
	// Form and URL are the modes that it forwards.
	Form, URL bool
}

// Dialect is the protocol between an agent and its model.
type Dialect string

// The dialects.
const (
	OpenAIChat        Dialect = "openai_chat"        // POST /v1/chat/completions
	OpenAIResponses   Dialect = "openai_responses"   // POST /v1/responses
	AnthropicMessages Dialect = "anthropic_messages" // POST /v1/messages
)

// Spec is what an agent is started with. The kit fills it; a driver changes nothing in it.
type Spec struct {
	Execution trace.ExecutionID
	// Model is the model as the selection names it, "" for the agent's own default.
	Model string
	// Endpoint is where the model is; nil: wherever the agent goes by itself, with Credentials.
	Endpoint *ModelEndpoint
	// Servers are the ways to the servers under test, in the order in which the test named them. The names are unique.
	Servers []Endpoint
	// Tools are the tools that may be used.
	Tools Tools
	// Instructions, if set, is a system prompt in place of the agent's own, where it has such a thing.
	Instructions string
	// Workspace is the working directory of the agent. It exists.
	Workspace string
	// Home is an empty directory, mode 0700, for everything that the agent reads and writes about itself: HOME, XDG directories, configuration, temporary files. It
	// is removed after the execution.
	Home string
	// Env is the minimal environment that every agent gets, NAME=value: PATH, HOME, XDG_*, TMPDIR (all below Home), LANG, TZ, NO_COLOR. A driver adds its own
	// variables; nothing else is inherited.
	Env []string
	// Credentials are the resolved secrets for the agent by the name of the variable that it expects. The redactor knows them already.
	Credentials map[string]string
	// CancelGrace is how long Send waits after its context's end for the agent to end the turn. 0: 2 s.
	CancelGrace time.Duration
	// AskPermission says whether the agent is to ask before tool calls, where it can be told; the answer is Host's.
	AskPermission bool
	// Elicitation says that the test can answer a server's requests for input, by [Host.Elicit]. Else a driver does not tell its agent that it could.
	Elicitation bool
}

// Endpoint is one server as the agent is to be told of it. Exactly one of Command and URL is set, by the driver's capabilities.
type Endpoint struct {
	// Name is the alias by which the test knows the server; [A-Za-z0-9_-] only.
	Name string
	// Command, Args and Env start the shim that stands for the server. Env is complete: nothing else is needed.
	Command string
	Args    []string
	Env     []string
	// URL is a loopback address of streamable HTTP.
	URL    string
	Header map[string]string
}

// Tools are the tools of the servers that an agent may use.
type Tools struct {
	// All: no restriction. The zero value allows none.
	All bool
	// Allowed lists tools by server, in the servers' own words. A server that is not in it may not be used at all.
	Allowed map[string][]string
}

// ModelEndpoint is a model provider.
type ModelEndpoint struct {
	Dialect Dialect
	// BaseURL is without a trailing slash and without the API's own path: "http://127.0.0.1:4711/x/abc"; the dialect's path (/v1/messages …) follows.
	BaseURL string
	// Key is what the agent has to send as its API key.
	Key string
	// Model is the name that the provider answers to.
	Model string
}

// Prompt is one user message.
type Prompt struct {
	Turn trace.TurnID
	Text string
	// Content are further blocks, of kinds that the driver declares.
	Content []trace.Content
	// Tools restricts this turn further, where the agent can; nil: as the session.
	Tools *Tools
}

// Turn is how a turn ended, in the agent's own words.
type Turn struct {
	// Text is the agent's final answer: of several messages the last, without notices of an adapter.
	Text    string
	Content []trace.Content
	// StopReason is the agent's word ("end_turn", "stop", "max_tokens", …), "" when it gave none.
	StopReason string
	// Doubt says why the end may not be what the agent claims ("no text and no tool call", "the thread reports a system error"); empty: none.
	Doubt string
	// NativeID is the agent's own id of the turn or of its last message, for the record.
	NativeID string
}
