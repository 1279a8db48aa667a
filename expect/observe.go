package expect

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/eval"
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
	// Checked is told of each check as it ends, before the test is: of those that a test makes itself, not of those within a predicate, nor
	// of the tries of [Eventually]. It may be called from several goroutines.
	Checked func(*Check)
}

// Check is one check of a matcher, as it ended.
type Check struct {
	// Test is the name of the test that checked: the observed one, or a subtest of it.
	Test string
	// Matcher is the word for the matcher: tool_call, not_text. Title is the same with what it named, as messages have it: tool call "quote".
	Matcher, Title string
	// Selector is what the matcher was pointed at: a tool, "server/tool", or whatever else it names; empty for the whole subject.
	Selector string
	// Arguments are what else the matcher was given, as a JSON object: redacted and bounded.
	Arguments trace.JSON
	// Status is passed, failed, inconclusive (the evidence cannot tell) or error (the matcher could not be asked: wrong arguments, an open
	// execution).
	Status eval.Status
	// Message is what the test reports: redacted and bounded. Empty when the check passed.
	Message string
	// Execution is what was asked about; empty when it is not known.
	Execution trace.ExecutionID
	// Turn is the turn that was asked about, if it was one.
	Turn trace.TurnID
	// SubjectKind is what was asked about: view, execution, turn, tool_call_result, prompt_result, resource_result, list_result, completion_result,
	// text, json, error, unknown.
	SubjectKind string
	Began       time.Time
	Duration    time.Duration
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

// record tells the observer of an outermost check.
func (e *Expectation) record(c *check, o outcome, message string, began time.Time) {
	ob := observerOf(e.t)
	if ob == nil || ob.Checked == nil || inPredicate() {
		return
	}
	turn := c.turn
	if turn == "" {
		turn = e.subject.turn
	}
	ob.Checked(&Check{Test: e.t.Name(), Matcher: c.matcher, Title: e.subject.redact(c.title), Selector: e.subject.redact(c.selector), Arguments: c.args.json(&e.subject), Status: o.verdict.status(),
		Message: message, Execution: e.subject.execution, Turn: turn, SubjectKind: e.subject.kind, Began: began, Duration: time.Since(began)})
}

// arguments are those of a matcher and its options, by name, for the record.
type arguments []argument

type argument struct {
	name  string
	value any
}

func (a *arguments) add(name string, value any) { *a = append(*a, argument{name, value}) }

// maxArguments bounds what is recorded of a check's arguments, in bytes.
const maxArguments = 8 << 10

// json writes the arguments as an object. A name that comes again is numbered.
func (a arguments) json(s *subject) trace.JSON {
	if len(a) == 0 {
		return nil
	}
	var b bytes.Buffer
	seen := map[string]int{}
	for i, arg := range a {
		b.WriteByte(",{"[min(1, 1-min(i, 1))])
		name := arg.name
		if seen[name]++; seen[name] > 1 {
			name += "_" + strconv.Itoa(seen[name])
		}
		b.WriteString(strconv.Quote(name) + ":")
		v, err := json.Marshal(arg.value)
		if err != nil {
			v = []byte(`"not JSON"`)
		}
		b.Write(v)
	}
	b.WriteByte('}')
	text := s.redact(b.String())
	if len(text) <= maxArguments && json.Valid([]byte(text)) {
		return trace.JSON(text)
	}
	short, _ := json.Marshal(map[string]any{"truncated": true, "bytes": len(text), "text": cut(text, maxValue, "bytes more")}) // texts and numbers: cannot fail
	return short
}

// predicates counts the predicates that run now, in all goroutines.
var predicates atomic.Int32

// runPredicate runs a test's own function. A panic in it is told by its type alone: its value may hold anything.
func runPredicate(f func() bool) (o outcome) {
	predicates.Add(1)
	defer predicates.Add(-1)
	defer func() {
		if r := recover(); r != nil {
			o = differs("the predicate panicked with a %T", r)
		}
	}()
	if f() {
		return held
	}
	return differs("the predicate says no")
}

// inPredicate reports whether the calling goroutine runs a predicate. It looks only while some goroutine does.
func inPredicate() bool {
	if predicates.Load() == 0 {
		return false
	}
	var pcs [256]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/expect.runPredicate") {
			return true
		}
		if !more {
			return false
		}
	}
}
