package m3

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/harness"
)

// defaultExecutionTimeout is the deadline of an action that nobody gives one (spec/behaviour.md 5.2).
const defaultExecutionTimeout = 180 * time.Second

// action is what RunOptions and SessionOptions have in common, resolved by check.
type action struct {
	server      Server
	servers     []Server
	selection   ToolSelection
	timeout     time.Duration
	caseID      string
	goal        string
	evaluations []eval.Registration
	workspace   Workspace
	artifacts   []string
	keep        ArtifactPolicy
	permissions PermissionPolicy
	metadata    map[string]any

	bindings []Binding // with their aliases
	tools    harness.Tools
}

func (o *RunOptions) action() *action {
	return &action{server: o.Server, servers: o.Servers, selection: o.Tools, timeout: o.Timeout, caseID: o.Case, goal: o.Goal, evaluations: o.Evaluations,
		workspace: o.Workspace, artifacts: o.Artifacts, keep: o.KeepArtifacts, permissions: o.Permissions, metadata: o.Metadata}
}

func (o *SessionOptions) action() *action {
	return &action{server: o.Server, servers: o.Servers, selection: o.Tools, timeout: o.Timeout, caseID: o.Case, goal: o.Goal, evaluations: o.Evaluations,
		workspace: o.Workspace, artifacts: o.Artifacts, keep: o.KeepArtifacts, permissions: o.Permissions, metadata: o.Metadata}
}

// check resolves the options. It does no I/O.
func (o *action) check(operation string, a *Agent) (err error) {
	can := a.driver.Capabilities()
	if err := o.bind(operation, a, &can); err != nil {
		return err
	}
	if o.tools, err = o.selection.resolve(operation, o.aliases()); err != nil {
		return err
	}
	switch {
	case o.timeout < 0:
		return validationf("%s: Timeout is negative", operation)
	case len(o.goal) > 32768:
		return validationf("%s: Goal has %d bytes, at most 32,768 are allowed", operation, len(o.goal))
	case o.keep != KeepWhenFailed && o.keep != KeepAlways && o.keep != KeepNever:
		return validationf("%s: unknown KeepArtifacts %q: use m3.KeepWhenFailed, m3.KeepAlways or m3.KeepNever", operation, o.keep)
	}
	if o.timeout == 0 {
		o.timeout = a.kit.cfg.ExecutionTimeout
	}
	if o.timeout == 0 {
		o.timeout = defaultExecutionTimeout
	}
	if o.evaluations, err = checkRegistrations(operation, o.evaluations); err != nil {
		return err
	}
	if err := checkOwnMetadata(operation, o.metadata); err != nil {
		return err
	}
	if err := o.permissions.check(a, &can); err != nil {
		return err
	}
	return o.workspace.check(operation, o.artifacts)
}

// bind makes a binding of every server.
func (o *action) bind(operation string, a *Agent, can *harness.Capabilities) error {
	list := o.servers
	switch {
	case o.server != nil && len(o.servers) > 0:
		return validationf("%s: set Server or Servers, not both", operation)
	case o.server != nil:
		list = []Server{o.server}
	case len(o.servers) == 0:
		return validationf("%s: no server: set Server, or Servers for several", operation)
	}
	for _, s := range list {
		if s == nil || isNilPointer(s) {
			return validationf("%s: a server is nil", operation)
		}
		if err := s.check(); err != nil {
			return err
		}
		b, ok := s.(Binding)
		if !ok {
			b = Binding{Server: s}
		}
		b.Alias = s.ServerName()
		if !word.MatchString(b.Alias) {
			return validationf("%s: an agent knows a server by a name of letters, digits, _ and -, and %.80q is none: give the server such a Name, or use a Binding with an Alias", operation, b.Alias)
		}
		if slices.Contains(o.aliases(), b.Alias) {
			return validationf("%s: two servers are called %q: give one an alias with m3.Binding", operation, b.Alias)
		}
		if err := reachable(a, &b, can); err != nil {
			return err
		}
		o.bindings = append(o.bindings, b)
	}
	return nil
}

func (o *action) aliases() []string {
	names := make([]string, len(o.bindings))
	for i := range o.bindings {
		names[i] = o.bindings[i].Alias
	}
	return names
}

// reservedMetadata are the names under which m3 stores what results are grouped by.
var reservedMetadata = []string{"harness_config", "trial", "m3.matrix.harness", "m3.matrix.trial", "m3.matrix.matrix_id", "m3.matrix.cell_id"}

func checkOwnMetadata(operation string, m map[string]any) error {
	for _, name := range reservedMetadata {
		if _, used := m[name]; used {
			return validationf("%s: the metadata %q is set by m3 itself: choose another name", operation, name)
		}
	}
	return checkMetadata(m)
}

// prompt is one message on its way to the agent.
type prompt struct {
	text     string
	content  []Content
	plan     *elicit.Plan
	limit    int
	human    HumanInput
	timeout  time.Duration
	metadata map[string]any

	selection ToolSelection  // of a session's message: within the session's
	tools     *harness.Tools // of selection; nil: as the execution

	matcher *elicit.Matcher // of plan
}

// check resolves the options of one message.
func (p *prompt) check(operation string, a *Agent) error {
	can := a.driver.Capabilities()
	switch {
	case strings.TrimSpace(p.text) == "" && len(p.content) == 0:
		return validationf("%s: the message is empty", operation)
	case p.timeout < 0:
		return validationf("%s: Timeout is negative", operation)
	case p.limit < 0:
		return validationf("%s: RoundLimit is negative", operation)
	case p.human != FailOnInput:
		return validationf("%s: unknown HumanInput %q: use m3.FailOnInput", operation, p.human)
	}
	for i, c := range p.content {
		switch {
		case c.Type == "text":
		case c.Type == "":
			return validationf("%s: content block %d has no type", operation, i)
		case !slices.Contains(can.ContentKinds, c.Type):
			return &UnsupportedError{Message: fmt.Sprintf("%s: %s takes no content of type %q: it takes %s", operation, a.name, c.Type, strings.Join(append([]string{"text"}, can.ContentKinds...), ", ")),
				Details: map[string]any{"feature": "content", "harness": a.kind}}
		}
	}
	if err := checkOwnMetadata(operation, p.metadata); err != nil {
		return err
	}
	return p.checkPlan(operation, a, &can)
}

// restrict resolves the tools of one message of a session.
func (p *prompt) restrict(operation string, o *action) error {
	if p.selection.All() {
		return nil
	}
	tools, err := p.selection.resolve(operation, o.aliases())
	if err != nil {
		return err
	}
	for _, name := range p.selection.names {
		if server, tool, _ := strings.Cut(name, ":"); !allows(&o.tools, server, tool) {
			return validationf("%s: the session may not use the tool %q, so a message of it cannot either", operation, name)
		}
	}
	p.tools = &tools
	return nil
}

// checkPlan refuses a plan that the agent cannot play, before anything starts.
func (p *prompt) checkPlan(operation string, a *Agent, can *harness.Capabilities) error {
	if p.plan == nil {
		return nil
	}
	m, err := elicit.NewMatcher(p.plan)
	if err != nil {
		return err
	}
	p.matcher = m
	if p.limit == 0 {
		p.limit = defaultRounds
	}
	if can.Elicitation.Native {
		return nil
	}
	return &UnsupportedError{Message: fmt.Sprintf("%s: %s has no prompt of its own for what a server asks, so a plan for elicitation cannot be played: leave Elicitation out", operation, a.name),
		Details: map[string]any{"feature": "elicitation", "harness": a.kind}}
}

// defaultRounds is the number of rounds of input that a plan may take (spec/behaviour.md 4.5).
const defaultRounds = 10

// waitError is why a wait ended before what was waited for.
func waitError(ctx context.Context, operation string) error {
	details := map[string]any{"operation": operation, "phase": "wait"}
	if ctx.Err() == context.DeadlineExceeded {
		return &TimeoutError{Message: operation + ": the caller's deadline passed; it goes on", Details: details, Err: ctx.Err()}
	}
	return &CancelledError{Message: operation + ": cancelled by the caller; it goes on", Details: details, Err: context.Cause(ctx)}
}
