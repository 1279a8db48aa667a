// Package spool is the store that a test process writes: append-only JSON Lines beside the SQLite file that will take them in.
//
// One process writes one file, <database>.spool/<run>/<id>.jsonl, and holds its flock for life. Line 1 is the [Header]; every other
// line is one record. All records of one Append are one write(2), made before Append returns, so what was
// acknowledged is in the kernel's hands and survives the process however it ends. Nothing is synced: a crash of the
// machine may cost the last seconds. Large payloads are files of their own, blobs/<sha256> beside the spools of the
// run, written before the line that tells of them.
//
// In its own process the store is also a full Reader over what the process wrote. It keeps 16 bytes of memory an event and reads
// the rest back from the file.
//
// [store/sqlite] takes spools in and deletes them; the functions for that are here, because the format is.
package spool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// keepBuffer is the largest write buffer that is kept for the next write.
const keepBuffer = 1 << 20

// reserved is how many bytes of the disk are kept for ends. One is some hundred.
const reserved = 32 << 10

// Config says whose spool it is. Database and RunID are needed.
type Config struct {
	// Database is the absolute path of the SQLite file beside which the spool is written. It need not exist.
	Database string
	// RunID is the run that the process is part of.
	RunID string
	// Package is the import path of the package under test, for messages.
	Package string
	// Version is that of m3, for messages.
	Version string
	// AfterWrite, if set, is called after each write with its number from 1, on the writing goroutine: header, blobs and lines. It is
	// there for tests that kill the process at every point.
	AfterWrite func(n int64)
}

// Store is a [store.Store] on a spool. It may be used from several goroutines.
type Store struct {
	store.Index // the catalog's
	catalog     *store.Catalog

	dir     string // of the run
	reserve string // the file that keeps room for ends; empty once that was given up
	file    File
	f       *os.File
	dirf    *os.File // holds the run's directory
	after   func(int64)
	closed  bool

	mu      sync.Mutex
	off     int64 // the end of the last whole line
	buf     []byte
	pending []pending
	writes  int64
	failed  error // why nothing can be written any more
	blobs   map[string]struct{}
}

// pending is a record that is in the buffer and not yet written.
type pending struct {
	rec   store.Record
	log   *eventLog // of an event or a new execution
	place place
	end   *finished
}

type finished struct {
	f  trace.Finished
	at time.Time
}

var _ store.Store = (*Store)(nil)

// Open makes a new spool, with the directories that it needs, and writes its header. Ctx bounds the opening only.
func Open(ctx context.Context, cfg *Config) (*Store, error) {
	switch {
	case cfg == nil || cfg.Database == "" || cfg.RunID == "":
		return nil, errors.New("spool: Config needs Database and RunID")
	case !filepath.IsAbs(cfg.Database):
		return nil, fmt.Errorf("spool: the database's path %q must be absolute", cfg.Database)
	}
	c := &store.Catalog{}
	s := &Store{Index: c, catalog: c, dir: filepath.Join(Dir(cfg.Database), runDir(cfg.RunID)), after: cfg.AfterWrite, blobs: map[string]struct{}{}}
	if err := s.create(ctx, cfg); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("spool: cannot record beside %s: %w", cfg.Database, err)
	}
	return s, nil
}

func (s *Store) create(ctx context.Context, cfg *Config) (err error) {
	if s.dirf, err = enter(ctx, s.dir); err != nil {
		return err
	}
	id := rand.Text()
	s.file = File{ID: id, Path: filepath.Join(s.dir, id+suffix)}
	temp := filepath.Join(s.dir, "."+id+suffix)
	if s.f, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	if err := Lock(ctx, s.f, syscall.LOCK_EX); err != nil {
		return err
	}
	head, err := json.Marshal(Header{Format: Version, Version: cfg.Version, RunID: cfg.RunID, Package: cfg.Package,
		PID: os.Getpid(), Started: time.Now().UTC(), Database: cfg.Database})
	if err != nil {
		return err
	}
	s.buf = append(append(s.buf, head...), '\n')
	if err := s.write(); err != nil {
		return err
	}
	// On a disk that fills up, the ends of executions and tests still find room, and can say why what is before them is not whole.
	s.reserve = filepath.Join(s.dir, "."+id+".reserve")
	if err := os.WriteFile(s.reserve, make([]byte, reserved), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, s.file.Path); err != nil {
		return err
	}
	s.wrote()
	return nil
}

// Path is the spool's file.
func (s *Store) Path() string { return s.file.Path }

// Append is that of [store.Recorder]. All its records are one write; when it fails, none of them is there.
func (s *Store) Append(ctx context.Context, recs ...store.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, rec := range recs {
		if err := store.Check(rec); err != nil {
			return err
		}
	}
	if len(recs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if s.failed != nil {
		return s.failed
	}
	err := s.encode(recs)
	if err == nil {
		err = s.write()
	}
	if errors.Is(err, syscall.ENOSPC) && s.matters() && s.makeRoom() {
		err = s.write()
	}
	if err == nil && s.matters() {
		err = s.there()
	}
	if err != nil {
		s.forget()
		return err
	}
	s.apply()
	s.wrote()
	return nil
}

// encode puts the lines of recs into the buffer and says in pending what they mean.
func (s *Store) encode(recs []store.Record) error {
	for _, rec := range recs {
		p := pending{rec: rec}
		var err error
		switch r := rec.(type) {
		case *store.Event:
			err = s.encodeEvent(r, &p)
		case *store.Blob:
			if err = s.putBlob(r); err == nil {
				s.buf = appendBlob(s.buf, r)
			}
		default:
			err = s.encodeValue(rec, &p)
		}
		if err != nil {
			return err
		}
		s.pending = append(s.pending, p)
	}
	return nil
}

func (s *Store) encodeEvent(r *store.Event, p *pending) (err error) {
	if p.log, err = s.log(r.ExecutionID); err != nil {
		return err
	}
	if err := p.log.check(r); err != nil {
		return err
	}
	if r.Kind == trace.KindExecutionFinished {
		var end finished
		if end.f, end.at, err = store.DecodeFinished(r.ExecutionID, r.Body); err != nil {
			return err
		}
		p.end, p.log.finished = &end, true
	}
	p.log.next = r.Sequence + 1
	buf, from, to, coded := appendEvent(s.buf, r)
	s.buf = buf
	p.place = place{off: s.off + int64(from), n: uint32(to - from), coded: coded}
	return nil
}

func (s *Store) encodeValue(rec store.Record, p *pending) error {
	b, err := store.Encode(rec)
	if err != nil {
		return err
	}
	if x, ok := rec.(*store.Execution); ok {
		p.log = &eventLog{s: s, id: x.ID}
	}
	s.buf = appendValue(s.buf, rec.Type(), b)
	return nil
}

// log finds an execution's log, also when the execution is new in the same Append.
func (s *Store) log(id trace.ExecutionID) (*eventLog, error) {
	l, err := s.catalog.Log(id)
	if err == nil {
		return l.(*eventLog), nil
	}
	for _, p := range s.pending {
		if x, ok := p.rec.(*store.Execution); ok && x.ID == id {
			return p.log, nil
		}
	}
	return nil, err
}

// write writes the buffer in one go. After a failure the file ends where it did before, or nothing more is written.
func (s *Store) write() error {
	n, err := s.f.Write(s.buf)
	if err == nil {
		s.off += int64(n)
		return nil
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // it names the file as it was called when it was made
	}
	err = fmt.Errorf("spool: write to %s: %w", s.file.Path, err)
	if n > 0 {
		if terr := s.f.Truncate(s.off); terr != nil {
			s.failed = fmt.Errorf("%w (and the part that was written stays: %w)", err, terr)
		}
	}
	return err
}

// matters reports whether what is written is more than events of an execution that goes on: then it is worth a look whether the file is still
// there, and the room that was kept.
func (s *Store) matters() bool {
	return slices.ContainsFunc(s.pending, func(p pending) bool {
		_, event := p.rec.(*store.Event)
		return !event || p.end != nil
	})
}

// makeRoom gives up the room that was kept for ends, once.
func (s *Store) makeRoom() bool {
	if s.reserve == "" || s.failed != nil {
		return false
	}
	err := os.Truncate(s.reserve, 0)
	s.dropReserve()
	return err == nil
}

func (s *Store) dropReserve() {
	if s.reserve != "" {
		_ = os.Remove(s.reserve) // what is left goes with the directory
		s.reserve = ""
	}
}

// there finds out whether somebody deleted the file under its writer: then what is written goes nowhere. Nothing more is written.
func (s *Store) there() error {
	info, err := s.f.Stat()
	if err != nil {
		return s.readError(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
		s.failed = fmt.Errorf("spool: %s was deleted while it was recorded into: what it held is lost, as far as it was not taken in before", s.file.Path)
		return s.failed
	}
	return nil
}

// wrote clears the buffer after a write and lets the test hook see it.
func (s *Store) wrote() {
	s.buf = s.buf[:0]
	if cap(s.buf) > keepBuffer {
		s.buf = nil
	}
	clear(s.pending)
	s.pending = s.pending[:0]
	s.count()
}

func (s *Store) count() {
	s.writes++
	if s.after != nil {
		s.after(s.writes)
	}
}

// apply makes what was written visible to readers.
func (s *Store) apply() {
	for _, p := range s.pending {
		switch r := p.rec.(type) {
		case *store.Event:
			p.log.put(r.Sequence, p.place)
			if p.end != nil {
				s.catalog.Finish(r.ExecutionID, p.end.f, p.end.at)
			}
		case *store.Blob:
		default:
			// Encoded once already, so it cannot fail.
			_ = s.catalog.Add(r, func(trace.ExecutionID) trace.Log { return p.log })
		}
	}
}

// forget takes back what encode noted, after a write that failed.
func (s *Store) forget() {
	for _, p := range s.pending {
		if _, ok := p.rec.(*store.Event); ok {
			p.log.next = int64(p.log.Len())
			p.log.finished = false
		}
	}
	s.buf = s.buf[:0]
	clear(s.pending)
	s.pending = s.pending[:0]
}

// Trace is that of [store.Reader].
func (s *Store) Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log, err := s.catalog.Log(id)
	if err != nil {
		return nil, err
	}
	return trace.New(id, log), nil
}

// ReadRawEvidence is that of [store.Reader].
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

// Close is that of [store.Recorder]: it lets go of the spool, which from then on may be taken in and deleted. Traces that were
// handed out cannot be read afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.dropReserve()
	s.catalog.Close()
	var errs []error
	if s.f != nil && s.failed == nil && s.off > 0 {
		errs = append(errs, s.there())
	}
	for _, f := range []*os.File{s.f, s.dirf} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
