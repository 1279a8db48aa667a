package storetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// naive is the reference that Aggregate is compared with: it makes one map of labels for each row and goes through all of them for each question. It shares nothing
// with the engine but the formulas, which have tests of their own.
type naive struct{ rows []naiveRow }

type naiveRow struct {
	labels           map[string]string
	row              *eval.Result // nil: required, and not there
	missing, pending bool
	required, infra  bool
	execution        *naiveExecution
	created          time.Time
	series           string
}

type naiveExecution struct {
	id      trace.ExecutionID
	created time.Time
	info    *store.ExecutionInfo // nil: not known
	calls   []SampleCall
}

// newNaive reads everything there is through the listings of a store. Calls says what tool calls each execution made.
func newNaive(t *testing.T, r store.Reader, calls map[trace.ExecutionID][]SampleCall) *naive {
	t.Helper()
	ctx := context.Background()
	n := &naive{}
	projects, tests := map[string]string{}, map[string]*store.Test{}
	for _, run := range must[[]store.Run](t)(r.Runs(ctx)) {
		projects[run.ID] = run.Project
		for _, test := range must[[]store.Test](t)(r.Tests(ctx, run.ID)) {
			tests[test.ID] = &test
		}
	}
	rows := must[[]eval.Result](t)(r.Evaluations(ctx, nil))
	executions := map[trace.ExecutionID]*naiveExecution{}
	for _, info := range must[[]store.ExecutionInfo](t)(r.Executions(ctx, nil)) {
		x := &naiveExecution{id: info.ID, created: info.Created, info: &info, calls: calls[info.ID]}
		executions[info.ID] = x
		for _, d := range naiveSpec(&info.Execution).Evaluations {
			if !d.Required || slices.ContainsFunc(rows, func(r eval.Result) bool { return r.Execution == info.ID && r.Evaluator == d.Name }) {
				continue
			}
			running := info.Finished == nil
			if test := tests[info.TestID]; test != nil && test.Status == store.TestRunning {
				running = true
			}
			n.rows = append(n.rows, naiveRow{labels: naiveLabels(nil, x, d.Name, projects), missing: !running, pending: running, required: !running,
				execution: x, created: x.created, infra: !running && naiveInfra(t, r, &info)})
		}
	}
	type lineage = eval.Lineage
	latest, required := map[lineage]*eval.Result{}, map[lineage]bool{}
	for i := range rows { // in order: the last one stands
		latest[rows[i].Lineage()] = &rows[i]
		required[rows[i].Lineage()] = required[rows[i].Lineage()] || rows[i].Required
	}
	for l, row := range latest {
		x := executions[row.Execution]
		if x == nil && row.Execution != "" {
			x = &naiveExecution{id: row.Execution, created: row.Created}
			executions[row.Execution] = x
		}
		created := row.Created
		switch {
		case x != nil && x.info != nil:
			created = x.created
		case x != nil && created.Before(x.created):
			x.created = created
		}
		infra := row.Infrastructure() || row.Status != eval.Passed && x != nil && x.info != nil && naiveInfra(t, r, x.info)
		declared := x != nil && x.info != nil && slices.Contains(naiveSpec(&x.info.Execution).Evaluations, eval.Registration{Name: row.Evaluator, Required: true})
		n.rows = append(n.rows, naiveRow{labels: naiveLabels(row, x, row.Evaluator, projects), row: row, required: required[l] || declared, execution: x, created: created, infra: infra})
	}
	for i := range n.rows {
		n.rows[i].series = n.rows[i].seriesName()
	}
	return n
}

func naiveInfra(t *testing.T, r store.Reader, info *store.ExecutionInfo) bool {
	if info.Finished == nil {
		return false
	}
	tr := must[*trace.Trace](t)(r.Trace(context.Background(), info.ID))
	ev := must[trace.Event](t)(tr.Event(tr.Len() - 1))
	return strings.Contains(string(ev.Payload), `"code":"infrastructure"`) || strings.Contains(string(ev.Payload), `"infrastructure":true`)
}

type naiveSpecification struct {
	Transport, Harness, Model string
	Metadata                  map[string]any
	Evaluations               []eval.Registration
}

func naiveSpec(x *store.Execution) (s naiveSpecification) {
	_ = json.Unmarshal(x.Spec, &s)
	return s
}

func naiveLabels(row *eval.Result, x *naiveExecution, evaluator string, projects map[string]string) map[string]string {
	l := map[string]string{"evaluator": evaluator}
	if x != nil {
		l["trial_id"] = string(x.id)
	}
	if x != nil && x.info != nil {
		naiveExecutionLabels(l, x)
	}
	if row != nil {
		set := func(label, v string) {
			if v != "" {
				l[label] = v
			}
		}
		set("run_id", row.RunID)
		set("suite_name", row.Suite)
		set("case_id", row.Case)
		set("turn_id", string(row.Turn))
		set("evaluation_status", string(row.Status))
		set("evaluation_kind", string(row.Kind))
		set("subject_kind", row.SubjectKind)
		if p := row.Provenance; p != nil {
			set("judge_provider", p.Provider)
			set("judge_model", p.Model)
			set("rubric_id", p.RubricID)
		}
		for k, v := range row.Metadata {
			l["metadata."+k] = fmt.Sprint(v)
		}
	}
	l["project_name"] = projects[l["run_id"]]
	l["project_id"] = l["project_name"]
	return l
}

func naiveExecutionLabels(l map[string]string, x *naiveExecution) {
	s := naiveSpec(&x.info.Execution)
	l["run_id"], l["suite_name"], l["case_id"], l["execution_kind"] = x.info.RunID, x.info.Suite, x.info.Case, x.info.Kind
	l["transport"], l["harness"], l["model"] = s.Transport, s.Harness, s.Model
	if l["server"] = strings.Join(x.info.Servers, ""); len(x.info.Servers) > 1 {
		l["server"] = "multiple"
	}
	for k, v := range s.Metadata {
		l["metadata."+k] = fmt.Sprint(v)
	}
	l["matrix.id"], l["matrix.cell"], l["trial.number"] = l["metadata.m3.matrix.matrix_id"], l["metadata.m3.matrix.cell_id"], l["metadata.m3.matrix.trial"]
	if l["case_id"] == "" && l["matrix.cell"] != "" {
		l["case_id"] = l["matrix.id"] + ":" + l["matrix.cell"]
	}
	if l["case_id"] == "" {
		sum := sha256.Sum256(x.info.Spec)
		l["case_id"] = "spec:" + hex.EncodeToString(sum[:])[:24]
	}
	if x.info.Finished == nil {
		return
	}
	for _, c := range x.calls {
		if l["tool"] == "" || l["tool"] == c.Tool {
			l["tool"] = c.Tool
		} else {
			l["tool"] = "multiple"
		}
	}
}

func (r *naiveRow) seriesName() string {
	parts := []string{r.labels["run_id"], r.labels["case_id"], r.labels["evaluator"]}
	if x := r.execution; x != nil && x.info != nil {
		s := naiveSpec(&x.info.Execution)
		parts = append(parts, x.info.Suite, x.info.Kind, r.labels["server"], s.Transport, s.Harness, s.Model, fmt.Sprint(s.Metadata["harness_config"]),
			r.labels["matrix.id"], r.labels["matrix.cell"])
	}
	return strings.Join(parts, "|")
}

func (r *naiveRow) label(name string) string {
	at := r.created.UTC()
	switch name {
	case "time.hour":
		return at.Format("2006-01-02T15:00Z")
	case "time.day":
		return at.Format("2006-01-02")
	case "time.week":
		for at.Weekday() != time.Monday {
			at = at.AddDate(0, 0, -1)
		}
		return at.Format("2006-01-02")
	}
	return r.labels[name]
}

func (n *naive) report(q eval.Query) eval.Report {
	var selected []*naiveRow
	groups := map[string][]*naiveRow{}
	keys := map[string][]string{}
	_, byStatus := q.Filters["evaluation_status"]
	byStatus = byStatus || slices.Contains(q.GroupBy, "evaluation_status")
	for i := range n.rows {
		r := &n.rows[i]
		ok := (q.From.IsZero() || !r.created.Before(q.From)) && (q.To.IsZero() || r.created.Before(q.To)) && (r.row != nil || !byStatus)
		for label, values := range q.Filters {
			ok = ok && slices.Contains(values, r.label(label))
		}
		if !ok {
			continue
		}
		key := []string{}
		for _, label := range q.GroupBy {
			key = append(key, r.label(label))
		}
		id := strings.Join(key, "\x00")
		selected, groups[id], keys[id] = append(selected, r), append(groups[id], r), key
	}
	out := eval.Report{Totals: naiveValues(selected, q.PassK), Groups: []eval.Group{}, Limit: cmp.Or(q.Limit, 200), Offset: q.Offset}
	if len(q.GroupBy) == 0 {
		return out
	}
	for id, rows := range groups {
		out.Groups = append(out.Groups, eval.Group{Key: keys[id], Values: naiveValues(rows, q.PassK)})
	}
	slices.SortFunc(out.Groups, func(a, b eval.Group) int { return slices.Compare(a.Key, b.Key) })
	out.TotalGroups = len(out.Groups)
	out.Groups = out.Groups[min(q.Offset, len(out.Groups)):]
	out.Groups = out.Groups[:min(out.Limit, len(out.Groups))]
	return out
}

func naiveValues(rows []*naiveRow, ks []int) eval.Values {
	v := eval.Values{StatusCounts: map[eval.Status]int{"passed": 0, "failed": 0, "error": 0, "inconclusive": 0, "not_run": 0}}
	var scores stats.Sum
	cases, executions := map[string]stats.Count{}, map[trace.ExecutionID]*naiveExecution{}
	for i, r := range rows {
		if r.execution != nil {
			executions[r.execution.id] = r.execution
		}
		if r.pending {
			v.PendingRequiredCount++
		}
		name := r.labels["case_id"]
		if name != "" {
			cases[name] = stats.Count{Passed: cases[name].Passed, N: cases[name].N}
			v.CaseCount = len(cases)
		} else {
			name = fmt.Sprint("\x00", i)
		}
		if r.pending {
			continue
		}
		count := cases[name]
		count.N++
		v.ExpectedCount++
		if r.missing {
			v.MissingRequiredCount++
		} else {
			v.EvaluationCount++
			v.StatusCounts[r.row.Status]++
			if r.row.Status == eval.Passed {
				count.Passed++
				v.PassedCount++
			}
			if r.row.Score != nil {
				scores.Add(*r.row.Score)
			}
		}
		cases[name] = count
		if r.required {
			v.RequiredCount++
		}
		if r.infra {
			v.InfrastructureCount++
		}
	}
	v.CaseCount = 0
	var clusters []stats.Count
	for name, c := range cases {
		clusters = append(clusters, c)
		if !strings.HasPrefix(name, "\x00") {
			v.CaseCount++
		}
	}
	if v.ExpectedCount > 0 {
		rate := float64(v.PassedCount) / float64(v.ExpectedCount)
		i := stats.Clustered(clusters)
		v.PassRate, v.PassInterval = &rate, &eval.Interval{Low: i.Low, High: i.High}
	}
	if mean, ok := scores.Mean(); ok {
		v.ScoreCount, v.AverageScore = scores.Count(), &mean
	}
	naiveSeries(&v, rows, ks)
	v.Health = naiveHealth(executions)
	v.TrialCount = len(executions)
	return v
}

func naiveSeries(v *eval.Values, rows []*naiveRow, ks []int) {
	type trial struct {
		x      *naiveExecution
		passed bool
	}
	series := map[string][]trial{}
	for _, r := range rows {
		if r.execution == nil || r.pending {
			continue
		}
		passed := r.row != nil && r.row.Status == eval.Passed
		trials := series[r.series]
		if i := slices.IndexFunc(trials, func(t trial) bool { return t.x == r.execution }); i >= 0 {
			trials[i].passed = trials[i].passed && passed
			continue
		}
		series[r.series] = append(trials, trial{r.execution, passed})
	}
	any, all := make([]stats.Sum, len(ks)), make([]stats.Sum, len(ks))
	for _, trials := range series {
		slices.SortFunc(trials, func(a, b trial) int {
			x, y := sha256.Sum256([]byte(a.x.id)), sha256.Sum256([]byte(b.x.id))
			return cmp.Or(a.x.created.Compare(b.x.created), slices.Compare(x[:], y[:]))
		})
		passed := 0
		for i, t := range trials {
			if t.passed {
				passed++
			}
			if i > 0 {
				v.Flakiness.Pairs++
				if t.passed != trials[i-1].passed {
					v.Flakiness.Flips++
				}
			}
		}
		for i, k := range ks {
			if p, ok := stats.PassAt(len(trials), passed, k); ok {
				any[i].Add(p)
				p, _ = stats.PassAll(len(trials), passed, k)
				all[i].Add(p)
			}
		}
	}
	if v.Flakiness.Pairs > 0 {
		rate := float64(v.Flakiness.Flips) / float64(v.Flakiness.Pairs)
		v.Flakiness.Rate = &rate
	}
	for i, k := range ks {
		p := eval.PassK{K: k, SeriesCount: any[i].Count(), AllSeries: len(series)}
		if a, ok := any[i].Mean(); ok {
			b, _ := all[i].Mean()
			p.Any, p.All = &a, &b
		}
		v.PassK = append(v.PassK, p)
	}
}

func naiveHealth(executions map[trace.ExecutionID]*naiveExecution) eval.Health {
	h := eval.Health{ExecutionCount: len(executions), OutcomeCounts: map[trace.Outcome]int{}}
	var durations, latencies []int64
	for _, x := range executions {
		if x.info == nil || x.info.Finished == nil {
			continue
		}
		h.OutcomeCounts[x.info.Outcome]++
		durations = append(durations, int64(x.info.Finished.Sub(x.created)))
		for _, c := range x.calls {
			h.ToolCalls.Total++
			latencies = append(latencies, int64(c.Latency))
			if c.Result == "success" {
				h.ToolCalls.Successful++
			} else {
				h.ToolCalls.Failed++
			}
			if c.Result == "protocol_error" {
				h.ProtocolErrorCount++
			}
		}
	}
	h.ExecutionDuration, h.ServerLatency = naiveSpread(durations), naiveSpread(latencies)
	return h
}

func naiveSpread(v []int64) eval.Spread {
	if len(v) == 0 {
		return eval.Spread{}
	}
	slices.Sort(v)
	at := func(p float64) *float64 {
		ms := stats.Percentile(v, p) / 1e6
		return &ms
	}
	return eval.Spread{Count: len(v), P50: at(0.5), P95: at(0.95)}
}
