// Package sqlite is the store that keeps: one SQLite file that holds runs, suites, tests, executions, events and blobs. The
// command m3 fills it from the spools that test processes leave beside it; a program may pass it to a kit as its store.
//
//	st, err := sqlite.Open(".m3/executions.sqlite")
//	…
//	v, err := st.Trace(ctx, id) // and then .View()
//
// The file is private to its owner (0600), in WAL mode; after the last Close it is one file. The view "executions" has one
// readable row an execution, for who likes SQL better.
//
// A test binary had better not import this package: it is large to link, and several test processes would contend for one
// file. That is what store/spool is for.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

type execID = trace.ExecutionID

// Store is a [store.Store] in an SQLite file. It may be used from several goroutines, and several processes may have the
// file open.
type Store struct {
	path    string
	readDB  *sql.DB
	writeDB *sql.DB

	mu     sync.Mutex // guards all below: there is one writer
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	rows   map[execID]int64 // open executions that were written to
	pages  pages
	words  map[string]int64 // some of the words
	sets   map[string]int64 // sets of labels, as words
	total  IngestReport
	closed bool
}

var _ store.Store = (*Store)(nil)

// Path is the database's absolute path.
func (s *Store) Path() string { return s.path }

// Append is that of [store.Recorder]. It is one transaction: all of the records are kept, or none.
func (s *Store) Append(ctx context.Context, recs ...store.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, rec := range recs {
		if err := store.Check(rec); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return s.transact(func() error {
		for _, rec := range recs {
			if err := s.add(rec, 0); err != nil {
				return fmt.Errorf("sqlite: %w", err)
			}
		}
		return nil
	})
}

// transact is called under s.mu.
func (s *Store) transact(do func() error) error {
	if err := s.exec(`BEGIN IMMEDIATE`); err != nil {
		return fmt.Errorf("sqlite: write to %s: %w", s.path, err)
	}
	defer s.pages.clear() // another process may change them next
	err := do()
	if err == nil {
		err = s.flush()
	}
	if err == nil {
		if err = s.exec(`COMMIT`); err == nil {
			return nil
		}
		err = fmt.Errorf("sqlite: write to %s: %w", s.path, err)
	}
	// What is known about rows may be of the transaction that failed.
	clear(s.rows)
	clear(s.words)
	clear(s.sets)
	if rerr := s.exec(`ROLLBACK`); rerr != nil {
		err = errors.Join(err, fmt.Errorf("sqlite: roll back: %w", rerr))
	}
	return err
}

// The statements run without the caller's context: the driver starts a goroutine for each that has one, and none blocks for
// longer than the busy timeout.
var background = context.Background()

func (s *Store) exec(query string, args ...any) error {
	st, err := s.prepare(query)
	if err != nil {
		return err
	}
	_, err = st.ExecContext(background, args...)
	return err
}

func (s *Store) row(query string, args ...any) *sql.Row {
	st, err := s.prepare(query)
	if err != nil {
		return s.conn.QueryRowContext(background, query, args...) // says the same
	}
	return st.QueryRowContext(background, args...)
}

func (s *Store) prepare(query string) (*sql.Stmt, error) {
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(background, query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

// Close is that of [store.Recorder].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	// The writer goes last: it puts the log into the file.
	if s.readDB != nil {
		errs = append(errs, s.readDB.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.writeDB != nil {
		errs = append(errs, s.writeDB.Close())
	}
	return errors.Join(errs...)
}
