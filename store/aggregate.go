package store

import (
	"context"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/trace"
)

// Aggregate answers a query over the evaluations of the catalog, as Aggregate of [Reader] does. Open opens the events of an execution; it is asked for those of finished
// executions that have evaluations, once each.
func (c *Catalog) Aggregate(ctx context.Context, q eval.Query, open func(trace.ExecutionID) (*trace.Trace, error)) (eval.Report, error) {
	e, err := aggregate.New(q)
	if err != nil {
		return eval.Report{}, err
	}
	if err := c.rlock(ctx); err != nil {
		return eval.Report{}, err
	}
	in := &aggregation{Engine: e, c: c, numbers: map[trace.ExecutionID]int{}, has: map[registered]bool{}}
	rows := in.latest()
	in.projects()
	infos := in.infos(rows)
	c.mu.RUnlock() // the traces lock for themselves
	for _, x := range infos {
		if err := ctx.Err(); err != nil {
			return eval.Report{}, err
		}
		if err := in.execution(x, open); err != nil {
			return eval.Report{}, err
		}
	}
	for _, r := range rows {
		in.row(r)
	}
	in.required(infos)
	return e.Report(), nil
}

// aggregation feeds an engine from a catalog.
type aggregation struct {
	*aggregate.Engine
	c       *Catalog
	numbers map[trace.ExecutionID]int
	has     map[registered]bool // which evaluators an execution has rows of
}

type registered struct {
	execution trace.ExecutionID
	evaluator string
}

// latest returns the last row of each lineage, required when any of the lineage is.
func (in *aggregation) latest() []eval.Result {
	at := map[eval.Lineage]int{}
	var out []eval.Result
	for _, r := range in.c.evals {
		l := r.Lineage()
		in.has[registered{r.Execution, r.Evaluator}] = true
		i, known := at[l]
		switch {
		case !known:
			at[l] = len(out)
			out = append(out, r.Result)
		case out[i].Compare(&r.Result) < 0:
			out[i] = r.Result
		}
	}
	for i := range out {
		r := &out[i]
		r.Required = in.c.required[r.Lineage()]
		if e, ok := in.c.execIndex[r.Execution]; ok {
			r.Required = r.Required || slices.Contains(e.info.Declared(), eval.Registration{Name: r.Evaluator, Required: true})
		}
	}
	return out
}

func (in *aggregation) projects() {
	projects := map[string]string{}
	for _, r := range in.c.runs {
		projects[r.ID] = r.Project
	}
	in.Projects(projects)
}

// openInfo is an execution that has evaluations, or is to have some.
type openInfo struct {
	*openExecution
	info    ExecutionInfo
	pending bool
}

func (in *aggregation) infos(rows []eval.Result) []*openInfo {
	wanted := map[trace.ExecutionID]bool{}
	for i := range rows {
		wanted[rows[i].Execution] = true
	}
	var out []*openInfo
	for _, e := range in.c.executions {
		declares := len(e.info.Declared()) > 0
		if !declares && !wanted[e.info.ID] {
			continue
		}
		x := &openInfo{openExecution: e, info: e.info}
		var test *Test
		if i, ok := in.c.testIndex[e.info.TestID]; ok {
			test = in.c.tests[i]
		}
		x.pending = e.info.Pending(test)
		out = append(out, x)
	}
	return out
}

func (in *aggregation) execution(x *openInfo, open func(trace.ExecutionID) (*trace.Trace, error)) error {
	rec := x.info.aggregated()
	labels, facts, _ := rec.Open()
	if x.info.Finished != nil {
		end, err := x.facts(facts, x.info, open)
		if err != nil {
			return err
		}
		facts = *end
	}
	in.numbers[x.info.ID] = in.Execution(in.ExecutionLabels(labels), x.info.ID, &facts)
	return nil
}

// facts are those of a finished execution; they do not change, and are worked out once.
func (e *openExecution) facts(f aggregate.Facts, info ExecutionInfo, open func(trace.ExecutionID) (*trace.Trace, error)) (*aggregate.Facts, error) {
	if known := e.known.Load(); known != nil {
		return known, nil
	}
	t, err := open(info.ID)
	if err != nil {
		return nil, err
	}
	end := trace.Finished{Outcome: info.Outcome}
	if ev, err := t.Event(t.Len() - 1); err == nil && ev.Kind == trace.KindExecutionFinished {
		_ = ev.Payload.Decode(&end) // what cannot be read has an outcome and nothing else
	}
	f.Finish(t, end, info.Finished.UnixNano())
	e.known.Store(&f)
	return &f, nil
}

func (in *aggregation) row(r eval.Result) {
	labels := aggregate.LabelsOf(&r)
	if !in.Selects(&labels) {
		return
	}
	row := aggregate.Row{Labels: in.RowLabels(labels), Execution: aggregate.None, Status: aggregate.StatusOf(r.Status), Required: r.Required,
		Infrastructure: r.Infrastructure(), Turn: string(r.Turn), Created: r.Created.UnixNano()}
	if r.Score != nil {
		row.Scored, row.Score = true, *r.Score
	}
	if r.Execution != "" {
		n, ok := in.numbers[r.Execution]
		if !ok {
			n = in.Unknown(r.Execution, row.Created)
		}
		row.Execution = n
	}
	in.Add(&row)
}

func (in *aggregation) required(infos []*openInfo) {
	for _, x := range infos {
		seen := map[string]bool{}
		for _, d := range x.info.Declared() {
			if !d.Required || d.Name == "" || seen[d.Name] || in.has[registered{x.info.ID, d.Name}] || !in.Synthetic(d.Name) {
				continue
			}
			seen[d.Name] = true
			in.AddRequired(in.RowLabels(aggregate.RowLabels{Evaluator: d.Name}), in.numbers[x.info.ID], !x.pending)
		}
	}
}

// aggregated is what aggregation knows an execution's record by.
func (x *Execution) aggregated() *aggregate.Execution {
	created := int64(0)
	if !x.Created.IsZero() {
		created = x.Created.UnixNano()
	}
	return &aggregate.Execution{ID: x.ID, Run: x.RunID, Suite: x.Suite, Case: x.Case, Kind: x.Kind, Created: created, Servers: x.Servers, Spec: x.Spec}
}
