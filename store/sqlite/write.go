package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// recordError is about a record, not about the database: taking in goes on after it.
type recordError struct{ err error }

func (e *recordError) Error() string { return e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }

func badRecord(format string, args ...any) error {
	return &recordError{fmt.Errorf(format, args...)}
}

// add writes one record. Spool is the row of the spool that it came from, 0 for none. Everything here runs in a transaction,
// under s.mu.
func (s *Store) add(rec store.Record, spool int64) error {
	switch r := rec.(type) {
	case *store.Event:
		return s.addEvent(r)
	case *store.Blob:
		if _, err := s.execution(r.ExecutionID); err != nil {
			return err
		}
		return s.addBlob(r.SHA256, r.Data)
	}
	// Through the stored form, like every store.
	b, err := store.Encode(rec)
	if err != nil {
		return &recordError{err}
	}
	if rec, err = store.Decode(rec.Type(), b); err != nil {
		return &recordError{err}
	}
	return s.addRecord(rec, spool)
}

func (s *Store) addRecord(rec store.Record, spool int64) error {
	switch r := rec.(type) {
	case *store.Run:
		return s.addRun(r)
	case *store.Test:
		return s.addTest(r, spool)
	case *store.Item:
		return s.addItem(r)
	case *store.Execution:
		return s.addExecution(r, spool)
	case *store.Evaluation:
		return s.addEvaluation(r)
	}
	return badRecord("a record of type %s cannot be kept", rec.Type())
}

// merged is rec added to the record that query finds, encoded.
func merged[R store.Record](s *Store, rec R, query string, args ...any) (R, []byte, error) {
	var old []byte
	switch err := s.row(query, args...).Scan(&old); {
	case err == nil:
		prev, err := store.Decode(rec.Type(), old)
		if err != nil {
			return rec, nil, err
		}
		rec = store.Merge(prev, rec).(R)
	case !errors.Is(err, sql.ErrNoRows):
		return rec, nil, err
	}
	b, err := store.Encode(rec)
	return rec, b, err
}

func (s *Store) addRun(r *store.Run) error {
	r, b, err := merged(s, r, `SELECT record FROM run WHERE run_id = ?`, r.ID)
	if err != nil {
		return err
	}
	return s.exec(`INSERT INTO run (run_id, started_ns, record) VALUES (?, ?, ?)
		ON CONFLICT (run_id) DO UPDATE SET started_ns = excluded.started_ns, record = excluded.record`,
		r.ID, nanos(r.Started), string(b))
}

func (s *Store) addTest(r *store.Test, spool int64) error {
	r, b, err := merged(s, r, `SELECT record FROM test WHERE test_id = ?`, r.ID)
	if err != nil {
		return err
	}
	suite, err := s.suite(r.RunID, r.Suite)
	if err != nil {
		return err
	}
	open := r.Status == store.TestRunning || r.Status == ""
	return s.exec(`INSERT INTO test (test_id, run_id, suite_id, spool, started_ns, is_open, record) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (test_id) DO UPDATE SET suite_id = excluded.suite_id, started_ns = excluded.started_ns, is_open = excluded.is_open, record = excluded.record`,
		r.ID, r.RunID, suite, orNull(spool), nanos(r.Started), open, string(b))
}

func (s *Store) addItem(r *store.Item) error {
	r, b, err := merged(s, r, `SELECT record FROM item WHERE run_id = ? AND package = ? AND test = ? AND iteration = ?`, r.RunID, r.Package, r.Test, r.Iteration)
	if err != nil {
		return err
	}
	return s.exec(`INSERT INTO item (run_id, package, test, iteration, record) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run_id, package, test, iteration) DO UPDATE SET record = excluded.record`,
		r.RunID, r.Package, r.Test, r.Iteration, string(b))
}

func (s *Store) addExecution(r *store.Execution, spool int64) error {
	r, b, err := merged(s, r, `SELECT record FROM execution WHERE execution_id = ?`, string(r.ID))
	if err != nil {
		return err
	}
	suite, err := s.suite(r.RunID, r.Suite)
	if err != nil {
		return err
	}
	var row int64
	err = s.row(`INSERT INTO execution (execution_id, run_id, suite_id, case_id, test_id, spool, created_ns, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution_id) DO UPDATE SET suite_id = excluded.suite_id, case_id = excluded.case_id, test_id = excluded.test_id, record = excluded.record
		RETURNING id`,
		string(r.ID), r.RunID, suite, r.Case, r.TestID, orNull(spool), nanos(r.Created), string(b)).Scan(&row)
	if err != nil {
		return err
	}
	if err := s.adopt(r.ID, row); err != nil {
		return err
	}
	return s.openFacts(row, r)
}

// suite returns the id of a suite, which gets one when it is new; null for no name.
func (s *Store) suite(run, name string) (any, error) {
	if name == "" {
		return nil, nil
	}
	var id int64
	err := s.row(`SELECT suite_id FROM suite WHERE run_id = ? AND suite_name = ?`, run, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.row(`INSERT INTO suite (run_id, suite_name) VALUES (?, ?) RETURNING suite_id`, run, name).Scan(&id)
	}
	return id, err
}

var errEnded = errors.New("something comes after its end")

// execution returns the row of an execution that is open.
func (s *Store) execution(id execID) (int64, error) {
	if row, ok := s.rows[id]; ok {
		return row, nil
	}
	var row int64
	var finished sql.NullString
	err := s.row(`SELECT id, finished_at FROM execution WHERE execution_id = ?`, string(id)).Scan(&row, &finished)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, badRecord("%w: execution %q", store.ErrNotFound, id)
	case err != nil:
		return 0, err
	case finished.Valid:
		return 0, badRecord("execution %s: %w", id, errEnded)
	}
	s.rows[id] = row
	return row, nil
}

func (s *Store) addEvent(r *store.Event) error {
	row, err := s.execution(r.ExecutionID)
	if err != nil {
		return err
	}
	var next int64
	if err := s.row(`SELECT coalesce(max(sequence) + 1, 0) FROM event WHERE execution = ?`, row).Scan(&next); err != nil {
		return err
	}
	if r.Sequence < next {
		return badRecord("event %d of execution %s is already there", r.Sequence, r.ExecutionID)
	}
	if err := s.exec(insertEvent, row, r.Sequence, string(r.Kind), r.Body); err != nil {
		return err
	}
	return s.ended(r.ExecutionID, row, r.Kind, r.Body)
}

// insertEvent ignores an event that is there, so that a spool may be read again.
const insertEvent = `INSERT OR IGNORE INTO event (execution, sequence, kind, body) VALUES (?, ?, ?, ?)`

// ended notes the end of an execution, if that is what the event is.
func (s *Store) ended(id execID, row int64, kind trace.Kind, body []byte) error {
	if kind != trace.KindExecutionFinished {
		return nil
	}
	f, at, err := store.DecodeFinished(id, body)
	if err != nil {
		return &recordError{err}
	}
	delete(s.rows, id)
	if err := s.exec(`UPDATE execution SET finished_at = ?, outcome = ?, complete = ? WHERE id = ?`,
		at.UTC().Format(time.RFC3339Nano), string(f.Outcome), len(f.Limitations) == 0, row); err != nil {
		return err
	}
	return s.finishFacts(row, id, f, at.UnixNano())
}

func (s *Store) addBlob(sha256 string, data []byte) error {
	if data == nil {
		data = []byte{} // not null
	}
	return s.exec(`INSERT OR IGNORE INTO blob (sha256, data) VALUES (?, ?)`, sha256, data)
}

// nanos is for sorting; the record has the time itself.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func orNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}
