package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Tally is that of [store.Reader]. It reads no event's body.
func (s *Store) Tally(ctx context.Context, runID string) (map[trace.ExecutionID]store.Tally, error) {
	t := tallying{s: s, ctx: ctx, byRow: map[int64]*tallied{}}
	for _, step := range []func(run string) error{t.executions, t.events, t.evaluations, t.facts, t.large, t.old} {
		if err := step(runID); err != nil {
			return nil, err
		}
	}
	out := make(map[trace.ExecutionID]store.Tally, len(t.byRow))
	for _, x := range t.byRow {
		out[x.id] = x.Tally
	}
	return out, nil
}

type tallying struct {
	s     *Store
	ctx   context.Context
	byRow map[int64]*tallied
}

type tallied struct {
	store.Tally
	id       trace.ExecutionID
	finished bool // and its facts are not known yet
	large    bool
}

func (t *tallying) executions(run string) error {
	return t.s.query(t.ctx, func(rows *sql.Rows) error {
		var row int64
		x := &tallied{Tally: store.Tally{Events: map[trace.Kind]int{}, Evaluations: map[eval.Status]int{}}}
		err := rows.Scan(&row, &x.id, &x.finished)
		t.byRow[row] = x
		return err
	}, `SELECT id, execution_id, finished_at IS NOT NULL FROM execution WHERE run_id = ?`, run)
}

func (t *tallying) events(run string) error {
	kinds := map[string]trace.Kind{}
	return t.s.query(t.ctx, func(rows *sql.Rows) error {
		var row int64
		var kind sql.RawBytes
		var n int
		if err := rows.Scan(&row, &kind, &n); err != nil {
			return err
		}
		k, ok := kinds[string(kind)]
		if !ok {
			k = trace.Kind(kind)
			kinds[string(k)] = k
		}
		if x := t.byRow[row]; x != nil {
			x.Events[k] += n
		}
		return nil
	}, `SELECT e.id, v.kind, count(*) FROM execution e CROSS JOIN event v ON v.execution = e.id WHERE e.run_id = ? GROUP BY e.id, v.kind`, run)
}

func (t *tallying) evaluations(run string) error {
	return t.s.query(t.ctx, func(rows *sql.Rows) error {
		var row int64
		var status string
		var n int
		err := rows.Scan(&row, &status, &n)
		if x := t.byRow[row]; x != nil {
			x.Evaluations[eval.Status(status)] += n
		}
		return err
	}, `SELECT execution, status, count(*) FROM evaluation WHERE run = (SELECT id FROM word WHERE text = ?) AND execution IS NOT NULL GROUP BY execution, status`, run)
}

// facts reads what is known of finished executions.
func (t *tallying) facts(run string) error {
	var interner aggregate.Interner
	var f aggregate.Facts
	return t.s.query(t.ctx, func(rows *sql.Rows) error {
		var page int64
		var data sql.RawBytes
		if err := rows.Scan(&page, &data); err != nil {
			return err
		}
		return eachExecution(data, func(slot int, _ int64, facts []byte) error {
			x := t.byRow[page<<slotBits|int64(slot)]
			if x == nil {
				return nil
			}
			if slices.Equal(facts, elsewhere) {
				x.large = true
				return nil
			}
			if err := f.Decode(facts, &interner); err != nil {
				return err
			}
			x.learn(&f)
			return nil
		})
	}, `SELECT p.id, p.data FROM execution_page p WHERE p.id IN (SELECT id >> ? FROM execution WHERE run_id = ?)`, slotBits, run)
}

func (x *tallied) learn(f *aggregate.Facts) {
	if f.Finished {
		x.Add(f)
		x.finished = false
	}
}

func (t *tallying) large(string) error {
	for row, x := range t.byRow {
		if !x.large {
			continue
		}
		err := t.s.query(t.ctx, func(rows *sql.Rows) error {
			var data []byte
			var f aggregate.Facts
			if err := rows.Scan(&data); err != nil {
				return err
			}
			if err := f.Decode(data, &aggregate.Interner{}); err != nil {
				return err
			}
			x.learn(&f)
			return nil
		}, `SELECT facts FROM execution_facts WHERE execution = ?`, row)
		if err != nil {
			return err
		}
	}
	return nil
}

// old works out what an earlier m3 did not keep.
func (t *tallying) old(string) error {
	for _, x := range t.byRow {
		if !x.finished {
			continue
		}
		tr, err := t.s.Trace(t.ctx, x.id)
		if err != nil {
			return err
		}
		var f aggregate.Facts
		f.Finish(tr, trace.Finished{}, 0)
		x.learn(&f)
	}
	return nil
}

// Events is that of [store.Reader].
func (s *Store) Events(ctx context.Context, q *store.EventQuery, yield func(*trace.Event) error) error {
	where, args := "true", []any(nil)
	add := func(condition string, value any) { where, args = where+" AND "+condition, append(args, value) }
	if q.RunID != "" {
		add("e.run_id = ?", q.RunID)
	}
	if q.Execution != "" {
		add("e.execution_id = ?", string(q.Execution))
	}
	if len(q.Kinds) > 0 {
		b, err := json.Marshal(q.Kinds)
		if err != nil {
			return err
		}
		add("v.kind IN (SELECT value FROM json_each(?))", string(b))
	}
	if q.Method != "" { // most others are left out here, the rest once they are decoded
		add("instr(v.body, CAST(? AS BLOB)) > 0", string(trace.AppendString([]byte(`"method":`), q.Method)))
	}
	rows, err := s.readDB.QueryContext(ctx, `SELECT e.execution_id, v.body FROM execution e CROSS JOIN event v ON v.execution = e.id
		WHERE `+where+` ORDER BY e.created_ns, e.id, v.sequence`, args...)
	if err != nil {
		return s.readError(ctx, err)
	}
	defer rows.Close()
	log := &eventLog{s: s} // for its blobs
	for rows.Next() {
		var id string
		var body sql.RawBytes
		if err := rows.Scan(&id, &body); err != nil {
			return s.readError(ctx, err)
		}
		if err := q.Yield(trace.ExecutionID(id), body, log, yield); err != nil {
			return err
		}
	}
	return s.readError(ctx, rows.Err())
}
