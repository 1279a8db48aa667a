// Package memory is the store that a kit has when it is given none: everything stays in the process and is readable until
// the store is closed.
//
// Events are kept encoded in one append-only arena an execution. When the [Config.Budget] runs out, the bytes of the
// oldest frames go first, over all executions. The events themselves stay (a hundred bytes or two each), the trace
// becomes partial, and its execution.finished event, as read from then on, has the limitation capture_incomplete that says how much
// was dropped. A [trace.Trace] of a finished execution that was handed out before keeps what it had.
package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// DefaultBudget is the budget of a store that is given none: 256 MiB.
const DefaultBudget = 256 << 20

// Config configures a store. Nil and the zero value work.
type Config struct {
	// Budget is how many bytes of events and blobs are kept before payloads are dropped. 0 is [DefaultBudget]; negative means
	// no limit.
	Budget int64
}

// Store is a [store.Store] in memory. It may be used from several goroutines.
type Store struct {
	store.Index // the catalog's
	catalog     *store.Catalog

	budget int64
	used   atomic.Int64

	mu    sync.Mutex // guards queue; held while something is dropped
	queue []unit     // what can be dropped, oldest first
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New(cfg *Config) *Store {
	c := &store.Catalog{}
	s := &Store{Index: c, catalog: c, budget: DefaultBudget}
	if cfg != nil && cfg.Budget != 0 {
		s.budget = cfg.Budget
	}
	return s
}

// Append is that of [store.Recorder]. It stops at the first record that cannot be kept; those before it are.
func (s *Store) Append(ctx context.Context, recs ...store.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, rec := range recs {
		if err := s.add(rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) add(rec store.Record) error {
	if err := store.Check(rec); err != nil {
		return err
	}
	switch r := rec.(type) {
	case *store.Event:
		return s.addEvent(r)
	case *store.Blob:
		return s.addBlob(r)
	}
	return s.catalog.Add(rec, func(id trace.ExecutionID) trace.Log { return &eventLog{id: id} })
}

func (s *Store) addEvent(r *store.Event) error {
	log, err := s.log(r.ExecutionID)
	if err != nil {
		return err
	}
	var f trace.Finished
	var at time.Time
	if r.Kind == trace.KindExecutionFinished {
		if f, at, err = store.DecodeFinished(r.ExecutionID, r.Body); err != nil {
			return err
		}
	}
	full, grown, err := log.append(r)
	if err != nil {
		return err
	}
	if r.Kind == trace.KindExecutionFinished {
		s.finish(log, f, at)
	}
	for _, c := range full {
		s.enqueue(unit{log: log, chunk: c})
	}
	if grown != 0 {
		s.grow(grown)
	}
	return nil
}

func (s *Store) addBlob(r *store.Blob) error {
	log, err := s.log(r.ExecutionID)
	if err != nil {
		return err
	}
	if log.putBlob(r) {
		s.enqueue(unit{log: log, blob: r.SHA256})
		s.grow(int64(len(r.Data)))
	}
	return nil
}

func (s *Store) finish(log *eventLog, f trace.Finished, at time.Time) {
	s.catalog.Finish(log.id, f, at)
	// What was dropped before the end is not in the tape's own limitations.
	if log.partial() {
		s.catalog.Incomplete(log.id)
	}
}

func (s *Store) log(id trace.ExecutionID) (*eventLog, error) {
	l, err := s.catalog.Log(id)
	if err != nil {
		return nil, err
	}
	return l.(*eventLog), nil
}

// enqueue remembers what can be dropped.
func (s *Store) enqueue(u unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, u)
}

// grow counts n bytes more, and drops the oldest payloads when they are over the budget.
func (s *Store) grow(n int64) {
	used := s.used.Add(n)
	if s.budget < 0 || used <= s.budget {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for used = s.used.Load(); used > s.budget && len(s.queue) > 0; {
		u := s.queue[0]
		s.queue[0] = unit{}
		s.queue = s.queue[1:]
		if freed := u.drop(); freed > 0 {
			used = s.used.Add(-freed)
			s.catalog.Incomplete(u.log.id)
		}
	}
}

// Trace is that of [store.Reader].
func (s *Store) Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log, err := s.log(id)
	if err != nil {
		return nil, err
	}
	return trace.New(id, log.pin()), nil
}

// ReadRawEvidence is that of [store.Reader]. Bytes that were dropped are [store.ErrEvidenceUnavailable].
func (s *Store) ReadRawEvidence(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) (store.Evidence, error) {
	if err := ctx.Err(); err != nil {
		return store.Evidence{}, err
	}
	return store.ReadEvidence(s.catalog.Log, ref, maxBytes)
}

// Aggregate is that of [store.Reader].
func (s *Store) Aggregate(ctx context.Context, q eval.Query) (eval.Report, error) {
	return s.catalog.Aggregate(ctx, q, func(id trace.ExecutionID) (*trace.Trace, error) { return s.Trace(ctx, id) })
}

// Tally is that of [store.Reader].
func (s *Store) Tally(ctx context.Context, runID string) (map[trace.ExecutionID]store.Tally, error) {
	return s.catalog.Tally(ctx, runID, func(id trace.ExecutionID) (*trace.Trace, error) { return s.Trace(ctx, id) })
}

// Events is that of [store.Reader].
func (s *Store) Events(ctx context.Context, q *store.EventQuery, yield func(*trace.Event) error) error {
	return s.catalog.Events(ctx, q, func(id trace.ExecutionID) (*trace.Trace, error) { return s.Trace(ctx, id) }, yield)
}

// Close is that of [store.Recorder]: it lets go of everything. Traces that were handed out stay readable.
func (s *Store) Close() error {
	s.catalog.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	return nil
}
