package m3

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrSamplingScript matches the error of a DirectOptions.SamplingScript that was not used up, or that the server asked for more than.
var ErrSamplingScript = errors.New("m3: the sampling script was not followed")

// script answers sampling requests with fixed results, in the order in which they come.
type script struct {
	answers []SamplingResult

	mu    sync.Mutex
	asked int
}

// errScriptOver is what a request gets for which no answer is left.
var errScriptOver = errors.New("the sampling script has no answer left")

func (s *script) answer(context.Context, *SamplingRequest) (*SamplingResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.asked > len(s.answers) {
		return nil, errScriptOver
	}
	r := s.answers[s.asked-1]
	return &r, nil
}

// exceeded is the error of a call during which the server asked for more answers than there are; nil before. s may be nil.
func (s *script) exceeded(operation string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked <= len(s.answers) {
		return nil
	}
	return s.err(operation, fmt.Sprintf("the server asked for %d completions, and DirectOptions.SamplingScript has %d", s.asked, len(s.answers)))
}

// check is the script's verdict at the end; s may be nil.
func (s *script) check() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asked > len(s.answers):
		return s.err("close", fmt.Sprintf("the server asked for %d completions, and DirectOptions.SamplingScript has %d", s.asked, len(s.answers)))
	case s.asked < len(s.answers):
		return s.err("close", fmt.Sprintf("the server asked for %d of the %d completions in DirectOptions.SamplingScript", s.asked, len(s.answers)))
	}
	return nil
}

func (s *script) err(operation, message string) error {
	return &Error{CodeText: "sampling_script", Message: operation + ": " + message, Err: ErrSamplingScript,
		Details: map[string]any{"operation": operation, "asked": s.asked, "scripted": len(s.answers)}}
}
