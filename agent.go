package m3

import (
	"context"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/eval"
)

// RunOptions configure one action of an agent: [Agent.Run] and [Agent.Submit]. Server or Servers is needed, all else may be left.
type RunOptions struct {
	// Server is the server that the agent gets. Set either this or Servers.
	Server Server
	// Servers are several. A [Binding] gives one an alias, or makes it optional.
	Servers []Server
	// Tools are the tools of the servers that the agent may use. The zero value is all of them.
	Tools ToolSelection
	// Content are further blocks of the message, of kinds that the agent takes. With some, the text may be empty.
	Content []Content
	// Elicitation answers what servers ask for during this action. See docs/agents.md for which agents can.
	Elicitation *elicit.Plan
	// RoundLimit is the number of rounds of input that Elicitation may take. 0: 10.
	RoundLimit int
	// HumanInput says what happens when a server asks for input and nothing else answers it.
	HumanInput HumanInput
	// Timeout is the deadline of the action, from the start of the agent to the end of its turn. 0: the kit's ExecutionTimeout, else 180 s.
	Timeout time.Duration
	// Case is the stable name of the logical scenario.
	Case string
	// Goal is a text for evaluators about what is to be achieved, at most 32,768 bytes.
	Goal string
	// Evaluations declares which evaluators belong to the execution, and which of them are required of it. It is stored with the execution and runs nothing.
	Evaluations []eval.Registration
	// Workspace is where the agent works. The zero value is an empty temporary directory.
	Workspace Workspace
	// Artifacts are files of the workspace to keep, by their paths in it; * and ? match within one name, ** any directories.
	Artifacts []string
	// KeepArtifacts says when they are kept. The zero value: when the execution failed.
	KeepArtifacts ArtifactPolicy
	// Permissions answers what the agent asks before it does something.
	Permissions PermissionPolicy
	// Metadata is stored with the execution: finite scalars only. Names that m3 uses itself are refused.
	Metadata map[string]any
}

// SessionOptions configure a conversation: see [Agent.Session]. Server or Servers is needed, all else may be left.
type SessionOptions struct {
	// Server is the server that the agent gets. Set either this or Servers.
	Server Server
	// Servers are several. A [Binding] gives one an alias, or makes it optional.
	Servers []Server
	// Tools are the tools of the servers that the agent may use. The zero value is all of them.
	Tools ToolSelection
	// Timeout bounds the start of the agent, and each turn that has no deadline of its own. 0: the kit's ExecutionTimeout, else 180 s.
	Timeout time.Duration
	// Case is the stable name of the logical scenario.
	Case string
	// Goal is a text for evaluators about what is to be achieved, at most 32,768 bytes.
	Goal string
	// Evaluations declares which evaluators belong to the execution, and which of them are required of it. It is stored with the execution and runs nothing.
	Evaluations []eval.Registration
	// Workspace is where the agent works. The zero value is an empty temporary directory.
	Workspace Workspace
	// Artifacts are files of the workspace to keep, by their paths in it; * and ? match within one name, ** any directories.
	Artifacts []string
	// KeepArtifacts says when they are kept. The zero value: when the execution failed.
	KeepArtifacts ArtifactPolicy
	// Permissions answers what the agent asks before it does something.
	Permissions PermissionPolicy
	// Metadata is stored with the execution: finite scalars only. Names that m3 uses itself are refused.
	Metadata map[string]any
}

// SendOptions configure one message of a session: see [Session.Send]. Nil means all defaults.
type SendOptions struct {
	// Content are further blocks of the message, of kinds that the agent takes. With some, the text may be empty.
	Content []Content
	// Tools restricts this turn further: tools of those that the session may use. The zero value is all of them. What the agent has listed before it may still see.
	Tools ToolSelection
	// Elicitation answers what servers ask for during this turn.
	Elicitation *elicit.Plan
	// RoundLimit is the number of rounds of input that Elicitation may take. 0: 10.
	RoundLimit int
	// Timeout is the deadline of the turn. 0: the session's.
	Timeout time.Duration
	// Metadata is stored with the turn: finite scalars only.
	Metadata map[string]any
}

// HumanInput says what happens when a server asks for input that no plan answers.
type HumanInput string

// FailOnInput fails the action. It is the zero value.
const FailOnInput HumanInput = ""

// Run gives the agent one message in a conversation of its own, and waits for the end: [Agent.Submit], then [Handle.Result]. The end of ctx cancels the
// action.
//
// The result is there whenever the execution began, with what is known. The error is nil when the agent itself ended its turn, whatever it said; else
// it says why there is no such end: a *[TimeoutError], a *[CancelledError], or the result's Failure, a *[harness.Error] whose Blame says whose fault it
// is. Errors of the call itself are *[ValidationError] and *[UnsupportedError], before anything is started, and then there is no result.
func (a *Agent) Run(ctx context.Context, text string, opts *RunOptions) (*Result, error) {
	h, err := a.Submit(ctx, text, opts)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, h.Cancel)
	defer stop()
	return h.Result(context.WithoutCancel(ctx))
}

// Submit is [Agent.Run] that does not wait. What is wrong with the call is an error at once; everything else is told by the handle. The action goes on when
// ctx ends: it ends by its own deadline, [Handle.Cancel], or the kit's end. Of a kit's actions, Config.Concurrency run at a time; the others are queued.
func (a *Agent) Submit(ctx context.Context, text string, opts *RunOptions) (*Handle, error) {
	if opts == nil {
		opts = &RunOptions{}
	}
	x, err := a.prepare(ctx, "Submit", opts.action(), &prompt{text: text, content: opts.Content, plan: opts.Elicitation, limit: opts.RoundLimit, human: opts.HumanInput})
	if err != nil {
		return nil, err
	}
	go x.runAlone(context.WithoutCancel(ctx))
	return &Handle{x: x}, nil
}

// Session starts the agent for a conversation of several turns, which is one execution. ctx and SessionOptions.Timeout bound the start, not the life of the
// session, which ends with [Session.Finish], [Session.Close] or the kit. An agent that does not start is an error as of [Agent.Run]; its execution is
// recorded all the same.
func (a *Agent) Session(ctx context.Context, opts *SessionOptions) (*Session, error) {
	if opts == nil {
		opts = &SessionOptions{}
	}
	x, err := a.prepare(ctx, "Session", opts.action(), nil)
	if err != nil {
		return nil, err
	}
	if err := x.openSession(ctx); err != nil {
		return nil, err
	}
	return &Session{x: x}, nil
}
