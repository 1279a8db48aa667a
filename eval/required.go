package eval

import "fmt"

// RequiredError says that a required evaluation did not pass. The evaluation is stored by then.
type RequiredError struct {
	Message string
	Details map[string]any
	// Result is the row that was stored.
	Result Result
}

func (e *RequiredError) Error() string { return e.Message }

// Code is required_evaluation_failed.
func (e *RequiredError) Code() string { return "required_evaluation_failed" }

// NewRequiredError is the error of a required row that did not pass.
func NewRequiredError(r *Result) *RequiredError {
	e := &RequiredError{Result: *r, Message: fmt.Sprintf("required evaluation %s: %s", r.Status, r.Evaluator),
		Details: map[string]any{"evaluator": r.Evaluator, "status": string(r.Status), "evaluation_id": r.ID}}
	if r.Execution != "" {
		e.Details["execution_id"] = string(r.Execution)
	}
	switch {
	case r.Message != "":
		e.Message += ": " + r.Message
	case r.Rationale != "":
		e.Message += ": " + r.Rationale
	}
	return e
}
