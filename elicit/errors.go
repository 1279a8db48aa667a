package elicit

import (
	"fmt"

	"github.com/m3-go/m3/trace"
)

// PlanError says that a plan, a response, a request or a pending round cannot be used. It also is m3.ErrValidation. Its text
// names the place and never holds a value of an answer.
type PlanError struct {
	// Path names the node, from the plan that the error was asked of: sequence[1].one_of[0] form "address". Empty: there is no node.
	Path    string
	Message string
	// Details: path, and reason: what kind of mistake it is.
	Details map[string]any

	within bool // Path begins with a composite's step
}

func (e *PlanError) Error() string {
	if e.Path == "" {
		return "elicit: " + e.Message
	}
	return fmt.Sprintf("elicit: %s: %s", e.Path, e.Message)
}

// failure is a PlanError that has no place yet.
func failure(reason, message string) *PlanError {
	return &PlanError{Message: message, Details: map[string]any{"reason": reason}}
}

// at names the place of an error that has none; one that has keeps it.
func (e *PlanError) at(label string) *PlanError {
	if e == nil || e.Path != "" {
		return e
	}
	return &PlanError{Path: label, Message: e.Message, Details: map[string]any{"reason": e.Details["reason"], "path": label}}
}

// under puts a composite's step before the path.
func (e *PlanError) under(step string) *PlanError {
	path := step + " " + e.Path
	if e.within {
		path = step + "." + e.Path
	}
	return &PlanError{Path: path, Message: e.Message, Details: map[string]any{"reason": e.Details["reason"], "path": path}, within: true}
}

// orNil keeps a nil *PlanError from becoming an error.
func (e *PlanError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

// Is makes errors.Is(err, m3.ErrValidation) true.
func (e *PlanError) Is(target error) bool { return target == trace.ErrValidation }

// Code is "invalid_argument".
func (e *PlanError) Code() string { return "invalid_argument" }

// ExpectationError says that what a server asked for is not what the plan expects, or that the plan expects more. Its text and its
// Details hold keys and paths, never a value.
type ExpectationError struct {
	Message string
	// Details: reason ("no_match", "ambiguous", "incomplete", "empty_round", "duplicate_key", "bad_request", "finished"), round (from 1), and
	// by reason request_key, request_keys, expected, branches or unused.
	Details map[string]any
}

func (e *ExpectationError) Error() string { return "elicit: " + e.Message }

// Code is "elicitation_expectation_failed".
func (e *ExpectationError) Code() string { return "elicitation_expectation_failed" }

// Terminal is false: only the call failed.
func (e *ExpectationError) Terminal() bool { return false }

// RoundLimitError says that a server asked more often than the call allows.
type RoundLimitError struct {
	Message string
	// Details: the operation and its rounds.
	Details map[string]any
}

func (e *RoundLimitError) Error() string { return "elicit: " + e.Message }

// Code is "elicitation_round_limit".
func (e *RoundLimitError) Code() string { return "elicitation_round_limit" }

// Terminal is true: the call must not be continued.
func (e *RoundLimitError) Terminal() bool { return true }
