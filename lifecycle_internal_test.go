package m3

import (
	"errors"
	"slices"
	"testing"
)

// TestLifecycleMoves: from each state to each, what is not in the picture is an error and changes nothing.
func TestLifecycleMoves(t *testing.T) {
	t.Parallel()
	all := []State{StateCreated, StateQueued, StateStarting, StateIdle, StateRunning, StateWaiting, StateClosing, StateFinished}
	legal := 0
	for _, from := range all {
		for _, to := range all {
			moved := 0
			l := lifecycle{state: from, moved: func(State, State) { moved++ }}
			err := l.to(to)
			if slices.Contains(moves[from], to) {
				legal++
				if err != nil || l.now() != to || moved != 1 {
					t.Errorf("%s to %s: %v, %s", from, to, err, l.now())
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || e.Code() != "invalid_transition" || l.now() != from || moved != 0 {
				t.Errorf("%s to %s: %v, %s", from, to, err, l.now())
			}
		}
	}
	if legal != 15 {
		t.Errorf("%d legal moves", legal)
	}
}
