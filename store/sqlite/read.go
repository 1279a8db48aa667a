package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// records reads the record column of a query.
func records[T any, R interface {
	*T
	store.Record
}](ctx context.Context, s *Store, query string, args ...any) ([]T, error) {
	var out []T
	err := s.query(ctx, func(rows *sql.Rows) error {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		rec, err := store.Decode(R(nil).Type(), b)
		if err != nil {
			return err
		}
		out = append(out, *rec.(R))
		return nil
	}, query, args...)
	return out, err
}

func (s *Store) query(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.readDB.QueryContext(ctx, query, args...)
	if err != nil {
		return s.readError(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.readError(ctx, err)
		}
	}
	return s.readError(ctx, rows.Err())
}

func (s *Store) readError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(err.Error(), "database is closed"):
		return store.ErrClosed
	}
	return fmt.Errorf("sqlite: read %s: %w", s.path, err)
}

// Runs is that of [store.Reader].
func (s *Store) Runs(ctx context.Context) ([]store.Run, error) {
	return records[store.Run](ctx, s, `SELECT record FROM run ORDER BY started_ns DESC, id DESC`)
}

// Run is that of [store.Reader].
func (s *Store) Run(ctx context.Context, id string) (store.Run, error) {
	runs, err := records[store.Run](ctx, s, `SELECT record FROM run WHERE run_id = ?`, id)
	if err != nil {
		return store.Run{}, err
	}
	if len(runs) == 0 {
		return store.Run{}, fmt.Errorf("%w: run %q", store.ErrNotFound, id)
	}
	return runs[0], nil
}

// Suites is that of [store.Reader].
func (s *Store) Suites(ctx context.Context, runID string) ([]store.Suite, error) {
	var out []store.Suite
	err := s.query(ctx, func(rows *sql.Rows) error {
		var u store.Suite
		err := rows.Scan(&u.ID, &u.RunID, &u.Name)
		out = append(out, u)
		return err
	}, `SELECT suite_id, run_id, suite_name FROM suite WHERE ?1 = '' OR run_id = ?1 ORDER BY suite_name, suite_id`, runID)
	return out, err
}

// Tests is that of [store.Reader].
func (s *Store) Tests(ctx context.Context, runID string) ([]store.Test, error) {
	return records[store.Test](ctx, s, `SELECT record FROM test WHERE run_id = ? ORDER BY started_ns, id`, runID)
}

// Items is that of [store.Reader].
func (s *Store) Items(ctx context.Context, runID string) ([]store.Item, error) {
	return records[store.Item](ctx, s, `SELECT record FROM item WHERE run_id = ? ORDER BY id`, runID)
}

// Executions is that of [store.Reader].
func (s *Store) Executions(ctx context.Context, q *store.ExecutionQuery) ([]store.ExecutionInfo, error) {
	if q == nil {
		q = &store.ExecutionQuery{}
	}
	var where []string
	var args []any
	for _, c := range []struct{ column, value string }{
		{"e.run_id", q.RunID}, {"u.suite_name", strings.TrimSpace(q.Suite)}, {"e.case_id", q.Case}, {"e.test_id", q.TestID},
	} {
		if c.value != "" {
			where, args = append(where, c.column+" = ?"), append(args, c.value)
		}
	}
	if len(where) == 0 {
		where = []string{"true"}
	}
	return s.executions(ctx, strings.Join(where, " AND "), args...)
}

// Execution is that of [store.Reader].
func (s *Store) Execution(ctx context.Context, id trace.ExecutionID) (store.ExecutionInfo, error) {
	infos, err := s.executions(ctx, "e.execution_id = ?", string(id))
	if err != nil {
		return store.ExecutionInfo{}, err
	}
	if len(infos) == 0 {
		return store.ExecutionInfo{}, fmt.Errorf("%w: execution %q", store.ErrNotFound, id)
	}
	return infos[0], nil
}

func (s *Store) executions(ctx context.Context, where string, args ...any) ([]store.ExecutionInfo, error) {
	var out []store.ExecutionInfo
	err := s.query(ctx, func(rows *sql.Rows) error {
		info, err := scanExecution(rows)
		out = append(out, info)
		return err
	}, `SELECT e.record, e.suite_id, e.finished_at, e.outcome, e.complete,
			coalesce((SELECT max(sequence) + 1 FROM event WHERE execution = e.id), 0)
		FROM execution e LEFT JOIN suite u ON u.suite_id = e.suite_id
		WHERE `+where+` ORDER BY e.created_ns, e.id`, args...)
	return out, err
}

func scanExecution(rows *sql.Rows) (store.ExecutionInfo, error) {
	var info store.ExecutionInfo
	var b []byte
	var suite sql.NullInt64
	var finished, outcome sql.NullString
	if err := rows.Scan(&b, &suite, &finished, &outcome, &info.Complete, &info.EventCount); err != nil {
		return info, err
	}
	rec, err := store.Decode("execution", b)
	if err != nil {
		return info, err
	}
	info.Execution = *rec.(*store.Execution)
	info.SuiteID, info.Outcome = store.SuiteID(suite.Int64), trace.Outcome(outcome.String)
	if finished.Valid {
		at, err := time.Parse(time.RFC3339Nano, finished.String)
		if err != nil {
			return info, err
		}
		info.Finished = &at
	}
	return info, nil
}

// Trace is that of [store.Reader].
func (s *Store) Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error) {
	log, err := s.log(ctx, id)
	if err != nil {
		return nil, err
	}
	return trace.New(id, log), nil
}

// ReadRawEvidence is that of [store.Reader].
func (s *Store) ReadRawEvidence(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) (store.Evidence, error) {
	var failed error // of the database, not of the reference
	ev, err := store.ReadEvidence(func(id trace.ExecutionID) (trace.Log, error) {
		log, err := s.log(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			failed = err
		}
		return log, err
	}, ref, maxBytes)
	if failed != nil {
		return store.Evidence{}, failed
	}
	return ev, err
}
