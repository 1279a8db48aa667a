package m3

import (
	"context"
	"iter"

	"github.com/m3-go/m3/trace"
)

// Handle is an action that was submitted: see [Agent.Submit]. All methods may be used from several goroutines, Events also while another waits in Result.
type Handle struct{ x *execution }

// ExecutionID names the execution.
func (h *Handle) ExecutionID() trace.ExecutionID { return h.x.id }

// Snapshot is the state at this moment.
func (h *Handle) Snapshot() Snapshot { return h.x.snapshot() }

// Cancel ends the action; its evidence is kept. It returns at once, and does nothing when the action has ended: [Handle.Result] tells when it has.
func (h *Handle) Cancel() { h.x.kill(&stopCause{trace.OutcomeCancelled, "cancelled by the test"}) }

// Result waits for the end of the action; what it returns is as of [Agent.Run]. The end of ctx ends only the wait: then there is no result, and the error is
// a *[TimeoutError] or *[CancelledError].
func (h *Handle) Result(ctx context.Context) (*Result, error) {
	select {
	case <-h.x.done:
	default:
		select {
		case <-h.x.done:
		case <-ctx.Done():
			return nil, waitError(ctx, "wait for the result of "+h.x.agent.name)
		}
	}
	return h.x.outcome()
}

// Events yields the events of the execution from the first, then each as it is recorded, and ends after the last. A second value other than nil is the
// last one: the end of ctx, or a store that cannot be read.
func (h *Handle) Events(ctx context.Context) iter.Seq2[trace.Event, error] {
	return h.x.events(ctx, -1)
}

// EventsAfter is Events from the event after that sequence.
func (h *Handle) EventsAfter(ctx context.Context, sequence int64) iter.Seq2[trace.Event, error] {
	return h.x.events(ctx, sequence)
}
