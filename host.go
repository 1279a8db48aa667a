package m3

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/trace"
)

// host is what the kit offers a driver for one execution: see harness.Host. Events are in hostevents.go.
type host struct {
	x      *execution
	source trace.Source
	asked  atomic.Int64 // interactions so far

	mu      sync.Mutex
	procs   []*agentProcess
	stopped bool
}

var _ harness.Host = (*host)(nil)

func newHost(x *execution) *host {
	return &host{x: x, source: trace.Source{Origin: trace.OriginReported, Source: x.agent.kind}}
}

// Start starts a process for the agent.
func (h *host) Start(ctx context.Context, c *harness.Command) (harness.Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil, harness.Errorf(harness.BlameTest, "execution_ended", "the execution has ended, so %s is not started", c.Path)
	}
	p := &agentProcess{h: h, role: orElse(c.Role, "agent")}
	p.conn = trace.ConnectionID(p.role + "-" + strconv.Itoa(len(h.procs)+1))
	run, err := proc.Start(ctx, &proc.Spec{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Session: true, Stderr: func(piece []byte, _ proc.LineEnd) {
		p.written.Add(int64(len(piece)))
		h.x.tape.Stderr("", p.conn, piece)
	}})
	if err != nil {
		return nil, &harness.Error{Blame: harness.BlameHarness, Code: "executable_failed", Message: err.Error(), Err: err}
	}
	p.proc = run
	p.entry = map[string]any{"role": p.role, "executable": trace.Observe(c.Path), "pid": trace.Observe(run.PID()),
		"exit_code": trace.Observation[int]{}, "signal": trace.Observation[string]{}, "stderr": trace.Observation[string]{}}
	p.record(trace.KindProcessStarted, trace.PhaseStartup)
	h.procs = append(h.procs, p)
	return p, nil
}

// stop ends every process that is still there, and refuses new ones.
func (h *host) stop() {
	h.mu.Lock()
	h.stopped = true
	procs := h.procs
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range procs {
		wg.Go(func() { p.Stop(100*time.Millisecond, 250*time.Millisecond) })
	}
	wg.Wait()
}

// deserted reports whether every process that was started for the agent has ended; false when there was none.
func (h *host) deserted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.procs {
		if _, gone := p.proc.Exit(); !gone {
			return false
		}
	}
	return len(h.procs) > 0
}

// agentProcess is a process of the agent's.
type agentProcess struct {
	h       *host
	role    string
	conn    trace.ConnectionID
	proc    *proc.Process
	entry   map[string]any
	written atomic.Int64 // to stderr
	once    sync.Once
}

func (p *agentProcess) PID() int                { return p.proc.PID() }
func (p *agentProcess) Stdin() io.WriteCloser   { return p.proc.Stdin() }
func (p *agentProcess) Stdout() io.Reader       { return p.proc.Stdout() }
func (p *agentProcess) Exited() <-chan struct{} { return p.proc.Exited() }

// Exit tells how the process ended.
func (p *agentProcess) Exit() (code int, signal string, ok bool) {
	e, ok := p.proc.Exit()
	return e.Code, e.Signal, ok
}

// StderrTail is the end of its stderr, redacted.
func (p *agentProcess) StderrTail() string {
	return p.h.x.kit.redactor.String(p.proc.StderrTail())
}

// Stop ends the process and everything it started, and records that.
func (p *agentProcess) Stop(eof, term time.Duration) {
	p.once.Do(func() {
		// A zero of the ladder is its default; who does not want to wait does not.
		p.ended(p.proc.End(&proc.Ladder{EOF: max(eof, time.Millisecond), Term: max(term, time.Millisecond)}))
	})
}

// ended records the end of the process, and what of its tree had to be hunted down.
func (p *agentProcess) ended(e proc.Ended) {
	x := p.h.x
	if e.Exit.Signal != "" {
		p.entry["signal"] = trace.Observe(e.Exit.Signal)
	} else {
		p.entry["exit_code"] = trace.Observe(e.Exit.Code)
	}
	tail := p.proc.StderrTail()
	stderr := trace.Observe(x.kit.redactor.String(tail))
	if int64(len(tail)) < p.written.Load() {
		stderr.State, stderr.Reason = trace.Truncated, trace.ReasonEvidenceTruncated
	}
	p.entry["stderr"], p.entry["ended"], p.entry["survivors"] = stderr, e.Step, e.Survivors
	p.record(trace.KindProcessExited, trace.PhaseCleanup)
	if e.Unswept != nil {
		x.tape.Limit("cleanup_failed", "whether processes of the agent survived could not be checked: "+e.Unswept.Error())
	}
	if e.Held {
		x.tape.Limit("cleanup_failed", "a process of the agent's tree that could not be found still holds its stderr: it may go on running")
	}
	if len(e.Survivors) > 0 {
		x.diagnose(&trace.Diagnostic{Code: "process_leak", Message: fmt.Sprintf("%d processes of the agent's tree outlived it and were ended: pids %v", len(e.Survivors), e.Survivors),
			Stage: "cleanup", Operation: p.role}, trace.PhaseCleanup)
	}
}

func (p *agentProcess) record(kind trace.Kind, phase trace.Phase) {
	x := p.h.x
	b, _ := json.Marshal(p.entry) // observations of text and numbers: cannot fail
	x.tape.Record(&trace.Event{Kind: kind, Phase: phase, SessionID: x.session, TurnID: x.turnNow(), ConnectionID: p.conn, Source: m3Source, Payload: b})
}

// Permission asks the test's policy.
func (h *host) Permission(ctx context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
	id := "permission-" + strconv.FormatInt(h.asked.Add(1), 10)
	request := map[string]any{"kind": r.Kind, "server": r.Server, "tool": r.Tool, "title": r.Title, "call_id": r.CallID}
	if len(r.Raw) > 0 && json.Valid(r.Raw) {
		request["raw"] = json.RawMessage(r.Raw)
	}
	h.interaction(trace.KindPermissionRequest, id, "permission", "request", request)
	answer := harness.Deny
	if ctx.Err() == nil && h.decide(ctx, r) {
		answer = harness.Allow
	}
	if ctx.Err() != nil {
		answer = harness.Cancelled
	}
	h.interaction(trace.KindPermissionResponse, id, "permission", "response", map[string]any{"answer": answer, "policy": h.x.act.permissions.String()})
	return answer
}

// decide asks the policy; the end of ctx and a panic are refusals.
func (h *host) decide(ctx context.Context, r *harness.PermissionRequest) bool {
	p := h.x.act.permissions
	if p.decide == nil {
		return p.allowed(ctx, r, h.x.toolsNow())
	}
	done := make(chan bool, 1)
	go func() {
		allowed, returned := false, false
		defer func() {
			if v := recover(); v != nil || !returned {
				h.x.faultTurn(harness.Errorf(harness.BlameTest, "permission_policy_failed", "the permission policy panicked or ended its goroutine: %v", v))
			}
			done <- allowed
		}()
		allowed = p.allowed(ctx, r, h.x.toolsNow())
		returned = true
	}()
	select {
	case allowed := <-done:
		return allowed
	case <-ctx.Done():
		return false
	}
}

// Drain waits until everything that passed up to now is recorded: at the end of a turn that was cancelled as well, so the end of ctx does not count.
func (h *host) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainBound)
	defer cancel()
	for _, s := range h.x.servers {
		if err := s.drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// servedPatience is how long an agent that is ready may take to connect to a server at all.
const servedPatience = 10 * time.Second

// Served waits until the server's tools were listed for the agent.
func (h *host) Served(ctx context.Context, server string) error {
	for _, s := range h.x.servers {
		if s.alias == server {
			return s.served(ctx, h.x.kit.patience)
		}
	}
	return harness.Errorf(harness.BlameHarness, "server_unknown", "the execution has no server %q", server)
}
