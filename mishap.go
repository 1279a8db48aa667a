package m3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// errActionDeadline is the cause of a context that an action's own deadline ended.
var errActionDeadline = errors.New("the action's deadline passed")

// stopError is the cause of a context that was ended from outside of the action.
type stopError struct{ *stopCause }

func (e *stopError) Error() string { return e.reason }

// mishap is why an action, a turn or a start did not end as the agent's own answer.
type mishap struct {
	outcome trace.Outcome
	blame   *harness.Error // what Result.Failure shows
	err     error          // what callers get
}

// infrastructure reports whether the failure is no verdict about the task: whatever m3 or somebody around it is to blame for. What the test itself asked for, planned or
// stopped is its own affair.
func (f *mishap) infrastructure() bool { return f.blame.Blame != harness.BlameTest }

// at is where something failed, and whose fault it is unless the error says better.
type at struct {
	operation string // for the error's text: "start opencode"
	stage     string // for the code: "open"
	blame     harness.Blame
	timeout   time.Duration
}

// fail makes a failure of an error. A context that has ended is the reason, whatever the error says.
func (x *execution) fail(ctx context.Context, err error, where *at) *mishap {
	if ctx.Err() != nil {
		return x.interrupted(ctx, where)
	}
	b := x.blame(err, where)
	return &mishap{outcome: trace.OutcomeFailed, blame: b, err: b}
}

// interrupted is the failure of a context's end.
func (x *execution) interrupted(ctx context.Context, where *at) *mishap {
	cause := context.Cause(ctx)
	var stop *stopError
	switch {
	case errors.As(cause, &stop):
		err := stop.err(where.operation)
		code := "cancelled"
		if stop.outcome == trace.OutcomeTimedOut {
			code = "test_deadline"
		}
		return &mishap{outcome: stop.outcome, blame: wrapped(harness.BlameTest, code, err), err: err}
	case cause == errActionDeadline, errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason := fmt.Sprintf("it did not end within %s", where.timeout)
		details := map[string]any{"operation": where.operation, "stage": where.stage}
		if cause == errActionDeadline {
			details["timeout_seconds"] = where.timeout.Seconds()
		} else {
			reason = "the caller's deadline passed"
		}
		err := &TimeoutError{Message: where.operation + ": " + reason, Details: details, Err: cause}
		return &mishap{outcome: trace.OutcomeTimedOut, blame: wrapped(where.blame, string(where.blame)+"_timeout", err), err: err}
	default:
		err := &CancelledError{Message: where.operation + ": cancelled by the caller", Details: map[string]any{"operation": where.operation, "stage": where.stage}, Err: cause}
		return &mishap{outcome: trace.OutcomeCancelled, blame: wrapped(harness.BlameTest, "cancelled", err), err: err}
	}
}

// wrapped is the blame of a public error.
func wrapped(blame harness.Blame, code string, err error) *harness.Error {
	return &harness.Error{Blame: blame, Code: code, Message: strings.TrimPrefix(err.Error(), "m3: "), Err: err}
}

// blame says whose fault an error is, redacted. A driver that blames keeps its word.
func (x *execution) blame(err error, where *at) *harness.Error {
	var own *harness.Error
	var missing *harness.UnavailableError
	b := &harness.Error{Blame: where.blame, Code: where.stage + "_failed", Message: strings.TrimPrefix(err.Error(), "m3: "), Err: err}
	switch {
	case errors.As(err, &own):
		c := *own
		b = &c
		if b.Blame == "" {
			b.Blame = where.blame
		}
		if b.Code == "" {
			b.Code = where.stage + "_failed"
		}
	case errors.As(err, &missing):
		b.Blame, b.Code = harness.BlameHarness, orElse(missing.Reason, "unavailable")
	}
	b.Message = x.kit.redactor.String(where.operation + ": " + b.Message)
	return b
}
