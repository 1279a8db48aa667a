package eval

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrUnsupported is returned where a store cannot aggregate.
var ErrUnsupported = errors.New("eval: this store cannot aggregate")

// ErrQuery is what the error of a query that cannot be answered wraps.
var ErrQuery = errors.New("eval: invalid query")

// The labels that rows have. Besides there are the metadata of evaluation and execution, each under its key: "metadata.harness_config". docs/aggregation.md
// says where each comes from.
const (
	LabelRun            = "run_id"
	LabelProject        = "project_id"
	LabelProjectName    = "project_name"
	LabelSuite          = "suite_name"
	LabelTrial          = "trial_id" // the execution's id
	LabelTurn           = "turn_id"
	LabelEvaluator      = "evaluator"
	LabelStatus         = "evaluation_status"
	LabelSubjectKind    = "subject_kind"
	LabelCase           = "case_id"
	LabelExecutionKind  = "execution_kind"
	LabelServer         = "server"
	LabelTool           = "tool"
	LabelTransport      = "transport"
	LabelHarness        = "harness"
	LabelModel          = "model"
	LabelEvaluationKind = "evaluation_kind"
	LabelJudgeProvider  = "judge_provider"
	LabelJudgeModel     = "judge_model"
	LabelRubric         = "rubric_id"
	LabelMatrix         = "matrix.id"
	LabelMatrixCell     = "matrix.cell"
	LabelTrialNumber    = "trial.number"

	// LabelHour, LabelDay and LabelWeek are buckets of the time when the execution was created, in UTC, for GroupBy alone. A week is named by its Monday.
	LabelHour = "time.hour"
	LabelDay  = "time.day"
	LabelWeek = "time.week"

	// LabelMetadata begins the labels of metadata.
	LabelMetadata = "metadata."
)

var labelNames = []string{LabelRun, LabelProject, LabelProjectName, LabelSuite, LabelTrial, LabelTurn, LabelEvaluator, LabelStatus, LabelSubjectKind, LabelCase,
	LabelExecutionKind, LabelServer, LabelTool, LabelTransport, LabelHarness, LabelModel, LabelEvaluationKind, LabelJudgeProvider, LabelJudgeModel,
	LabelRubric, LabelMatrix, LabelMatrixCell, LabelTrialNumber}

var timeLabels = []string{LabelHour, LabelDay, LabelWeek}

// LabelNames lists the labels that can be filtered and grouped by; metadata and the buckets of time are not among them. The slice is the caller's.
func LabelNames() []string { return slices.Clone(labelNames) }

// Labels select rows: a row is selected when, for each label, it has one of the values. A label needs at least one value; the empty text selects
// rows without the label.
type Labels map[string][]string

// The bounds of a query.
const (
	DefaultLimit = 200
	MaxLimit     = 1000
	maxPassK     = 20
)

// Query asks for the aggregate of evaluations. The evaluator must be filtered by exactly one value, or be among GroupBy: a rate over
// different evaluators means nothing.
type Query struct {
	// Filters select rows by label.
	Filters Labels
	// GroupBy makes a group for each combination of the labels' values; at most one of them is a bucket of time.
	GroupBy []string
	// From and To bound when the executions were created: From ≤ created < To. Zero does not bound. An evaluation without an execution counts by
	// when it was made.
	From, To time.Time
	// Limit bounds the groups of one answer: 1 to 1000; 0 is 200. Offset leaves out groups before it.
	Limit, Offset int
	// PassK are the k for which pass@k and pass^k are asked: see [PassK]. At most 20.
	PassK []int
}

// Validate says why a query cannot be answered. The error wraps [ErrQuery].
func (q *Query) Validate() error {
	for _, check := range []func() error{q.checkGroups, q.checkFilters, q.checkEvaluator, q.checkBounds} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (q *Query) checkGroups() error {
	bucket := ""
	for i, label := range q.GroupBy {
		switch {
		case slices.Contains(q.GroupBy[:i], label):
			return queryError("group by %q twice", label)
		case slices.Contains(timeLabels, label):
			if bucket != "" {
				return queryError("group by both %q and %q: at most one bucket of time", bucket, label)
			}
			bucket = label
		case !known(label):
			return unknownLabel("group by", label)
		}
	}
	return nil
}

func (q *Query) checkFilters() error {
	for _, label := range slices.Sorted(maps.Keys(q.Filters)) {
		switch values := q.Filters[label]; {
		case slices.Contains(timeLabels, label):
			return queryError("%q cannot be filtered by: use From and To", label)
		case !known(label):
			return unknownLabel("filter by", label)
		case len(values) == 0:
			return queryError("the filter %q has no values", label)
		case label == LabelStatus:
			for _, v := range values {
				if !Status(v).Valid() {
					return queryError("the filter %q has the value %.40q: it is one of %s", label, v, list(Statuses()))
				}
			}
		}
	}
	return nil
}

func (q *Query) checkEvaluator() error {
	if slices.Contains(q.GroupBy, LabelEvaluator) {
		return nil
	}
	switch n := len(q.Filters[LabelEvaluator]); {
	case n == 0:
		return queryError("no evaluator: filter by one (Filters: eval.Labels{\"evaluator\": {\"…\"}}), or group by \"evaluator\"; a rate over different evaluators means nothing")
	case n > 1:
		return queryError("%d evaluators in one rate: filter by exactly one, or group by \"evaluator\"", n)
	}
	return nil
}

func (q *Query) checkBounds() error {
	switch {
	case !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To):
		return queryError("From (%s) is not before To (%s)", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	case q.Limit < 0 || q.Limit > MaxLimit:
		return queryError("the limit %d is not in 1 to %d", q.Limit, MaxLimit)
	case q.Offset < 0:
		return queryError("the offset %d is negative", q.Offset)
	case len(q.PassK) > maxPassK:
		return queryError("%d values of k: at most %d", len(q.PassK), maxPassK)
	}
	for i, k := range q.PassK {
		if k < 1 {
			return queryError("pass@%d: k is at least 1", k)
		}
		if slices.Contains(q.PassK[:i], k) {
			return queryError("pass@%d twice", k)
		}
	}
	return nil
}

func known(label string) bool {
	return slices.Contains(labelNames, label) || strings.HasPrefix(label, LabelMetadata) && len(label) > len(LabelMetadata)
}

func queryError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
}

func unknownLabel(how, label string) error {
	return queryError("%s %.80q: there is no such label; known are %s, metadata.<key>, and for grouping %s", how, label, list(labelNames), list(timeLabels))
}

func list[T ~string](names []T) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(n))
	}
	return b.String()
}
