package m3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// EvaluateOptions say what an evaluation is tied to, and whether it is required. Nil means: to nothing, and no.
//
// The execution and the turn may also be found in the trace, the subject and the artifacts; where they are named several times, all must agree.
type EvaluateOptions struct {
	// Name is the evaluator's, for [Kit.JudgeResponse] alone.
	Name string
	// Execution is the execution that the subject comes from. Empty: the one found elsewhere, else none: the evaluation is detached.
	Execution trace.ExecutionID
	// Turn is the turn that the subject comes from.
	Turn trace.TurnSelector
	// Trace is the execution's trace.
	Trace *trace.Trace
	// Case is the stable name of the logical scenario. Empty: the execution's.
	Case string
	// Required makes the evaluation's lineage required: if it does not pass, Evaluate returns a *eval.RequiredError after it was stored, and the run is
	// blocked, whatever the test does with that error. See package eval.
	Required bool
	// Goal is a text for the evaluator about what was to be achieved.
	Goal string
	// Artifacts are for the evaluator: values that encode to JSON, by name.
	Artifacts map[string]any
	// Metadata is stored with the evaluation: finite scalars only.
	Metadata map[string]any
}

// evaluations is what a kit knows of evaluators and their results.
type evaluations struct {
	mu       sync.Mutex
	byName   map[string]eval.Func
	results  []eval.Result
	required map[eval.Lineage]bool
	last     time.Time
}

// RegisterEvaluator makes an evaluator available to [Kit.Evaluate] under a name, such as "answer.v1". It requires nothing of any execution. A name
// that is taken, the three built-in ones included, is a *ValidationError.
func (k *Kit) RegisterEvaluator(name string, f eval.Func) error {
	if err := k.usable(); err != nil {
		return err
	}
	if err := checkEvaluator("RegisterEvaluator", name); err != nil {
		return err
	}
	if f == nil {
		return validationf("RegisterEvaluator: the function of %q is nil", name)
	}
	if _, builtin := eval.Builtin(name); builtin {
		return validationf("RegisterEvaluator: %q is a built-in evaluator: choose another name", name)
	}
	k.evals.mu.Lock()
	defer k.evals.mu.Unlock()
	if _, taken := k.evals.byName[name]; taken {
		return validationf("RegisterEvaluator: %q is registered already: register an evaluator once a kit, or choose another name", name)
	}
	if k.evals.byName == nil {
		k.evals.byName = map[string]eval.Func{}
	}
	k.evals.byName[name] = f
	return nil
}

// checkEvaluator: a name is stored, shown in one line and typed into filters.
func checkEvaluator(operation, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return validationf("%s: the evaluator's name is blank", operation)
	case name != strings.TrimSpace(name):
		return validationf("%s: the evaluator's name %q begins or ends with a space", operation, name)
	case utf8.RuneCountInString(name) > 256:
		return validationf("%s: the evaluator's name has %d characters, at most 256 are allowed", operation, utf8.RuneCountInString(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return validationf("%s: the evaluator's name %q holds a control character", operation, name)
	}
	return nil
}

// Evaluate runs an evaluator on a subject, now, and stores what it decides. The subject is a *Client, a trace.View, a *trace.Trace, a *ToolCallResult or another
// result, a text, or any value that encodes to JSON. The evaluator gets it redacted, as JSON.
//
// The five statuses are results, not errors; an evaluator that fails, panics, decides what is no decision, or does not return before ctx ends has the status error.
// The errors are *ValidationError, *UnsupportedError (no evaluator of that name), [ErrKitClosed], one of the store, and *eval.RequiredError when the evaluation is
// required and did not pass. With the last the result is there as well. An evaluation never changes the execution.
//
// An evaluation that is tied to an execution is stored; a detached one is stored only when it is required. [Kit.EvaluationResults] has both.
func (k *Kit) Evaluate(ctx context.Context, subject any, name string, opts *EvaluateOptions) (eval.Result, error) {
	if opts != nil && opts.Name != "" && opts.Name != name {
		return eval.Result{}, validationf("Evaluate: the evaluator is named %q, and %q by EvaluateOptions.Name", name, opts.Name)
	}
	f, err := k.evaluator(name)
	if err != nil {
		return eval.Result{}, err
	}
	return k.evaluate(ctx, "Evaluate", f, subject, name, opts)
}

// JudgeResponse asks a judge, such as a judge.LLM, about a response, under the name in opts, which must not be that of a registered evaluator. Everything else is
// as for [Kit.Evaluate]. A judge that is configured wrongly, or that differs from the one that was asked under the name before, is a validation error, and no row.
func (k *Kit) JudgeResponse(ctx context.Context, judge eval.Judge, subject eval.Response, opts *EvaluateOptions) (eval.Result, error) {
	const operation = "JudgeResponse"
	if judge == nil {
		return eval.Result{}, validationf("%s: the judge is nil", operation)
	}
	if opts == nil || opts.Name == "" {
		return eval.Result{}, validationf("%s: EvaluateOptions.Name is needed: the name under which the evaluation is stored, such as answer.correctness.v1", operation)
	}
	if err := checkEvaluator(operation, opts.Name); err != nil {
		return eval.Result{}, err
	}
	k.evals.mu.Lock()
	_, taken := k.evals.byName[opts.Name]
	k.evals.mu.Unlock()
	if _, builtin := eval.Builtin(opts.Name); builtin || taken {
		return eval.Result{}, validationf("%s: %q is a registered evaluator: use Evaluate, or choose another name", operation, opts.Name)
	}
	if err := k.admitJudge(operation, opts.Name, judge); err != nil {
		return eval.Result{}, err
	}
	return k.evaluate(ctx, operation, judge.Evaluate, subject, opts.Name, opts)
}

// EvaluationResults are the results of this kit's evaluations so far, in order. The slice is the caller's.
func (k *Kit) EvaluationResults() []eval.Result {
	k.evals.mu.Lock()
	defer k.evals.mu.Unlock()
	out := make([]eval.Result, len(k.evals.results))
	for i := range k.evals.results {
		out[i] = k.evals.results[i].Clone()
	}
	return out
}

func (k *Kit) evaluator(name string) (eval.Func, error) {
	if f, ok := eval.Builtin(name); ok {
		return f, nil
	}
	k.evals.mu.Lock()
	defer k.evals.mu.Unlock()
	if f, ok := k.evals.byName[name]; ok {
		return f, nil
	}
	return nil, &UnsupportedError{Message: fmt.Sprintf("Evaluate: there is no evaluator %q: register it with kit.RegisterEvaluator", name),
		Details: map[string]any{"feature": "evaluator"}}
}

func (k *Kit) evaluate(ctx context.Context, operation string, f eval.Func, subject any, name string, opts *EvaluateOptions) (eval.Result, error) {
	if err := k.usable(); err != nil {
		return eval.Result{}, err
	}
	var o EvaluateOptions
	if opts != nil {
		o = *opts
	}
	// What follows is kept also when the caller gives up meanwhile.
	lasting := context.WithoutCancel(ctx)
	s, err := k.subject(lasting, operation, subject, &o)
	if err != nil {
		return eval.Result{}, err
	}
	began := time.Now()
	d, problem := decide(k.judging(ctx), f, k.evalContext(s, &o))
	r := k.result(d, problem, s)
	r.Evaluator, r.Duration = name, time.Since(began)
	if r.Required, err = k.requires(lasting, r, o.Required, s); err != nil {
		return eval.Result{}, err
	}
	return k.keepEvaluation(lasting, r)
}

// requires reports whether an evaluation is required: by this call, by an earlier one of its lineage, or because its execution declares it.
func (k *Kit) requires(ctx context.Context, r *eval.Result, asked bool, s *evalSubject) (bool, error) {
	l := r.Lineage()
	k.evals.mu.Lock()
	defer k.evals.mu.Unlock()
	if asked || k.evals.required[l] || slices.Contains(s.declared, eval.Registration{Name: r.Evaluator, Required: true}) {
		if k.evals.required == nil {
			k.evals.required = map[eval.Lineage]bool{}
		}
		k.evals.required[l] = true
		return true, nil
	}
	if r.Execution == "" {
		return false, nil
	}
	rows, err := k.store.Evaluations(ctx, &store.EvaluationQuery{Execution: r.Execution, Evaluator: r.Evaluator, Required: true})
	if err != nil {
		return false, fmt.Errorf("m3: look for earlier evaluations: %w", err)
	}
	return slices.ContainsFunc(rows, func(o eval.Result) bool { return o.Lineage() == l }), nil
}

// keepEvaluation stores the row, and only then says that it blocks.
func (k *Kit) keepEvaluation(ctx context.Context, r *eval.Result) (eval.Result, error) {
	k.evals.mu.Lock()
	r.Created = time.Now().UTC()
	if !r.Created.After(k.evals.last) { // the order of one kit's evaluations is that of their times
		r.Created = k.evals.last.Add(1)
	}
	k.evals.last = r.Created
	k.evals.mu.Unlock()
	// Through the stored form: what the caller gets is what everybody will read.
	b, err := store.Encode(&store.Evaluation{Result: *r})
	if err != nil {
		return eval.Result{}, fmt.Errorf("m3: the evaluation cannot be stored: %w", err)
	}
	rec, err := store.Decode("evaluation", b)
	if err != nil {
		return eval.Result{}, fmt.Errorf("m3: the evaluation cannot be stored: %w", err)
	}
	own := rec.(*store.Evaluation)
	if own.Execution != "" || own.Required {
		if err = k.begin(ctx); err == nil {
			err = k.store.Append(ctx, own)
		}
		if err != nil {
			err = fmt.Errorf("m3: the evaluation could not be stored: %w", err)
		}
	}
	if k.cfg.Gate != nil {
		k.cfg.Gate.Add(&own.Result)
	}
	k.evals.mu.Lock()
	k.evals.results = append(k.evals.results, own.Result.Clone())
	k.evals.mu.Unlock()
	if !own.Required || own.Status == eval.Passed {
		return own.Result, err
	}
	required := eval.NewRequiredError(&own.Result)
	if err != nil {
		return own.Result, errors.Join(err, required)
	}
	return own.Result, required
}
