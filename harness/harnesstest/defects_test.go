package harnesstest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/harness/harnesstest"
	"github.com/m3-go/m3/trace"
)

// spoiled is the scripted agent's driver with a defect.
type spoiled struct {
	harness.Driver
	event func(harness.Host, harness.Event)
	allow bool
	send  func(ctx context.Context, s harness.Session, turn int, p *harness.Prompt) (*harness.Turn, error)
}

func (d *spoiled) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	s, err := d.Driver.Open(ctx, spec, &spoiledHost{host, d})
	if err != nil || d.send == nil {
		return s, err
	}
	return &spoiledSession{Session: s, d: d}, nil
}

type spoiledHost struct {
	harness.Host
	d *spoiled
}

func (h *spoiledHost) Event(e harness.Event) {
	if h.d.event != nil {
		h.d.event(h.Host, e)
		return
	}
	h.Host.Event(e)
}

func (h *spoiledHost) Permission(ctx context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
	if h.d.allow {
		return harness.Allow
	}
	return h.Host.Permission(ctx, r)
}

type spoiledSession struct {
	harness.Session
	d     *spoiled
	turns int
}

func (s *spoiledSession) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	s.turns++
	return s.d.send(ctx, s.Session, s.turns, p)
}

func isCall(e harness.Event) bool { _, is := e.(*harness.ToolCall); return is }

// defects are what a driver can get wrong, and the scenarios that must notice: these, and no other.
var defects = []struct {
	name   string
	fails  []string
	spoil  func(*spoiled)
	change func(*acpagent.Step)
}{
	{name: "swallows tool calls", fails: []string{"several turns", "tool call", "tool error", "cancel in tool", "cancel in answer", "slow server", "unicode arguments", "megabyte arguments", "two sessions"}, spoil: func(d *spoiled) {
		d.event = func(h harness.Host, e harness.Event) {
			if !isCall(e) {
				h.Event(e)
			}
		}
	}},
	{name: "invents a call", fails: []string{"one turn", "several turns", "tool call", "tool error", "slow server", "unicode arguments", "megabyte arguments", "two sessions"}, spoil: func(d *spoiled) {
		d.event = func(h harness.Host, e harness.Event) {
			if _, is := e.(*harness.Message); is {
				h.Event(&harness.ToolCall{ID: "invented", Name: "add", Server: trace.Observe("suite"), Tool: trace.Observe("add")})
			}
			h.Event(e)
		}
	}},
	{name: "allows without asking", fails: []string{"permission asked"}, spoil: func(d *spoiled) { d.allow = true }},
	{name: "drops the second turn", fails: []string{"several turns"}, spoil: func(d *spoiled) {
		d.send = func(ctx context.Context, s harness.Session, turn int, p *harness.Prompt) (*harness.Turn, error) {
			if turn > 1 {
				return &harness.Turn{}, nil
			}
			return s.Send(ctx, p)
		}
	}},
	{name: "blames the provider for a crash", fails: []string{"agent crash"}, spoil: func(d *spoiled) {
		d.send = func(ctx context.Context, s harness.Session, _ int, p *harness.Prompt) (*harness.Turn, error) {
			t, err := s.Send(ctx, p)
			if err != nil && ctx.Err() == nil {
				return t, harness.Errorf(harness.BlameProvider, "provider_error", "the provider, surely")
			}
			return t, err
		}
	}},
	{name: "mangles unicode", fails: []string{"unicode arguments"}, change: func(s *acpagent.Step) {
		if s.Call != nil && s.Call.Tool == "echo" && len(s.Call.Arguments) < 1000 {
			s.Call.Arguments = []byte(`{"text":"gr??e"}`)
		}
	}},
}

// TestPlantedDefects: each scenario that is said to notice a defect does, and no other.
func TestPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			inner := scripted(d.change)
			cfg := harnesstest.Config{Name: "spoiled", Driver: func(turns [][]harnesstest.Step) harness.Driver {
				s := &spoiled{Driver: inner(turns)}
				if d.spoil != nil {
					d.spoil(s)
				}
				return s
			}}
			var failed []string
			for _, v := range harnesstest.Check(t.Context(), cfg) {
				if len(v.Problems) > 0 {
					failed = append(failed, v.Scenario)
				}
			}
			if !slices.Equal(failed, d.fails) {
				t.Errorf("failed: %q, want %q", failed, d.fails)
			}
		})
	}
}
