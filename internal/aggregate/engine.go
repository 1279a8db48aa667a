package aggregate

import (
	"encoding/binary"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/trace"
)

// Status is an index into eval.Statuses.
type Status uint8

// statuses are in the order of Status.
var statuses = eval.Statuses()

// StatusOf is the index of a status.
func StatusOf(s eval.Status) Status {
	for i, known := range statuses {
		if s == known {
			return Status(i)
		}
	}
	return Status(len(statuses) - 1)
}

// None is the execution of a row that has none.
const None = -1

// Row is the latest evaluation of one lineage.
type Row struct {
	Labels         int // as RowLabels returned it
	Execution      int // as Execution returned it, or None
	Status         Status
	Required       bool // the lineage is
	Infrastructure bool
	Scored         bool
	Score          float64
	Turn           string // only when the query needs it: see Needs
	Created        int64  // only of a row without an execution that is known: nanoseconds since 1970
}

// Engine answers one query. It is for one goroutine.
type Engine struct {
	*plan
	rows   []RowLabels
	sets   []ExecutionLabels
	execs  []execution
	combos map[uint64]*combo
	recent [1024]recent // of combos

	latencies []int64
	outcomes  []trace.Outcome
	keepsRare bool
	rare      []rarely
	more      []membership // the groups of executions after the first of each, in any order, some more than once

	projects map[string]string // by run
	unknown  map[trace.ExecutionID]int
	groups   []*group
	groupOf  map[string]int32
	cells    []*cell
	items    []item
	cases    names
	series   names
	buckets  map[int64]string
	key      []byte
}

// recent is an entry of a cache: many rows in turn are of few combos.
type recent struct {
	id uint64
	*combo
}

// combo is what the rows of one set of labels and the executions of another have in common.
type combo struct {
	row, set int32 // set is None where the execution is not known
	selected bool
	run      string
	key      []string // of the group; empty at the places of perRow
	caseID   int32    // None: each row is a case of its own
	series   int32
	single   *cell // the cell, where no label differs from row to row
	cells    map[string]*cell
}

// cell is the rows of one combo in one group.
type cell struct {
	*combo
	index          int32
	group          int32
	counts         [5]int
	missing        int
	pending        int
	required       int
	infrastructure int
	score          stats.Sum
}

// item is a row, or a missing one, as far as the order of trials is concerned.
type item struct {
	cell      int32
	execution int32
	passed    bool
}

type names struct{ index map[string]int32 }

func (n *names) of(name string) int32 {
	if i, ok := n.index[name]; ok {
		return i
	}
	if n.index == nil {
		n.index = map[string]int32{}
	}
	i := int32(len(n.index))
	n.index[name] = i
	return i
}

// New checks a query and returns an engine for it. The error wraps eval.ErrQuery.
func New(q eval.Query) (*Engine, error) {
	p, err := newPlan(q)
	if err != nil {
		return nil, err
	}
	return &Engine{plan: p, combos: map[uint64]*combo{}, groupOf: map[string]int32{}, buckets: map[int64]string{}, keepsRare: p.uses(needsRarely...)}, nil
}

// Needs says what the query needs that may be expensive to come by: the turns of rows, the ids of executions, the projects of runs.
func (e *Engine) Needs() (turns, ids, projects bool) {
	return e.uses(eval.LabelTurn), e.uses(eval.LabelTrial), e.uses(eval.LabelProject, eval.LabelProjectName)
}

// Projects tells the projects of runs. It comes before all rows.
func (e *Engine) Projects(byRun map[string]string) { e.projects = byRun }

// Selects reports whether rows with these labels can be selected at all. The others need not be added.
func (e *Engine) Selects(l *RowLabels) bool { return e.mayMatch(l) }

// Synthetic reports whether required evaluations without a row can be selected, of an evaluator: they have no status, and no labels that only rows have.
func (e *Engine) Synthetic(evaluator string) bool {
	return !e.statuses && e.mayMatch(&RowLabels{Evaluator: evaluator})
}

// RowLabels registers labels of rows.
func (e *Engine) RowLabels(l RowLabels) int {
	e.rows = append(e.rows, l)
	return len(e.rows) - 1
}

// ExecutionLabels registers labels of executions.
func (e *Engine) ExecutionLabels(l ExecutionLabels) int {
	e.sets = append(e.sets, l)
	return len(e.sets) - 1
}

// SetExecutionLabels replaces labels of executions, before the first row is added: a store may learn of executions before it reads their labels.
func (e *Engine) SetExecutionLabels(set int, l ExecutionLabels) { e.sets[set] = l }

// Add adds a row.
func (e *Engine) Add(r *Row) {
	c := e.combo(r.Labels, r.Execution)
	if !c.selected || !e.inWindow(r) || len(e.rowFilters) > 0 && !e.passes(c, r, true) {
		return
	}
	at := e.cellOf(c, r, true)
	at.counts[r.Status]++
	if r.Required {
		at.required++
	}
	if r.Infrastructure || r.Status != 0 && r.Execution != None && e.execs[r.Execution].infrastructure {
		at.infrastructure++
	}
	if r.Scored {
		at.score.Add(r.Score)
	}
	e.place(at, r.Execution, r.Status == 0)
}

// AddRequired adds a required evaluation that has no row: it is missing, or may still come.
func (e *Engine) AddRequired(labels, execution int, missing bool) {
	r := &Row{Labels: labels, Execution: execution}
	c := e.combo(labels, execution)
	if e.statuses || !c.selected || !e.inWindow(r) || len(e.rowFilters) > 0 && !e.passes(c, r, false) {
		return
	}
	at := e.cellOf(c, r, false)
	if !missing {
		at.pending++
		e.count(at.group, execution)
		return
	}
	at.missing++
	at.required++
	if e.execs[execution].infrastructure {
		at.infrastructure++
	}
	e.place(at, execution, false)
}

// place remembers a row for what depends on the order of trials.
func (e *Engine) place(at *cell, execution int, passed bool) {
	if execution == None {
		return
	}
	e.count(at.group, execution)
	e.items = append(e.items, item{cell: at.index, execution: int32(execution), passed: passed})
}

func (e *Engine) inWindow(r *Row) bool {
	if !e.bounded {
		return true
	}
	created := e.created(r)
	return created >= e.from && created < e.to
}

func (e *Engine) created(r *Row) int64 {
	if r.Execution == None || e.execs[r.Execution].set == None {
		return r.Created
	}
	return e.execs[r.Execution].created
}

// combo returns what the row's labels and its execution's decide together.
func (e *Engine) combo(labels, x int) *combo {
	set := int32(None)
	if x != None {
		set = e.execs[x].set
	}
	id := uint64(labels)<<32 | uint64(uint32(set))
	at := &e.recent[(id^id>>32*31)%uint64(len(e.recent))]
	if at.combo != nil && at.id == id {
		return at.combo
	}
	c, ok := e.combos[id]
	if !ok {
		c = e.newCombo(int32(labels), set)
		e.combos[id] = c
	}
	*at = recent{id, c}
	return c
}

func (e *Engine) newCombo(labels, set int32) *combo {
	row, ex := &e.rows[labels], (*ExecutionLabels)(nil)
	if set != None {
		ex = &e.sets[set]
	}
	c := &combo{row: labels, set: set, run: value(eval.LabelRun, row, ex), caseID: None}
	for i := range e.setFilters {
		if f := &e.setFilters[i]; !f.matches(value(f.label, row, ex)) {
			return c
		}
	}
	c.selected = true
	c.key = make([]string, len(e.groupBy))
	for i, label := range e.groupBy {
		if !perRow(label) {
			c.key[i] = value(label, row, ex)
		}
	}
	if id := value(eval.LabelCase, row, ex); id != "" {
		c.caseID = e.cases.of(id)
	}
	c.series = e.series.of(seriesKey(row, ex))
	return c
}

// seriesKey tells series of trials apart: one case, one evaluator, one configuration, one run. So all trials of a series are of equal code.
func seriesKey(row *RowLabels, ex *ExecutionLabels) string {
	parts := []string{value(eval.LabelRun, row, ex), value(eval.LabelCase, row, ex), row.Evaluator}
	if ex != nil {
		parts = append(parts, ex.Suite, ex.Kind, ex.Server, ex.Transport, ex.Harness, ex.Model, ex.Metadata[keyMatrix], ex.Metadata[keyMatrixCell], ex.Metadata[keyConfig])
	}
	return string(appendKey(nil, parts))
}

// appendKey appends texts so that no two lists give the same bytes.
func appendKey(b []byte, parts []string) []byte {
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// rowValue is the value of a label that differs from row to row. Has says whether there is a row, rather than a missing one.
func (e *Engine) rowValue(label string, c *combo, r *Row, has bool) string {
	switch label {
	case eval.LabelStatus:
		if has {
			return string(statuses[r.Status])
		}
		return ""
	case eval.LabelTurn:
		return r.Turn
	case eval.LabelHour, eval.LabelDay, eval.LabelWeek:
		return e.bucketOf(label, e.created(r))
	case eval.LabelProject, eval.LabelProjectName:
		return e.projects[c.run]
	}
	if r.Execution == None {
		return ""
	}
	switch x := &e.rare[r.Execution]; label {
	case eval.LabelTrial:
		return string(x.id)
	case eval.LabelTool:
		return x.tool
	case eval.LabelMetadata + keyMatrixCase:
		return x.matrixCase
	default: // trial.number, and metadata of the same meaning
		return x.trial
	}
}

// bucketOf remembers the names of hours: a bucket is a few of them.
func (e *Engine) bucketOf(label string, created int64) string {
	const hour = 3600 * 1e9
	h := created / hour
	if created < 0 && created%hour != 0 {
		h--
	}
	name, ok := e.buckets[h]
	if !ok {
		name = bucket(label, h*hour)
		e.buckets[h] = name
	}
	return name
}

func (e *Engine) passes(c *combo, r *Row, has bool) bool {
	for i := range e.rowFilters {
		if f := &e.rowFilters[i]; !f.matches(e.rowValue(f.label, c, r, has)) {
			return false
		}
	}
	return true
}

// cellOf finds the cell of a row that is selected.
func (e *Engine) cellOf(c *combo, r *Row, has bool) *cell {
	if c.single != nil {
		return c.single
	}
	if len(e.perRow) == 0 {
		c.single = e.newCell(c, c.key)
		return c.single
	}
	key := make([]string, 0, 4)
	for _, i := range e.perRow {
		key = append(key, e.rowValue(e.groupBy[i], c, r, has))
	}
	e.key = appendKey(e.key[:0], key)
	if at, ok := c.cells[string(e.key)]; ok {
		return at
	}
	if c.cells == nil {
		c.cells = map[string]*cell{}
	}
	whole := append([]string(nil), c.key...)
	for n, i := range e.perRow {
		whole[i] = key[n]
	}
	at := e.newCell(c, whole)
	c.cells[string(appendKey(nil, key))] = at
	return at
}

func (e *Engine) newCell(c *combo, key []string) *cell {
	id := string(appendKey(nil, key))
	g, ok := e.groupOf[id]
	if !ok {
		g = int32(len(e.groups))
		e.groupOf[id] = g
		e.groups = append(e.groups, &group{key: append([]string{}, key...)})
	}
	at := &cell{combo: c, index: int32(len(e.cells)), group: g}
	e.cells = append(e.cells, at)
	return at
}
