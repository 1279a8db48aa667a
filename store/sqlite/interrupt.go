package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

// end is called when a dead writer's spool was read to its end: what was opened and has no end was interrupted.
func (t *tail) end() error {
	t.done = true
	if t.lines.rest() > 0 {
		t.report.Torn++
	}
	if t.row == 0 {
		return nil
	}
	executions, err := t.interruptExecutions()
	if err != nil {
		return err
	}
	tests, err := t.interruptTests()
	if err != nil {
		return err
	}
	t.report.Interrupted += executions + tests
	if t.lost {
		t.report.Lost++
	}
	for _, id := range t.openRuns {
		if err := t.endRun(id, executions+tests > 0); err != nil {
			return err
		}
	}
	t.openRuns = nil
	return nil
}

func (t *tail) interruptExecutions() (int, error) {
	type open struct {
		row int64
		id  execID
	}
	var list []open
	err := t.each(`SELECT id, execution_id FROM execution WHERE spool = ? AND finished_at IS NULL`, func(rows *sql.Rows) error {
		var o open
		err := rows.Scan(&o.row, &o.id)
		list = append(list, o)
		return err
	})
	for _, o := range list {
		if err == nil {
			err = t.s.interruptExecution(o.row, o.id, t.limitation())
		}
	}
	return len(list), err
}

// limitation is why an execution of the spool has no end of its own.
func (t *tail) limitation() trace.Limitation {
	if t.lost {
		return trace.Limitation{Code: "persistence_failed", Message: "the spool that it was recorded in was deleted before it was read to its end: what came after is lost"}
	}
	return trace.Limitation{Code: "interrupted", Message: "the recording stops before the end of the execution: the process that recorded it ended, or could not write any more"}
}

// interruptExecution gives an execution the end that its process could not record. It is as late as the last thing known of it.
func (s *Store) interruptExecution(row int64, id execID, why trace.Limitation) error {
	end := trace.Event{ExecutionID: id, Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"}}
	var body []byte
	var last int64
	err := s.row(`SELECT sequence, body FROM event WHERE execution = ? ORDER BY sequence DESC LIMIT 1`, row).Scan(&last, &body)
	switch {
	case err == nil:
		end.Sequence = last + 1
		// An event that cannot be read has no time either; the trace will say what is wrong with it.
		if ev, err := trace.DecodeEvent(id, body); err == nil {
			end.Time, end.Offset = ev.Time, ev.Offset
		}
	case errors.Is(err, sql.ErrNoRows):
		var b []byte
		if err := s.row(`SELECT record FROM execution WHERE id = ?`, row).Scan(&b); err != nil {
			return err
		}
		rec, err := store.Decode("execution", b)
		if err != nil {
			return err
		}
		end.Time = rec.(*store.Execution).Created
	default:
		return err
	}
	end.Payload, err = json.Marshal(trace.Finished{Outcome: trace.OutcomeInterrupted, Limitations: []trace.Limitation{why}})
	if err != nil {
		return err
	}
	body = trace.AppendEvent(nil, &end)
	if err := s.exec(insertEvent, row, end.Sequence, string(end.Kind), body); err != nil {
		return err
	}
	return s.ended(id, row, end.Kind, body)
}

func (t *tail) interruptTests() (int, error) {
	var list []*store.Test
	err := t.each(`SELECT record FROM test WHERE spool = ? AND is_open`, func(rows *sql.Rows) error {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		rec, err := store.Decode("test", b)
		if err == nil {
			list = append(list, rec.(*store.Test))
		}
		return err
	})
	for _, r := range list {
		r.Status = store.TestInterrupted
		if err == nil {
			err = t.s.addTest(r, t.row)
		}
	}
	return len(list), err
}

// endRun ends a run that the spool's process was to end. Of a plain go test that need not mean anything bad: without m3test.Main
// nothing runs after the last test, and then the run has ended when its last test did.
func (t *tail) endRun(id string, interrupted bool) error {
	var b []byte
	err := t.s.row(`SELECT record FROM run WHERE run_id = ?`, id).Scan(&b)
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	rec, err := store.Decode("run", b)
	if err != nil {
		return err
	}
	run := *rec.(*store.Run)
	if run.Owner == "m3 test" && (run.Finished != nil || t.lost) {
		return nil // it records the end in the database itself, and may live without its spool
	}
	run.Status = store.RunInterrupted
	if run.Owner == "go test" && !interrupted {
		run.Status = store.RunFinished
		last, err := t.lastEnd()
		if err != nil {
			return err
		}
		run.Finished = &last
	}
	return t.s.addRun(&run)
}

// lastEnd is when the last test or execution of the spool ended.
func (t *tail) lastEnd() (time.Time, error) {
	last := t.started
	err := t.each(`SELECT coalesce(finished_at, '') FROM execution WHERE spool = ?1
		UNION ALL SELECT coalesce(record ->> '$.finished_at', '') FROM test WHERE spool = ?1`, func(rows *sql.Rows) error {
		var at string
		if err := rows.Scan(&at); err != nil {
			return err
		}
		if u, err := time.Parse(time.RFC3339Nano, at); err == nil && u.After(last) {
			last = u
		}
		return nil
	})
	return last, err
}

// lost are the spools that were begun, were not read to their end, and are not among files.
func (s *Store) lost(ctx context.Context, files []spool.File) (ids []string, err error) {
	there := make(map[string]bool, len(files))
	for _, f := range files {
		there[f.ID] = true
	}
	err = s.query(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		if !there[id] {
			ids = append(ids, id)
		}
		return err
	}, `SELECT spool_id FROM spool WHERE NOT done`)
	return ids, err
}

// giveUp ends what a deleted spool held. It is called under the ingest lock.
func (s *Store) giveUp(id string, report *IngestReport) error {
	t := &tail{s: s, file: spool.File{ID: id}, report: report, gone: true, lost: true, lines: &lineReader{}, kinds: map[string]string{}}
	if err := t.load(); err != nil {
		return err
	}
	_, err := t.batch()
	return err
}

// each runs a query about the spool's row.
func (t *tail) each(query string, scan func(*sql.Rows) error) error {
	return t.s.each(query, scan, t.row)
}

// each runs a query within the transaction.
func (s *Store) each(query string, scan func(*sql.Rows) error, args ...any) error {
	st, err := s.prepare(query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(background, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
