package m3

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/isolation"
	"github.com/m3-go/m3/trace"
)

// installed is what a driver's Check found: it is asked once a selection, until it finds something.
type installed struct {
	mu    sync.Mutex
	found *harness.Installation
}

// get asks the driver.
func (i *installed) get(ctx context.Context, d harness.Driver) (harness.Installation, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found != nil {
		return *i.found, nil
	}
	found, err := guarded(func() (harness.Installation, error) { return d.Check(ctx) })
	if err == nil {
		i.found = &found
	}
	return found, err
}

// guarded calls a driver's function; a panic in it is an error.
func guarded[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = harness.Errorf(harness.BlameHarness, "driver_panicked", "the driver panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// step is one part of the start.
type step struct {
	stage string
	blame harness.Blame
	do    func(ctx context.Context) error
}

// start brings the execution to where a message can be sent. After a failure the execution is to be finished.
func (x *execution) start(ctx context.Context) *mishap {
	f := x.climb(ctx)
	if f != nil {
		x.mu.Lock()
		x.failed = f
		x.mu.Unlock()
	}
	close(x.started)
	return f
}

// climb goes through the steps of the start.
func (x *execution) climb(ctx context.Context) *mishap {
	if ctx.Err() != nil {
		return x.interrupted(ctx, x.startAt("queue", harness.BlameTest))
	}
	if err := x.life.to(StateStarting); err != nil { // it was finished meanwhile
		return x.fail(ctx, err, x.startAt("queue", harness.BlameTest))
	}
	started := time.Now()
	for _, s := range []step{
		{"check", harness.BlameHarness, x.check},
		{"server", harness.BlameServer, x.startServers},
		{"model", harness.BlameHarness, x.startProvider},
		{"workspace", harness.BlameTest, x.openWorkspace},
		{"open", harness.BlameAgent, x.openAgent},
	} {
		err := s.do(ctx)
		if err == nil && ctx.Err() == nil {
			continue
		}
		f := x.fail(ctx, err, x.startAt(s.stage, s.blame))
		x.diagnose(&trace.Diagnostic{Code: "startup_failed", Message: f.blame.Message, Stage: s.stage, Operation: "start", Elapsed: time.Since(started), Timeout: x.act.timeout}, trace.PhaseStartup)
		return f
	}
	x.note(trace.KindSessionCreated, trace.PhaseStartup, map[string]any{"state": "created"})
	if err := x.life.to(StateIdle); err != nil {
		return x.fail(ctx, err, x.startAt("open", harness.BlameTest))
	}
	return nil
}

func (x *execution) startAt(stage string, blame harness.Blame) *at {
	return &at{operation: "start " + x.agent.name, stage: stage, blame: blame, timeout: x.act.timeout}
}

// check asks whether the agent can run here at all.
func (x *execution) check(ctx context.Context) error {
	for target, value := range x.secrets {
		if value == "" {
			return harness.Errorf(harness.BlameHarness, "credential_empty", "the credential %s refers to the environment variable %s, which is set but empty", target, x.agent.credentials[target])
		}
	}
	found, err := x.agent.found.get(ctx, x.agent.driver)
	if err != nil {
		return err
	}
	x.note(trace.KindHarnessResolved, trace.PhasePreflight, map[string]any{"state": "resolved", "executable": found.Executable, "version": found.Version, "installation": found.Runtime})
	return nil
}

// startProvider opens the provider of a model that brings one.
func (x *execution) startProvider(ctx context.Context) error {
	m, ok := x.agent.model.(harness.ProvidedModel)
	if !ok {
		return nil
	}
	aliases := make([]string, 0, len(x.servers))
	for _, s := range x.servers {
		aliases = append(aliases, s.alias)
	}
	p, err := guarded(func() (harness.Provider, error) {
		return m.Provide(ctx, &harness.Provision{Execution: x.id, Dialects: x.can.Dialects, Servers: aliases, Record: x.exchanged})
	})
	if err != nil {
		return fmt.Errorf("open the provider of %s: %w", m.ModelName(), err)
	}
	x.provider = p
	return nil
}

// openWorkspace makes the home and the workspace.
func (x *execution) openWorkspace(ctx context.Context) (err error) {
	if x.home, err = isolation.NewHome(); err != nil {
		return harness.Errorf(harness.BlameHarness, "home_failed", "no home for the agent: %v", err)
	}
	if x.work, err = isolation.Open(ctx, isolation.Mode(x.act.workspace.word()), x.act.workspace.dir); err != nil {
		return fmt.Errorf("the workspace cannot be made: %w", err)
	}
	return nil
}

// openAgent has the driver start the agent.
func (x *execution) openAgent(ctx context.Context) error {
	x.host = newHost(x)
	spec := &harness.Spec{Execution: x.id, Model: x.agent.Model(), Tools: x.act.tools, Instructions: x.agent.instructions, Workspace: x.work.Dir, Home: x.home.Path,
		Env: x.home.Env(), Credentials: x.secrets, AskPermission: x.can.Permissions && x.act.permissions.word != AllowAll.word, Elicitation: x.answers()}
	if x.provider != nil {
		e := x.provider.Endpoint()
		spec.Endpoint, spec.Model = &e, e.Model
	}
	for _, s := range x.servers {
		if s.unavailable == "" {
			spec.Servers = append(spec.Servers, s.endpoint)
		}
	}
	type opened struct {
		s   harness.Session
		err error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := guarded(func() (harness.Session, error) { return x.agent.driver.Open(ctx, spec, x.host) })
		if err == nil && s == nil {
			err = harness.Errorf(harness.BlameHarness, "driver_broken", "the driver opened nothing and gave no error")
		}
		done <- opened{s, err}
	}()
	o, ok := await(ctx, done, hangGrace)
	if !ok {
		x.host.stop() // then it has nothing to wait for
		if o, ok = await(ctx, done, hangGrace); !ok {
			go func() { // whenever it comes, nobody wants it
				if o := <-done; o.err == nil {
					_ = o.s.Close(ctx)
				}
			}()
			return harness.Errorf(harness.BlameHarness, "driver_hung", "the driver did not return when its context ended")
		}
	}
	if o.err != nil {
		if fault := x.serverFault(); fault != nil {
			return notServed(fault)
		}
		return o.err
	}
	x.native = o.s
	return nil
}

// answers reports whether the test can answer a server's requests for input: an action with a plan can, and a session, whose every message may bring one.
func (x *execution) answers() bool {
	return x.can.Elicitation.Native && (x.alone == nil || x.alone.plan != nil)
}

// hangGrace is how long a driver may take to return after the end of its context, over what it was told to wait for the agent.
const hangGrace = 3 * time.Second

// await waits for a value; after the end of ctx for d at most.
func await[T any](ctx context.Context, c <-chan T, d time.Duration) (v T, ok bool) {
	select {
	case v = <-c:
		return v, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v = <-c:
		return v, true
	case <-timer.C:
		return v, false
	}
}

// openSession starts the agent for a conversation.
func (x *execution) openSession(ctx context.Context) error {
	bounded, cancel := x.bounded(ctx, x.act.timeout)
	defer cancel()
	f := x.start(bounded)
	if f == nil {
		return nil
	}
	x.finish(context.WithoutCancel(ctx))
	return errors.Join(f.err, x.endErr)
}

// runAlone is the whole of an action of its own.
func (x *execution) runAlone(ctx context.Context) {
	select {
	case x.kit.slots <- struct{}{}:
		defer func() { <-x.kit.slots }()
	case <-x.ctx.Done(): // the start finds that out
	}
	defer x.finish(ctx) // before the slot is free again
	bounded, cancel := x.bounded(ctx, x.act.timeout)
	defer cancel()
	if x.start(bounded) != nil {
		return
	}
	if r, err := x.beginTurn(x.alone); err == nil { // it fails only when the execution was ended meanwhile, which the end knows
		x.turn(bounded, r)
	}
}
