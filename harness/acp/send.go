package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
)

// promptParams is session/prompt.
type promptParams struct {
	SessionID string `json:"sessionId"`
	Prompt    []raw  `json:"prompt"`
}

// Send prompts the agent and waits for its answer.
func (s *session) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	blocks, err := s.blocks(p)
	if err != nil {
		return nil, err
	}
	t := newTurn(s)
	t.permit.ctx, t.permit.cancel = context.WithCancel(context.Background())
	defer t.permit.cancel()
	s.mu.Lock()
	if s.broken != nil {
		s.mu.Unlock()
		return nil, s.broken
	}
	s.turn = t
	s.mu.Unlock()
	id, answer := s.conn.start("session/prompt", promptParams{s.id, blocks})
	f, failure := s.await(ctx, t, id, answer)
	drained := s.drain(ctx)
	s.mu.Lock()
	t.finish()
	s.turn = nil
	cost := s.cost
	s.broken = failure
	s.mu.Unlock()
	switch {
	case failure != nil:
		return nil, failure
	case f.err != nil:
		return nil, promptError(f.err)
	}
	s.usage(f.result.obj(), cost)
	turn, err := t.judge(f.result.obj(), ctx.Err() != nil)
	if err == nil {
		err = drained
	}
	return turn, err
}

// blocks is the prompt, with blocks of the kinds that this agent takes.
func (s *session) blocks(p *harness.Prompt) ([]raw, error) {
	var blocks []raw
	if p.Text != "" || len(p.Content) == 0 {
		blocks = append(blocks, encode(map[string]string{"type": "text", "text": p.Text}))
	}
	needs := map[string]string{"image": "image", "audio": "audio", "resource": "embeddedContext"}
	for _, c := range p.Content {
		if capability := needs[c.Type]; capability != "" && string(s.prompt[capability]) != "true" {
			return nil, harness.Errorf(harness.BlameTest, "content_unsupported", "the agent takes no content of type %s in a prompt (promptCapabilities.%s)", c.Type, capability)
		}
		switch {
		case len(c.Raw) > 0 && json.Valid(c.Raw):
			blocks = append(blocks, raw(c.Raw))
		case c.Type == "text":
			blocks = append(blocks, encode(map[string]string{"type": "text", "text": c.Text}))
		default:
			return nil, harness.Errorf(harness.BlameTest, "content_unsupported", "a content block of type %q has no JSON of its own", c.Type)
		}
	}
	return blocks, nil
}

// await waits for the answer to a prompt. When ctx ends it cancels the turn, and waits on for a while: what the agent says until it has stopped is kept. An error
// means that there will be no answer.
func (s *session) await(ctx context.Context, t *turn, id string, answer <-chan frame) (frame, *harness.Error) {
	f, err := s.conn.await(ctx, answer)
	if err == nil {
		return f, nil
	}
	if ctx.Err() != nil && s.conn.why() == nil {
		s.conn.notification("session/cancel", map[string]string{"sessionId": s.id}) // first: an agent whose question is answered "cancelled" must know why
		t.permit.cancel()
		wait := s.spec.CancelGrace
		if wait <= 0 {
			wait = defaultWait
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		if f, err = s.conn.await(grace, answer); err == nil {
			return f, nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			s.conn.forget(id)
			return frame{}, &harness.Error{Blame: harness.BlameAgent, Code: "agent_timeout", Message: fmt.Sprintf("the agent did not end its turn within %v of being told to cancel it", wait), Err: ctx.Err()}
		}
	}
	return frame{}, s.dead(err)
}

// drain waits until what passed between the agent and its servers is recorded. A cancelled turn gets a moment for it.
func (s *session) drain(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
	}
	err := s.host.Drain(ctx)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*harness.Error](err); ok {
		return e
	}
	return &harness.Error{Blame: harness.BlameHarness, Code: "capture_failed", Message: fmt.Sprintf("what the agent did with its servers is not all recorded: %v", err), Err: err}
}

// gone is set when the agent has ended.
func (s *session) gone(context.Context) *harness.Error {
	if err := s.conn.why(); err != nil {
		return s.dead(err)
	}
	return nil
}

// dead is why an agent that ended did so.
func (s *session) dead(err error) *harness.Error {
	if errors.Is(err, errLineTooLong) {
		return &harness.Error{Blame: harness.BlameAgent, Code: "agent_protocol", Message: err.Error(), Err: err}
	}
	select {
	case <-s.proc.Exited():
	case <-time.After(eofWait): // it closed its output and lives on
	}
	code, signal, over := s.proc.Exit()
	e := &harness.Error{Blame: harness.BlameAgent, Code: "agent_crashed", Err: err, Details: map[string]any{}}
	switch {
	case !over:
		e.Code, e.Message = "agent_protocol", err.Error()
	case signal != "":
		e.Message = "the agent was ended by " + signal
		e.Details["signal"] = signal
	default:
		e.Message = fmt.Sprintf("the agent ended with exit code %d", code)
		e.Details["exit_code"] = code
	}
	if tail := lastLine(s.proc.StderrTail()); tail != "" {
		e.Message += ": " + tail
	}
	return e
}

// lastLine is the last line of what an agent wrote, cut.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// failed is why a request before the first prompt was not answered as it should be.
func (s *session) failed(ctx context.Context, method string, err error) *harness.Error {
	if e, ok := errors.AsType[*rpcError](err); ok {
		out := &harness.Error{Blame: harness.BlameHarness, Code: "agent_refused", Message: fmt.Sprintf("the agent refused %s: %s", method, e.Message), Details: map[string]any{"rpc_code": e.Code}, Err: err}
		if e.Code == codeAuthRequired {
			out.Blame, out.Code = harness.BlameProvider, "provider_unauthorized"
		}
		return out
	}
	if ctx.Err() != nil && s.conn.why() == nil {
		return &harness.Error{Blame: harness.BlameAgent, Code: "agent_timeout", Message: fmt.Sprintf("the agent did not answer %s in time", method), Err: err}
	}
	return s.dead(err)
}
