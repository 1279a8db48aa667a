package aggregate

import (
	"cmp"
	"iter"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/trace"
)

// group adds up the cells of one group, or of all.
type group struct {
	key    []string
	values eval.Values
	score  stats.Sum
	cases  map[int32]*stats.Count
	alone  []stats.Count // rows that are of no case
	health health
	trials []seriesSum // of each k
	series int
}

// seriesSum adds up pass@k and pass^k over the series that have k trials.
type seriesSum struct{ any, all stats.Sum }

type health struct {
	eval.Health
	durations []int64
	latencies []int64
}

// Report is the answer. The engine is of no use afterwards.
func (e *Engine) Report() eval.Report {
	total := e.newGroup(&group{})
	for _, g := range e.groups {
		e.newGroup(g)
	}
	for _, c := range e.cells {
		total.add(c)
		e.groups[c.group].add(c)
	}
	e.executions(total)
	e.walkSeries(total)
	out := eval.Report{Totals: total.finish(e.q.PassK), Groups: []eval.Group{}, TotalGroups: len(e.groups), Limit: e.q.Limit, Offset: e.q.Offset}
	if len(e.groupBy) == 0 {
		out.TotalGroups = 0
		return out
	}
	slices.SortFunc(e.groups, func(a, b *group) int { return slices.Compare(a.key, b.key) })
	for _, g := range page(e.groups, e.q.Offset, e.q.Limit) {
		out.Groups = append(out.Groups, eval.Group{Key: g.key, Values: g.finish(e.q.PassK)})
	}
	return out
}

func page[T any](list []T, offset, limit int) []T {
	list = list[min(offset, len(list)):]
	return list[:min(limit, len(list))]
}

func (e *Engine) newGroup(g *group) *group {
	g.values.StatusCounts = make(map[eval.Status]int, len(statuses))
	for _, s := range statuses {
		g.values.StatusCounts[s] = 0
	}
	g.health.OutcomeCounts = map[trace.Outcome]int{}
	g.cases = map[int32]*stats.Count{}
	g.trials = make([]seriesSum, len(e.q.PassK))
	return g
}

func (g *group) add(c *cell) {
	v := &g.values
	rows := 0
	for i, n := range c.counts {
		v.StatusCounts[statuses[i]] += n
		rows += n
	}
	v.EvaluationCount += rows
	v.MissingRequiredCount += c.missing
	v.PendingRequiredCount += c.pending
	v.RequiredCount += c.required
	v.InfrastructureCount += c.infrastructure
	g.score.Merge(&c.score)
	g.addCase(c.caseID, stats.Count{Passed: c.counts[0], N: rows + c.missing})
}

func (g *group) addCase(id int32, n stats.Count) {
	if id == None {
		for i := range n.N {
			one := stats.Count{N: 1}
			if i < n.Passed {
				one.Passed = 1
			}
			g.alone = append(g.alone, one)
		}
		return
	}
	at, ok := g.cases[id]
	if !ok {
		at = &stats.Count{}
		g.cases[id] = at
	}
	at.Passed += n.Passed
	at.N += n.N
}

func (h *health) finish() eval.Health {
	h.ExecutionDuration, h.ServerLatency = spread(h.durations), spread(h.latencies)
	return h.Health
}

func spread(nanoseconds []int64) eval.Spread {
	if len(nanoseconds) == 0 {
		return eval.Spread{}
	}
	p50, p95 := stats.Percentile(nanoseconds, 0.5)/1e6, stats.Percentile(nanoseconds, 0.95)/1e6
	return eval.Spread{Count: len(nanoseconds), P50: &p50, P95: &p95}
}

// walkSeries goes through the trials of each series in the order in which they were made.
func (e *Engine) walkSeries(total *group) {
	for run := range e.bySeries() {
		whole := true
		for _, it := range run {
			whole = whole && e.cells[it.cell].group == e.cells[run[0].cell].group
		}
		trials := trialsOf(run)
		total.addSeries(trials, e.q.PassK)
		if whole {
			e.groups[e.cells[run[0].cell].group].addSeries(trials, e.q.PassK)
			continue
		}
		// A label that differs from trial to trial parts them. The sort is stable: each part stays in order.
		slices.SortStableFunc(run, func(a, b item) int { return cmp.Compare(e.cells[a.cell].group, e.cells[b.cell].group) })
		for len(run) > 0 {
			g, n := e.cells[run[0].cell].group, 1
			for n < len(run) && e.cells[run[n].cell].group == g {
				n++
			}
			e.groups[g].addSeries(trialsOf(run[:n]), e.q.PassK)
			run = run[n:]
		}
	}
}

// bySeries yields the items of each series, sorted. They are counted out rather than sorted as a whole: a series is a few of very many.
func (e *Engine) bySeries() iter.Seq[[]item] {
	ends := make([]int, len(e.series.index)+1)
	for _, it := range e.items {
		ends[e.cells[it.cell].series+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := make([]item, len(e.items))
	next := slices.Clone(ends)
	for _, it := range e.items {
		at := &next[e.cells[it.cell].series]
		sorted[*at] = it
		*at++
	}
	return func(yield func([]item) bool) {
		for i := 1; i < len(ends); i++ {
			run := sorted[ends[i-1]:ends[i]]
			if len(run) == 0 {
				continue
			}
			slices.SortFunc(run, e.compareItems)
			if !yield(run) {
				return
			}
		}
	}
}

// compareItems orders the items of a series by when their executions were made.
func (e *Engine) compareItems(a, b item) int {
	if a.execution == b.execution {
		return 0
	}
	x, y := &e.execs[a.execution], &e.execs[b.execution]
	return cmp.Or(cmp.Compare(x.created, y.created), cmp.Compare(x.tie, y.tie), cmp.Compare(a.execution, b.execution))
}

// trialsOf says of each trial whether it passed: all that was evaluated in it did.
func trialsOf(run []item) []bool {
	var out []bool
	for i, it := range run {
		if i > 0 && it.execution == run[i-1].execution {
			out[len(out)-1] = out[len(out)-1] && it.passed
			continue
		}
		out = append(out, it.passed)
	}
	return out
}

func (g *group) addSeries(trials []bool, ks []int) {
	g.series++
	flips, pairs := stats.Flips(trials)
	g.values.Flakiness.Flips += flips
	g.values.Flakiness.Pairs += pairs
	passed := 0
	for _, ok := range trials {
		if ok {
			passed++
		}
	}
	for i, k := range ks {
		if v, ok := stats.PassAt(len(trials), passed, k); ok {
			g.trials[i].any.Add(v)
		}
		if v, ok := stats.PassAll(len(trials), passed, k); ok {
			g.trials[i].all.Add(v)
		}
	}
}

func (g *group) finish(ks []int) eval.Values {
	v := &g.values
	v.PassedCount = v.StatusCounts[eval.Passed]
	v.ExpectedCount = v.EvaluationCount + v.MissingRequiredCount
	v.CaseCount = len(g.cases)
	v.Health = g.health.finish()
	v.TrialCount = v.Health.ExecutionCount
	v.PassRate = ratio(v.PassedCount, v.ExpectedCount)
	if v.ExpectedCount > 0 {
		i := stats.Clustered(g.clusters())
		v.PassInterval = &eval.Interval{Low: i.Low, High: i.High}
	}
	v.Flakiness.Rate = ratio(v.Flakiness.Flips, v.Flakiness.Pairs)
	v.ScoreCount = g.score.Count()
	v.AverageScore = mean(&g.score)
	for i, k := range ks {
		t := &g.trials[i]
		v.PassK = append(v.PassK, eval.PassK{K: k, Any: mean(&t.any), All: mean(&t.all), SeriesCount: t.any.Count(), AllSeries: g.series})
	}
	return *v
}

func (g *group) clusters() []stats.Count {
	out := g.alone
	for _, c := range g.cases {
		out = append(out, *c)
	}
	return out
}

func ratio(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	v := float64(n) / float64(of)
	return &v
}

func mean(s *stats.Sum) *float64 {
	v, ok := s.Mean()
	if !ok {
		return nil
	}
	return &v
}
