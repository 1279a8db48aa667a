package m3

import (
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Result is a finished execution of an agent: one action, or a session with all its turns.
type Result struct {
	ExecutionID trace.ExecutionID `json:"execution_id"`
	// Snapshot is the state at the end.
	Snapshot Snapshot `json:"snapshot"`
	// Trace is the finalized trace.
	Trace *trace.Trace `json:"-"`
	// Outcome is how the execution ended. It says nothing about whether the agent did its task.
	Outcome trace.Outcome `json:"outcome"`
	// Failure says why the execution did not end as the agent's own answer, and whose fault that is; nil when it did.
	Failure *harness.Error `json:"-"`
	// Turns are all turns, in order.
	Turns []*Turn `json:"turns"`
	// Workspace is what changed in the workspace; nil when the agent never got one.
	Workspace *WorkspaceChange `json:"workspace,omitempty"`
	// Artifacts are the files that were kept.
	Artifacts []Artifact `json:"artifacts,omitempty"`

	kit  *Kit
	view trace.View
}

// View is the view of the finalized trace.
func (r *Result) View() trace.View { return r.view }

// Turn is the last turn; nil when there is none.
func (r *Result) Turn() *Turn {
	if len(r.Turns) == 0 {
		return nil
	}
	return r.Turns[len(r.Turns)-1]
}

// Text is the text of the last turn's answer, empty without one.
func (r *Result) Text() string { return r.Turn().Text() }

// Snapshot is the state of an execution at one moment.
type Snapshot struct {
	ExecutionID trace.ExecutionID `json:"execution_id"`
	SessionID   trace.SessionID   `json:"session_id,omitempty"`
	State       State             `json:"state"`
	// Outcome is set when State is finished.
	Outcome trace.Outcome `json:"outcome,omitempty"`
	Turns   []TurnState   `json:"turns,omitempty"`
}
