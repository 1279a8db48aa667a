package m3

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// observe sees every frame as it passes.
func (s *served) observe(f *relay.Frame) {
	if f.Method == "initialize" && f.Direction == trace.ServerToClient {
		s.learnRefusal(f.Body)
	}
	s.learnTools(f)
	if w := s.x.asks.Load(); w != nil {
		w.frame(s.alias, f)
	}
}

// note is what is known of the agent's answer to a request of the server.
func (s *served) note(conn trace.ConnectionID, id trace.RPCID) []byte {
	if w := s.x.asks.Load(); w != nil {
		return w.note(conn, id)
	}
	return nil
}

// learnRefusal notes that the server refuses the handshake, and why.
func (s *served) learnRefusal(body []byte) {
	var answer struct {
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = ""
	if answer.Error != nil {
		s.refusal = ": the server answers initialize with the error " + strconv.Quote(answer.Error.Message)
	}
}

// notInitialized is the error of a server and an agent that did not come together.
func (s *served) notInitialized() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return harness.Errorf(harness.BlameServer, "server_not_initialized", "server %s and the agent agreed on no protocol version: no handshake came to its end%s", s.alias, s.refusal)
}

// learnTools learns from the server's lists of tools which there are.
func (s *served) learnTools(f *relay.Frame) {
	if f.Method != "tools/list" || f.Direction != trace.ServerToClient || f.Filtered {
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

// wanted are the tools of the server that the action, or the turn, names.
func (s *served) wanted() []string { return s.x.toolsNow().Allowed[s.alias] }

// needed reports whether the execution may use a tool of the server at all, whatever the turn may.
func (s *served) needed() bool {
	t := &s.x.act.tools
	return t.All || len(t.Allowed[s.alias]) > 0
}

// dropped says what is wrong with how the agent used its server: it never connected, it never agreed on a version, or a tool that the test named is not there.
func (s *served) dropped() error {
	tools := s.wanted()
	if s.relay == nil || s.optional || !s.needed() {
		return nil
	}
	conns := s.relay.Connections()
	if len(conns) == 0 {
		return harness.Errorf(harness.BlameAgent, "servers_dropped", "it took server %s and never connected to it", s.alias)
	}
	if !slices.ContainsFunc(conns, func(c relay.Connection) bool { return !c.Initialized.IsZero() || c.Calls > 0 || !c.Listed.IsZero() }) {
		return s.notInitialized()
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

// served waits until the server's tools were listed for the agent, which says that it is ready. An agent that has connected may take as long as ctx allows. One that has not is given
// patience: nothing on this side of an agent tells that it will not, and some connect in the background. Where no process of the agent is left, nobody will.
func (s *served) served(ctx context.Context, patience time.Duration) error {
	if s.relay == nil {
		return harness.Errorf(harness.BlameServer, "server_failed", "server %s was left out: %s", s.alias, s.unavailable)
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
			if err := s.missed(patience); err != nil {
				return err
			}
			timer.Reset(patience)
		case <-tick.C: // neither a server nor an agent that ends has a channel of its own here
			if err := s.deadNow(); err != nil {
				return notServed(err)
			}
			if s.x.host.deserted() {
				return harness.Errorf(harness.BlameAgent, "agent_crashed", "its process ended before the tools of server %s were listed for it", s.alias)
			}
		}
	}
}

// missed says what is wrong with an agent that has no connection to the server now; nil when it has one.
func (s *served) missed(within time.Duration) error {
	conns := s.relay.Connections()
	s.mu.Lock()
	refused := s.refusal != ""
	s.mu.Unlock()
	switch {
	case refused:
		return s.notInitialized()
	case len(conns) == 0:
		return harness.Errorf(harness.BlameAgent, "servers_dropped", "it took server %s and did not connect to it within %s", s.alias, within)
	case slices.ContainsFunc(conns, func(c relay.Connection) bool { return c.Closed.IsZero() || time.Since(c.Closed) < within }):
		return nil
	case slices.ContainsFunc(conns, func(c relay.Connection) bool { return !c.Initialized.IsZero() }):
		return harness.Errorf(harness.BlameAgent, "servers_dropped", "it connected to server %s, and left without listing its tools", s.alias)
	}
	return s.notInitialized()
}

// notServed is the end of a server under an agent that never got as far as its tools.
func notServed(err error) error {
	var b *harness.Error
	if !errors.As(err, &b) || b.Code != "server_died" {
		return err
	}
	c := *b
	c.Code = "server_failed"
	return &c
}

// deadNow is why the server is gone, if it is.
func (s *served) deadNow() error {
	err := s.takeFault()
	if err != nil {
		s.fault(err) // for whoever asks next
	}
	return err
}
