package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Aggregate is that of [store.Reader]. It reads the pages that are kept for it, not the rows.
func (s *Store) Aggregate(ctx context.Context, q eval.Query) (eval.Report, error) {
	e, err := aggregate.New(q)
	if err != nil {
		return eval.Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return eval.Report{}, err
	}
	tx, err := s.readDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // all of it is of one moment
	if err != nil {
		return eval.Report{}, s.readError(ctx, err)
	}
	defer func() { _ = tx.Rollback() }()
	a := &aggregation{Engine: e, s: s, ctx: ctx, tx: tx, q: &q, sets: map[int64]int{}, execSets: map[int64]int{}}
	a.details, a.wanted = map[int64]detail{}, map[int64]*wantedPage{}
	for _, step := range []func() error{a.readProjects, a.readLabels, a.readPages, a.readUnmet, a.readDetails, a.readExecutions, a.readIDs} {
		if err := step(); err != nil {
			return eval.Report{}, s.readError(ctx, err)
		}
	}
	if err := a.add(); err != nil {
		return eval.Report{}, err
	}
	return e.Report(), nil
}

// aggregation feeds an engine from the database.
type aggregation struct {
	*aggregate.Engine
	s   *Store
	ctx context.Context
	tx  *sql.Tx
	q   *eval.Query

	sets     map[int64]int // the engine's numbers of sets of labels
	total    int           // sets that there are
	pages    []labelledPage
	unmet    []unmet
	details  map[int64]detail // by evaluation
	interner aggregate.Interner

	execSets map[int64]int
	wanted   map[int64]*wantedPage // by page
	rows     int                   // evaluations
	last     *wantedPage
	lastPage int64
}

// wantedPage says which executions of a page are wanted, and their numbers with the engine.
type wantedPage struct {
	wanted [slots]bool
	number [slots]int32
}

// page returns the page of an execution's row, which it is to be in.
func (a *aggregation) page(row int64) *wantedPage {
	if id := row >> slotBits; a.last == nil || id != a.lastPage {
		p, ok := a.wanted[id]
		if !ok {
			p = &wantedPage{}
			a.wanted[id] = p
		}
		a.last, a.lastPage = p, id
	}
	return a.last
}

func (a *aggregation) number(row int64) int { return int(a.page(row).number[row&(slots-1)]) }

func (a *aggregation) setNumber(row int64, n int) {
	p := a.page(row)
	p.number[row&(slots-1)], p.wanted[row&(slots-1)] = int32(n), false
}

// labelledPage is a page of evaluations.
type labelledPage struct {
	labels int // the engine's
	data   []byte
}

// unmet is a required evaluation that has no row.
type unmet struct {
	execution int64
	evaluator string
	pending   bool
}

// detail is what pages do not have.
type detail struct {
	created int64
	orphan  trace.ExecutionID
	turn    string
}

func (a *aggregation) each(scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := a.tx.QueryContext(a.ctx, query, args...)
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

// chosen runs a query for chosen rows: over all of them, to be left out as they come, when they are most of total, else over those. The query ends
// where "WHERE column IN (…)" or nothing follows.
func (a *aggregation) chosen(ids []int64, total int, scan func(*sql.Rows) error, query, column string) error {
	if len(ids) == 0 {
		return nil
	}
	if len(ids)*3 > total {
		return a.each(scan, query)
	}
	slices.Sort(ids)
	b, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return a.each(scan, query+` WHERE `+column+` IN (SELECT value FROM json_each(?))`, string(b))
}

// rowsOf is how many rows a table has, or had: a number to choose a way by, which costs nothing.
func (a *aggregation) rowsOf(table string) (n int, err error) {
	err = a.tx.QueryRowContext(a.ctx, `SELECT coalesce(max(id), 0) FROM `+table).Scan(&n)
	return n, err
}

func (a *aggregation) readProjects() error {
	if _, _, projects := a.Needs(); !projects {
		return nil
	}
	byRun := map[string]string{}
	err := a.each(func(rows *sql.Rows) error {
		var id string
		var project sql.NullString
		err := rows.Scan(&id, &project)
		byRun[id] = project.String
		return err
	}, `SELECT run_id, record ->> '$.project' FROM run`)
	a.Projects(byRun)
	return err
}

// readLabels registers the sets of labels whose rows can be selected.
func (a *aggregation) readLabels() (err error) {
	if a.total, err = a.rowsOf(evaluationLabels); err != nil {
		return err
	}
	query, args := `SELECT id, labels FROM evaluation_labels WHERE true`, []any(nil)
	for _, f := range []struct{ label, column string }{{eval.LabelEvaluator, "evaluator"}, {eval.LabelRun, "run"}} {
		values, ok := a.q.Filters[f.label]
		if !ok || slices.Contains(values, "") {
			continue
		}
		b, err := json.Marshal(values)
		if err != nil {
			return err
		}
		query += ` AND ` + f.column + ` IN (SELECT id FROM word WHERE text IN (SELECT value FROM json_each(?)))`
		args = append(args, string(b))
	}
	return a.each(func(rows *sql.Rows) error {
		var id int64
		var text sql.RawBytes
		if err := rows.Scan(&id, &text); err != nil {
			return err
		}
		var l aggregate.RowLabels
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if a.Selects(&l) {
			a.sets[id] = a.RowLabels(l)
		}
		return nil
	}, query, args...)
}

// readPages reads the evaluations under those labels.
func (a *aggregation) readPages() error {
	ids := make([]int64, 0, len(a.sets))
	for id := range a.sets {
		ids = append(ids, id)
	}
	return a.chosen(ids, a.total, func(rows *sql.Rows) error {
		var labels int64
		var data sql.RawBytes
		if err := rows.Scan(&labels, &data); err != nil {
			return err
		}
		if set, ok := a.sets[labels]; ok && len(data)%entrySize == 0 {
			a.pages = append(a.pages, labelledPage{set, slices.Clone(data)})
		}
		return nil
	}, `SELECT labels, data FROM evaluation_page`, "labels")
}

func (a *aggregation) readUnmet() error {
	return a.each(func(rows *sql.Rows) error {
		var u unmet
		if err := rows.Scan(&u.execution, &u.evaluator, &u.pending); err != nil {
			return err
		}
		if a.Synthetic(u.evaluator) {
			a.unmet = append(a.unmet, u)
		}
		return nil
	}, `SELECT u.execution, w.text, x.finished_at IS NULL OR coalesce(t.is_open, 0)
		FROM execution_required u JOIN word w ON w.id = u.evaluator JOIN execution x ON x.id = u.execution
		LEFT JOIN test t ON t.test_id = x.test_id AND x.test_id <> '' WHERE NOT u.met`)
}

// entries goes through the evaluations.
func (a *aggregation) entries(f func(labels int, e *entry) error) error {
	var e entry
	for _, p := range a.pages {
		for i := 0; i < len(p.data); i += entrySize {
			e.decode(p.data[i:])
			if err := f(p.labels, &e); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDetails reads what pages do not have of evaluations: that of those without an execution, and turns when they are asked for.
func (a *aggregation) readDetails() error {
	turns, _, _ := a.Needs()
	var ids []int64
	_ = a.entries(func(_ int, e *entry) error {
		a.rows++
		if turns || e.execution == 0 {
			ids = append(ids, e.evaluation)
		}
		return nil
	})
	total, err := a.rowsOf("evaluation")
	if err != nil || len(ids) == 0 {
		return err
	}
	return a.chosen(ids, total, func(rows *sql.Rows) error {
		var id int64
		var d detail
		var orphan sql.NullString
		err := rows.Scan(&id, &d.created, &orphan, &d.turn)
		d.orphan = trace.ExecutionID(orphan.String)
		a.details[id] = d
		return err
	}, `SELECT id, created_ns, orphan, turn_id FROM evaluation`, "id")
}

// readExecutions registers the executions behind the evaluations.
func (a *aggregation) readExecutions() error {
	want := func(row int64) { a.page(row).wanted[row&(slots-1)] = true }
	_ = a.entries(func(_ int, e *entry) error {
		if e.execution != 0 {
			want(e.execution)
		}
		return nil
	})
	for _, u := range a.unmet {
		want(u.execution)
	}
	if err := a.readExecutionPages(); err != nil {
		return err
	}
	if err := a.readExecutionLabels(); err != nil {
		return err
	}
	return a.readOld()
}

func (a *aggregation) readExecutionPages() error {
	ids := make([]int64, 0, len(a.wanted))
	n := 0
	for id, p := range a.wanted {
		ids = append(ids, id)
		for _, yes := range p.wanted {
			if yes {
				n++
			}
		}
	}
	a.Grow(n, a.rows+len(a.unmet))
	total, err := a.rowsOf("execution_page")
	if err != nil {
		return err
	}
	var large []int64 // those whose facts are elsewhere
	var f aggregate.Facts
	err = a.chosen(ids, total, func(rows *sql.Rows) error {
		var id int64
		var data sql.RawBytes
		if err := rows.Scan(&id, &data); err != nil {
			return err
		}
		p, ok := a.wanted[id]
		if !ok {
			return nil
		}
		return eachExecution(data, func(slot int, labels int64, facts []byte) error {
			row := id<<slotBits | int64(slot)
			if !p.wanted[slot] {
				return nil
			}
			if slices.Equal(facts, elsewhere) {
				f, large = aggregate.Facts{}, append(large, row)
			} else if err := f.Decode(facts, &a.interner); err != nil {
				return err
			}
			a.setNumber(row, a.Execution(a.setOf(labels), "", &f))
			return nil
		})
	}, `SELECT id, data FROM execution_page`, "id")
	for _, row := range large {
		var facts []byte
		if err == nil {
			err = a.tx.QueryRowContext(a.ctx, `SELECT facts FROM execution_facts WHERE execution = ?`, row).Scan(&facts)
		}
		if err == nil {
			err = f.Decode(facts, &a.interner)
		}
		if err == nil {
			a.SetFacts(a.number(row), &f)
		}
	}
	return err
}

// setOf is the engine's number of a set of labels of executions. The labels themselves are read when all of them are known.
func (a *aggregation) setOf(labels int64) int {
	set, ok := a.execSets[labels]
	if !ok {
		set = a.ExecutionLabels(aggregate.ExecutionLabels{})
		a.execSets[labels] = set
	}
	return set
}

func (a *aggregation) readExecutionLabels() error {
	total, err := a.rowsOf(executionLabels)
	if err != nil {
		return err
	}
	return a.chosen(slices.Collect(maps.Keys(a.execSets)), total, func(rows *sql.Rows) error {
		var id int64
		var text sql.RawBytes
		if err := rows.Scan(&id, &text); err != nil {
			return err
		}
		set, ok := a.execSets[id]
		if !ok {
			return nil
		}
		var l aggregate.ExecutionLabels
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		a.SetExecutionLabels(set, l)
		return nil
	}, `SELECT id, labels FROM execution_labels`, "id")
}

// readOld works out what an earlier m3, which wrote no pages, did not keep of executions.
func (a *aggregation) readOld() error {
	for page, wanted := range a.wanted {
		for slot, yes := range wanted.wanted {
			if !yes {
				continue
			}
			if err := a.readOldExecution(page<<slotBits | int64(slot)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *aggregation) readOldExecution(row int64) error {
	var record []byte
	var at sql.NullString
	if err := a.tx.QueryRowContext(a.ctx, `SELECT record, finished_at FROM execution WHERE id = ?`, row).Scan(&record, &at); err != nil {
		return err
	}
	rec, err := store.Decode("execution", record)
	if err != nil {
		return err
	}
	x := rec.(*store.Execution)
	labels, facts, _ := recordOf(x).Open()
	if at.Valid {
		t, err := a.s.Trace(a.ctx, x.ID)
		if err != nil {
			return err
		}
		if err := finishOld(&facts, t); err != nil {
			return err
		}
	}
	a.setNumber(row, a.Execution(a.ExecutionLabels(labels), x.ID, &facts))
	return nil
}

func finishOld(f *aggregate.Facts, t *trace.Trace) error {
	ev, err := t.Event(t.Len() - 1)
	if err != nil {
		return err
	}
	var end trace.Finished
	if err := ev.Payload.Decode(&end); err != nil {
		return err
	}
	f.Finish(t, end, ev.Time.UnixNano())
	return nil
}

// readIDs reads the ids of executions, when they are asked for.
func (a *aggregation) readIDs() error {
	if _, ids, _ := a.Needs(); !ids {
		return nil
	}
	known := map[int64]bool{}
	_ = a.entries(func(_ int, e *entry) error {
		known[e.execution] = e.execution != 0
		return nil
	})
	for _, u := range a.unmet {
		known[u.execution] = true
	}
	rows := slices.Collect(maps.Keys(known))
	total, err := a.rowsOf("execution")
	if err != nil {
		return err
	}
	return a.chosen(rows, total, func(rows *sql.Rows) error {
		var row int64
		var id string
		if err := rows.Scan(&row, &id); err != nil {
			return err
		}
		if known[row] {
			a.Name(a.number(row), trace.ExecutionID(id))
		}
		return nil
	}, `SELECT id, execution_id FROM execution`, "id")
}

// add hands all of it to the engine.
func (a *aggregation) add() error {
	n := 0
	err := a.entries(func(labels int, e *entry) error {
		if n++; n%(1<<16) == 0 && a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		row := aggregate.Row{Labels: labels, Execution: aggregate.None, Status: e.status, Required: e.required, Infrastructure: e.infra, Scored: e.scored, Score: e.score}
		if e.execution != 0 {
			row.Execution = a.number(e.execution)
		}
		if len(a.details) == 0 {
			a.Add(&row)
			return nil
		}
		if d, ok := a.details[e.evaluation]; ok {
			row.Created, row.Turn = d.created, d.turn
			if d.orphan != "" {
				row.Execution = a.Unknown(d.orphan, d.created)
			}
		}
		a.Add(&row)
		return nil
	})
	if err != nil {
		return err
	}
	for _, u := range a.unmet {
		a.AddRequired(a.RowLabels(aggregate.RowLabels{Evaluator: u.evaluator}), a.number(u.execution), !u.pending)
	}
	return nil
}
