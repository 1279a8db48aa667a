package m3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// runFake runs one action of the fake agent.
func runFake(t *testing.T, d *fakeDriver, text string, opts *m3.RunOptions) (*m3.Result, error) {
	t.Helper()
	return fakeAgents(t, agentKit(t), d).Run(t.Context(), text, opts)
}

// agentKit is a kit that the test closes.
func agentKit(t testing.TB) *m3.Kit {
	t.Helper()
	k, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close the kit: %v", err)
		}
	})
	return k
}

// TestAgentServers runs an agent against a server of each kind, to each end.
func TestAgentServers(t *testing.T) {
	t.Parallel()
	for kind, server := range agentServers(t) {
		for _, c := range []struct {
			name, text string
			timeout    time.Duration
			outcome    trace.Outcome
			blame      harness.Blame
			code       string
			calls      int
		}{
			{name: "completed", text: "call calc:echo {\"a\":1}\nsay done", outcome: trace.OutcomeCompleted, calls: 1},
			{name: "no call", text: "say hello", outcome: trace.OutcomeCompleted},
			{name: "crash", text: "call calc:echo\ncrash", outcome: trace.OutcomeFailed, blame: harness.BlameAgent, code: "agent_crashed", calls: 1},
			{name: "provider", text: "call calc:echo\nfail provider provider_unauthorized", outcome: trace.OutcomeFailed, blame: harness.BlameProvider, code: "provider_unauthorized", calls: 1},
			{name: "policy", text: "ask must:execute rm", outcome: trace.OutcomeFailed, blame: harness.BlamePolicy, code: "permission_refused"},
			{name: "timeout", text: "call calc:echo\nwait", timeout: 3 * time.Second, outcome: trace.OutcomeTimedOut, blame: harness.BlameAgent, code: "agent_timeout", calls: 1},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				res, err := runFake(t, &fakeDriver{}, c.text, &m3.RunOptions{Server: server(), Timeout: c.timeout})
				if res == nil {
					t.Fatalf("no result: %v", err)
				}
				checkEnd(t, res, err, c.outcome, c.blame, c.code)
				if n := wireCalls(res.View().ForTurn(res.Turn()).ForServer("calc")); n != c.calls {
					t.Errorf("%d calls on the wire, want %d", n, c.calls)
				}
				if msgs := res.View().Messages(); msgs.Len() == 0 || msgs.At(0).Role != "user" || msgs.At(0).TurnID != res.Turn().ID {
					t.Errorf("the user's message is not the first")
				}
			})
		}
	}
}

// wireCalls counts the tool calls that passed between agent and server.
func wireCalls(v trace.View) (n int) {
	for _, e := range v.ToolCalls().All() {
		if e.Correlation != trace.ReportedOnly {
			n++
		}
	}
	return n
}

// checkEnd checks how an execution ended, and that error, result, turn and trace say the same.
func checkEnd(t *testing.T, res *m3.Result, err error, outcome trace.Outcome, blame harness.Blame, code string) {
	t.Helper()
	if res.Outcome != outcome || res.View().Outcome() != outcome || res.Snapshot.Outcome != outcome || res.Snapshot.State != m3.StateFinished {
		t.Errorf("outcome %s, of the view %s, of the snapshot %s (%s), want %s; %v", res.Outcome, res.View().Outcome(), res.Snapshot.Outcome, res.Snapshot.State, outcome, err)
	}
	if outcome == trace.OutcomeCompleted {
		if err != nil || res.Failure != nil {
			t.Errorf("error %v, failure %v", err, res.Failure)
		}
		return
	}
	if err == nil || res.Failure == nil || res.Failure.Blame != blame || res.Failure.Code != code {
		t.Errorf("error %v, failure %+v, want %s %s", err, res.Failure, blame, code)
	}
	if turn := res.Turn(); turn != nil && (turn.Failure != res.Failure || turn.State.Status == m3.TurnCompleted) {
		t.Errorf("the turn is %s: %v", turn.State.Status, turn.Failure)
	}
}

// states are the states of the lifecycle as they were recorded.
func states(t *testing.T, res *m3.Result) []string {
	t.Helper()
	var list []string
	for _, ev := range res.Trace.Events() {
		var p struct {
			State string `json:"state"`
		}
		if ev.Kind == trace.KindExecutionStateChanged {
			if err := ev.Payload.Decode(&p); err != nil {
				t.Fatal(err)
			}
			list = append(list, p.State)
		}
	}
	return list
}

func TestAgentLifecycle(t *testing.T) {
	t.Parallel()
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	res, err := runFake(t, &fakeDriver{}, "say hi", &m3.RunOptions{Server: pipe})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(states(t, res), " "), "queued starting idle running idle closing finished"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	evs := res.Trace.Events()
	if first, last := evs[0], evs[len(evs)-1]; first.Kind != trace.KindExecutionCreated || last.Kind != trace.KindExecutionFinished {
		t.Errorf("the trace begins with %s and ends with %s", first.Kind, last.Kind)
	}
	if got := res.View().Limitations(); len(got) != 0 {
		t.Errorf("limitations %v", got)
	}
	// An agent that never starts leaves the same way.
	boom := &fakeDriver{open: func(*harness.Spec, harness.Host) (harness.Session, error) {
		return nil, harness.Errorf(harness.BlameHarness, "option_unknown", "there is no such option")
	}}
	res, err = runFake(t, boom, "say hi", &m3.RunOptions{Server: pipe})
	checkEnd(t, res, err, trace.OutcomeFailed, harness.BlameHarness, "option_unknown")
	if got, want := strings.Join(states(t, res), " "), "queued starting closing finished"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	if len(res.Turns) != 0 || res.View().Messages().Len() != 0 {
		t.Errorf("turns %v were invented", res.Turns)
	}
}

// TestAgentFaults: whatever fails, one is to blame, and it is never the task.
func TestAgentFaults(t *testing.T) {
	t.Parallel()
	missing := fixture(t, "agent")
	missing.Name, missing.Command = "calc", "/nonexistent/server"
	dying, mute := fixture(t, "agent"), fixture(t, "exits")
	dying.Name, mute.Name = "calc", "calc"
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	broken := m3.PipeServer{Name: "calc", Serve: func(context.Context, io.ReadWriteCloser) error { return errors.New("the database is gone") }}
	unavailable := func() error {
		return &harness.UnavailableError{Kind: "fake", Reason: "executable_missing", Message: "install fake"}
	}
	panics := func(*harness.Spec, harness.Host) (harness.Session, error) { panic("oh") }
	for _, c := range []struct {
		name   string
		driver *fakeDriver
		server m3.Server
		tools  m3.ToolSelection
		text   string
		blame  harness.Blame
		code   string
	}{
		{"server missing", &fakeDriver{}, missing, m3.ToolSelection{}, "say x", harness.BlameServer, "server_failed"},
		{"server dies in a call", &fakeDriver{}, dying, m3.ToolSelection{}, "call calc:die", harness.BlameServer, "server_died"},
		{"server exits", &fakeDriver{}, mute, m3.ToolSelection{}, "say x", harness.BlameServer, "server_died"},
		{"function fails", &fakeDriver{}, broken, m3.ToolSelection{}, "say x", harness.BlameServer, "server_died"},
		{"nobody listens", &fakeDriver{}, m3.HTTPServer{Name: "calc", URL: "http://127.0.0.1:1/mcp"}, m3.ToolSelection{}, "say x", harness.BlameServer, "server_failed"},
		{"servers dropped", &fakeDriver{ignore: true}, pipe, m3.ToolSelection{}, "say x", harness.BlameAgent, "servers_dropped"},
		{"tools missing", &fakeDriver{}, pipe, m3.OnlyTools("calc:subtract"), "say x", harness.BlameServer, "tools_missing"},
		{"not installed", &fakeDriver{check: unavailable}, pipe, m3.ToolSelection{}, "say x", harness.BlameHarness, "executable_missing"},
		{"driver panics", &fakeDriver{open: panics}, pipe, m3.ToolSelection{}, "say x", harness.BlameHarness, "driver_panicked"},
		{"provider 429", &fakeDriver{}, pipe, m3.ToolSelection{}, "fail provider provider_rate_limited", harness.BlameProvider, "provider_rate_limited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := runFake(t, c.driver, c.text, &m3.RunOptions{Server: c.server, Tools: c.tools, Timeout: 20 * time.Second})
			if res == nil {
				t.Fatalf("no result: %v", err)
			}
			checkEnd(t, res, err, trace.OutcomeFailed, c.blame, c.code)
		})
	}
}

// TestAgentOptionalServer: an execution goes on without what may be missing.
func TestAgentOptionalServer(t *testing.T) {
	t.Parallel()
	missing := fixture(t, "agent")
	missing.Command = "/nonexistent/server"
	d := &fakeDriver{}
	res, err := runFake(t, d, "call calc:echo\nsay done", &m3.RunOptions{Servers: []m3.Server{
		m3.Binding{Server: m3.PipeServer{Serve: servePeer}, Alias: "calc"},
		m3.Binding{Server: missing, Alias: "extra", Optional: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.specs[0].Servers; len(got) != 1 || got[0].Name != "calc" {
		t.Errorf("the agent got %v", got)
	}
	if !slices.ContainsFunc(diagnostics(res), func(code string) bool { return code == "server_unavailable" }) {
		t.Errorf("nothing says that a server was left out: %v", diagnostics(res))
	}
}

func diagnostics(res *m3.Result) (codes []string) {
	for _, d := range res.View().Diagnostics().All() {
		codes = append(codes, d.Code)
	}
	return codes
}

func TestAgentTools(t *testing.T) {
	t.Parallel()
	for kind, server := range agentServers(t) {
		for _, c := range []struct {
			name  string
			tools m3.ToolSelection
			sees  string
			calls int
		}{
			{"all", m3.ToolSelection{}, "echo,other", 1},
			{"one", m3.OnlyTools("calc:other"), "other", 0},
			{"none", m3.NoTools, "", 0},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				res, err := runFake(t, &fakeDriver{}, "call calc:echo\ntools calc", &m3.RunOptions{Server: server(), Tools: c.tools})
				if err != nil {
					t.Fatal(err)
				}
				if res.Text() != c.sees {
					t.Errorf("the agent sees %q, want %q", res.Text(), c.sees)
				}
				wire := 0
				for _, ev := range res.Trace.Events() {
					if ev.Kind == trace.KindMCPRequest && ev.Method == "tools/call" {
						wire++
					}
				}
				if wire != c.calls {
					t.Errorf("%d calls reached the server, want %d", wire, c.calls)
				}
			})
		}
	}
}

func TestAgentPermissions(t *testing.T) {
	t.Parallel()
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	onlyRead := m3.DecidePermission(func(_ context.Context, r *m3.PermissionRequest) bool { return r.Kind == "read" })
	for _, c := range []struct {
		policy m3.PermissionPolicy
		asks   string
		want   string
	}{
		{m3.PermissionPolicy{}, "tool calc:echo", "allow"},
		{m3.PermissionPolicy{}, "tool calc:other", "deny"}, // it is not selected
		{m3.PermissionPolicy{}, "execute rm", "deny"},
		{m3.AllowAll, "execute rm", "allow"},
		{m3.DenyAll, "tool calc:echo", "deny"},
		{onlyRead, "read file", "allow"},
		{onlyRead, "tool calc:echo", "deny"},
	} {
		t.Run(c.policy.String()+"/"+c.asks, func(t *testing.T) {
			t.Parallel()
			d := &fakeDriver{}
			res, err := runFake(t, d, "ask "+c.asks, &m3.RunOptions{Server: pipe, Tools: m3.OnlyTools("calc:echo"), Permissions: c.policy})
			if err != nil {
				t.Fatal(err)
			}
			if res.Text() != c.want {
				t.Errorf("answered %q, want %q", res.Text(), c.want)
			}
			asks := res.View().Interactions()
			if asks.Len() != 1 || asks.At(0).InteractionKind != "permission" || !strings.Contains(fmt.Sprint(asks.At(0).Response), c.want) {
				t.Errorf("recorded: %d interactions", asks.Len())
			}
			if ask := d.specs[0].AskPermission; ask == (c.policy.String() == "allow_all") {
				t.Errorf("AskPermission is %t", ask)
			}
		})
	}
}
