package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// turnRun is a turn that is under way.
type turnRun struct {
	turn   *Turn
	prompt *prompt
	began  time.Time
	cancel context.CancelCauseFunc // nil until it has a context
	over   chan struct{}

	asks      *wireAsks  // nil without a plan; its lock is on what follows as well
	prompting sync.Mutex // one prompt at a time
	rounds    int        // answered
	keyed     bool       // the plan's matcher is in use
	steps     *steps     // or these, for servers that ask without keys

	fault *mishap // found by the host while the agent goes on; the first stands
}

// send is one message of a session, from its check to the end of its turn.
func (x *execution) send(ctx context.Context, p *prompt) (*Turn, error) {
	if err := p.check("Send", x.agent); err != nil {
		return nil, err
	}
	if err := p.restrict("Send", x.act); err != nil {
		return nil, err
	}
	if p.timeout == 0 {
		p.timeout = x.act.timeout
	}
	r, err := x.beginTurn(p)
	if err != nil {
		return nil, err
	}
	bounded, cancel := x.bounded(ctx, p.timeout)
	defer cancel()
	f := x.turn(bounded, r)
	if f != nil {
		return r.turn, f.err
	}
	return r.turn, nil
}

// beginTurn makes the one turn that may be under way.
func (x *execution) beginTurn(p *prompt) (*turnRun, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	details := map[string]any{"operation": "send", "execution_id": string(x.id)}
	switch {
	case x.ending:
		return nil, &Error{CodeText: "session_closed", Message: "Send: the session has ended: open a new one", Details: details, Err: ErrSessionClosed}
	case x.running != nil:
		return nil, &Error{CodeText: "session_busy", Message: "Send: another message of the session is under way: wait for its turn", Details: details, Err: ErrSessionBusy}
	case x.broken != "":
		return nil, &Error{CodeText: "session_closed", Message: "Send: the session cannot go on: " + x.broken, Details: details, Err: ErrSessionClosed}
	case len(x.turns) > 0 && !x.can.MultiTurn:
		return nil, &UnsupportedError{Message: "Send: " + x.agent.name + " takes one message a session: open a new session", Details: map[string]any{"feature": "multi_turn", "harness": x.agent.kind}}
	}
	id := trace.TurnID(newID())
	r := &turnRun{prompt: p, began: time.Now(), over: make(chan struct{}),
		turn: &Turn{ExecutionID: x.id, ID: id, State: TurnState{ID: id, Index: len(x.turns) + 1, Status: TurnRunning}}}
	if p.matcher != nil {
		r.asks = newWireAsks(x.can.JoinKey, x.faultTurn)
	}
	x.running = r
	return r, nil
}

// turn plays a turn to its end. The failure is also the turn's.
func (x *execution) turn(ctx context.Context, r *turnRun) *mishap {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.mu.Lock()
	r.cancel = cancel
	if x.ending {
		cancel(x.stopCause("the session was closed"))
	}
	x.mu.Unlock()
	x.record(r)
	x.restrict(r)
	x.asks.Store(r.asks)
	where := &at{operation: x.agent.name, stage: "turn", blame: harness.BlameAgent, timeout: orDefault(r.prompt.timeout, x.act.timeout)}
	answer, err := x.ask(ctx, r)
	x.drain(ctx)
	var f *mishap
	switch {
	case r.faulted(x) != nil:
		f = r.faulted(x)
	case ctx.Err() != nil:
		f = x.interrupted(ctx, where)
		if !x.can.Cancel {
			x.breakOff("its turn was cancelled, and " + x.agent.name + " cannot go on after that")
		}
	default:
		if fault := x.serverFault(); fault != nil && mayBeServer(err) {
			err = fault
		}
		if err == nil {
			err = x.verify(r)
		}
		if err != nil {
			f = x.fail(ctx, err, where)
		}
	}
	x.endTurn(r, answer, f)
	return f
}

// mayBeServer reports whether the death of a server can be behind the end of a turn: not when the driver says that the provider, the policy or itself was.
func mayBeServer(err error) bool {
	var b *harness.Error
	return !errors.As(err, &b) || b.Blame == "" || b.Blame == harness.BlameAgent || b.Blame == harness.BlameServer
}

func orDefault(d, other time.Duration) time.Duration {
	if d != 0 {
		return d
	}
	return other
}

// restrict has the relays enforce the turn's tools, on every driver.
func (x *execution) restrict(r *turnRun) {
	if r.prompt.tools == nil {
		return
	}
	for _, s := range x.servers {
		s.restrict(r.prompt.tools)
	}
}

// unrestrict gives the next turn what the session may use.
func (x *execution) unrestrict(r *turnRun) {
	if r.prompt.tools == nil {
		return
	}
	for _, s := range x.servers {
		s.restrict(&x.act.tools)
	}
}

// toolsNow are the tools that may be used at this moment.
func (x *execution) toolsNow() *harness.Tools {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running != nil && x.running.prompt.tools != nil {
		return x.running.prompt.tools
	}
	return &x.act.tools
}

// record puts the beginning of a turn on the tape.
func (x *execution) record(r *turnRun) {
	created := map[string]any{"state": "created", "index": r.turn.State.Index, "timeout_seconds": orDefault(r.prompt.timeout, x.act.timeout).Seconds()}
	if len(r.prompt.metadata) > 0 {
		created["metadata"] = r.prompt.metadata
	}
	if r.prompt.tools != nil {
		created["tools"] = append([]string{}, r.prompt.selection.names...)
	}
	x.noteIn(r.turn.ID, trace.KindTurnCreated, trace.PhaseTurn, created)
	_ = x.life.to(StateRunning) // beginTurn saw that no turn is under way; one that is ended now finds its context ended
	content := r.prompt.content
	if r.prompt.text != "" {
		content = append([]Content{{Type: "text", Text: r.prompt.text}}, content...)
	}
	x.noteIn(r.turn.ID, trace.KindAgentMessage, trace.PhaseTurn, map[string]any{"role": "user", "content": content})
}

// ask has the driver send the message, and does not wait for a driver that hangs.
func (x *execution) ask(ctx context.Context, r *turnRun) (*harness.Turn, error) {
	type answer struct {
		turn *harness.Turn
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		t, err := guarded(func() (*harness.Turn, error) {
			return x.native.Send(ctx, &harness.Prompt{Turn: r.turn.ID, Text: r.prompt.text, Content: r.prompt.content, Tools: r.prompt.tools})
		})
		if err == nil && t == nil {
			err = harness.Errorf(harness.BlameHarness, "driver_broken", "the driver ended the turn without an answer and without an error")
		}
		done <- answer{t, err}
	}()
	a, ok := await(ctx, done, cancelGrace+hangGrace)
	if !ok {
		x.breakOff("its driver did not return when a turn was cancelled")
		x.host.stop()
		if a, ok = await(ctx, done, hangGrace); !ok {
			return nil, harness.Errorf(harness.BlameHarness, "driver_hung", "the driver did not return when the turn was cancelled")
		}
	}
	return a.turn, a.err
}

// cancelGrace is how long a driver waits for its agent to end a turn that was cancelled: the default of harness.Spec.CancelGrace.
const cancelGrace = 2 * time.Second

// drainBound is how long the end of a turn waits for what passed to be recorded.
const drainBound = 5 * time.Second

// drain waits until everything that passed between agent and servers is recorded.
func (x *execution) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainBound)
	defer cancel()
	for _, s := range x.servers {
		if err := s.drain(ctx); err != nil {
			x.tape.Limit("capture_incomplete", "what passed to "+s.alias+" was not recorded within "+drainBound.String()+" of the end of the turn")
		}
	}
}

// verify looks for what is wrong with a turn that the agent ended by itself.
func (x *execution) verify(r *turnRun) error {
	for _, s := range x.servers {
		if err := s.dropped(); err != nil {
			return err
		}
	}
	return r.incomplete()
}

// endTurn puts the end of a turn on the tape and makes way for the next.
func (x *execution) endTurn(r *turnRun, answer *harness.Turn, f *mishap) {
	t := r.turn
	t.Elapsed = time.Since(r.began)
	x.unrestrict(r)
	x.asks.Store(nil)
	status := TurnCompleted
	if answer != nil {
		t.Response = &Response{Text: answer.Text, Content: answer.Content}
		t.StopReason, t.Doubt = answer.StopReason, answer.Doubt
	}
	ended := map[string]any{"index": t.State.Index, "stop_reason": t.StopReason, "elapsed_seconds": t.Elapsed.Seconds()}
	if f != nil {
		status, t.Failure = TurnStatus(f.outcome), f.blame
		ended["error"] = json.RawMessage(x.blameJSON(f.blame))
	}
	if t.Doubt != "" {
		ended["doubt"] = t.Doubt
	}
	if answer != nil && answer.NativeID != "" {
		ended["native_id"] = answer.NativeID
	}
	ended["state"] = string(status)
	x.noteIn(t.ID, trace.KindTurnStateChanged, trace.PhaseTurn, ended)
	_ = x.life.to(StateIdle) // when the end has begun it is closing already
	x.mu.Lock()
	t.State.Status = status
	x.running, x.failed = nil, f
	x.turns = append(x.turns, t)
	x.mu.Unlock()
	close(r.over)
}

// blameJSON is a failure as it is stored.
func (x *execution) blameJSON(e *harness.Error) []byte {
	stored := map[string]any{"code": e.Code, "message": e.Message, "blame": e.Blame}
	if len(e.Details) > 0 {
		stored["details"] = e.Details
	}
	b, err := json.Marshal(stored)
	if err != nil { // details of a driver's that do not encode
		delete(stored, "details")
		b, _ = json.Marshal(stored)
	}
	b, _ = x.kit.redactor.Bytes(b)
	return b
}

// breakOff says why the agent takes no further message. The first reason stands.
func (x *execution) breakOff(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken == "" {
		x.broken = why
	}
}

// cancelTurn ends the turn that is under way.
func (x *execution) cancelTurn() { x.stopTurn("cancelled by the test") }

// stopTurn cancels the turn that is under way, and returns what is closed at its end; nil when there is none.
func (x *execution) stopTurn(why string) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil {
		return nil
	}
	if x.running.cancel != nil {
		x.running.cancel(x.stopCause(why))
	}
	return x.running.over
}

// stopCause is why a turn is cancelled: what ended the whole execution, if something has.
func (x *execution) stopCause(why string) error {
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	return &stopError{&stopCause{trace.OutcomeCancelled, why}}
}

// faulted is what the host found.
func (r *turnRun) faulted(x *execution) *mishap {
	x.mu.Lock()
	defer x.mu.Unlock()
	return r.fault
}

// faultTurn fails the turn that is under way, whatever the agent makes of it.
func (x *execution) faultTurn(b *harness.Error) {
	b.Message = x.kit.redactor.String(fmt.Sprintf("%s: %s", x.agent.name, b.Message))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running != nil && x.running.fault == nil {
		x.running.fault = &mishap{outcome: trace.OutcomeFailed, blame: b, err: b}
	}
}
