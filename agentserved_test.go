package m3_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// TestServed: what a driver is told that waits for its servers, and whose fault it is.
func TestServed(t *testing.T) {
	t.Parallel()
	mute := fixture(t, "exits")
	mute.Name = "calc"
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	refusing := (&peer{handle: func(p *peer, m *message) bool {
		if m.Method == "initialize" {
			p.fail(m, "-32602", "Unsupported protocol version")
		}
		return m.Method == "initialize"
	}}).server()
	refusing.Name = "calc"
	for _, c := range []struct {
		name   string
		driver *fakeDriver
		server m3.Server
		blame  harness.Blame
		code   string
	}{
		{"served", &fakeDriver{waits: true}, pipe, "", ""},
		{"never connected", &fakeDriver{waits: true, ignore: true}, pipe, harness.BlameAgent, "servers_dropped"},
		{"server ended", &fakeDriver{waits: true}, mute, harness.BlameServer, "server_failed"},
		{"no version", &fakeDriver{waits: true}, refusing, harness.BlameServer, "server_not_initialized"},
		{"agent ended", &fakeDriver{waits: true, ignore: true, leave: true}, pipe, harness.BlameAgent, "agent_crashed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := agentKit(t)
			if c.name != "agent ended" { // that is known at once
				k.SetPatience(300 * time.Millisecond)
			}
			began := time.Now()
			res, err := fakeAgents(t, k, c.driver).Run(t.Context(), "say x", &m3.RunOptions{Server: c.server, Timeout: 30 * time.Second})
			if res == nil {
				t.Fatalf("no result: %v", err)
			}
			if c.code == "" {
				checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
				return
			}
			checkEnd(t, res, err, trace.OutcomeFailed, c.blame, c.code)
			if took := time.Since(began); took > 9*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestAgentIsToldOfElicitation: an agent tells its servers that it can ask only where the test can answer.
func TestAgentIsToldOfElicitation(t *testing.T) {
	t.Parallel()
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	native := func(c *harness.Capabilities) {
		c.Elicitation = harness.Elicitation{Native: true, RequestKeys: true, Form: true}
	}
	d := &fakeDriver{change: native}
	k := agentKit(t)
	a := fakeAgents(t, k, d)
	plan := elicit.Optional(elicit.Form("address").Accept(elicit.Content{"city": "Pune"}))
	for _, p := range []*elicit.Plan{nil, plan} {
		if _, err := a.Run(t.Context(), "say x", &m3.RunOptions{Server: pipe, Elicitation: p}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := a.Session(t.Context(), &m3.SessionOptions{Server: pipe})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mute := &fakeDriver{}
	if s, err = fakeAgents(t, k, mute).Session(t.Context(), &m3.SessionOptions{Server: pipe}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	got := []bool{d.specs[0].Elicitation, d.specs[1].Elicitation, d.specs[2].Elicitation, mute.specs[0].Elicitation}
	if want := []bool{false, true, true, false}; got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("told %v, want %v", got, want)
	}
}

// referringDriver is a driver whose configuration names secrets.
type referringDriver struct {
	*fakeDriver
	refs map[string]string
}

func (d *referringDriver) CredentialEnv() map[string]string { return d.refs }

// TestDriverCredentials: what the driver's own configuration refers to is resolved and hidden like a selection's references.
func TestDriverCredentials(t *testing.T) {
	const secret = "canary-of-the-manifest-7391"
	t.Setenv("M3_ROOT_MANIFEST_KEY", secret)
	t.Setenv("M3_ROOT_OTHER_KEY", "canary-of-the-selection-5520")
	d := &referringDriver{&fakeDriver{}, map[string]string{"KEY": "M3_ROOT_MANIFEST_KEY", "OTHER": "M3_ROOT_NOT_SET"}}
	k := agentKit(t)
	agents, err := k.Agents([]m3.Selection{{Harness: d, CredentialEnv: map[string]string{"OTHER": "M3_ROOT_OTHER_KEY"}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	res, err := agents[0].Run(t.Context(), "say "+secret, &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.specs[0].Credentials; got["KEY"] != secret || got["OTHER"] != os.Getenv("M3_ROOT_OTHER_KEY") {
		t.Errorf("the driver got %v", got)
	}
	for _, ev := range res.Trace.Events() {
		if strings.Contains(string(ev.Payload), secret) || ev.Frame != nil && strings.Contains(string(ev.Frame.Bytes), secret) {
			t.Errorf("event %d (%s) holds the secret", ev.Sequence, ev.Kind)
		}
	}
	bad := &referringDriver{&fakeDriver{}, map[string]string{"HOME": "A"}}
	if _, err := k.Agents([]m3.Selection{{Harness: bad}}, 1); err == nil || !strings.Contains(err.Error(), "set by m3") {
		t.Errorf("a reference for HOME: %v", err)
	}
}

// TestHTTPServerDies: a server over HTTP that is gone in the middle of a turn is to blame, one that was away for a moment is not.
func TestHTTPServerDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		code string
	}{
		"gone":            {"call calc:die", "server_died"},
		"gone in silence": {"call calc:die\nsay never mind", "server_died"},
		"back again":      {"call calc:drop\ncall calc:echo", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var srv *httptest.Server
			inner := peerHandler()
			srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				if strings.Contains(string(b), `"die"`) {
					srv.Listener.Close()
				}
				if strings.Contains(string(b), `"die"`) || strings.Contains(string(b), `"drop"`) {
					panic(http.ErrAbortHandler)
				}
				r.Body = io.NopCloser(strings.NewReader(string(b)))
				inner.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			res, err := runFake(t, &fakeDriver{}, c.text, &m3.RunOptions{Server: m3.HTTPServer{Name: "calc", URL: srv.URL}})
			if res == nil {
				t.Fatal(err)
			}
			if c.code == "" {
				checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
				return
			}
			checkEnd(t, res, err, trace.OutcomeFailed, harness.BlameServer, c.code)
		})
	}
}

// TestTurnTools: a message may use less than its session, on every agent, and says so to a driver that can tell its agent.
func TestTurnTools(t *testing.T) {
	t.Parallel()
	for kind, server := range agentServers(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := &fakeDriver{}
			s := openFake(t, agentKit(t), d, &m3.SessionOptions{Server: server()})
			for i, c := range []struct {
				tools m3.ToolSelection
				ok    bool
			}{
				{m3.ToolSelection{}, true}, {m3.OnlyTools("calc:other"), false}, {m3.NoTools, false}, {m3.OnlyTools("calc:echo"), true}, {m3.ToolSelection{}, true},
			} {
				turn, err := s.Send(t.Context(), "call calc:echo {\"a\":1}", &m3.SendOptions{Tools: c.tools})
				if err != nil {
					t.Fatal(err)
				}
				if failed := strings.HasPrefix(turn.Text(), "error:"); failed == c.ok {
					t.Errorf("turn %d: %s", i, turn.Text())
				}
				if got := d.prompts[i].Tools; (got == nil) != c.tools.All() || got != nil && len(got.Allowed["calc"]) != len(c.tools.Names()) {
					t.Errorf("turn %d: the driver was told %+v", i, got)
				}
			}
			if _, err := s.Send(t.Context(), "call calc:echo", &m3.SendOptions{Tools: m3.OnlyTools("calc:nope")}); err == nil || s.Snapshot().State != m3.StateIdle {
				t.Errorf("a tool that the server does not list: %v", err)
			}
			res, err := s.Finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := res.View().Summary(); n.ToolCallCount != 3 || n.PolicyDeniedCalls != 3 {
				t.Errorf("%d calls on the wire and %d refused", n.ToolCallCount, n.PolicyDeniedCalls)
			}
		})
	}
	s := openFake(t, agentKit(t), &fakeDriver{}, &m3.SessionOptions{Tools: m3.OnlyTools("calc:echo")})
	defer s.Close()
	for says, tools := range map[string]m3.ToolSelection{"may not use": m3.OnlyTools("calc:other"), "server:tool": m3.OnlyTools("echo"), "does not have": m3.OnlyTools("math:x")} {
		if _, err := s.Send(t.Context(), "say x", &m3.SendOptions{Tools: tools}); !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
