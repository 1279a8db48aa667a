package m3

import (
	"context"
	"errors"
	"iter"

	"github.com/m3-go/m3/trace"
)

// execution is one execution of an agent.
type execution struct {
	agent   *Agent
	act     *action
	id      trace.ExecutionID
	session trace.SessionID
	life    lifecycle
	done    chan struct{}
	result  *Result
	err     error
	endErr  error
}

type installed struct{}

var errLater = errors.New("m3: agents are not built yet")

func (a *Agent) prepare(ctx context.Context, operation string, act *action, p *prompt) (*execution, error) {
	if err := act.check(operation, a); err != nil {
		return nil, err
	}
	if p != nil {
		if err := p.check(operation, a); err != nil {
			return nil, err
		}
	}
	return nil, errLater
}
func (x *execution) runAlone(ctx context.Context)                              {}
func (x *execution) openSession(ctx context.Context) error                     { return errLater }
func (x *execution) snapshot() Snapshot                                        { return Snapshot{} }
func (x *execution) kill(cause *stopCause)                                     {}
func (x *execution) outcome() (*Result, error)                                 { return x.result, x.err }
func (x *execution) events(ctx context.Context, after int64) iter.Seq2[trace.Event, error] { return nil }
func (x *execution) send(ctx context.Context, p *prompt) (*Turn, error)        { return nil, errLater }
func (x *execution) cancelTurn()                                               {}
func (x *execution) finish(ctx context.Context, cause *stopCause)              {}
func (w Workspace) check(operation string, artifacts []string) error           { return nil }
