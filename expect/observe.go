package expect

import (
	"strings"
	"sync"

	"github.com/m3-go/m3/trace"
)

// Observer is what a test runner's glue, such as m3test, offers to the checks of one test and wants to know of them. All fields
// may be nil.
type Observer struct {
	// Redact removes the secrets that the test's kit knows from what a failure shows.
	Redact func(text string) string
	// Executions lists the test's executions so far.
	Executions func() []trace.ExecutionID
	// Command is the shell command that opens an execution's trace; empty when it is not kept beyond the test.
	Command func(trace.ExecutionID) string
	// Failed is told of each check that did not hold.
	Failed func(Failure)
}

// Failure is a check that did not hold, or that could not be judged.
type Failure struct {
	Check      string // the matcher and what it named: `tool call "quote"`
	CannotTell bool
	Execution  trace.ExecutionID // empty when it is not known
	Message    string            // as the test reports it: redacted and bounded
}

// observers are those of the tests that run now, by test name. They are removed as the tests end.
var observers sync.Map // string → *Observer

// Observe makes o the observer of the checks of test t and its subtests, until stop is called. It is for authors of test glue.
func Observe(t T, o *Observer) (stop func()) {
	name := t.Name()
	observers.Store(name, o)
	return func() { observers.CompareAndDelete(name, o) }
}

// observerOf is the nearest observer: the test's own, or that of a test around it.
func observerOf(t T) *Observer {
	for name := t.Name(); ; {
		if o, ok := observers.Load(name); ok {
			return o.(*Observer)
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
	}
}

// executionOf is the test's execution, when it has just one.
func executionOf(t T) trace.ExecutionID {
	o := observerOf(t)
	if o == nil || o.Executions == nil {
		return ""
	}
	if ids := o.Executions(); len(ids) == 1 {
		return ids[0]
	}
	return ""
}
