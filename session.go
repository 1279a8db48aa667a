package m3

import (
	"context"
	"errors"
	"iter"

	"github.com/m3-go/m3/trace"
)

// Session is a conversation with an agent: one execution with all its turns. Make one with [Agent.Session]. Methods may be used from several goroutines,
// but only one message can be under way at a time.
type Session struct{ x *execution }

// ExecutionID names the execution.
func (s *Session) ExecutionID() trace.ExecutionID { return s.x.id }

// ID names the conversation in the trace.
func (s *Session) ID() trace.SessionID { return s.x.session }

// Snapshot is the state at this moment.
func (s *Session) Snapshot() Snapshot { return s.x.snapshot() }

// Events yields the events of the execution: see [Handle.Events].
func (s *Session) Events(ctx context.Context) iter.Seq2[trace.Event, error] {
	return s.x.events(ctx, -1)
}

// EventsAfter is Events from the event after that sequence.
func (s *Session) EventsAfter(ctx context.Context, sequence int64) iter.Seq2[trace.Event, error] {
	return s.x.events(ctx, sequence)
}

// Send gives the agent a message and waits for the end of its turn. The end of ctx cancels the turn. While another message is under way the error is
// [ErrSessionBusy], after the end of the session [ErrSessionClosed].
//
// The error is nil when the agent itself ended the turn, whatever it said; else it is as of [Agent.Run], and the turn is there as well, with what is known. Whether
// the session can go on then depends on the agent: a next Send says so.
func (s *Session) Send(ctx context.Context, text string, opts *SendOptions) (*Turn, error) {
	var o SendOptions
	if opts != nil {
		o = *opts
	}
	p := &prompt{text: text, content: o.Content, selection: o.Tools, plan: o.Elicitation, limit: o.RoundLimit, timeout: o.Timeout, metadata: o.Metadata}
	return s.x.send(ctx, p)
}

// Cancel ends the turn that is under way, if there is one; the session stays open where the agent can go on.
func (s *Session) Cancel() { s.x.cancelTurn() }

// Finish ends the session orderly and finalizes its trace. The end of ctx ends the wait of an orderly end, not the end. A turn under way is cancelled. The
// error is what went wrong with the end, or only then turned out: a step of a scripted model that the agent left over. How turns ended stands in the result.
func (s *Session) Finish(ctx context.Context) (*Result, error) {
	s.x.finish(ctx)
	return s.x.result, s.x.endErr
}

// Close is Finish for clean-ups: idempotent, and bounded by 10 s. What it finds still running is cancelled.
func (s *Session) Close() error {
	s.x.finish(context.Background())
	return s.x.endErr
}

// View is the view of the finalized trace. Before Finish or Close the error is one of [ErrSessionOpen] and [ErrTraceNotFinalized] at once.
func (s *Session) View() (trace.View, error) {
	r, err := s.Result()
	if err != nil {
		return trace.View{}, err
	}
	return r.View(), nil
}

// Result is the result; before Finish or Close the error is [ErrSessionOpen].
func (s *Session) Result() (*Result, error) {
	select {
	case <-s.x.done:
		return s.x.result, nil
	default:
		return nil, &Error{CodeText: "session_still_open", Message: "the session is still open: call Finish first", Err: errors.Join(ErrSessionOpen, ErrTraceNotFinalized)}
	}
}
