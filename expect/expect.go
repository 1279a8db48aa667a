package expect

import (
	"errors"
	"fmt"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

// T is what expect needs of a *testing.T.
type T interface {
	Helper()
	Name() string
	Errorf(format string, args ...any)
	FailNow()
}

// Expectation is a subject about which something is expected. Its methods are the matchers; each may be called any number of
// times.
type Expectation struct {
	t       T
	subject subject
	stop    bool
}

// That begins an expectation about a [trace.View], a closed [*m3.Client] or a [*m3.ToolCallResult]. A matcher that does not hold is reported with
// t.Errorf; the test goes on.
func That(t T, subject any) *Expectation {
	return &Expectation{t: t, subject: resolve(t, subject)}
}

// Require is [That], but a matcher that does not hold ends the test, with t.FailNow.
func Require(t T, subject any) *Expectation {
	return &Expectation{t: t, subject: resolve(t, subject), stop: true}
}

// subject is what can be asked about: a view or a result, or why there is neither.
type subject struct {
	view      *trace.View
	result    *m3.ToolCallResult
	problem   string // why it cannot be judged
	execution trace.ExecutionID
	redact    func(string) string
	quiet     bool // no diffs: enough has been explained
}

func resolve(t T, v any) subject {
	// Only a failure needs the redactor: it is looked for then.
	s := subject{redact: func(text string) string { return redactorOf(t, v)(text) }}
	switch v := v.(type) {
	case trace.View:
		s.setView(v)
	case *trace.View:
		if v == nil {
			s.problem = "the view is nil"
			return s
		}
		s.setView(*v)
	case *m3.Client:
		s.setClient(v)
	case *m3.ToolCallResult:
		s.setResult(v, executionOf(t))
	default:
		s.problem = fmt.Sprintf("%T is no subject: use a trace.View, a closed *m3.Client or a *m3.ToolCallResult", v)
	}
	return s
}

func (s *subject) setView(v trace.View) {
	s.view, s.execution = &v, v.ExecutionID()
}

func (s *subject) setClient(c *m3.Client) {
	if c == nil {
		s.problem = "the client is nil: did Direct fail?"
		return
	}
	s.execution = c.ExecutionID()
	view, err := c.View()
	switch {
	case errors.Is(err, m3.ErrTraceNotFinalized):
		s.problem = "the client is still open: close it first (m3test.Finish(t, client) closes it and returns its view)"
	case err != nil:
		s.problem = "the client's trace cannot be used: " + err.Error()
	default:
		s.view = &view
	}
}

func (s *subject) setResult(r *m3.ToolCallResult, execution trace.ExecutionID) {
	if r == nil {
		s.problem = "the result is nil: did the call return an error?"
		return
	}
	s.result, s.execution = r, execution
}

// redactorOf is the nearest redactor: the client's own, that of the test's kit, else the rules that need no known secret.
func redactorOf(t T, v any) func(string) string {
	if c, ok := v.(interface{ Redact(string) string }); ok && !isNil(v) {
		return c.Redact
	}
	if o := observerOf(t); o != nil && o.Redact != nil {
		return o.Redact
	}
	return evidence.NewRedactor(nil).String
}

func isNil(v any) bool {
	c, ok := v.(*m3.Client)
	return ok && c == nil
}

// onResult returns the subject's result for a matcher that needs one.
func (e *Expectation) onResult(matcher string) (*m3.ToolCallResult, outcome) {
	switch {
	case e.subject.problem != "":
		return nil, cannotTell(e.subject.problem)
	case e.subject.result == nil:
		return nil, cannotTell(matcher + " asks about one result: give it a *m3.ToolCallResult, or ask ToolCall with " + resultOption[matcher])
	default:
		return e.subject.result, held
	}
}

// resultOption names what asks the same of a view.
var resultOption = map[string]string{
	"Text":              "expect.ResultText",
	"TextContaining":    "expect.ResultTextContaining",
	"StructuredContent": "expect.ResultStructured",
}

// onView returns the subject's view for a matcher that needs one.
func (e *Expectation) onView(matcher string) (*trace.View, outcome) {
	switch {
	case e.subject.problem != "":
		return nil, cannotTell(e.subject.problem)
	case e.subject.view == nil:
		return nil, cannotTell(matcher + " asks about an execution: give it the view (m3test.Finish) or the closed client")
	default:
		return e.subject.view, held
	}
}
