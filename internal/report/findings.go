package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// maxFindings bounds the findings listed of one execution. All are counted.
const maxFindings = 100

type findingKey struct {
	severity trace.Severity
	code     string
}

// findings adds what was found wrong to the executions, and counts it for the run. Only the events of findings are read.
func (b *builder) findings() error {
	at := make(map[trace.ExecutionID]*Execution, len(b.f.Executions))
	found := map[trace.ExecutionID][]trace.Finding{}
	for i := range b.f.Executions {
		at[b.f.Executions[i].ExecutionID] = &b.f.Executions[i]
	}
	q := &store.EventQuery{RunID: b.f.RunID, Kinds: []trace.Kind{trace.KindFinding}}
	if err := b.r.Events(b.ctx, q, func(ev *trace.Event) error {
		e := at[ev.ExecutionID]
		if e == nil {
			return nil // created since
		}
		var f trace.Finding
		if err := ev.Payload.Decode(&f); err != nil {
			e.Unavailable, e.Evidence = "a finding cannot be read: "+err.Error(), EvidenceUnavailable
			return nil
		}
		e.FindingCount++
		found[ev.ExecutionID] = append(found[ev.ExecutionID], f)
		return nil
	}); err != nil {
		return err
	}
	b.countFindings(found)
	return nil
}

// countFindings goes through the executions in their order, which is not the order in which a store has their events.
func (b *builder) countFindings(found map[trace.ExecutionID][]trace.Finding) {
	counts := map[findingKey]*FindingCount{}
	for i := range b.f.Executions {
		e := &b.f.Executions[i]
		all := found[e.ExecutionID]
		e.Findings = append(e.Findings, all[:min(len(all), maxFindings)]...)
		for _, f := range all {
			key := findingKey{f.Severity, f.Code}
			if counts[key] == nil {
				counts[key] = &FindingCount{Severity: f.Severity, Code: f.Code, Execution: e.ExecutionID, Message: f.Message}
			}
			counts[key].Count++
		}
	}
	for _, c := range counts {
		b.f.Findings = append(b.f.Findings, *c)
	}
	slices.SortFunc(b.f.Findings, func(x, y FindingCount) int {
		return cmp.Or(rank(x.Severity)-rank(y.Severity), strings.Compare(x.Code, y.Code))
	})
}

func rank(s trace.Severity) int {
	return slices.Index([]trace.Severity{trace.SeverityError, trace.SeverityWarning, trace.SeverityNote}, s)
}
