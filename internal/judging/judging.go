// Package judging is what a kit, or the process, offers a judge while it runs: the budget that its requests are taken from, and an ear for the
// secrets that it uses. Package judge stands below the root package's kit in nothing but this: neither imports the other.
package judging

import "context"

// Host is what a kit offers the evaluators that it runs. It travels in the context, because a judge may be called by an evaluator of the test's
// own. Nil, and each nil field, offers nothing.
type Host struct {
	// Budget is what requests are taken from.
	Budget *Budget
	// Err is why the budget is not known; then nothing may be asked.
	Err error
	// Secret is told the environment variable and the value of each key before it is used.
	Secret func(variable, value string)
}

type hostKey struct{}

// WithHost returns a context in which judges find the host.
func WithHost(ctx context.Context, h *Host) context.Context {
	return context.WithValue(ctx, hostKey{}, h)
}

// HostOf is the host of the context; without one it is what the process has, so that a judge that is called outside every kit
// spends from the run's budget, too.
func HostOf(ctx context.Context) *Host {
	if h, ok := ctx.Value(hostKey{}).(*Host); ok && h != nil {
		return h
	}
	r, err := Process()
	return &Host{Budget: r.Budget, Err: err}
}
