package m3test

import (
	"context"
	"errors"
	"fmt"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// KitOptions configure a test's kit. Nil means all defaults.
type KitOptions struct {
	// Suite is the suite of the test and its subtests; trimmed. Empty: that of the test around it, else of the package. A name of
	// nothing but spaces is an error.
	Suite string
	// Store keeps the kit's executions. Nil: where the run is recorded, else memory until the test ends. The kit does not close a store
	// that it was given.
	Store store.Store
	// RunID is the run of the kit's executions, instead of the test runner's.
	RunID string
	// Protocol is the default protocol version of the kit's clients: see [m3.Config].
	Protocol string
	// SensitiveKeys adds names of keys, headers and variables whose values are secrets: see [m3.Config].
	SensitiveKeys []string
	// JudgeMaxRequests is the most requests that judges may make, retries included, counted over all kits of the run that have such a limit: see
	// [m3.Config]. Nil: no limit but the run's.
	JudgeMaxRequests *int
}

// Kit returns the test's kit: made at the first call, shared with [Direct], closed by t.Cleanup. A subtest has a kit of its own.
// What goes wrong is fatal for the test.
func Kit(t T) *m3.Kit {
	t.Helper()
	return std.kit(t)
}

// NewKit makes a kit with options, closed by t.Cleanup. The first kit of a test is the one that [Kit] and [Direct] use from then on, so
// call NewKit before them. What goes wrong is fatal for the test.
func NewKit(t T, opts *KitOptions) *m3.Kit {
	t.Helper()
	return std.newKit(t, opts)
}

// Direct connects to a server with the test's kit; see [m3.Kit.Direct]. A server that cannot be connected to is fatal for the test. The
// client is closed by t.Cleanup, if not before. The case of its execution is the test's name unless opts names one. The test's context bounds the
// connect; in a clean-up, where that has ended, only the deadlines of the start and of the test do.
func Direct(t T, server m3.Server, opts *m3.DirectOptions) *m3.Client {
	t.Helper()
	return std.direct(t, server, opts)
}

// Finish closes the client and returns the view of its finalized trace. What goes wrong is fatal for the test. It may be called again:
// the view is the same.
func Finish(t T, client *m3.Client) trace.View {
	t.Helper()
	return std.finishClient(t, client)
}

func (p *process) kit(t T) *m3.Kit {
	t.Helper()
	a, err := p.attempt(t, "")
	if err != nil {
		a.refuse(t, err)
		return nil
	}
	k, err := a.kit()
	if err != nil {
		a.fatal(t, fmt.Sprintf("m3: make the test's kit: %v", err))
	}
	return k
}

func (p *process) newKit(t T, opts *KitOptions) *m3.Kit {
	t.Helper()
	var o KitOptions
	if opts != nil {
		o = *opts
	}
	a, err := p.attempt(t, o.Suite)
	if err != nil {
		a.refuse(t, err)
		return nil
	}
	k, err := a.newKit(&o)
	if err != nil {
		a.fatal(t, fmt.Sprintf("m3: make a kit: %v", err))
	}
	return k
}

// refuse ends a test that cannot have a kit: skipped when it was not asked for, else failed.
func (a *attempt) refuse(t T, err error) {
	t.Helper()
	var other *notSelectedError
	if errors.As(err, &other) {
		t.Skipf("m3: this test is skipped: %v", err)
		return
	}
	a.fatal(t, fmt.Sprintf("m3: this test cannot have a kit: %v", err))
}

func (p *process) direct(t T, server m3.Server, opts *m3.DirectOptions) *m3.Client {
	t.Helper()
	k := p.kit(t)
	if k == nil { // a T whose Fatalf returns
		return nil
	}
	var o m3.DirectOptions
	if opts != nil {
		o = *opts
	}
	if o.Case == "" {
		o.Case = t.Name()
	}
	a := p.attemptOf(t)
	before := len(a.executions())
	ctx, cancel := connectContext(t)
	defer cancel()
	c, err := k.Direct(ctx, server, &o)
	if err != nil {
		command := ""
		if begun := a.executions()[before:]; len(begun) == 1 { // with more, others connected at the same time
			command = a.command(begun[0])
		}
		a.fatal(t, connectMessage(server, err, command))
		return nil
	}
	return c
}

// connectContext bounds a connect. In a clean-up the test's own context has ended: the deadline of the test is left, and the start's own.
func connectContext(t T) (context.Context, context.CancelFunc) {
	ctx := t.Context()
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	ctx = context.WithoutCancel(ctx)
	if d, ok := t.(deadliner); ok {
		if deadline, ok := d.Deadline(); ok {
			return context.WithDeadline(ctx, deadline)
		}
	}
	return ctx, func() {}
}

func (p *process) finishClient(t T, client *m3.Client) trace.View {
	t.Helper()
	a := p.attemptOf(t)
	if client == nil {
		a.fatal(t, "m3: Finish: the client is nil: did Direct fail?")
		return trace.View{}
	}
	if err := unreported(client.Close()); err != nil {
		a.fatal(t, fmt.Sprintf("m3: Finish: close %s: %v", client.Server(), err))
		return trace.View{}
	}
	view, err := client.View()
	switch {
	case errors.Is(err, store.ErrClosed), errors.Is(err, m3.ErrKitClosed):
		a.fatal(t, fmt.Sprintf("m3: Finish: the kit of %s is closed: its executions were in memory and ended with it", client.Server()))
	case err != nil:
		a.fatal(t, fmt.Sprintf("m3: Finish: the trace of %s cannot be used: %v", client.Server(), err))
	}
	return view
}
