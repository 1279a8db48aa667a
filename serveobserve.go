package m3

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// observe sees every frame as it passes. Of the server's lists of tools it learns which there are.
func (s *served) observe(f *relay.Frame) {
	if f.Method != "tools/list" || f.Direction != trace.ServerToClient || f.Filtered || s.x.act.tools.All {
		return
	}
	var answer struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		} `json:"result"`
	}
	if json.Unmarshal(f.Body, &answer) != nil || answer.Result.Tools == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range answer.Result.Tools {
		s.listed[t.Name] = true
	}
	s.whole = s.whole || answer.Result.NextCursor == ""
}

// wanted are the tools of the server that the action names; all says that it has every one of them.
func (s *served) wanted() (tools []string, all bool) {
	t := &s.x.act.tools
	return t.Allowed[s.alias], t.All
}

// dropped says what is wrong with how the agent used its server: it never connected, it never agreed on a version, or a tool that the test named is not there.
func (s *served) dropped() error {
	tools, all := s.wanted()
	if s.relay == nil || s.optional || !all && len(tools) == 0 {
		return nil
	}
	conns := s.relay.Connections()
	if len(conns) == 0 {
		return harness.Errorf(harness.BlameAgent, "servers_dropped", "it took server %s and never connected to it", s.alias)
	}
	if !slices.ContainsFunc(conns, func(c relay.Connection) bool { return !c.Initialized.IsZero() || c.Calls > 0 || !c.Listed.IsZero() }) {
		return harness.Errorf(harness.BlameServer, "server_not_initialized", "server %s and the agent agreed on no protocol version: no handshake came to its end", s.alias)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tool := range tools {
		if s.whole && !s.listed[tool] {
			return harness.Errorf(harness.BlameServer, "tools_missing", "server %s lists no tool %q, which the action selects", s.alias, tool)
		}
	}
	return nil
}

// served waits until the server's tools were listed for the agent.
func (s *served) served(ctx context.Context, patience time.Duration) error {
	if s.relay == nil {
		return harness.Errorf(harness.BlameServer, "server_unavailable", "server %s was left out: %s", s.alias, s.unavailable)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.relay.Listed():
			return nil
		case <-s.life.Done():
			return harness.Errorf(harness.BlameHarness, "server_closed", "the relay of server %s is closed", s.alias)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if len(s.relay.Connections()) == 0 {
				return harness.Errorf(harness.BlameAgent, "servers_dropped", "it took server %s and did not connect to it within %s", s.alias, patience)
			}
		case <-tick.C: // a server that dies does so without a channel of its own
			if err := s.deadNow(); err != nil {
				return err
			}
		}
	}
}

// deadNow is why the server is gone, if it is.
func (s *served) deadNow() error {
	err := s.takeFault()
	if err != nil {
		s.fault(err) // for whoever asks next
	}
	return err
}
