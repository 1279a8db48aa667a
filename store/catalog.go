package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/trace"
)

// Catalog is an [Index] in memory: what records add up to. The events are in the [trace.Log] that each execution is opened
// with. It is for authors of stores; store/memory and store/spool are built on it.
//
// The zero Catalog is empty and ready. It may be used from several goroutines and must not be copied.
type Catalog struct {
	mu         sync.RWMutex
	closed     bool
	runs       []*Run
	suites     []Suite
	tests      []*Test
	items      []*Item
	executions []*openExecution
	evals      []*Evaluation

	runIndex   map[string]int
	suiteIndex map[Suite]SuiteID // by a Suite without its id
	testIndex  map[string]int
	itemIndex  map[itemKey]int
	execIndex  map[trace.ExecutionID]*openExecution
	evalIndex  map[string]struct{}
	evalsOf    map[trace.ExecutionID][]*Evaluation
	required   map[eval.Lineage]bool
	latest     map[eval.Lineage]*Evaluation
}

var _ Index = (*Catalog)(nil)

type itemKey struct {
	run, pkg, test string
	iteration      int
}

type openExecution struct {
	info  ExecutionInfo
	log   trace.Log
	known atomic.Pointer[aggregate.Facts] // for Aggregate; nil until asked for
}

// Add adds a *Run, *Test, *Item, *Execution or *Evaluation. It keeps nothing of rec's memory. An execution that is new is opened with
// the log that open returns; open is not called otherwise and may be nil for the other types.
func (c *Catalog) Add(rec Record, open func(trace.ExecutionID) trace.Log) error {
	b, err := Encode(rec)
	if err != nil {
		return err
	}
	// Through the stored form and back: what comes out is what every other store would give.
	own, err := Decode(rec.Type(), b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	switch r := own.(type) {
	case *Run:
		c.runs = put(&c.runIndex, c.runs, r.ID, r)
	case *Test:
		c.suite(r.RunID, r.Suite)
		c.tests = put(&c.testIndex, c.tests, r.ID, r)
	case *Item:
		c.items = put(&c.itemIndex, c.items, itemKey{r.RunID, r.Package, r.Test, r.Iteration}, r)
	case *Execution:
		c.open(r, open)
	case *Evaluation:
		c.evaluation(r)
	}
	return nil
}

// put appends rec, or merges it into the one under the same key.
func put[K comparable, R interface {
	comparable
	Record
}](index *map[K]int, list []R, key K, rec R) []R {
	if i, ok := (*index)[key]; ok {
		list[i] = Merge(list[i], rec).(R)
		return list
	}
	if *index == nil {
		*index = map[K]int{}
	}
	(*index)[key] = len(list)
	return append(list, rec)
}

func (c *Catalog) open(r *Execution, open func(trace.ExecutionID) trace.Log) {
	if e, ok := c.execIndex[r.ID]; ok {
		e.info.Execution = *Merge(&e.info.Execution, r).(*Execution)
		e.info.SuiteID = c.suite(e.info.RunID, e.info.Suite)
		return
	}
	e := &openExecution{info: ExecutionInfo{Execution: *r, SuiteID: c.suite(r.RunID, r.Suite)}, log: open(r.ID)}
	if c.execIndex == nil {
		c.execIndex = map[trace.ExecutionID]*openExecution{}
	}
	c.execIndex[r.ID] = e
	c.executions = append(c.executions, e)
}

// suite returns the id of a suite, which gets one when it is new; 0 for no name.
func (c *Catalog) suite(run, name string) SuiteID {
	if name == "" {
		return 0
	}
	s := Suite{RunID: run, Name: name}
	if id, ok := c.suiteIndex[s]; ok {
		return id
	}
	if c.suiteIndex == nil {
		c.suiteIndex = map[Suite]SuiteID{}
	}
	id := SuiteID(len(c.suites) + 1)
	c.suiteIndex[s] = id
	c.suites = append(c.suites, Suite{ID: id, RunID: run, Name: name})
	return id
}

// Log returns the log of an execution, or an error wrapping [ErrNotFound].
func (c *Catalog) Log(id trace.ExecutionID) (trace.Log, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, ErrClosed
	}
	e, ok := c.execIndex[id]
	if !ok {
		return nil, fmt.Errorf("%w: execution %q", ErrNotFound, id)
	}
	return e.log, nil
}

// Finish notes the end of an execution (see [DecodeFinished]).
func (c *Catalog) Finish(id trace.ExecutionID, f trace.Finished, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.execIndex[id]; ok {
		e.info.Finished, e.info.Outcome, e.info.Complete = &at, f.Outcome, len(f.Limitations) == 0
	}
}

// Incomplete notes that something of an execution was lost after it was recorded.
func (c *Catalog) Incomplete(id trace.ExecutionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.execIndex[id]; ok {
		e.info.Complete = false
	}
}

// Close lets go of everything; every further use returns [ErrClosed].
func (c *Catalog) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.runs, c.suites, c.tests, c.items, c.executions, c.evals = nil, nil, nil, nil, nil, nil
	c.runIndex, c.suiteIndex, c.testIndex, c.itemIndex, c.execIndex = nil, nil, nil, nil, nil
	c.evalIndex, c.evalsOf, c.required, c.latest = nil, nil, nil, nil
}

func (c *Catalog) rlock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return ErrClosed
	}
	return nil
}

// Runs is that of [Index].
func (c *Catalog) Runs(ctx context.Context) ([]Run, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []Run
	for _, r := range slices.Backward(c.runs) {
		out = append(out, *r)
	}
	slices.SortStableFunc(out, func(a, b Run) int { return b.Started.Compare(a.Started) })
	return out, nil
}

// Run is that of [Index].
func (c *Catalog) Run(ctx context.Context, id string) (Run, error) {
	if err := c.rlock(ctx); err != nil {
		return Run{}, err
	}
	defer c.mu.RUnlock()
	i, ok := c.runIndex[id]
	if !ok {
		return Run{}, fmt.Errorf("%w: run %q", ErrNotFound, id)
	}
	return *c.runs[i], nil
}

// Suites is that of [Index].
func (c *Catalog) Suites(ctx context.Context, runID string) ([]Suite, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []Suite
	for _, s := range c.suites {
		if runID == "" || s.RunID == runID {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Suite) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Tests is that of [Index].
func (c *Catalog) Tests(ctx context.Context, runID string) ([]Test, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []Test
	for _, t := range c.tests {
		if t.RunID == runID {
			out = append(out, *t)
		}
	}
	slices.SortStableFunc(out, func(a, b Test) int { return a.Started.Compare(b.Started) })
	return out, nil
}

// Items is that of [Index].
func (c *Catalog) Items(ctx context.Context, runID string) ([]Item, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []Item
	for _, it := range c.items {
		if it.RunID == runID {
			out = append(out, *it)
		}
	}
	return out, nil
}

// Executions is that of [Index].
func (c *Catalog) Executions(ctx context.Context, q *ExecutionQuery) ([]ExecutionInfo, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var out []ExecutionInfo
	for _, e := range c.executions {
		if q.Matches(&e.info.Execution) {
			out = append(out, e.snapshot())
		}
	}
	slices.SortStableFunc(out, func(a, b ExecutionInfo) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// Execution is that of [Index].
func (c *Catalog) Execution(ctx context.Context, id trace.ExecutionID) (ExecutionInfo, error) {
	if err := c.rlock(ctx); err != nil {
		return ExecutionInfo{}, err
	}
	defer c.mu.RUnlock()
	e, ok := c.execIndex[id]
	if !ok {
		return ExecutionInfo{}, fmt.Errorf("%w: execution %q", ErrNotFound, id)
	}
	return e.snapshot(), nil
}

// Evaluations is that of [Index].
func (c *Catalog) Evaluations(ctx context.Context, q *EvaluationQuery) ([]eval.Result, error) {
	if err := c.rlock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	list := c.evals
	if q != nil && q.Execution != "" {
		list = c.evalsOf[q.Execution]
	}
	var out []eval.Result
	for _, r := range list {
		if q.matches(&r.Result) && (q == nil || (!q.Required || c.required[r.Lineage()]) && (!q.Latest || c.latest[r.Lineage()] == r)) {
			out = append(out, r.Result)
		}
	}
	slices.SortFunc(out, func(a, b eval.Result) int { return a.Compare(&b) })
	if q != nil && q.Limit > 0 && len(out) > q.Limit {
		out = slices.Clip(out[:q.Limit])
	}
	return out, nil
}

// evaluation adds one. What is known of it already does not change.
func (c *Catalog) evaluation(r *Evaluation) {
	if _, known := c.evalIndex[r.ID]; known {
		return
	}
	if c.evalIndex == nil {
		c.evalIndex, c.required, c.latest = map[string]struct{}{}, map[eval.Lineage]bool{}, map[eval.Lineage]*Evaluation{}
		c.evalsOf = map[trace.ExecutionID][]*Evaluation{}
	}
	c.suite(r.RunID, r.Suite)
	c.evalIndex[r.ID] = struct{}{}
	c.evals = append(c.evals, r)
	if r.Execution != "" {
		c.evalsOf[r.Execution] = append(c.evalsOf[r.Execution], r)
	}
	l := r.Lineage()
	if r.Required {
		c.required[l] = true
	}
	if last := c.latest[l]; last == nil || last.Compare(&r.Result) < 0 {
		c.latest[l] = r
	}
}

func (e *openExecution) snapshot() ExecutionInfo {
	info := e.info
	info.EventCount = e.log.Len()
	return info
}

// Matches reports whether e is selected. A nil query selects all.
func (q *ExecutionQuery) Matches(e *Execution) bool {
	return q == nil ||
		(q.RunID == "" || q.RunID == e.RunID) &&
			(q.Suite == "" || strings.TrimSpace(q.Suite) == e.Suite) &&
			(q.Case == "" || q.Case == e.Case) &&
			(q.TestID == "" || q.TestID == e.TestID)
}

// matches reports whether r is selected, but for Required and Latest.
func (q *EvaluationQuery) matches(r *eval.Result) bool {
	return q == nil ||
		(q.RunID == "" || q.RunID == r.RunID) &&
			(q.Suite == "" || strings.TrimSpace(q.Suite) == r.Suite) &&
			(q.Case == "" || q.Case == r.Case) &&
			(q.TestID == "" || q.TestID == r.TestID) &&
			(q.Execution == "" || q.Execution == r.Execution) &&
			(q.Evaluator == "" || q.Evaluator == r.Evaluator) &&
			(q.Kind == "" || q.Kind == r.Kind) &&
			(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status))
}
