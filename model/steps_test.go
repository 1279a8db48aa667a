package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// TestConversation goes through a script of two turns in every dialect.
func TestConversation(t *testing.T) {
	t.Parallel()
	script := model.Script{
		model.Say("Adding.").Call("calc:add", map[string]int{"a": 2, "b": 3}).When(model.Text("add 2"), model.System("test subject"), model.OffersOnly("calc:add"), model.Lacks("calc:sub")),
		model.Say("It is 5.").When(model.Result(`"sum":5`)),
		model.Say("Bye.").When(model.Text("thanks"), model.Absent("SECRET")),
	}
	eachDialect(t, func(t *testing.T, d harness.Dialect) {
		r := open(t, d, script)
		c := conv{system: "You are a test subject.", messages: []msg{{user: "add 2 and 3"}}, tools: []string{"calc_add"}}
		first := r.ask(c.in(d))
		if first.status != http.StatusOK || !strings.Contains(first.body, `calc_add`) || !strings.Contains(first.body, "Adding.") {
			t.Errorf("first answer %d %s", first.status, first.body)
		}
		c.messages = append(c.messages, msg{assistant: "Adding."}, msg{call: "calc_add"}, msg{result: `{"sum":5}`})
		if second := r.ask(c.in(d)); !strings.Contains(second.body, "It is 5.") {
			t.Errorf("second answer %d %s", second.status, second.body)
		}
		c.messages = append(c.messages, msg{assistant: "It is 5."}, msg{user: "thanks"})
		if third := r.ask(c.in(d)); !strings.Contains(third.body, "Bye.") {
			t.Errorf("third answer %d %s", third.status, third.body)
		}
		r.followed()
		var steps []string
		for _, x := range r.recorded() {
			steps = append(steps, x.Role+": "+x.Step)
			if x.Dialect != d || x.Status != http.StatusOK || x.Error != "" || x.Started.IsZero() || x.Path != paths[d] || !strings.Contains(string(x.Request), "test subject") {
				t.Errorf("exchange %+v", x)
			}
		}
		want := []string{"turn: step 1 (call calc:add)", `turn: step 2 (say "It is 5.")`, `turn: step 3 (say "Bye.")`}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

// TestUnmet: what a request lacks is a failure that names the step, and the script goes no further.
func TestUnmet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		when model.Condition
		want string
	}{
		{"text", model.Text("multiply"), `what the user said does not contain "multiply"; the last is "add 2 and 3"`},
		{"result", model.Result("5"), `a tool result does not contain "5"; there is none`},
		{"system", model.System("pirate"), `the system prompt does not contain "pirate"; the last is "You are a test subject."`},
		{"absent", model.Absent("test subject"), `the request contains "test subject", which must be absent`},
		{"offers", model.Offers("calc:sub"), `the tool calc:sub is not offered; the request offers calc_add`},
		{"offers of another server", model.Offers("web:get"), `the tool web:get is of a server that the execution does not have; it has calc`},
		{"lacks", model.Lacks("calc:add"), `the tool calc:add is offered (as calc_add) and must not be`},
		{"lacks by raw name", model.Lacks("calc_add"), `the tool calc_add is offered (as calc_add) and must not be`},
		{"none", model.OffersOnly(), `the tool calc_add is offered besides the only ones that may be`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d harness.Dialect) {
				r := open(t, d, model.Script{model.Say("fine"), model.Say("x").Named("greets").When(tc.when), model.Say("never")})
				r.ask(hello(d, false))
				got := r.ask(hello(d, true))
				again := r.ask(hello(d, true))
				want := `step 2 ("greets"): ` + tc.want
				for _, reply := range []reply{got, again} {
					msg, _ := at(t, reply.body, "error", "message").(string)
					if reply.status != http.StatusBadRequest || !strings.Contains(msg, want) || reply.header.Get("X-Should-Retry") != "false" {
						t.Errorf("answer %d %s, want %s", reply.status, reply.body, want)
					}
				}
				if x := r.last(); !strings.Contains(x.Error, want) || x.Step != "" {
					t.Errorf("recorded %q of step %q", x.Error, x.Step)
				}
				problems := r.finish()
				if len(problems) != 2 || problems[0].String() != want || problems[0].Kind != model.ProblemUnmet || problems[1].Kind != model.ProblemLeftOver || problems[1].Step != 3 {
					t.Errorf("problems %v", problems)
				}
			})
		})
	}
}

// TestAbsentSeesEscapes: a secret is found however JSON writes it.
func TestAbsentSeesEscapes(t *testing.T) {
	t.Parallel()
	r := open(t, harness.OpenAIChat, model.Script{model.Say("x").When(model.Absent(`a"<é>`))})
	body := `{"model":"booking","messages":[{"role":"user","content":"a\"\u003cé\u003e"}]}`
	if got := r.ask(body); got.status != http.StatusBadRequest {
		t.Errorf("the secret was not seen: %s", got.body)
	}
}

// TestLeftOverAndSurplus: a step that nobody asked for, and a request beyond the script.
func TestLeftOverAndSurplus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script model.Script
		asks   int
		want   string
	}{
		{"none", model.Script{model.Say("a"), model.Say("b").Times(2), model.Say("c").Forever()}, 7, ""},
		{"no script", nil, 0, ""},
		{"left over", model.Script{model.Say("a"), model.Call("calc:add", nil)}, 1, "step 2 (call calc:add): the agent did not ask for it"},
		{"not often enough", model.Script{model.Say("a").Times(3)}, 1, `step 1 (say "a"): the agent asked for it 1 time, and the script says 3`},
		{"never", model.Script{model.Say("a").Forever()}, 0, `step 1 (say "a"): the agent did not ask for it`},
		{"surplus", model.Script{model.Say("a")}, 3, "the agent asked for an answer after the last of 1 step"},
		{"surplus of none", nil, 1, "the agent asked for an answer after the last of 0 steps"},
		{"guardian", model.Script{model.Say("deny").For(model.RoleGuardian)}, 0, `step 1 (say "deny"): the agent did not ask for it`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := open(t, harness.OpenAIChat, tc.script)
			for range tc.asks {
				r.ask(hello(harness.OpenAIChat, false))
			}
			err := r.provider.Finish(t.Context())
			if again := r.provider.Finish(t.Context()); again != err {
				t.Errorf("Finish again: %v, and first %v", again, err)
			}
			want := `the script of model "booking" was not followed: ` + tc.want
			if tc.want == "" {
				want = "<nil>"
			}
			if fmt.Sprint(err) != want {
				t.Errorf("Finish\n%v, want\n%s", err, want)
			}
		})
	}
}

// TestToolNames: the tool of a server is found under the name that each agent gives it; what could be another is refused.
func TestToolNames(t *testing.T) {
	t.Parallel()
	rule := func(server, tool string) string { return server + "::" + tool }
	namespaced := func(server, tool string) string { return "mcp__" + server + "__" + tool }
	for _, tc := range []struct {
		name    string
		servers []string
		rule    func(string, string) string
		tool    string
		offered []string
		want    string // the name called, or
		err     string // why not
	}{
		{name: "opencode", tool: "calc:add", offered: []string{"calc_add", "calc_sub"}, want: "calc_add"},
		{name: "claude code and pi", tool: "calc:add", offered: []string{"Read", "mcp__calc__add", "mcp__calc__add_all"}, want: "mcp__calc__add"},
		{name: "codex", tool: "calc:add", offered: []string{"exec_command", "mcp__calc/add", "mcp__web/add"}, want: "mcp__calc/add"},
		{name: "dots", tool: "calc:add", offered: []string{"calc.add"}, want: "calc.add"},
		{name: "no prefix", servers: []string{"calc"}, tool: "calc:add", offered: []string{"add", "sub"}, want: "add"},
		{name: "no prefix and two servers", servers: []string{"calc", "web"}, tool: "calc:add", offered: []string{"add"}, err: "the tool calc:add is not offered; the request offers add"},
		{name: "a tool with a dot", tool: "calc:add.all", offered: []string{"calc_add_all"}, want: "calc_add_all"},
		{name: "a tool with an underscore in front", tool: "calc:_add", offered: []string{"calc__add"}, want: "calc__add"},
		{name: "a server with a dash", servers: []string{"my-calc"}, tool: "my-calc:add", offered: []string{"mcp__my_calc/add"}, want: "mcp__my_calc/add"},
		{name: "a server named mcp", servers: []string{"mcp_calc"}, tool: "mcp_calc:add", offered: []string{"mcp_calc_add"}, want: "mcp_calc_add"},
		{name: "longest alias", servers: []string{"calc", "calc_v2"}, tool: "calc_v2:add", offered: []string{"calc_add", "calc_v2_add"}, want: "calc_v2_add"},
		{name: "collision", servers: []string{"a", "a_b"}, tool: "a:b_c", offered: []string{"a_b_c"}, err: "the name a_b_c, which the request offers, may mean the tool a:b_c or the tool a_b:c; call it by its raw name"},
		{name: "collision that the agent avoids", servers: []string{"a", "a_b"}, tool: "a:b_c", offered: []string{"mcp__a/b_c", "mcp__a_b/c"}, want: "mcp__a/b_c"},
		{name: "the same name twice", tool: "calc:add", offered: []string{"calc_add", "calc_add"}, err: "the tool calc:add may be any of those that the request offers as calc_add, calc_add; call one by its raw name"},
		{name: "folded twice", tool: "calc:a.b", offered: []string{"calc_a_b", "calc_a-b"}, err: "may be any of those"},
		{name: "rule", rule: rule, tool: "calc:add", offered: []string{"calc_add", "calc::add"}, want: "calc::add"},
		{name: "rule with namespace", rule: namespaced, tool: "calc:add", offered: []string{"mcp__calc/add"}, want: "mcp__calc/add"},
		{name: "rule and not offered", rule: rule, tool: "calc:add", offered: []string{"calc_add"}, err: "the tool calc:add is not offered; the request offers calc_add"},
		{name: "a rule that does not know", rule: func(string, string) string { return "" }, tool: "calc:add", offered: []string{"calc_add"}, want: "calc_add"},
		{name: "no tools", tool: "calc:add", err: "the tool calc:add is not offered: the request offers no tools"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := harness.OpenAIResponses
			r := open(t, d, model.Script{model.Call(tc.tool, nil)}, func(p *harness.Provision) {
				p.Servers, p.ToolName = tc.servers, tc.rule
				if tc.servers == nil {
					p.Servers = []string{"calc", "web"}
				}
			})
			got := r.ask(conv{messages: []msg{{user: "go"}}, tools: tc.offered}.in(d))
			if tc.err != "" {
				problems := r.finish()
				if len(problems) != 1 || problems[0].Kind != model.ProblemTool || !strings.Contains(problems[0].Message, tc.err) || got.status != http.StatusBadRequest {
					t.Errorf("problems %v, want %s", problems, tc.err)
				}
				return
			}
			call, _ := at(t, got.body, "output", 0).(map[string]any)
			name, _ := call["name"].(string)
			if ns, ok := call["namespace"].(string); ok {
				name = ns + "/" + name
			}
			if name != tc.want {
				t.Errorf("called %q of %s, want %q", name, got.body, tc.want)
			}
			r.followed()
		})
	}
}

// TestRawCall: a name is called as it stands, offered or not, also in a namespace.
func TestRawCall(t *testing.T) {
	t.Parallel()
	script := model.Script{model.CallRaw("calc_secret", nil), model.Calls(model.Use{Raw: "secret", Namespace: "mcp__calc", ArgsText: `{"a":`})}
	for d, want := range map[harness.Dialect][]string{
		harness.OpenAIChat:        {`"name":"calc_secret"`, `"name":"mcp__calc__secret"`, `"arguments":"{\"a\":"`},
		harness.AnthropicMessages: {`"name":"calc_secret"`, `"name":"mcp__calc__secret"`, `"input":"{\"a\":"`},
		harness.OpenAIResponses:   {`"name":"calc_secret"`, `"name":"secret","namespace":"mcp__calc"`, `"arguments":"{\"a\":"`},
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			r := open(t, d, script)
			all := r.ask(hello(d, false)).body + r.ask(hello(d, false)).body
			for _, w := range want {
				if !strings.Contains(all, w) {
					t.Errorf("%s is not in %s", w, all)
				}
			}
			r.followed()
		})
	}
}

// TestExecutionsDoNotMix: 32 executions of one model at once, each with its own progress, port and key; a key of another execution is refused.
func TestExecutionsDoNotMix(t *testing.T) {
	t.Parallel()
	const executions, answers = 32, 6
	var script model.Script
	for i := range answers {
		script = append(script, model.Say(fmt.Sprintf("answer %d", i)))
	}
	shared := model.Scripted("booking", script)
	keys := make([]string, executions)
	var wg sync.WaitGroup
	for e := range executions {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := []harness.Dialect{harness.OpenAIChat, harness.OpenAIResponses, harness.AnthropicMessages}[e%3]
			r := &rig{t: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
			provider, err := shared.Provide(t.Context(), &harness.Provision{Dialects: []harness.Dialect{d}, Record: r.keep})
			if err != nil {
				t.Error(err)
				return
			}
			r.provider, r.at = provider, provider.Endpoint()
			keys[e] = r.at.Key
			for i := range answers {
				body := conv{stream: i%2 == 0, messages: []msg{{user: fmt.Sprintf("execution %d asks %d", e, i)}}}.in(d)
				if got := r.ask(body); got.status != http.StatusOK || got.err != nil {
					t.Errorf("execution %d got %d %s", e, got.status, got.body)
				}
			}
			if err := provider.Finish(context.Background()); err != nil {
				t.Errorf("execution %d: %v", e, err)
			}
			for i, x := range r.recorded() {
				if !strings.Contains(string(x.Request), fmt.Sprintf("execution %d asks %d", e, i)) || !strings.Contains(x.Step, fmt.Sprintf("answer %d", i)) {
					t.Errorf("execution %d recorded %s as %s", e, x.Request, x.Step)
				}
				if whole := string(x.Response); !strings.Contains(whole, fmt.Sprintf("answer %d", i)) {
					t.Errorf("execution %d recorded the answer %s", e, whole)
				}
			}
		}()
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			t.Error("two executions have one key")
		}
		seen[key] = true
	}
}

// TestConcurrentRequests of one execution take each step once.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	const n = 24
	var script model.Script
	for i := range n {
		script = append(script, model.Say(fmt.Sprintf("answer-%d.", i)))
	}
	r := open(t, harness.OpenAIChat, script)
	bodies := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			bodies[i] = r.ask(hello(harness.OpenAIChat, false)).body
		}()
	}
	wg.Wait()
	all := strings.Join(bodies, "\n")
	for i := range n {
		if strings.Count(all, fmt.Sprintf("answer-%d.", i)) != 1 {
			t.Errorf("answer %d came %d times", i, strings.Count(all, fmt.Sprintf("answer-%d.", i)))
		}
	}
	r.followed()
}

// TestProvide refuses what cannot be provided.
func TestProvide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script model.Script
		speaks []harness.Dialect
		want   string
	}{
		{"bad script", model.Script{model.Step{}}, []harness.Dialect{harness.OpenAIChat}, "model: step 1: it answers nothing: it needs say, call, calls, empty or fault"},
		{"no dialect", nil, nil, "the agent cannot be pointed at a provider"},
		{"unknown dialect", nil, []harness.Dialect{"gemini"}, "the agent speaks [gemini], and scripted models speak openai_responses, openai_chat and anthropic_messages"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := model.Scripted("x", tc.script).Provide(t.Context(), &harness.Provision{Dialects: tc.speaks})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Scripted("x", nil).Provide(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	p, err := model.Scripted("", nil).Provide(t.Context(), &harness.Provision{Dialects: []harness.Dialect{"gemini", harness.AnthropicMessages, harness.OpenAIChat}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Finish(t.Context()) }()
	if e := p.Endpoint(); e.Dialect != harness.AnthropicMessages || e.Model != "scripted" || !strings.HasPrefix(e.BaseURL, "http://127.0.0.1:") || len(e.Key) < 20 {
		t.Errorf("endpoint %+v", e)
	}
}
