package trace

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

// ErrNotFinalized is returned where a finished execution is asked of one that is still open: close it first.
var ErrNotFinalized error = &codedError{code: "trace_not_finalized", text: "trace: the execution is still open: close it first"}

// ErrUnavailable is returned when a stored trace cannot be used. Errors that wrap it say why.
var ErrUnavailable error = &codedError{code: "trace_unavailable", text: "trace: unavailable"}

// ErrValidation matches every error about what the caller passed, or about a contract that did not hold: of this package, of elicit, and of
// the root, where it is m3.ErrValidation.
var ErrValidation error = &codedError{code: "invalid_argument", text: "m3: validation failed"}

type codedError struct{ code, text string }

func (e *codedError) Error() string { return e.text }

// Code is the stable machine code (spec/names.md section 12).
func (e *codedError) Code() string { return e.code }

// Log is the append-only home of one execution's encoded events: an arena in memory, a spool, a database.
// Its methods may be called while events are still being appended, from several goroutines.
type Log interface {
	// Len is the number of events appended so far.
	Len() int
	// AppendEvent appends the encoded event with sequence i to dst (see [AppendEvent] for the encoding).
	AppendEvent(dst []byte, i int) ([]byte, error)
	// Blob returns the bytes kept out of line under their SHA-256.
	Blob(sha256 string) ([]byte, error)
}

// BlobFinder is what a [Log] offers besides when it can tell whether it has a blob without loading it. A projection asks for
// every frame out of line; without this it loads them.
type BlobFinder interface {
	// HasBlob reports whether Blob would succeed.
	HasBlob(sha256 string) bool
}

// Originals is what a [Log] in the recording process offers besides: the bytes of the frames in which something was
// redacted, as they were before. A reopened log has none.
type Originals interface {
	// Original returns the wire bytes of the frame with sequence i, or, for an event without a frame, its payload.
	Original(i int) ([]byte, bool)
}

// Trace is the storage and audit stream of one execution. It is finalized once, by its execution.finished event; from then
// on it never changes. A Trace may be used from several goroutines.
type Trace struct {
	id  ExecutionID
	log Log

	final atomic.Bool // the end was seen
	once  sync.Once
	view  *viewIndex
	err   error
}

// New returns the trace of the execution whose events are in log.
func New(id ExecutionID, log Log) *Trace { return &Trace{id: id, log: log} }

// ExecutionID names the execution.
func (t *Trace) ExecutionID() ExecutionID { return t.id }

// Len is the number of events so far.
func (t *Trace) Len() int { return t.log.Len() }

// Event returns the event with sequence i, its frame bytes loaded.
func (t *Trace) Event(i int) (Event, error) {
	b, err := t.log.AppendEvent(nil, i)
	if err != nil {
		return Event{}, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, i, t.id, err)
	}
	ev, err := DecodeEvent(t.id, b)
	if err != nil {
		return Event{}, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, i, t.id, err)
	}
	if ev.Frame != nil && ev.Frame.OutOfLine {
		if ev.Frame.Bytes, err = t.log.Blob(ev.Frame.SHA256); err != nil {
			return Event{}, fmt.Errorf("%w: bytes of event %d of %s: %w", ErrUnavailable, i, t.id, err)
		}
	}
	return ev, nil
}

// All yields every event in order. It stops at the first that cannot be read.
func (t *Trace) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for i := range t.Len() {
			ev, err := t.Event(i)
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Events returns every event that can be read; use [Trace.All] to see an error.
func (t *Trace) Events() []Event {
	evs := make([]Event, 0, t.Len())
	for ev, err := range t.All() {
		if err != nil {
			break
		}
		evs = append(evs, ev)
	}
	return evs
}

// Finalized reports whether the execution has ended. It looks at the last event alone, and once true it is free.
func (t *Trace) Finalized() bool {
	ended, err := t.ended()
	return ended && err == nil
}

func (t *Trace) ended() (bool, error) {
	if t.final.Load() {
		return true, nil
	}
	n := t.Len()
	if n == 0 {
		return false, nil
	}
	b, err := t.log.AppendEvent(nil, n-1)
	if err != nil {
		return false, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, n-1, t.id, err)
	}
	var ev rawEvent
	if err := parseEvent(&ev, b); err != nil {
		return false, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, n-1, t.id, err)
	}
	if Kind(ev.kind) != KindExecutionFinished {
		return false, nil
	}
	t.final.Store(true)
	return true, nil
}

// View returns the typed projection. It is made once, at the first call after the trace was finalized.
// The error is [ErrNotFinalized] while the execution is open, and wraps [ErrUnavailable] when the events cannot be read.
func (t *Trace) View() (View, error) {
	switch ended, err := t.ended(); {
	case err != nil:
		return View{}, err
	case !ended:
		return View{}, ErrNotFinalized
	}
	t.once.Do(func() { t.view, t.err = project(t, t.Len()) })
	if t.err != nil {
		return View{}, t.err
	}
	return newView(t.view), nil
}

// Snapshot returns a view of the events so far, for who really wants the present state of an open execution.
// It says that it is partial: its limitations include "open". The error wraps [ErrUnavailable] when the events cannot be read.
func (t *Trace) Snapshot() (View, error) {
	ix, err := project(t, t.Len())
	if err != nil {
		return View{}, err
	}
	return newView(ix), nil
}

// Outcome is how an execution ended. It says nothing about a test.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeFailed      Outcome = "failed"
	OutcomeTimedOut    Outcome = "timed_out"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeInterrupted Outcome = "interrupted"
)

// Limitation is a coded note that something was not captured.
type Limitation struct {
	Code    string `json:"code"` // capture_incomplete, capture_disabled, partial_trace, cleanup_failed, persistence_failed, interrupted, open
	Message string `json:"message"`
}

// Finished is the payload of the execution.finished event.
type Finished struct {
	Outcome     Outcome      `json:"outcome"`
	Limitations []Limitation `json:"limitations,omitempty"` // empty means that the trace is complete
	// Error says what ended it, redacted: {code, message}, of an agent's execution also {blame, details}; infrastructure is true when it is no verdict about the subject.
	Error JSON `json:"error,omitempty"`
}

// Created is the payload of the execution.created event.
type Created struct {
	Kind    string `json:"kind"` // direct, agent
	RunID   string `json:"run_id,omitempty"`
	Suite   string `json:"suite,omitempty"`
	Case    string `json:"case,omitempty"`
	Harness string `json:"harness,omitempty"`
	// JoinKey is the member of a request's _meta in which the agent puts its own id of the call ("callId", "claudecode/toolUseId"); empty when it
	// does not. A member join_key in the payload of harness.selection or harness.runtime_resolved replaces it.
	JoinKey string `json:"join_key,omitempty"`
}
