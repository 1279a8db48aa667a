package aggregate

import (
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
)

// filter is one label with the values that it may have.
type filter struct {
	label  string
	values []string
}

func (f *filter) matches(v string) bool { return slices.Contains(f.values, v) }

// plan is a query taken apart: what sets of labels decide, and what has to be looked at row by row.
type plan struct {
	q          eval.Query
	setFilters []filter
	rowFilters []filter
	groupBy    []string
	perRow     []int // the places in groupBy that sets do not decide
	from, to   int64 // nanoseconds; of the window
	bounded    bool
	statuses   bool // status is filtered or grouped by: what has no row has no status
}

func newPlan(q eval.Query) (*plan, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = eval.DefaultLimit
	}
	p := &plan{q: q, groupBy: q.GroupBy, from: -1 << 63, to: 1<<63 - 1}
	for label, values := range q.Filters {
		if perRow(label) {
			p.rowFilters = append(p.rowFilters, filter{label, values})
		} else {
			p.setFilters = append(p.setFilters, filter{label, values})
		}
	}
	for i, label := range q.GroupBy {
		if perRow(label) {
			p.perRow = append(p.perRow, i)
		}
	}
	if !q.From.IsZero() {
		p.from, p.bounded = q.From.UnixNano(), true
	}
	if !q.To.IsZero() {
		p.to, p.bounded = q.To.UnixNano(), true
	}
	_, filtered := q.Filters[eval.LabelStatus]
	p.statuses = filtered || slices.Contains(q.GroupBy, eval.LabelStatus)
	return p, nil
}

// perRow tells the labels whose value may differ among rows with the same sets of labels.
func perRow(label string) bool {
	switch label {
	case eval.LabelStatus, eval.LabelTurn, eval.LabelTrial, eval.LabelTrialNumber, eval.LabelTool, eval.LabelHour, eval.LabelDay, eval.LabelWeek,
		eval.LabelProject, eval.LabelProjectName, eval.LabelMetadata + keyTrial, eval.LabelMetadata + keyMatrixCase:
		return true
	}
	return false
}

// uses reports whether a label is filtered or grouped by.
func (p *plan) uses(labels ...string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, filtered := p.q.Filters[label]
		return filtered || slices.Contains(p.groupBy, label)
	})
}

// bucket names the bucket of a time.
func bucket(label string, created int64) string {
	t := time.Unix(0, created).UTC()
	switch label {
	case eval.LabelHour:
		return t.Format("2006-01-02T15:00Z")
	case eval.LabelWeek:
		t = t.AddDate(0, 0, -int(t.Weekday()+6)%7)
	}
	return t.Format(time.DateOnly)
}

// rowOnly are the set labels that an evaluation decides alone, or, when it has them, decides first.
var rowOnly = []string{eval.LabelEvaluator, eval.LabelEvaluationKind, eval.LabelSubjectKind, eval.LabelJudgeProvider, eval.LabelJudgeModel, eval.LabelRubric}

// mayMatch reports whether rows with these labels can be selected, whatever their executions are.
func (p *plan) mayMatch(l *RowLabels) bool {
	for i := range p.setFilters {
		f := &p.setFilters[i]
		switch v := value(f.label, l, nil); {
		case slices.Contains(rowOnly, f.label):
			if !f.matches(v) {
				return false
			}
		case v != "" && !f.matches(v) && decides(f.label):
			return false
		}
	}
	return true
}

// decides tells the labels for which an evaluation's own value comes before its execution's.
func decides(label string) bool {
	return label == eval.LabelRun || label == eval.LabelSuite || label == eval.LabelCase || strings.HasPrefix(label, eval.LabelMetadata)
}
