package m3

import (
	"fmt"
	"slices"
	"sync"
)

// State is where the execution of an agent stands.
type State string

// The states:
//
//	created → queued → starting → idle ⇄ running ⇄ waiting_for_input
//	                      │         └──────┴───────────────┤
//	                      └────────────────────────────────┴→ closing → finished
const (
	StateCreated  State = "created"
	StateQueued   State = "queued"            // as many of the kit's actions run as may
	StateStarting State = "starting"          // servers, workspace, agent
	StateIdle     State = "idle"              // the agent waits for a message
	StateRunning  State = "running"           // a turn
	StateWaiting  State = "waiting_for_input" // a turn that waits for somebody to answer
	StateClosing  State = "closing"
	StateFinished State = "finished" // the trace is finalized
)

// moves are the legal ones.
var moves = map[State][]State{
	StateCreated:  {StateQueued, StateClosing},
	StateQueued:   {StateStarting, StateClosing},
	StateStarting: {StateIdle, StateClosing},
	StateIdle:     {StateRunning, StateClosing},
	StateRunning:  {StateIdle, StateWaiting, StateClosing},
	StateWaiting:  {StateRunning, StateIdle, StateClosing},
	StateClosing:  {StateFinished},
}

// lifecycle is the state of one execution. Each move is told to moved, in order.
type lifecycle struct {
	moved func(from, to State)

	mu    sync.Mutex
	state State
}

// now is the state at this moment.
func (l *lifecycle) now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// to moves on. An illegal move changes nothing: the error has the code invalid_transition.
func (l *lifecycle) to(next State) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(moves[l.state], next) {
		return &Error{CodeText: "invalid_transition", Message: fmt.Sprintf("an execution that is %s cannot become %s", l.state, next),
			Details: map[string]any{"from": string(l.state), "to": string(next)}}
	}
	from := l.state
	l.state = next
	if l.moved != nil {
		l.moved(from, next)
	}
	return nil
}
