package harnesstest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// scenario is one thing that every driver must get right.
type scenario struct {
	name  string
	turns [][]Step
	needs func(c *harness.Capabilities) (name string, has bool)
	run   func(ctx context.Context, e *env)
}

func (s *scenario) missing(cfg *Config) string {
	if s.needs == nil {
		return ""
	}
	can := cfg.Driver(s.turns).Capabilities()
	if name, has := s.needs(&can); !has {
		return name
	}
	return ""
}

const strange = "grüße \u4e16\u754c \U0001f9ea \u202e \"\\ \u2028 e\u0301"

var megabyte = strings.Repeat("0123456789abcdef", 1<<16)

func call(tool string) Step { return Step{Tool: tool} }

var sum = Step{Tool: "add", Args: map[string]any{"a": 2, "b": 3}}

func one(steps ...Step) [][]Step { return [][]Step{steps} }

var scenarios = []scenario{
	{name: "one turn", turns: one(Step{Say: "hello"}), run: func(ctx context.Context, e *env) {
		r := e.ok(ctx, nil)
		e.calls(r, trace.ToolSuccess)
		if r != nil && (r.Text() != "hello" || r.View().Messages().Len() == 0) {
			e.failf("the answer is %q with %d messages", r.Text(), r.View().Messages().Len())
		}
		e.arrived()
	}},
	{name: "several turns", turns: [][]Step{{sum, {Say: "first"}}, {sum, {Say: "second"}}}, run: severalTurns,
		needs: func(c *harness.Capabilities) (string, bool) { return "MultiTurn", c.MultiTurn }},
	{name: "tool call", turns: one(sum, Step{Say: "5"}), run: func(ctx context.Context, e *env) {
		e.calls(e.ok(ctx, nil), trace.ToolSuccess, "add")
		e.arrived("add")
	}},
	{name: "tool error", turns: one(call("fail"), Step{Say: "it failed"}), run: func(ctx context.Context, e *env) {
		e.calls(e.ok(ctx, nil), trace.ToolError, "fail")
		e.arrived("fail")
	}},
	{name: "permission asked", turns: one(Step{Tool: "add", Ask: true}, Step{Say: "done"}), run: permissionAsked,
		needs: func(c *harness.Capabilities) (string, bool) { return "Permissions", c.Permissions }},
	{name: "cancel in tool", turns: one(call("stuck"), Step{Say: "never"}), run: func(ctx context.Context, e *env) { cancelAfter(ctx, e, "stuck") },
		needs: func(c *harness.Capabilities) (string, bool) { return "Cancel", c.Cancel }},
	{name: "cancel in answer", turns: one(sum, Step{Hang: true}), run: func(ctx context.Context, e *env) { cancelAfter(ctx, e, "add") },
		needs: func(c *harness.Capabilities) (string, bool) { return "Cancel", c.Cancel }},
	{name: "deadline", turns: one(call("stuck"), Step{Say: "never"}), run: func(ctx context.Context, e *env) {
		r, err := e.agent.Run(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: 8 * time.Second})
		var timeout *m3.TimeoutError
		if !errors.As(err, &timeout) || r == nil || r.Outcome != trace.OutcomeTimedOut {
			e.failf("a deadline ended with %v", err)
		}
		e.arrived("stuck")
	}},
	{name: "agent crash", turns: one(call("stuck"), Step{Say: "never"}), run: agentCrash},
	{name: "slow server", turns: one(call("late"), Step{Say: "at last"}), run: func(ctx context.Context, e *env) {
		e.calls(e.ok(ctx, nil), trace.ToolSuccess, "late")
		e.arrived("late")
	}},
	{name: "unicode arguments", turns: one(Step{Tool: "echo", Args: map[string]any{"text": strange}}, Step{Say: "ok"}), run: func(ctx context.Context, e *env) { echoes(ctx, e, strange) }},
	{name: "megabyte arguments", turns: one(Step{Tool: "echo", Args: map[string]any{"text": megabyte}}, Step{Say: "ok"}), run: func(ctx context.Context, e *env) { echoes(ctx, e, megabyte) }},
	{name: "no tools", turns: one(sum, Step{Say: "none"}), run: func(ctx context.Context, e *env) { forbidden(ctx, e, m3.NoTools) }},
	{name: "exact tools", turns: one(sum, Step{Say: "none"}), run: func(ctx context.Context, e *env) { forbidden(ctx, e, m3.OnlyTools(serverName+":echo")) }},
	{name: "dead server", turns: one(call("die"), Step{Say: "gone"}), run: deadServer},
	{name: "two sessions", turns: one(sum, Step{Say: "5"}), run: twoSessions},
}

// ok runs the script to an end of the agent's own.
func (e *env) ok(ctx context.Context, opts *m3.RunOptions) *m3.Result {
	if opts == nil {
		opts = &m3.RunOptions{}
	}
	opts.Server, opts.Timeout = e.server.pipe(), time.Minute
	r, err := e.agent.Run(ctx, "go", opts)
	if err != nil || r.Outcome != trace.OutcomeCompleted {
		e.failf("the action ended with %v", err)
		return nil
	}
	return r
}

// calls: both tapes tell the same calls.
func (e *env) calls(r *m3.Result, status trace.ToolCallStatus, want ...string) {
	if r == nil {
		return
	}
	calls := r.View().ToolCalls()
	if calls.Len() != len(want) {
		e.failf("the trace has %d calls, want %d", calls.Len(), len(want))
		return
	}
	for i, c := range calls.All() {
		if c.Tool.Value != want[i] || c.ToolStatus != status || c.Correlation != trace.Correlated || len(c.Conflicts) > 0 {
			e.failf("call %d is %s, %s, %s, conflicts %v: want %s, %s, correlated", i+1, c.Tool.Value, c.ToolStatus, c.Correlation, c.Conflicts, want[i], status)
		}
	}
}

func severalTurns(ctx context.Context, e *env) {
	s, err := e.agent.Session(ctx, &m3.SessionOptions{Server: e.server.pipe(), Timeout: time.Minute})
	if err != nil {
		e.failf("the session: %v", err)
		return
	}
	for _, want := range []string{"first", "second"} {
		if turn, err := s.Send(ctx, "go", nil); err != nil || turn.Text() != want {
			e.failf("the answer is %q, %v; want %q", turn.Text(), err, want)
		}
	}
	r, err := s.Finish(ctx)
	if err != nil {
		e.failf("finish: %v", err)
		return
	}
	for i, turn := range r.Turns {
		if n := r.View().ForTurn(turn).ToolCalls().Len(); n != 1 {
			e.failf("turn %d has %d calls, want 1", i+1, n)
		}
	}
	e.arrived("add", "add")
}

func permissionAsked(ctx context.Context, e *env) {
	asked := make(chan string, 16)
	policy := m3.DecidePermission(func(_ context.Context, r *m3.PermissionRequest) bool {
		select {
		case asked <- r.Server + ":" + r.Tool:
		default:
		}
		return false
	})
	// How the agent goes on after a refusal is its own affair: what counts is that it asked, and that nothing passed.
	_, _ = e.agent.Run(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: time.Minute, Permissions: policy})
	select {
	case got := <-asked:
		if got != serverName+":add" {
			e.failf("it asked for %q", got)
		}
	default:
		e.failf("the policy was not asked")
	}
	e.arrived()
}

// cancelAfter cancels when the call of the tool has arrived, so that the agent waits for it or for what comes after.
func cancelAfter(ctx context.Context, e *env, tool string) {
	h, err := e.agent.Submit(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: time.Minute})
	if err != nil {
		e.failf("submit: %v", err)
		return
	}
	if !e.wait(ctx, tool) {
		return
	}
	cancelled := time.Now()
	h.Cancel()
	r, err := h.Result(ctx)
	var want *m3.CancelledError
	if !errors.As(err, &want) || r == nil || r.Outcome != trace.OutcomeCancelled {
		e.failf("a cancelled action ended with %v", err)
	} else if n := r.View().ToolCalls().Len(); n != 1 {
		e.failf("%d calls are kept of a cancelled action, want 1", n)
	}
	if took := time.Since(cancelled); took > 15*time.Second {
		e.failf("the cancel took %s", took)
	}
	e.arrived(tool)
}

// wait waits until a call has arrived.
func (e *env) wait(ctx context.Context, tool string) bool {
	select {
	case got := <-e.server.arrived:
		if got == tool {
			return true
		}
		e.failf("%s arrived, want %s", got, tool)
	case <-time.After(30 * time.Second):
		e.failf("%s did not arrive in 30 s", tool)
	case <-ctx.Done():
		e.failf("%s did not arrive: %v", tool, ctx.Err())
	}
	return false
}

func agentCrash(ctx context.Context, e *env) {
	h, err := e.agent.Submit(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: time.Minute})
	if err != nil {
		e.failf("submit: %v", err)
		return
	}
	if e.wait(ctx, "stuck") {
		e.watched.kill()
	}
	r, err := h.Result(ctx)
	var failure *harness.Error
	if !errors.As(err, &failure) || failure.Blame != harness.BlameAgent || r.Outcome != trace.OutcomeFailed {
		e.failf("a crash of the agent ended with %v, want the blame agent", err)
	}
}

func echoes(ctx context.Context, e *env, text string) {
	e.calls(e.ok(ctx, nil), trace.ToolSuccess, "echo")
	if got := e.server.texts(); len(got) != 1 || got[0] != text {
		e.failf("the server got other arguments than the script has: %.80q", got)
	}
}

// forbidden: a call of a tool that is not selected never arrives, whatever the agent makes of it; and no success is invented.
func forbidden(ctx context.Context, e *env, tools m3.ToolSelection) {
	r, err := e.agent.Run(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: 20 * time.Second, Tools: tools})
	e.arrived()
	if r == nil {
		e.failf("there is no result: %v", err)
		return
	}
	for _, c := range r.View().ToolCalls().All() {
		if c.ToolStatus == trace.ToolSuccess {
			e.failf("a forbidden call of %s is told as a success", c.Tool.Value)
		}
	}
	for _, t := range e.watched.tools() {
		if t.All {
			e.failf("the driver was told to allow all tools")
		}
	}
}

func deadServer(ctx context.Context, e *env) {
	r, err := e.agent.Run(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: 20 * time.Second})
	var failure *harness.Error
	if !errors.As(err, &failure) || failure.Blame != harness.BlameServer || r == nil || r.Outcome != trace.OutcomeFailed {
		e.failf("a server that died ended with %v, want the blame server", err)
	}
	e.arrived("die")
}

// twoSessions: two executions of one agent at once keep apart.
func twoSessions(ctx context.Context, e *env) {
	var handles []*m3.Handle
	for range 2 {
		h, err := e.agent.Submit(ctx, "go", &m3.RunOptions{Server: e.server.pipe(), Timeout: time.Minute})
		if err != nil {
			e.failf("submit: %v", err)
			return
		}
		handles = append(handles, h)
	}
	for _, h := range handles {
		r, err := h.Result(ctx)
		if err != nil {
			e.failf("one of two at once ended with %v", err)
			continue
		}
		e.calls(r, trace.ToolSuccess, "add")
	}
	e.arrived("add", "add")
}
