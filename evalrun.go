package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// The bounds of what is kept of a decision.
const (
	maxEvalText    = 4000 // bytes
	maxEvalDetails = 256 << 10
	maxMetrics     = 1000
)

// evalGrace is how long an evaluator whose context has ended may take to say what came of it.
const evalGrace = 250 * time.Millisecond

// decide runs an evaluator and waits for it as long as ctx allows. A problem is a safe text that says why there is no decision: nothing of what the evaluator's error
// or panic says is in it, for that may hold anything.
func decide(ctx context.Context, f eval.Func, e eval.Context) (eval.Decision, string) {
	type answer struct {
		d       eval.Decision
		problem string
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{problem: "the evaluator ended its goroutine: do not call t.FailNow and its like in an evaluator"}
		defer func() {
			if p := recover(); p != nil {
				a = answer{problem: fmt.Sprintf("the evaluator panicked (%T)", p)}
			}
			done <- a
		}()
		d, err := f(ctx, e)
		a = answer{d, failure(err)}
	}()
	select {
	case a := <-done:
		return a.d, a.problem
	case <-ctx.Done():
		select {
		case a := <-done: // who heeds its context says better himself what came of it
			return a.d, a.problem
		case <-time.After(evalGrace):
			return eval.Decision{}, "the evaluator did not return before its context ended"
		}
	}
}

func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "the evaluator's context ended"
	}
	return fmt.Sprintf("the evaluator returned an error (%T)", err)
}

// result is the row of a decision. What is wrong with the decision makes it one of status error.
func (k *Kit) result(d eval.Decision, problem string, s *evalSubject) *eval.Result {
	r := &eval.Result{ID: newID(), RunID: k.cfg.RunID, TestID: k.cfg.TestID, Execution: s.execution, Turn: s.turn, Suite: s.suite, Case: s.caseID,
		Kind: eval.KindEvaluator, SubjectKind: s.kind, SubjectDigest: s.digest, Metadata: s.metadata}
	var details map[string]any
	if problem == "" {
		problem = wrongWith(&d)
	}
	if problem == "" {
		details, problem = k.evalDetails(d.Details)
	}
	if problem != "" {
		r.Status, r.Message = eval.Error, problem
		return r
	}
	r.Status, r.Score, r.Metrics, r.Details = d.Status, d.Score, maps.Clone(d.Metrics), details
	r.Rationale, r.Message = k.evalText(d.Rationale), k.evalText(d.Message)
	if p := d.Provenance; p != nil {
		r.Provenance = &eval.Provenance{Kind: k.evalText(p.Kind), Provider: k.evalText(p.Provider), Model: k.evalText(p.Model), RubricID: k.evalText(p.RubricID),
			RubricVersion: k.evalText(p.RubricVersion), ConfigDigest: k.evalText(p.ConfigDigest)}
		if p.Kind == eval.ProvenanceJudge {
			r.Kind = eval.KindJudge
		}
	}
	return r
}

// wrongWith says why a decision is none, without a word of the evaluator's.
func wrongWith(d *eval.Decision) string {
	switch {
	case d.Status == "":
		return "the evaluator's decision has no status"
	case !d.Status.Valid():
		return "the evaluator's decision has an unknown status"
	case len(d.Metrics) > maxMetrics:
		return fmt.Sprintf("the evaluator's decision has %d metrics, at most %d are allowed", len(d.Metrics), maxMetrics)
	case d.Validate() != nil:
		return "the evaluator's decision has a score or a metric that is not a finite number"
	}
	return ""
}

// evalText is a text as it is kept: redacted, valid, bounded.
func (k *Kit) evalText(text string) string {
	text = strings.ToValidUTF8(k.redactor.String(text), "\uFFFD")
	if len(text) > maxEvalText {
		text = strings.ToValidUTF8(text[:maxEvalText-len("…")], "") + "…"
	}
	return text
}

func (k *Kit) evalDetails(m map[string]any) (map[string]any, string) {
	if len(m) == 0 {
		return nil, ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, "the evaluator's decision has details that do not encode to JSON"
	}
	if len(b) > maxEvalDetails {
		return nil, fmt.Sprintf("the evaluator's decision has details of %d bytes, at most %d are allowed", len(b), maxEvalDetails)
	}
	b, _ = k.redactor.Bytes(b)
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, "the evaluator's decision has details that do not encode to JSON"
	}
	return out, ""
}

// evalContext is what the evaluator gets: copies of everything.
func (k *Kit) evalContext(s *evalSubject, o *EvaluateOptions) eval.Context {
	e := eval.Context{Subject: slices.Clone(s.json), SubjectKind: s.kind, SubjectDigest: s.digest, Execution: s.execution, Turn: s.turn, Suite: s.suite, Case: s.caseID,
		Goal: k.redactor.String(o.Goal), Artifacts: s.artifacts, Metadata: maps.Clone(s.metadata)}
	return e.WithView(func() (trace.View, error) { return k.evalView(s, o) })
}

// evalView is the execution's trace as it is stored, and so redacted: a client's own has the real values.
func (k *Kit) evalView(s *evalSubject, o *EvaluateOptions) (trace.View, error) {
	if s.execution == "" {
		return trace.View{}, fmt.Errorf("%w: the evaluation is tied to no execution", trace.ErrUnavailable)
	}
	if s.stored {
		t, err := k.store.Trace(context.Background(), s.execution)
		if err != nil {
			return trace.View{}, err
		}
		return t.View()
	}
	if o.Trace != nil {
		if _, real := o.Trace.Log().(trace.Originals); !real {
			return o.Trace.View()
		}
	}
	return trace.View{}, fmt.Errorf("%w: the execution is not in the kit's store", trace.ErrUnavailable)
}
