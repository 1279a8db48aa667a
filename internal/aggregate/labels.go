// Package aggregate answers an eval.Query over rows that a store hands it. It is the one place where the rules of aggregation are, so that every store gives
// the same answer; docs/aggregation.md says them in words. A store registers sets of labels and executions, adds rows, and asks for the report:
//
//	e, err := aggregate.New(query)
//	set := e.RowLabels(aggregate.LabelsOf(&result))
//	x := e.Execution(e.ExecutionLabels(labels), facts)
//	e.Add(aggregate.Row{Labels: set, Execution: x, Status: result.Status})
//	report := e.Report()
//
// Labels come in sets because rows share them: a million rows have some thousands of sets. What is decided by labels is decided once a set.
package aggregate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// RowLabels are the labels that an evaluation has of its own.
type RowLabels struct {
	Run           string            `json:"run,omitempty"`
	Suite         string            `json:"suite,omitempty"`
	Case          string            `json:"case,omitempty"`
	Evaluator     string            `json:"evaluator"`
	Kind          string            `json:"kind,omitempty"`
	SubjectKind   string            `json:"subject,omitempty"`
	JudgeProvider string            `json:"provider,omitempty"`
	JudgeModel    string            `json:"model,omitempty"`
	Rubric        string            `json:"rubric,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

// LabelsOf are the labels of an evaluation.
func LabelsOf(r *eval.Result) RowLabels {
	l := RowLabels{Run: r.RunID, Suite: r.Suite, Case: r.Case, Evaluator: r.Evaluator, Kind: string(r.Kind), SubjectKind: r.SubjectKind,
		Metadata: texts(r.Metadata)}
	if p := r.Provenance; p != nil {
		l.JudgeProvider, l.JudgeModel, l.Rubric = p.Provider, p.Model, p.RubricID
	}
	return l
}

// ExecutionLabels are the labels that an execution has from its record, and its rows with it.
type ExecutionLabels struct {
	Run       string            `json:"run,omitempty"`
	Suite     string            `json:"suite,omitempty"`
	Case      string            `json:"case,omitempty"`
	Kind      string            `json:"kind,omitempty"`
	Server    string            `json:"server,omitempty"`
	Transport string            `json:"transport,omitempty"`
	Harness   string            `json:"harness,omitempty"`
	Model     string            `json:"model,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// The keys of metadata that have labels of their own.
const (
	keyMatrix     = "m3.matrix.matrix_id"
	keyMatrixCell = "m3.matrix.cell_id"
	keyMatrixCase = "m3.matrix.case_id"
	keyTrial      = "m3.matrix.trial"
	keyConfig     = "harness_config"
)

// Multiple is the value of the labels server and tool of an execution that had to do with several.
const Multiple = "multiple"

// Execution is what an execution's record says.
type Execution struct {
	ID      trace.ExecutionID
	Run     string
	Suite   string
	Case    string
	Kind    string
	Created int64 // nanoseconds since 1970
	Servers []string
	Spec    trace.JSON
}

// Open are the labels, the first facts and the required evaluators of an execution as it is recorded.
func (x *Execution) Open() (l ExecutionLabels, f Facts, required []string) {
	var spec struct {
		Transport   string              `json:"transport"`
		Harness     string              `json:"harness"`
		Model       string              `json:"model"`
		Metadata    map[string]any      `json:"metadata"`
		Evaluations []eval.Registration `json:"evaluations"`
	}
	// A specification that does not read like one has no labels; it is no reason to lose the rest.
	_ = json.Unmarshal(x.Spec, &spec)
	l = ExecutionLabels{Run: x.Run, Suite: x.Suite, Kind: x.Kind, Transport: spec.Transport, Harness: spec.Harness, Model: spec.Model,
		Metadata: texts(spec.Metadata)}
	if len(x.Servers) == 1 {
		l.Server = x.Servers[0]
	} else if len(x.Servers) > 1 {
		l.Server = Multiple
	}
	// What differs from trial to trial is a fact, so that trials share a set of labels.
	f = Facts{Created: x.Created, Tie: tie(x.ID), Trial: l.Metadata[keyTrial], MatrixCase: l.Metadata[keyMatrixCase]}
	delete(l.Metadata, keyTrial)
	delete(l.Metadata, keyMatrixCase)
	l.Case = x.caseOf(&l)
	for _, r := range spec.Evaluations {
		if r.Required && r.Name != "" && !slices.Contains(required, r.Name) {
			required = append(required, r.Name)
		}
	}
	return l, f, required
}

// caseOf falls back from the record to the metadata, the cell of the matrix, and at last the specification itself.
func (x *Execution) caseOf(l *ExecutionLabels) string {
	matrix, cell := l.Metadata[keyMatrix], l.Metadata[keyMatrixCell]
	switch {
	case x.Case != "":
		return x.Case
	case l.Metadata["case_id"] != "":
		return l.Metadata["case_id"]
	case cell != "":
		return matrix + ":" + cell
	case len(x.Spec) > 0:
		sum := sha256.Sum256(x.Spec)
		return "spec:" + hex.EncodeToString(sum[:12])
	}
	return ""
}

// tie orders executions that were created at the same moment, in every store alike.
func tie(id trace.ExecutionID) uint64 {
	sum := sha256.Sum256([]byte(id))
	var v uint64
	for _, b := range sum[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}

// texts are metadata as labels: text as it is, everything else as JSON writes it.
func texts(m map[string]any) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		switch v := v.(type) {
		case string:
			out[k] = v
		case bool:
			out[k] = strconv.FormatBool(v)
		case float64:
			out[k] = strconv.FormatFloat(v, 'g', -1, 64)
			if v == float64(int64(v)) && v > -1e15 && v < 1e15 {
				out[k] = strconv.FormatInt(int64(v), 10)
			}
		default:
			if b, err := json.Marshal(v); err == nil {
				out[k] = string(b)
			}
		}
	}
	return out
}

// value is the value of a label that a set of labels decides. Ex is nil where the execution is not known.
func value(label string, row *RowLabels, ex *ExecutionLabels) string {
	if ex == nil {
		ex = &ExecutionLabels{}
	}
	switch label {
	case eval.LabelEvaluator:
		return row.Evaluator
	case eval.LabelEvaluationKind:
		return row.Kind
	case eval.LabelSubjectKind:
		return row.SubjectKind
	case eval.LabelJudgeProvider:
		return row.JudgeProvider
	case eval.LabelJudgeModel:
		return row.JudgeModel
	case eval.LabelRubric:
		return row.Rubric
	case eval.LabelRun:
		return or(row.Run, ex.Run)
	case eval.LabelSuite:
		return or(row.Suite, ex.Suite)
	case eval.LabelCase:
		return or(row.Case, ex.Case)
	}
	return executionValue(label, row, ex)
}

func executionValue(label string, row *RowLabels, ex *ExecutionLabels) string {
	switch label {
	case eval.LabelExecutionKind:
		return ex.Kind
	case eval.LabelServer:
		return ex.Server
	case eval.LabelTransport:
		return ex.Transport
	case eval.LabelHarness:
		return ex.Harness
	case eval.LabelModel:
		return ex.Model
	case eval.LabelMatrix:
		return ex.Metadata[keyMatrix]
	case eval.LabelMatrixCell:
		return ex.Metadata[keyMatrixCell]
	}
	key := label[len(eval.LabelMetadata):]
	if v, ok := row.Metadata[key]; ok {
		return v
	}
	return ex.Metadata[key]
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
