package eval

// Status is the verdict of one evaluation. The zero value is none of them, and is not valid in a [Decision].
type Status string

// The five statuses.
const (
	Passed       Status = "passed"
	Failed       Status = "failed"
	Error        Status = "error"        // the evaluator, or what it depends on, did not work
	Inconclusive Status = "inconclusive" // it worked, and the evidence does not decide
	NotRun       Status = "not_run"      // nothing that it applies to
)

// Statuses are the five, in the order in which they are shown. The slice is the caller's.
func Statuses() []Status { return []Status{Passed, Failed, Error, Inconclusive, NotRun} }

// Valid reports whether s is one of the five.
func (s Status) Valid() bool {
	switch s {
	case Passed, Failed, Error, Inconclusive, NotRun:
		return true
	}
	return false
}

// Kind is what sort of evaluation a row is.
type Kind string

// The kinds.
const (
	KindEvaluator Kind = "evaluator" // a registered function, or a built-in
	KindJudge     Kind = "judge"     // a model was asked
	KindCheck     Kind = "check"     // a matcher of package expect, recorded by m3test
)

// The evaluators that every kit has.
const (
	// ExecutionCompleted passes when the execution's outcome is completed; without an outcome it is inconclusive.
	ExecutionCompleted = "m3.execution.completed.v1"
	// ToolCallSucceeded passes when the result of a tool call says that it is no error; without one it is not_run.
	ToolCallSucceeded = "m3.tool_call.succeeded.v1"
	// OutputHasText passes when there is text that is not blank in the subject; where text has no place it is not_run.
	OutputHasText = "m3.output.has_text.v1"
)
