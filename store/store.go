// Package store is the seam between executions and whatever remembers them: [Recorder] appends, [Reader] queries. It is
// for authors of stores; test authors pass one in (sqlite.Open) or use none.
//
// Package storetest is the suite that every store passes. The stores are store/memory, store/spool and store/sqlite.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// ErrNotFound is returned when a store has nothing under the id asked for. Errors that wrap it name the id.
var ErrNotFound = errors.New("store: not found")

// ErrClosed is returned by a store that was closed.
var ErrClosed = errors.New("store: closed")

// ErrVersion is returned for a database or spool of a newer format. Errors that wrap it name both versions.
var ErrVersion = errors.New("store: written by a newer m3")

// ErrEvidenceUnavailable is returned for a reference to evidence that the store does not have, forged ones included.
var ErrEvidenceUnavailable = errors.New("store: raw evidence unavailable")

// IntegrityError is returned when evidence is there but is not what the reference, or the store's own digest, says.
type IntegrityError struct {
	Ref   trace.EvidenceRef
	Field string // sha256, size_bytes
	Want  string
	Got   string
}

func (e *IntegrityError) Error() string {
	return "store: raw evidence " + e.Ref.ID + " has been altered: " + e.Field + " is " + e.Got + ", want " + e.Want
}

// Recorder appends. What Append was given is acknowledged when it returns nil: it survives the death of the process as far
// as the store keeps anything beyond it. Order is kept per caller. All methods may be called from several goroutines.
type Recorder interface {
	// Append appends the records in order. It must not keep any of their memory.
	Append(ctx context.Context, recs ...Record) error
	// Close ends the store's use. Executions that are still open stay open in it. It is idempotent.
	Close() error
}

// Index is what a store knows about everything but events: the larger half of [Reader]. [Catalog] is one in memory.
type Index interface {
	// Runs lists the runs, newest first.
	Runs(ctx context.Context) ([]Run, error)
	// Run returns one run, or an error wrapping ErrNotFound.
	Run(ctx context.Context, id string) (Run, error)
	// Suites lists the suites of a run by name; of all runs when the id is empty.
	Suites(ctx context.Context, runID string) ([]Suite, error)
	// Tests lists the attempts of a run in the order in which they began.
	Tests(ctx context.Context, runID string) ([]Test, error)
	// Items lists what go test reported of a run, in its order.
	Items(ctx context.Context, runID string) ([]Item, error)
	// Executions lists executions in the order in which they were created.
	Executions(ctx context.Context, q *ExecutionQuery) ([]ExecutionInfo, error)
	// Execution returns one execution, or an error wrapping ErrNotFound.
	Execution(ctx context.Context, id trace.ExecutionID) (ExecutionInfo, error)
	// Evaluations lists evaluations and checks in the order in which they were made (see [eval.Result.Compare]).
	Evaluations(ctx context.Context, q *EvaluationQuery) ([]eval.Result, error)
}

// Reader queries. All methods may be called from several goroutines, also while recording goes on. What they return is
// for reading: it may share memory with the store.
type Reader interface {
	Index
	// Trace opens the events of an execution, or returns an error wrapping ErrNotFound or trace.ErrUnavailable. Whether it
	// is finalized is for the trace to say.
	Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error)
	// ReadRawEvidence returns at most maxBytes (0: 1 MiB) of the bytes behind ref, after checking digest and size. The errors
	// are ErrEvidenceUnavailable and *IntegrityError.
	ReadRawEvidence(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) (Evidence, error)
	// Aggregate measures evaluations. The error wraps eval.ErrQuery when the query cannot be answered, or eval.ErrUnsupported.
	Aggregate(ctx context.Context, q eval.Query) (eval.Report, error)
	// Tally counts what the executions of a run have. All of them are in it.
	Tally(ctx context.Context, runID string) (map[trace.ExecutionID]Tally, error)
	// Events calls yield for each event that is selected, the executions in the order in which they were created, and ends at the first error, which it
	// returns. The bytes of a frame are loaded; they are nil when they are gone. An event that was never stored is left out; of one that cannot be read
	// there is the ExecutionID alone.
	Events(ctx context.Context, q *EventQuery, yield func(*trace.Event) error) error
}

// Store is both.
type Store interface {
	Recorder
	Reader
}

// ExecutionQuery selects executions. Nil, or a zero field, selects all.
type ExecutionQuery struct {
	RunID  string
	Suite  string
	Case   string
	TestID string
}

// EvaluationQuery selects evaluations. Nil, or a zero field, selects all.
type EvaluationQuery struct {
	RunID     string
	Suite     string
	Case      string
	TestID    string
	Execution trace.ExecutionID
	Evaluator string
	Kind      eval.Kind
	// Required selects the rows of required lineages: those with a row that is marked so, also when later ones are not.
	Required bool
	// Latest selects the last row of each lineage.
	Latest bool
	// Statuses select rows that have one of them; none selects all.
	Statuses []eval.Status
	// Limit bounds how many are listed, the first in their order; 0 does not.
	Limit int
}

// EventQuery selects events.
type EventQuery struct {
	// RunID, or Execution, or both say whose.
	RunID     string
	Execution trace.ExecutionID
	// Kinds are those of the events; none selects all.
	Kinds []trace.Kind
	// Method selects frames that are messages of the method, or answers to them; empty selects all events.
	Method string
}

// Tally is what one execution has, in numbers.
type Tally struct {
	// Events counts those that are stored, by kind.
	Events map[trace.Kind]int
	// Evaluations counts those that the execution's run made of it, by status: all rows, also superseded ones.
	Evaluations map[eval.Status]int
	// ToolCalls and ProtocolErrors are zero as long as the execution is open.
	ToolCalls      eval.ToolCalls
	ProtocolErrors int
}

// ExecutionInfo is an execution with how it stands.
type ExecutionInfo struct {
	Execution
	SuiteID    SuiteID       `json:"suite_id,omitempty"`
	Finished   *time.Time    `json:"finished_at,omitempty"`
	Outcome    trace.Outcome `json:"outcome,omitempty"` // empty while open
	EventCount int           `json:"event_count"`
	// Complete says that the trace has no limitation. False while open.
	Complete bool `json:"complete"`
}

// Evidence is raw evidence as read.
type Evidence struct {
	Ref       trace.EvidenceRef
	Bytes     []byte // redacted bytes, at most maxBytes
	Truncated bool   // there are more
	// Redactions lists the replacements in the whole of the bytes.
	Redactions []trace.Redaction
}
