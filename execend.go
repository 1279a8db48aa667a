package m3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// closeBound is what the end of an execution may take, over a turn that has to be cancelled first (spec/behaviour.md 5.5).
const closeBound = 10 * time.Second

// kill ends the execution from outside: what is under way is cancelled with the cause.
func (x *execution) kill(cause *stopCause) { x.cancel(&stopError{cause}) }

// endWithKit is the end that the kit makes. What is under way is cancelled; what only waits for a message has ended well, unless the kit was stopped.
func (x *execution) endWithKit(ctx context.Context, cause *stopCause) error {
	switch {
	case cause != nil:
		x.stopped(cause)
	case x.alone != nil || !isClosed(x.started):
		x.kill(&stopCause{trace.OutcomeCancelled, "the kit was closed"})
	default:
		x.stopTurn("the kit was closed")
	}
	if x.alone != nil {
		<-x.done
	} else {
		x.finish(ctx)
	}
	var unmet *harness.Error
	if errors.As(x.endErr, &unmet) && x.kit.cfg.OnUnmet != nil {
		return nil // it was told
	}
	return x.endErr
}

// stopped ends the execution with the kit's cause, which is also the outcome of a session that only waits.
func (x *execution) stopped(cause *stopCause) {
	x.mu.Lock()
	if x.running == nil && !x.ending {
		err := cause.err(x.agent.name)
		x.failed = &mishap{outcome: cause.outcome, err: err, blame: wrapped(harness.BlameTest, "stopped", err)}
	}
	x.mu.Unlock()
	x.kill(cause)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// outcome is what the end left, for callers that have waited.
func (x *execution) outcome() (*Result, error) {
	return x.result, errors.Join(x.err, x.ownEndErr())
}

// ownEndErr is what went wrong with the end and is not why the execution failed.
func (x *execution) ownEndErr() error {
	if x.err != nil && errors.Is(x.endErr, x.err) {
		return nil
	}
	return x.endErr
}

// finish ends the execution, once; every caller waits for the end. Where ctx ends, orderly ends are no longer waited for. An action of its own is ended by the
// goroutine that runs it.
func (x *execution) finish(ctx context.Context) {
	x.endOnce.Do(func() {
		<-x.started // whoever starts it has been told to stop, or is through
		x.close(ctx)
		close(x.done)
	})
	<-x.done
}

func (x *execution) close(ctx context.Context) {
	x.mu.Lock()
	x.ending = true
	x.mu.Unlock()
	if over := x.stopTurn("the session was closed"); over != nil {
		<-over // bounded by what a turn may take to end
	}
	ctx, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	_ = x.life.to(StateClosing) // from any state but the last two, which only this function reaches
	x.note(trace.KindCleanupStarted, trace.PhaseCleanup, map[string]any{"state": "started"})
	failed := x.shutDown(ctx)
	unmet := x.finishProvider(ctx)
	change, artifacts, err := x.leave(ctx)
	failed = errors.Join(failed, err)
	status := "completed"
	if failed != nil {
		status = "failed"
		x.tape.Limit("cleanup_failed", failed.Error())
	}
	x.note(trace.KindCleanupFinished, trace.PhaseCleanup, map[string]any{"state": "finished", "status": status})
	x.conclude(unmet, change, artifacts)
}

// shutDown ends the agent and everything it talked to, the agent first.
func (x *execution) shutDown(ctx context.Context) error {
	var failed error
	if x.native != nil {
		done := make(chan error, 1)
		go func() {
			_, err := guarded(func() (struct{}, error) { return struct{}{}, x.native.Close(ctx) })
			done <- err
		}()
		bounded, cancel := context.WithTimeout(ctx, closeBound/2)
		err, ok := await(bounded, done, time.Second)
		cancel()
		switch {
		case !ok:
			failed = errors.New("the driver did not close the agent in time")
		case err != nil:
			failed = fmt.Errorf("close the agent: %w", err)
		}
	}
	if x.host != nil {
		x.host.stop()
	}
	for _, s := range x.servers {
		failed = errors.Join(failed, s.close())
	}
	return failed
}

// finishProvider closes the provider of a scripted model and returns what its script and the agent did not agree on.
func (x *execution) finishProvider(ctx context.Context) error {
	if x.provider == nil {
		return nil
	}
	_, err := guarded(func() (struct{}, error) { return struct{}{}, x.provider.Finish(ctx) })
	if err == nil {
		return nil
	}
	x.diagnose(&trace.Diagnostic{Code: "script_unmet", Message: err.Error(), Stage: "cleanup", Operation: "model"}, trace.PhaseCleanup)
	return &harness.Error{Blame: harness.BlameTest, Code: "script_unmet", Message: x.kit.redactor.String("the script of " + x.agent.Model() + " and the agent's requests did not fit: " + err.Error()), Err: err}
}

// conclude finalizes the trace and makes the result.
func (x *execution) conclude(unmet error, change *WorkspaceChange, artifacts []Artifact) {
	x.mu.Lock()
	f, turns := x.failed, x.turns
	x.mu.Unlock()
	var told *harness.Error
	if errors.As(unmet, &told) && (f == nil || f.outcome == trace.OutcomeFailed && f.blame.Blame == harness.BlameProvider) {
		if f != nil { // the provider failed the agent because its script had no step for it
			told.Err = errors.Join(told.Err, f.err)
		}
		f = &mishap{outcome: trace.OutcomeFailed, blame: told, err: told}
		x.endErr = told
		if report := x.kit.cfg.OnUnmet; report != nil {
			report(told)
		}
	}
	finished := trace.Finished{Outcome: trace.OutcomeCompleted}
	r := &Result{ExecutionID: x.id, Turns: turns, Workspace: change, Artifacts: artifacts, kit: x.kit}
	if f != nil {
		finished.Outcome, finished.Error = f.outcome, x.blameJSON(f.blame)
		if f.infrastructure() {
			finished.Error = splice(finished.Error, "infrastructure", []byte("true"))
		}
		r.Failure, x.err = f.blame, f.err
	}
	r.Outcome = finished.Outcome
	_ = x.life.to(StateFinished) // from closing
	x.endErr = errors.Join(x.endErr, x.tape.Finish(finished))
	x.feed.end()
	if log, err := x.kit.log(x.id); err != nil {
		x.endErr = errors.Join(x.endErr, err)
	} else {
		r.Trace = trace.New(x.id, x.tape.Log(log))
		r.view, err = r.Trace.View()
		x.endErr = errors.Join(x.endErr, err)
	}
	x.mu.Lock()
	x.result = r
	x.mu.Unlock()
	r.Snapshot = x.snapshot()
	x.cancel(nil)
	x.kit.release(x)
}
