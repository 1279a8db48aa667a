package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

// A transaction ends after so much, so that neither memory nor other writers wait for a long spool.
const (
	batchLines = 4096
	batchBytes = 8 << 20
)

// maxProblems is how many problems a report holds; the rest are counted.
const maxProblems = 20

// IngestReport says what taking in did.
type IngestReport struct {
	Spools  int   `json:"spools"`  // that were looked at
	Live    int   `json:"live"`    // whose writer lives
	Removed int   `json:"removed"` // read to their end and deleted
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Torn counts the last lines that their writer did not finish. They were never acknowledged, and are dropped.
	Torn int `json:"torn,omitempty"`
	// Interrupted counts the tests and executions that were open when their process went.
	Interrupted int `json:"interrupted,omitempty"`
	// Lost counts the spools that somebody deleted before they were read to their end.
	Lost int `json:"lost,omitempty"`
	// Bad counts the lines that could not be read or kept. A spool with such lines is not deleted but renamed to *.jsonl.bad.
	Bad      int       `json:"bad,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // the first 20 of the bad lines
}

// Problem is a line of a spool that could not be read or kept.
type Problem struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"` // of the line
	Reason string `json:"reason"`
}

func (r *IngestReport) add(o *IngestReport) {
	r.Spools += o.Spools
	r.Live += o.Live
	r.Removed += o.Removed
	r.Records += o.Records
	r.Bytes += o.Bytes
	r.Torn += o.Torn
	r.Interrupted += o.Interrupted
	r.Lost += o.Lost
	r.Bad += o.Bad
	for _, p := range o.Problems {
		r.problem(p)
	}
}

func (r *IngestReport) problem(p Problem) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
}

// Ingest takes in what the database's spools hold now, as far as it is not there yet, and deletes those that are done. It may be
// called again and again while tests run, and from several processes: one at a time works, the others wait for it until
// ctx ends. A spool that cannot be taken in does not keep the others out; its error is in the error returned.
//
// A spool that was begun and is gone was deleted by somebody. What it held after that is lost: its executions and tests that have no end get one, which
// says so.
func (s *Store) Ingest(ctx context.Context) (IngestReport, error) { return s.ingest(ctx, ctx) }

// IngestWithin is Ingest, but waits for another process that takes in for so long at most: then the error wraps [ErrLocked].
func (s *Store) IngestWithin(ctx context.Context, wait time.Duration) (IngestReport, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.ingest(ctx, bounded)
}

// ErrLocked is wrapped by the error of an Open or IngestWithin that waited in vain for another process that takes in spools.
var ErrLocked = errors.New("another process is taking in spools")

// Ingested sums up everything that this Store has taken in, Open included.
func (s *Store) Ingested() IngestReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *Store) ingest(ctx, wait context.Context) (IngestReport, error) {
	var report IngestReport
	files, err := spool.List(s.path)
	if err != nil {
		return report, err
	}
	lost, err := s.lost(ctx, files)
	if err == nil && len(files)+len(lost) == 0 {
		err = spool.Sweep(s.path)
	}
	if err != nil || len(files)+len(lost) == 0 {
		return report, err
	}
	unlock, err := s.lock(wait)
	if err != nil {
		return report, err
	}
	defer unlock()
	// Again: while we waited, somebody else may have taken in all of them.
	if files, err = spool.List(s.path); err != nil {
		return report, err
	}
	if lost, err = s.lost(ctx, files); err != nil {
		return report, err
	}
	var errs []error
	for _, id := range lost {
		if err := s.giveUp(id, &report); err != nil {
			errs = append(errs, fmt.Errorf("end what the deleted spool %s held: %w", id, err))
		}
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if err := s.ingestFile(ctx, f, &report); err != nil {
			errs = append(errs, fmt.Errorf("take in %s: %w", f.Path, err))
		}
	}
	errs = append(errs, spool.Sweep(s.path))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.add(&report)
	return report, errors.Join(errs...)
}

// tail is one spool while it is taken in.
type tail struct {
	s      *Store
	file   spool.File
	lines  *lineReader
	report *IngestReport
	gone   bool // its writer
	lost   bool // it was deleted: gone is true as well, and nothing is left to read

	row      int64
	offset   int64
	bad      int
	openRuns []string // that the process is to end and has not
	started  time.Time
	done     bool

	line   spool.Line
	kinds  map[string]string // so that a kind is not allocated for each event
	lastID []byte            // the execution of the last event, and its row
	last   int64
}

func (s *Store) ingestFile(ctx context.Context, file spool.File, report *IngestReport) error {
	f, err := os.Open(file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	// First whether the writer is gone, then how long the file is: then a dead writer's is whole.
	gone, err := spool.WriterGone(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	report.Spools++
	t := &tail{s: s, file: file, report: report, gone: gone, kinds: map[string]string{}}
	if err := t.load(); err != nil {
		return err
	}
	t.lines = &lineReader{f: f, off: t.offset, size: info.Size()}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if more, err = t.batch(); err != nil {
			return err
		}
	}
	if !gone {
		report.Live++
		return nil
	}
	if t.bad > 0 {
		return spool.SetAside(file)
	}
	report.Removed++
	return spool.Remove(file)
}

// load reads how far the spool was taken in.
func (t *tail) load() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.s.closed {
		return store.ErrClosed
	}
	var started string
	var runs []byte
	err := t.s.row(`SELECT id, started_at, offset, bad, open_runs, done FROM spool WHERE spool_id = ?`, t.file.ID).
		Scan(&t.row, &started, &t.offset, &t.bad, &runs, &t.done)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(runs, &t.openRuns)
	}
	if err == nil {
		t.started, err = time.Parse(time.RFC3339Nano, started)
	}
	return err
}

// batch takes in one transaction's worth of lines, with the offset that they lead to. It reports whether there may be more.
func (t *tail) batch() (more bool, err error) {
	if t.lines.done() && (!t.gone || t.done) {
		return false, nil
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.s.closed {
		return false, store.ErrClosed
	}
	counted := *t.report
	err = t.s.transact(func() error {
		n, size, err := t.read()
		if err != nil {
			return err
		}
		more = n >= batchLines || size >= batchBytes
		t.report.Records += n
		t.report.Bytes += size
		if t.gone && !more {
			if err := t.end(); err != nil {
				return err
			}
		}
		return t.save()
	})
	if err != nil {
		*t.report = counted // what a failed transaction counted does not count
	}
	return more, err
}

func (t *tail) read() (n int, size int64, err error) {
	for n < batchLines && size < batchBytes {
		at := t.lines.off
		line, ok, err := t.lines.next()
		if err != nil || !ok {
			return n, size, err
		}
		t.offset = t.lines.off
		size += int64(len(line)) + 1
		n++
		if err := t.take(line); err != nil {
			var bad *recordError
			if !errors.As(err, &bad) {
				return n, size, err
			}
			t.bad++
			t.report.Bad++
			t.report.problem(Problem{Path: t.file.Path, Offset: at, Reason: err.Error()})
		}
	}
	return n, size, nil
}

// take takes in one line.
func (t *tail) take(line []byte) error {
	if t.row == 0 {
		return t.header(line)
	}
	if err := t.line.Decode(line); err != nil {
		return &recordError{err}
	}
	switch l := &t.line; l.Type {
	case "event":
		return t.event(l)
	case "blob":
		return t.blob(l)
	default:
		rec, err := store.Decode(l.Type, l.Value)
		if err != nil {
			return &recordError{err}
		}
		if r, ok := rec.(*store.Run); ok {
			t.noteRun(r)
		}
		return t.s.addRecord(rec, t.row)
	}
}

// noteRun remembers which runs are the process's own to end. Of a run whose owner it does not name it is only a part.
func (t *tail) noteRun(r *store.Run) {
	t.openRuns = slices.DeleteFunc(t.openRuns, func(id string) bool { return id == r.ID })
	if r.Finished == nil && r.Owner != "" {
		t.openRuns = append(t.openRuns, r.ID)
	}
}

func (t *tail) header(line []byte) error {
	h, err := spool.ParseHeader(line)
	if err != nil {
		return err
	}
	t.started = h.Started.UTC()
	return t.s.row(`INSERT INTO spool (spool_id, run_id, package, pid, started_at, m3_version) VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
		t.file.ID, h.RunID, h.Package, h.PID, t.started.Format(time.RFC3339Nano), h.Version).Scan(&t.row)
}

func (t *tail) event(l *spool.Line) error {
	if string(l.ExecutionID) != string(t.lastID) || t.last == 0 {
		row, err := t.s.execution(execID(l.ExecutionID))
		if errors.Is(err, errEnded) && t.there(l) {
			return nil // read again
		}
		if err != nil {
			return err
		}
		t.lastID, t.last = append(t.lastID[:0], l.ExecutionID...), row
	}
	row := t.last
	kind, ok := t.kinds[string(l.Kind)]
	if !ok {
		kind = string(l.Kind)
		t.kinds[kind] = kind
	}
	if err := t.s.exec(insertEvent, row, l.Sequence, kind, l.Body); err != nil {
		return err
	}
	if trace.Kind(kind) == trace.KindExecutionFinished {
		t.last = 0
	}
	return t.s.ended(execID(l.ExecutionID), row, trace.Kind(kind), l.Body)
}

// there reports whether an event is in the database.
func (t *tail) there(l *spool.Line) (ok bool) {
	err := t.s.row(`SELECT EXISTS (SELECT 1 FROM event v JOIN execution e ON e.id = v.execution WHERE e.execution_id = ? AND v.sequence = ?)`,
		string(l.ExecutionID), l.Sequence).Scan(&ok)
	return ok && err == nil
}

// blob reads a blob's file, unless another spool brought the same one.
func (t *tail) blob(l *spool.Line) error {
	var there bool
	if err := t.s.row(`SELECT EXISTS (SELECT 1 FROM blob WHERE sha256 = ?)`, l.SHA256).Scan(&there); err != nil || there {
		return err
	}
	data, err := os.ReadFile(t.file.Blob(l.SHA256))
	if err != nil {
		return badRecord("blob %s: %w", l.SHA256, err)
	}
	if int64(len(data)) != l.Size {
		return badRecord("blob %s has %d bytes, want %d", l.SHA256, len(data), l.Size)
	}
	return t.s.addBlob(l.SHA256, data)
}

func (t *tail) save() error {
	if t.row == 0 {
		return nil // cut within its header: nothing in it was ever acknowledged
	}
	runs, err := json.Marshal(append([]string{}, t.openRuns...)) // not null
	if err != nil {
		return err
	}
	return t.s.exec(`UPDATE spool SET offset = ?, bad = ?, open_runs = ?, done = ? WHERE id = ?`, t.offset, t.bad, string(runs), t.done, t.row)
}
