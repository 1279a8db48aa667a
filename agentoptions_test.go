package m3_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

func TestAgents(t *testing.T) {
	t.Parallel()
	k := agentKit(t)
	never := func() error { t.Error("Agents does something"); return nil }
	d, other := &fakeDriver{check: never}, &fakeDriver{kind: "other", check: never}
	agents, err := k.Agents([]m3.Selection{{Harness: d, Models: []m3.Model{m3.ModelName("a"), m3.ModelName("b")}}, {Harness: other, Name: " mine "}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range agents {
		got = append(got, strings.Join([]string{a.Kind(), a.Model(), a.Name(), string(rune('0' + a.Trial())), a.Config()}, ","))
	}
	want := "fake,a,fake,1,fake:a fake,a,fake,2,fake:a fake,b,fake,1,fake:b fake,b,fake,2,fake:b other,,mine,1,other::mine other,,mine,2,other::mine"
	if strings.Join(got, " ") != want {
		t.Errorf("agents\n%s, want\n%s", strings.Join(got, " "), want)
	}
	var unsupported *m3.UnsupportedError
	for _, c := range []struct {
		name       string
		selections []m3.Selection
		trials     int
		says       string
	}{
		{"no trials", []m3.Selection{{Harness: d}}, 0, "trials is 0"},
		{"none", nil, 1, "no selection"},
		{"no harness", []m3.Selection{{}}, 1, "no Harness"},
		{"a nil driver", []m3.Selection{{Harness: (*fakeDriver)(nil)}}, 1, "no Harness"},
		{"kind", []m3.Selection{{Harness: &fakeDriver{kind: "a b"}}}, 1, "no word"},
		{"twice", []m3.Selection{{Harness: d, Models: []m3.Model{m3.ModelName("a"), m3.ModelName("a")}}}, 1, "selected twice"},
		{"twice apart", []m3.Selection{{Harness: d}, {Harness: &fakeDriver{}}}, 1, "selected twice"},
		{"a model without a name", []m3.Selection{{Harness: d, Models: []m3.Model{m3.ModelName(" ")}}}, 1, "has no name"},
		{"a nil model", []m3.Selection{{Harness: d, Models: []m3.Model{nil}}}, 1, "is nil"},
		{"a model is needed", []m3.Selection{{Harness: &fakeDriver{change: func(c *harness.Capabilities) { c.ModelRequired = true }}}}, 1, "needs a model"},
		{"control character", []m3.Selection{{Harness: d, Name: "a\nb"}}, 1, "control character"},
		{"a value for a reference", []m3.Selection{{Harness: d, CredentialEnv: map[string]string{"KEY": "sk-123"}}}, 1, "never the value"},
		{"target", []m3.Selection{{Harness: d, CredentialEnv: map[string]string{"KEY NAME": "A"}}}, 1, "not the name"},
		{"m3's own", []m3.Selection{{Harness: d, CredentialEnv: map[string]string{"KEY": "M3_ACCESS_TOKEN"}}}, 1, "M3_ACCESS_TOKEN"},
		{"HOME", []m3.Selection{{Harness: d, CredentialEnv: map[string]string{"HOME": "A"}}}, 1, "set by m3"},
	} {
		if _, err := k.Agents(c.selections, c.trials); !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sk-123") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	deaf := &fakeDriver{change: func(c *harness.Capabilities) { c.Dialects = nil }}
	if _, err := k.Agents([]m3.Selection{{Harness: deaf, Models: []m3.Model{&fakeModel{}}}}, 1); !errors.As(err, &unsupported) {
		t.Errorf("a provider for an agent that takes none: %v", err)
	}
}

// TestAgentOptions: what is wrong with an action is said before anything is started or recorded.
func TestAgentOptions(t *testing.T) {
	t.Parallel()
	recorded := 0
	k, err := m3.New(m3.Config{OnExecution: func(trace.ExecutionID) { recorded++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	pipe := m3.PipeServer{Name: "calc", Serve: servePeer}
	handler := m3.HandlerServer{Name: "calc", Handler: http.NotFoundHandler()}
	plan := elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	full := &fakeDriver{}
	onlyHTTP := &fakeDriver{change: func(c *harness.Capabilities) { c.StdioServers = false }}
	silent := &fakeDriver{change: func(c *harness.Capabilities) { c.Permissions = false }}
	for _, c := range []struct {
		name        string
		driver      *fakeDriver
		text        string
		opts        *m3.RunOptions
		unsupported bool
		says        string
	}{
		{"nil options", full, "x", nil, false, "no server"},
		{"both", full, "x", &m3.RunOptions{Server: pipe, Servers: []m3.Server{pipe}}, false, "not both"},
		{"a nil server", full, "x", &m3.RunOptions{Servers: []m3.Server{nil}}, false, "a server is nil"},
		{"same alias", full, "x", &m3.RunOptions{Servers: []m3.Server{pipe, handler}}, false, "two servers are called"},
		{"alias", full, "x", &m3.RunOptions{Server: m3.Binding{Server: pipe, Alias: "a:b"}}, false, "Alias"},
		{"binding of nothing", full, "x", &m3.RunOptions{Server: m3.Binding{Alias: "a"}}, false, "the server is nil"},
		{"binding of a binding", full, "x", &m3.RunOptions{Server: m3.Binding{Server: m3.Binding{Server: pipe}, Alias: "a"}}, false, "a Binding itself"},
		{"no message", full, " \n", &m3.RunOptions{Server: pipe}, false, "message is empty"},
		{"unqualified tool", full, "x", &m3.RunOptions{Server: pipe, Tools: m3.OnlyTools("echo")}, false, "server:tool"},
		{"tool twice", full, "x", &m3.RunOptions{Server: pipe, Tools: m3.OnlyTools("calc:echo", "calc:echo")}, false, "twice"},
		{"tool of another", full, "x", &m3.RunOptions{Server: pipe, Tools: m3.OnlyTools("math:echo")}, false, "does not have"},
		{"timeout", full, "x", &m3.RunOptions{Server: pipe, Timeout: -time.Second}, false, "negative"},
		{"rounds", full, "x", &m3.RunOptions{Server: pipe, RoundLimit: -1}, false, "negative"},
		{"goal", full, "x", &m3.RunOptions{Server: pipe, Goal: strings.Repeat("g", 40000)}, false, "32,768"},
		{"reserved metadata", full, "x", &m3.RunOptions{Server: pipe, Metadata: map[string]any{"trial": 1}}, false, "set by m3"},
		{"metadata", full, "x", &m3.RunOptions{Server: pipe, Metadata: map[string]any{"a": []int{1}}}, false, "metadata"},
		{"evaluations", full, "x", &m3.RunOptions{Server: pipe, Evaluations: []eval.Registration{{Name: "a"}, {Name: "a"}}}, false, "twice"},
		{"human input", full, "x", &m3.RunOptions{Server: pipe, HumanInput: "ask"}, false, "HumanInput"},
		{"in place", full, "x", &m3.RunOptions{Server: pipe, Workspace: m3.InPlace("/tmp", false)}, false, "InPlace"},
		{"copy of nothing", full, "x", &m3.RunOptions{Server: pipe, Workspace: m3.CopyOf("")}, false, "no directory"},
		{"artifact", full, "x", &m3.RunOptions{Server: pipe, Artifacts: []string{"../x"}}, false, "artifact"},
		{"keep", full, "x", &m3.RunOptions{Server: pipe, KeepArtifacts: "sometimes"}, false, "KeepArtifacts"},
		{"content without a type", full, "x", &m3.RunOptions{Server: pipe, Content: []m3.Content{{}}}, false, "no type"},
		{"content", full, "x", &m3.RunOptions{Server: pipe, Content: []m3.Content{{Type: "audio"}}}, true, "audio"},
		{"a plan", full, "x", &m3.RunOptions{Server: pipe, Elicitation: plan}, true, "Elicitation"},
		{"HTTP only", onlyHTTP, "x", &m3.RunOptions{Server: pipe}, true, "HTTP only"},
		{"SSE", onlyHTTP, "x", &m3.RunOptions{Server: m3.HandlerServer{Name: "calc", Handler: http.NotFoundHandler(), Transport: m3.LegacySSE}}, true, "2024-11-05"},
		{"permissions", silent, "x", &m3.RunOptions{Server: pipe, Permissions: m3.DenyAll}, true, "does not ask"},
	} {
		a := fakeAgents(t, k, c.driver)
		res, err := a.Run(t.Context(), c.text, c.opts)
		var unsupported *m3.UnsupportedError
		if res != nil || err == nil || errors.As(err, &unsupported) != c.unsupported || errors.Is(err, m3.ErrValidation) == c.unsupported || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v %v", c.name, res, err)
		}
	}
	missing, err := k.Agents([]m3.Selection{{Harness: full, CredentialEnv: map[string]string{"KEY": "M3_ROOT_NOT_SET"}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing[0].Run(t.Context(), "x", &m3.RunOptions{Server: pipe}); !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), "M3_ROOT_NOT_SET") {
		t.Errorf("a credential that is not set: %v", err)
	}
	var trust *m3.EndpointTrustError
	if _, err := fakeAgents(t, k, full).Run(t.Context(), "x", &m3.RunOptions{Server: m3.HTTPServer{Name: "far", URL: "https://example.test/mcp"}}); !errors.As(err, &trust) {
		t.Errorf("an untrusted server: %v", err)
	}
	if recorded != 0 {
		t.Errorf("%d executions were recorded", recorded)
	}
	if os.Getenv("M3_ROOT_EMPTY") == "" { // it is set, and empty: the start says so, and the execution is recorded
		empty, err := k.Agents([]m3.Selection{{Harness: full, CredentialEnv: map[string]string{"KEY": "M3_ROOT_EMPTY"}}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		res, err := empty[0].Run(t.Context(), "x", &m3.RunOptions{Server: pipe})
		if res == nil {
			t.Fatal(err)
		}
		checkEnd(t, res, err, trace.OutcomeFailed, harness.BlameHarness, "credential_empty")
	}
}

// TestAgentSpec: the resolved options are stored once.
func TestAgentSpec(t *testing.T) {
	t.Parallel()
	k := agentKit(t)
	res, err := fakeAgents(t, k, &fakeDriver{}, m3.ModelName("m-1")).Run(t.Context(), "say hi", &m3.RunOptions{
		Servers: []m3.Server{m3.Binding{Server: m3.PipeServer{Serve: servePeer}, Alias: "calc"}}, Tools: m3.OnlyTools("calc:echo"), Case: "c-1", Goal: "be kind",
		Metadata: map[string]any{"team": "red"}, Evaluations: []eval.Registration{{Name: "answer.v1"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := k.Store().Execution(t.Context(), res.ExecutionID)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"agent"`, `"harness":"fake"`, `"model":"m-1"`, `"trial":1`, `"tools":["calc:echo"]`, `"timeout_seconds":180`, `"case_id":"c-1"`, `"goal":"be kind"`,
		`"harness_config":"fake:m-1"`, `"team":"red"`, `"message":"say hi"`, `"workspace":"temporary"`, `"permissions":"allow_tools"`, `"alias":"calc"`, `"transport":"pipe"`} {
		if !strings.Contains(string(x.Spec), want) {
			t.Errorf("%s is not in %s", want, x.Spec)
		}
	}
	if x.Kind != "agent" || x.Case != "c-1" || len(x.Servers) != 1 || x.Servers[0] != "calc" || len(x.Declared()) != 1 {
		t.Errorf("the record %+v", x)
	}
}

// TestAgentElicitation: the exact case is played, and everything else fails closed.
func TestAgentElicitation(t *testing.T) {
	t.Parallel()
	keyed := func() *fakeDriver {
		return &fakeDriver{change: func(c *harness.Capabilities) {
			c.Elicitation = harness.Elicitation{Native: true, RequestKeys: true, Form: true}
		}}
	}
	plan := elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	for _, c := range []struct {
		name, text string
		plan       *elicit.Plan
		limit      int
		code       string
		answer     string
	}{
		{"matched", `elicit {"Server":"calc","Key":"address","Operation":"book"}`, plan, 0, "", "accept"},
		{"another key", `elicit {"Server":"calc","Key":"phone"}`, plan, 0, "elicitation_expectation_failed", ""},
		{"no key", `elicit {"Server":"calc"}`, plan, 0, "elicitation_unmatched", ""},
		{"no plan", `elicit {"Server":"calc","Key":"address"}`, nil, 0, "elicitation_unexpected", ""},
		{"never asked", `say hi`, plan, 0, "elicitation_incomplete", ""},
		{"too many rounds", "elicit {\"Server\":\"calc\",\"Key\":\"address\"}\nelicit {\"Server\":\"calc\",\"Key\":\"address\"}", elicit.Sequence(plan, plan), 1, "elicitation_round_limit", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := runFake(t, keyed(), c.text, &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Elicitation: c.plan, RoundLimit: c.limit})
			if res == nil {
				t.Fatal(err)
			}
			if c.code == "" {
				checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
				if e := res.View().Elicitations(); res.Text() != c.answer || e.Len() != 1 || e.At(0).RequestKey != "address" || e.At(0).Action != trace.ActionAccept {
					t.Errorf("answered %q; %d recorded", res.Text(), e.Len())
				}
			} else if res.Failure == nil || res.Failure.Code != c.code || err == nil {
				t.Errorf("failure %+v, want %s; %v", res.Failure, c.code, err)
			}
		})
	}
}

// TestSendOptions: a message has what an action has, and its options are checked before the turn begins.
func TestSendOptions(t *testing.T) {
	t.Parallel()
	keyed := &fakeDriver{change: func(c *harness.Capabilities) { c.Elicitation = harness.Elicitation{Native: true, RequestKeys: true} }}
	s := openFake(t, agentKit(t), keyed, nil)
	plan := elicit.Form("address").Accept(elicit.Content{"city": "Pune"})
	const asks = `elicit {"Server":"calc","Key":"address"}`
	if turn, err := s.Send(t.Context(), asks, &m3.SendOptions{Elicitation: plan}); err != nil || turn.Text() != "accept" {
		t.Errorf("a plan: %v %v", turn, err)
	}
	if _, err := s.Send(t.Context(), asks+"\n"+asks, &m3.SendOptions{Elicitation: elicit.Sequence(plan, plan), RoundLimit: 1}); err == nil || !strings.Contains(err.Error(), "asked again") {
		t.Errorf("a limit: %v", err)
	}
	if _, err := s.Send(t.Context(), asks, nil); err == nil || !strings.Contains(err.Error(), "no plan") {
		t.Errorf("a plan is for one message: %v", err)
	}
	for says, o := range map[string]*m3.SendOptions{"negative": {Timeout: -1}, "RoundLimit": {RoundLimit: -1}, "set by m3": {Metadata: map[string]any{"trial": 2}}} {
		if _, err := s.Send(t.Context(), "x", o); !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if turn, err := s.Send(t.Context(), "", &m3.SendOptions{Content: []m3.Content{{Type: "text", Text: "more"}}}); err != nil || turn == nil {
		t.Errorf("content alone: %v %v", turn, err)
	}
	res, err := s.Finish(t.Context())
	if err != nil || len(res.Turns) != 4 {
		t.Errorf("%d turns, %v", len(res.Turns), err)
	}
}
