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

// Whoever reads a trace reads it from the first event to the last: events are fetched ahead.
const (
	windowEvents = 256
	windowBytes  = 1 << 20
)

// eventLog is the trace.Log of one execution in the database.
type eventLog struct {
	s   *Store
	id  execID
	row int64

	mu       sync.Mutex
	finished bool // n does not change any more
	n        int
	first    int // of the window
	window   [][]byte
	last     int // the event that was asked for last
}

func (s *Store) log(ctx context.Context, id execID) (*eventLog, error) {
	l := &eventLog{s: s, id: id, last: -2}
	var finished bool
	err := s.readDB.QueryRowContext(ctx, `SELECT id, finished_at IS NOT NULL FROM execution WHERE execution_id = ?`, string(id)).Scan(&l.row, &finished)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: execution %q", store.ErrNotFound, id)
	}
	if err == nil {
		l.n, err = l.count()
	}
	if err != nil {
		return nil, s.readError(ctx, err)
	}
	l.finished = finished
	return l, nil
}

func (l *eventLog) count() (n int, err error) {
	err = l.s.readDB.QueryRowContext(background, `SELECT coalesce(max(sequence) + 1, 0) FROM event WHERE execution = ?`, l.row).Scan(&n)
	return n, err
}

// Len is that of [trace.Log]. When the database cannot be read it is what it was.
func (l *eventLog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished {
		return l.n
	}
	if n, err := l.count(); err == nil {
		l.n = n
	}
	return l.n
}

// AppendEvent is that of [trace.Log].
func (l *eventLog) AppendEvent(dst []byte, i int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < l.first || i >= l.first+len(l.window) {
		limit := 1
		if i == l.last+1 {
			limit = windowEvents
		}
		if err := l.fetch(i, limit); err != nil {
			return dst, l.s.readError(background, err)
		}
	}
	l.last = i
	if i < l.first || i >= l.first+len(l.window) || l.window[i-l.first] == nil {
		return dst, fmt.Errorf("sqlite: event %d was never stored", i)
	}
	return append(dst, l.window[i-l.first]...), nil
}

// fetch fills the window with the events from i on. One that is missing stays nil.
func (l *eventLog) fetch(i, limit int) error {
	l.first, l.window = i, l.window[:0]
	rows, err := l.s.readDB.QueryContext(background, `SELECT sequence, body FROM event WHERE execution = ? AND sequence >= ? AND sequence < ? ORDER BY sequence`, l.row, i, i+limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	size := 0
	for size < windowBytes && rows.Next() {
		var seq int
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return err
		}
		for l.first+len(l.window) < seq {
			l.window = append(l.window, nil)
		}
		l.window = append(l.window, body)
		size += len(body)
	}
	return rows.Err()
}

// HasBlob reports whether the database has the blob, without reading it.
func (l *eventLog) HasBlob(sha256 string) bool {
	var one int
	return l.s.readDB.QueryRowContext(background, `SELECT 1 FROM blob WHERE sha256 = ?`, sha256).Scan(&one) == nil
}

// Blob is that of [trace.Log].
func (l *eventLog) Blob(sha256 string) ([]byte, error) {
	var b []byte
	err := l.s.readDB.QueryRowContext(background, `SELECT data FROM blob WHERE sha256 = ?`, sha256).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: blob %s", store.ErrNotFound, sha256)
	}
	if err != nil {
		return nil, l.s.readError(background, err)
	}
	return b, nil
}

var _ trace.Log = (*eventLog)(nil)
