package eval

import (
	"context"

	"github.com/m3-go/m3/trace"
)

// Context is what an evaluator may look at. All of it is redacted, and it is a copy of the evaluator's own: nothing done to it changes
// what is stored.
type Context struct {
	// Subject is what is evaluated: canonical JSON, with sorted keys. Decode takes it apart.
	Subject trace.JSON
	// SubjectKind tells what sort of thing the subject is: see [Result].
	SubjectKind string
	// SubjectDigest is the SHA-256 of Subject, in hexadecimal digits.
	SubjectDigest string
	// Execution, Turn, Suite and Case are what the evaluation is tied to; empty when it is not.
	Execution trace.ExecutionID
	Turn      trace.TurnID
	Suite     string
	Case      string
	// Goal is the caller's text about what was to be achieved.
	Goal string
	// Artifacts are the caller's, by name.
	Artifacts map[string]trace.JSON
	// Metadata is the caller's: scalars.
	Metadata map[string]any

	view func() (trace.View, error)
}

// View is the execution's finalized trace, as it is stored. It is made when it is asked for. The error is trace.ErrNotFinalized while the execution
// is open, and wraps trace.ErrUnavailable when there is no trace, or none that can be read.
func (c Context) View() (trace.View, error) {
	if c.view == nil {
		return trace.View{}, trace.ErrUnavailable
	}
	return c.view()
}

// WithView returns a copy of c whose View is open's answer; it is for who makes contexts.
func (c Context) WithView(open func() (trace.View, error)) Context {
	c.view = open
	return c
}

// Judge is an evaluator that is a value: judge.LLM is one. Its method is a [Func].
type Judge interface {
	Evaluate(ctx context.Context, e Context) (Decision, error)
}

// Response is the subject of a judge of responses. judge.Subject is the same type.
type Response struct {
	Input    string `json:"input"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
}
