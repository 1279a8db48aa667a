package aggregate

import (
	"iter"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// execution is one execution. There are hundreds of thousands of them: it holds no pointer, and what few questions need stands elsewhere.
type execution struct {
	created        int64
	tie            uint64
	duration       int64
	set            int32
	group          int32 // the first group that it is counted in, or None; the rest are in Engine.more
	latencies      int32 // where they begin in Engine.latencies
	answered       int32 // how many
	calls          int32
	succeeded      int32
	failed         int32
	protocolErrors int32
	outcome        uint8 // in Engine.outcomes
	finished       bool
	infrastructure bool
}

// rarely are texts of executions that few questions need. They are kept when the question does.
type rarely struct {
	id         trace.ExecutionID
	trial      string
	matrixCase string
	tool       string
}

// needsRarely are the labels that do.
var needsRarely = []string{eval.LabelTrial, eval.LabelTrialNumber, eval.LabelTool, eval.LabelMetadata + keyTrial, eval.LabelMetadata + keyMatrixCase}

// Grow makes room for so many executions, and so many rows.
func (e *Engine) Grow(executions, rows int) {
	e.execs = slices.Grow(e.execs, executions)
	e.items = slices.Grow(e.items, rows)
}

// Execution registers an execution. Its set is None where its record is not known. The id is needed when Needs says so. Nothing of f is kept.
func (e *Engine) Execution(set int, id trace.ExecutionID, f *Facts) int {
	n := len(e.execs)
	e.execs = append(e.execs, execution{set: int32(set), group: None})
	if e.keepsRare {
		e.rare = append(e.rare, rarely{})
	}
	e.SetFacts(n, f)
	e.Name(n, id)
	return n
}

// SetFacts replaces the facts of an execution, before the first row is added.
func (e *Engine) SetFacts(n int, f *Facts) {
	x := &e.execs[n]
	x.created, x.tie, x.duration, x.finished, x.infrastructure = f.Created, f.Tie, f.Duration, f.Finished, f.Infrastructure
	x.calls, x.succeeded, x.failed, x.protocolErrors = int32(f.Calls), int32(f.Succeeded), int32(f.Failed), int32(f.ProtocolErrors)
	x.latencies, x.answered = int32(len(e.latencies)), int32(len(f.Latencies))
	e.latencies = append(e.latencies, f.Latencies...)
	i := slices.Index(e.outcomes, f.Outcome)
	if i < 0 {
		i = len(e.outcomes)
		e.outcomes = append(e.outcomes, f.Outcome)
	}
	x.outcome = uint8(i)
	if e.keepsRare {
		r := &e.rare[n]
		r.trial, r.matrixCase, r.tool = f.Trial, f.MatrixCase, f.Tool
	}
}

// Name tells the id of an execution.
func (e *Engine) Name(n int, id trace.ExecutionID) {
	if e.keepsRare {
		e.rare[n].id = id
	}
}

// Unknown returns an execution that the store has no record of, by its id and the time of one of its rows; it is registered at the first.
func (e *Engine) Unknown(id trace.ExecutionID, created int64) int {
	n, ok := e.unknown[id]
	if !ok {
		if e.unknown == nil {
			e.unknown = map[trace.ExecutionID]int{}
		}
		n = e.Execution(None, id, &Facts{Created: created, Tie: tie(id)})
		e.unknown[id] = n
	}
	x := &e.execs[n]
	x.created = min(x.created, created)
	return n
}

// count counts an execution in a group. It may be told so again and again.
func (e *Engine) count(group int32, n int) {
	x := &e.execs[n]
	switch {
	case x.group == None:
		x.group = group
	case x.group != group:
		e.more = append(e.more, membership{int32(n), group})
	}
}

// membership is an execution in a group.
type membership struct{ execution, group int32 }

// further yields the groups of executions after the first of each, once each: counted out by group, and then with a mark at each execution.
func (e *Engine) further() iter.Seq[membership] {
	ends := make([]int, len(e.groups)+1)
	for _, m := range e.more {
		ends[m.group+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := make([]membership, len(e.more))
	for _, m := range e.more {
		sorted[ends[m.group]] = m
		ends[m.group]++
	}
	return func(yield func(membership) bool) {
		marks := make([]int32, len(e.execs)) // the group last yielded, and one more
		for _, m := range sorted {
			if mark := &marks[m.execution]; *mark != m.group+1 {
				*mark = m.group + 1
				if !yield(m) {
					return
				}
			}
		}
	}
}

// executions counts the executions behind the rows, each once a group and once in all.
func (e *Engine) executions(total *group) {
	total.health.durations, total.health.latencies = make([]int64, 0, len(e.execs)), make([]int64, 0, len(e.latencies))
	for i := range e.execs {
		if x := &e.execs[i]; x.group != None {
			e.addHealth(&total.health, x)
			e.addHealth(&e.groups[x.group].health, x)
		}
	}
	for m := range e.further() {
		e.addHealth(&e.groups[m.group].health, &e.execs[m.execution])
	}
}

func (e *Engine) addHealth(h *health, x *execution) {
	h.ExecutionCount++
	if !x.finished {
		return
	}
	h.OutcomeCounts[e.outcomes[x.outcome]]++
	h.ToolCalls.Total += int(x.calls)
	h.ToolCalls.Successful += int(x.succeeded)
	h.ToolCalls.Failed += int(x.failed)
	h.ProtocolErrorCount += int(x.protocolErrors)
	h.durations = append(h.durations, x.duration)
	h.latencies = append(h.latencies, e.latencies[x.latencies:x.latencies+x.answered]...)
}
