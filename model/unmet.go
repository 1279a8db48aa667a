package model

import (
	"fmt"
	"strings"
)

// UnmetError is what a scripted model and its agent did not agree on in one execution: the error of harness.Provider.Finish.
type UnmetError struct {
	// Model is the name of the scripted model.
	Model string
	// Problems are in the order in which they were found; steps that were left over come last.
	Problems []Problem
}

func (e *UnmetError) Error() string {
	var texts []string
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return fmt.Sprintf("the script of model %q was not followed: %s", e.Model, strings.Join(texts, "; "))
}

// Problem is one thing that went otherwise than the script says.
type Problem struct {
	Kind ProblemKind
	// Step is the number of the step from 1, 0 when none is concerned.
	Step int
	// Name is the step in words: its name, or what it does.
	Name string
	// Message says what happened.
	Message string
}

// String is the problem in one sentence, which names the step.
func (p Problem) String() string {
	if p.Step == 0 {
		return p.Message
	}
	return fmt.Sprintf("step %d (%s): %s", p.Step, p.Name, p.Message)
}

// ProblemKind is a sort of [Problem].
type ProblemKind string

// The kinds of problems.
const (
	// ProblemUnmet: the request that came for the step does not meet its conditions.
	ProblemUnmet ProblemKind = "unmet"
	// ProblemTool: a tool that the step calls is not offered, or what is offered may be more than one.
	ProblemTool ProblemKind = "tool"
	// ProblemLeftOver: the step was not asked for, or not often enough.
	ProblemLeftOver ProblemKind = "left_over"
	// ProblemSurplus: the agent asked for an answer after the last step.
	ProblemSurplus ProblemKind = "surplus"
	// ProblemRequest: a request is none that the provider can answer: a path that it does not have, a body that is not JSON or too large.
	ProblemRequest ProblemKind = "request"
	// ProblemKey: a request came without the execution's key. It may be of another execution.
	ProblemKey ProblemKind = "key"
)
