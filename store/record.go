package store

import (
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// Record is one thing appended to a store: *Run, *Test, *Item, *Execution, *Evaluation, *Event or *Blob. Records are facts in order;
// a store is what they add up to. A later record about the same thing (same id) adds to or supersedes the earlier one.
// The set is closed.
type Record interface {
	// Type is the record's stored name.
	Type() string
}

// RunStatus is the state of a run.
type RunStatus string

// The run statuses.
const (
	RunRunning     RunStatus = "running"
	RunFinished    RunStatus = "finished"
	RunInterrupted RunStatus = "interrupted"
)

// Run is one invocation of the test runner, or the explicit id given to a kit. Recorded at its begin, and again at its
// end with Finished set. Every process of a run may record it; the first Started and the last Finished stand.
type Run struct {
	ID       string     `json:"run_id"`
	Status   RunStatus  `json:"status"`
	Started  time.Time  `json:"started_at"`
	Finished *time.Time `json:"finished_at,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	// Explicit says that somebody gave the id, rather than the runner.
	Explicit bool     `json:"explicit,omitempty"`
	Command  []string `json:"command,omitempty"` // redacted
	Project  string   `json:"project,omitempty"` // module path or project name
	Version  string   `json:"m3_version,omitempty"`
	// Owner is who ends it: "m3 test", "go test", "kit", "program". A process that is only a part of the run leaves it empty; one
	// that owns it and goes without ending it leaves it interrupted.
	Owner  string     `json:"owner,omitempty"`
	Detail trace.JSON `json:"detail,omitempty"` // counts, build failures and whatever else the runner reported
}

// SuiteID identifies a suite within one database. It is assigned when the database is filled and means nothing elsewhere.
type SuiteID int64

// Suite is a named slice of a run. The same trimmed name in several packages of a run is one suite.
type Suite struct {
	ID    SuiteID `json:"suite_id"`
	RunID string  `json:"run_id"`
	Name  string  `json:"suite_name"`
}

// TestStatus is a test's result as go test reports it; it is never a verdict about an execution.
type TestStatus string

// The test statuses.
const (
	TestRunning     TestStatus = "running"
	TestPassed      TestStatus = "passed"
	TestFailed      TestStatus = "failed"
	TestSkipped     TestStatus = "skipped"
	TestInterrupted TestStatus = "interrupted" // opened, never ended, and its process is gone
)

// Test is one attempt of a test item that used m3test, as the test process itself records it: once when it begins, once
// when it ends.
type Test struct {
	ID        string     `json:"test_id"` // unique per attempt
	RunID     string     `json:"run_id"`
	Package   string     `json:"package"`
	Name      string     `json:"name"` // as go test prints it
	Suite     string     `json:"suite_name"`
	Iteration int        `json:"iteration"` // the -count iteration, from 1
	Status    TestStatus `json:"status"`
	Started   time.Time  `json:"started_at"`
	Finished  *time.Time `json:"finished_at,omitempty"`
	Reasons   []string   `json:"reasons,omitempty"` // m3's own failure messages, redacted and bounded
}

// Item is one thing that go test reported, whether it used m3 or not: a test, or, with an empty Test, a package.
type Item struct {
	RunID     string        `json:"run_id"`
	Package   string        `json:"package"`
	Test      string        `json:"test,omitempty"`
	Iteration int           `json:"iteration"`
	Action    string        `json:"action"` // pass, fail, skip, build-fail; "" when it never ended
	Elapsed   time.Duration `json:"elapsed_ns"`
	Output    string        `json:"output,omitempty"` // redacted, bounded; of what failed
	TestID    string        `json:"test_id,omitempty"`
	Cached    bool          `json:"cached,omitempty"`
	Reason    string        `json:"reason,omitempty"` // why it failed, in one line: panic, timeout, signal, exit
	// Crashed says that what it printed ends with a crash: its own, or that of the process it ran in.
	Crashed bool `json:"crashed,omitempty"`
}

// Execution opens one execution: one direct client or one agent session. How it ended stands in its last event.
type Execution struct {
	ID      trace.ExecutionID `json:"execution_id"`
	RunID   string            `json:"run_id"`
	Suite   string            `json:"suite_name,omitempty"`
	Case    string            `json:"case_id,omitempty"`
	TestID  string            `json:"test_id,omitempty"`
	Kind    string            `json:"kind"` // direct, agent
	Created time.Time         `json:"created_at"`
	Servers []string          `json:"servers,omitempty"`
	// Spec is the resolved options, stored once and unchanged; secrets are references or absent.
	Spec trace.JSON `json:"spec"`
}

// Evaluation is one evaluation, or one recorded check. It is no part of the event sequence: it may come after the execution's end, and also when the
// store does not have the execution. A second one with the same ID adds nothing.
type Evaluation struct{ eval.Result }

// Event is one encoded event of an execution (see trace.AppendEvent). Append keeps no reference to Body.
type Event struct {
	ExecutionID trace.ExecutionID
	Sequence    int64
	Kind        trace.Kind
	Body        []byte
}

// Blob is bytes kept out of line under their digest. It is appended before the event that refers to it; the same digest
// twice is one blob. Append keeps no reference to Data.
type Blob struct {
	ExecutionID trace.ExecutionID
	SHA256      string
	Data        []byte
}

// Type is "run".
func (*Run) Type() string { return "run" }

// Type is "test".
func (*Test) Type() string { return "test" }

// Type is "item".
func (*Item) Type() string { return "item" }

// Type is "execution".
func (*Execution) Type() string { return "execution" }

// Type is "evaluation".
func (*Evaluation) Type() string { return "evaluation" }

// Type is "event".
func (*Event) Type() string { return "event" }

// Type is "blob".
func (*Blob) Type() string { return "blob" }
