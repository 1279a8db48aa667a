package m3

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/isolation"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// execution is one execution of an agent: an action of its own, or a session.
type execution struct {
	kit       *Kit
	agent     *Agent
	act       *action
	can       harness.Capabilities
	operation string
	alone     *prompt // of an action of its own
	secrets   map[string]string

	id      trace.ExecutionID
	session trace.SessionID
	tape    *evidence.Tape
	feed    *feed
	life    lifecycle

	ctx    context.Context // the life; its cause is a *stopError
	cancel context.CancelCauseFunc

	// These are made by the start, in one goroutine, and used by the end after it.
	servers  []*served
	provider harness.Provider
	work     *isolation.Workspace
	home     *isolation.Home
	host     *host
	native   harness.Session

	started chan struct{} // closed when the start is over, however it went

	asks atomic.Pointer[wireAsks] // of the turn that is under way, when it has a plan

	mu      sync.Mutex
	turns   []*Turn
	running *turnRun
	ending  bool    // no further turn may begin
	broken  string  // why the agent takes no further message; empty while it does
	failed  *mishap // of the start, or of the last turn

	endOnce sync.Once
	done    chan struct{} // closed when the trace is finalized and what follows is there
	result  *Result
	err     error // why the execution did not end as the agent's own answer
	endErr  error // what went wrong with the end, or only then turned out
}

// prepare checks everything that can be checked without starting anything, and records the execution.
func (a *Agent) prepare(ctx context.Context, operation string, act *action, alone *prompt) (*execution, error) {
	if err := a.kit.usable(); err != nil {
		return nil, err
	}
	if err := act.check(operation, a); err != nil {
		return nil, err
	}
	if alone != nil {
		if err := alone.check(operation, a); err != nil {
			return nil, err
		}
	}
	x := &execution{kit: a.kit, agent: a, act: act, can: a.driver.Capabilities(), operation: operation, alone: alone, done: make(chan struct{}), started: make(chan struct{}), feed: newFeed(),
		id: trace.ExecutionID(newID()), session: trace.SessionID(newID())}
	x.life = lifecycle{state: StateCreated, moved: x.moved}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	if err := x.know(ctx); err != nil {
		return nil, err
	}
	spec, err := x.spec()
	if err != nil {
		return nil, err
	}
	if err := a.kit.adopt(x); err != nil {
		return nil, err
	}
	if err := x.begin(ctx, spec); err != nil {
		a.kit.release(x)
		close(x.done) // the kit may wait already
		return nil, err
	}
	return x, nil
}

// know makes every secret of the execution known to the redactor, before anything of it is kept.
func (x *execution) know(ctx context.Context) error {
	x.secrets = map[string]string{}
	for _, target := range slices.Sorted(maps.Keys(x.agent.credentials)) {
		source := x.agent.credentials[target]
		value, set := os.LookupEnv(source)
		if !set {
			return validationf("%s: the credential %s of %s refers to the environment variable %s, which is not set", x.operation, target, x.agent.name, source)
		}
		x.secrets[target] = value
		if value == "" {
			continue // the start says so
		}
		if err := x.kit.redactor.Add(source, value); err != nil {
			return validationf("%s: the credential %s of %s: %v", x.operation, target, x.agent.name, err)
		}
		if f := x.kit.cfg.OnSecret; f != nil {
			f(source)
		}
	}
	for i := range x.act.bindings {
		s, err := x.serve(ctx, &x.act.bindings[i])
		if err != nil {
			return err
		}
		x.servers = append(x.servers, s)
	}
	x.act.caseID = x.kit.redactor.String(x.act.caseID)
	return nil
}

// agentSpec is the stored specification of an agent's execution: the resolved options, secrets as references.
type agentSpec struct {
	Kind           string              `json:"kind"`
	Harness        string              `json:"harness"`
	Name           string              `json:"name"`
	Model          string              `json:"model,omitempty"`
	Trial          int                 `json:"trial"`
	Instructions   string              `json:"instructions,omitempty"`
	Message        string              `json:"message,omitempty"` // of an action of its own
	Session        bool                `json:"session"`
	Tools          []string            `json:"tools"` // null: all
	TimeoutSeconds float64             `json:"timeout_seconds"`
	Case           string              `json:"case_id,omitempty"`
	Goal           string              `json:"goal,omitempty"`
	Workspace      string              `json:"workspace"`
	WorkspaceDir   string              `json:"workspace_dir,omitempty"`
	Artifacts      []string            `json:"artifacts,omitempty"`
	KeepArtifacts  string              `json:"keep_artifacts"`
	Permissions    string              `json:"permissions"`
	RoundLimit     int                 `json:"elicitation_round_limit,omitempty"`
	Evaluations    []eval.Registration `json:"evaluations,omitempty"`
	Metadata       map[string]any      `json:"metadata"`
}

func (x *execution) spec() (trace.JSON, error) {
	a, o := x.agent, x.act
	s := &agentSpec{Kind: "agent", Harness: a.kind, Name: a.name, Model: a.Model(), Trial: a.trial, Instructions: a.instructions, Session: x.alone == nil,
		TimeoutSeconds: o.timeout.Seconds(), Case: o.caseID, Goal: o.goal, Workspace: o.workspace.word(), WorkspaceDir: o.workspace.dir, Artifacts: o.artifacts,
		KeepArtifacts: orElse(string(o.keep), "failed"), Permissions: o.permissions.String(), Evaluations: o.evaluations, Metadata: x.metadata()}
	if !o.selection.All() {
		s.Tools = append([]string{}, o.selection.names...)
	}
	if x.alone != nil {
		s.Message = x.alone.text
		s.RoundLimit = x.alone.limit
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, validationf("%s: the options cannot be stored: %v", x.operation, err)
	}
	b, _ = x.kit.redactor.Bytes(b)
	servers := []json.RawMessage{}
	for _, s := range x.servers {
		servers = append(servers, json.RawMessage(s.spec()))
	}
	list, _ := json.Marshal(servers) // JSON already
	b = splice(b, "servers", list)
	if len(a.credentials) > 0 {
		b = splice(b, "credential_env", x.kit.references(a.credentials))
	}
	return b, nil
}

// metadata is the test's, and what results are grouped by.
func (x *execution) metadata() map[string]any {
	m := map[string]any{"harness_config": x.agent.Config(), "trial": x.agent.trial}
	maps.Copy(m, x.act.metadata)
	return m
}

// references are names of secrets as JSON. The rule about sensitive keys would take them for values, so it is not applied.
func (k *Kit) references(refs map[string]string) []byte {
	clean := make(map[string]string, len(refs))
	for name, ref := range refs {
		clean[name] = k.redactor.String(ref)
	}
	b, _ := json.Marshal(clean) // text only: cannot fail
	return b
}

// splice adds a member to an object that is not empty.
func splice(object []byte, name string, value []byte) []byte {
	object = append(object[:len(object)-1:len(object)-1], `,"`+name+`":`...)
	return append(append(object, value...), '}')
}

// begin records the run and the execution, and opens the tape.
func (x *execution) begin(ctx context.Context, spec trace.JSON) error {
	k, ctx := x.kit, context.WithoutCancel(ctx)
	rec := &store.Execution{ID: x.id, Case: x.act.caseID, Kind: "agent", Servers: x.act.aliases(), Spec: spec}
	s := &sink{store: k.store, event: store.Event{ExecutionID: x.id}, blob: store.Blob{ExecutionID: x.id}}
	tape, err := k.record(ctx, rec, &fedSink{s, x.feed}, x.agent.kind)
	if err != nil {
		return err
	}
	x.tape = tape
	selection := map[string]any{"state": "selected", "kind": x.agent.kind, "name": x.agent.name, "model": x.agent.Model(), "trial": x.agent.trial}
	if x.can.JoinKey != "" {
		selection["join_key"] = x.can.JoinKey
	}
	x.note(trace.KindHarnessSelection, trace.PhasePreflight, selection)
	return x.life.to(StateQueued)
}

// note records something that m3 itself did.
func (x *execution) note(kind trace.Kind, phase trace.Phase, payload any) {
	x.noteIn("", kind, phase, payload)
}

// noteIn is note within a turn.
func (x *execution) noteIn(turn trace.TurnID, kind trace.Kind, phase trace.Phase, payload any) {
	b, err := json.Marshal(payload)
	if err != nil { // entries of our own, made of strings and numbers
		x.tape.Limit("capture_incomplete", fmt.Sprintf("a %s event could not be encoded: %v", kind, err))
		return
	}
	x.tape.Record(&trace.Event{Kind: kind, Phase: phase, SessionID: x.session, TurnID: turn, Source: m3Source, Payload: b})
}

// diagnose records a diagnostic.
func (x *execution) diagnose(d *trace.Diagnostic, phase trace.Phase) {
	x.tape.Record(&trace.Event{Kind: trace.KindDiagnostic, Phase: phase, SessionID: x.session, TurnID: x.turnNow(), Source: m3Source, Diagnostic: d})
}

// statePhases are the parts of an execution's life that states stand for.
var statePhases = map[State]trace.Phase{
	StateQueued: trace.PhasePreflight, StateStarting: trace.PhaseStartup, StateIdle: trace.PhaseIdle, StateRunning: trace.PhaseTurn, StateWaiting: trace.PhaseTurn,
	StateClosing: trace.PhaseCleanup, StateFinished: trace.PhaseTerminal,
}

// moved records a move of the lifecycle.
func (x *execution) moved(from, to State) {
	x.noteIn(x.turnNow(), trace.KindExecutionStateChanged, statePhases[to], map[string]any{"state": string(to), "from": string(from)})
}

// turnNow is the turn that is under way; empty between turns.
func (x *execution) turnNow() trace.TurnID {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil {
		return ""
	}
	return x.running.turn.ID
}

// snapshot is the state at this moment.
func (x *execution) snapshot() Snapshot {
	s := Snapshot{ExecutionID: x.id, SessionID: x.session, State: x.life.now()}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.turns {
		s.Turns = append(s.Turns, t.State)
	}
	if x.running != nil {
		s.Turns = append(s.Turns, x.running.turn.State)
	}
	if x.result != nil {
		s.Outcome = x.result.Outcome
	}
	return s
}

// bounded is a context that ends with ctx, with the execution's life, and after d; its cause says which.
func (x *execution) bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancelTime := context.WithTimeoutCause(ctx, d, errActionDeadline)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(x.ctx, func() { cancel(context.Cause(x.ctx)) })
	return ctx, func() { stop(); cancel(nil); cancelTime() }
}
