package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/trace"
)

// newSpec is an execution with one stdio server, calc.
func newSpec(t testing.TB) *harness.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &harness.Spec{
		Workspace: t.TempDir(), Home: home, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"},
		Servers: []harness.Endpoint{{Name: "calc", Command: self, Env: []string{calcVariable + "=1"}}}, Tools: harness.Tools{All: true},
	}
}

// open opens the scripted agent.
func open(t testing.TB, h *fakeHost, script *acpagent.Script) harness.Session {
	t.Helper()
	return openSpec(t, h, acpagent.Config("", script), newSpec(t))
}

func openSpec(t testing.TB, h *fakeHost, cfg acp.Config, spec *harness.Spec) harness.Session {
	t.Helper()
	s, err := acp.New(cfg).Open(t.Context(), spec, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func turns(steps ...acpagent.Step) *acpagent.Script {
	return &acpagent.Script{Turns: [][]acpagent.Step{steps}}
}

func call(server, tool, args string) acpagent.Step {
	return acpagent.Step{Call: &acpagent.Call{Server: server, Tool: tool, Arguments: json.RawMessage(args)}}
}

func send(t testing.TB, s harness.Session) *harness.Turn {
	t.Helper()
	turn, err := s.Send(t.Context(), &harness.Prompt{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestTurn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := open(t, h, turns(
		acpagent.Step{Think: "two and three"},
		acpagent.Step{Say: "I shall add."},
		call("calc", "add", `{"a":2,"b":3}`),
		acpagent.Step{Say: "The answer "}, acpagent.Step{Say: "is {{result}}."},
		acpagent.Step{Usage: json.RawMessage(`{"inputTokens":10,"outputTokens":2,"totalTokens":-1}`)}, acpagent.Step{Cost: 0.25},
	))
	turn := send(t, s)
	if turn.Text != "The answer is 5." || turn.StopReason != "end_turn" || turn.Doubt != "" || turn.NativeID != "message-3" {
		t.Errorf("turn %+v", turn)
	}
	var order []string
	for _, e := range h.events {
		switch e := e.(type) {
		case *harness.Reasoning:
			order = append(order, "thought "+trace.JoinText(e.Content.Value))
		case *harness.Message:
			order = append(order, "message "+trace.JoinText(e.Content))
		case *harness.ToolCall:
			order = append(order, fmt.Sprintf("call %s %s:%s %s", e.ID, e.Server.Value, e.Tool.Value, e.Arguments.Value))
		case *harness.ToolResult:
			order = append(order, fmt.Sprintf("result %s %s %s", e.ID, e.Status, e.Result.Value.Text()))
		case *harness.Usage:
			order = append(order, fmt.Sprintf("usage %s %d %v %v %q", e.Scope, e.InputTokens.Value, e.TotalTokens.State, e.Cost.Value, e.Currency.Value))
		}
	}
	want := []string{
		"thought two and three", "message I shall add.", `call call-1 calc:add {"a":2,"b":3}`, "result call-1 success 5", "message The answer is 5.",
		`usage turn 10 unavailable 0 ""`, `usage session 0 not_emitted 0.25 "USD"`,
	}
	if !slices.Equal(order, want) {
		t.Errorf("got  %q\nwant %q", order, want)
	}
	if h.drained != 1 {
		t.Errorf("drained %d times, want once a turn", h.drained)
	}
	if !strings.Contains(h.sent(`"initialize"`), `"fs":{"readTextFile":false,"writeTextFile":false}`) || strings.Contains(h.sent(`"initialize"`), "elicitation") {
		t.Errorf("initialize: %s", h.sent(`"initialize"`))
	}
	facts := harness.Facts{}
	for _, f := range of[harness.Facts](h) {
		for k, v := range f {
			facts[k] = v
		}
	}
	if string(facts["session_id"].Value) != `"scripted-1"` || string(facts["agent_identity"].Value) != `{"name":"scripted","version":"1"}` || facts["usage"].State != trace.Unsupported {
		t.Errorf("facts %v", facts)
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := open(t, h, &acpagent.Script{}) // the prompts are the script
	for i := range 3 {
		steps, err := json.Marshal([]acpagent.Step{call("calc", "add", fmt.Sprintf(`{"a":%d}`, i)), {Say: "{{result}}"}})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := s.Send(t.Context(), &harness.Prompt{Text: string(steps)})
		if err != nil || turn.Text != fmt.Sprint(i) {
			t.Fatalf("turn %d: %+v, %v", i, turn, err)
		}
	}
}

func TestHTTPServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return calc() }, nil))
	t.Cleanup(server.Close)
	h := newHost(t)
	spec := newSpec(t)
	spec.Servers = []harness.Endpoint{{Name: "calc", URL: server.URL, Header: map[string]string{"X-Key": "k"}}}
	s := openSpec(t, h, acpagent.Config("", turns(call("calc", "add", `{"a":1,"b":1}`), acpagent.Step{Say: "{{result}}"})), spec)
	if turn := send(t, s); turn.Text != "2" {
		t.Errorf("turn %+v", turn)
	}
	if !strings.Contains(h.sent("session/new"), `"type":"http"`) {
		t.Error(h.sent("session/new"))
	}
}

func TestBigAndUnicodeArguments(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	text := strings.Repeat("ä🙂 <&>\u2028", 100_000)
	args, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, h, turns(call("calc", "echo", string(args)), acpagent.Step{Say: "{{result}}"}))
	if turn := send(t, s); turn.Text != text {
		t.Errorf("%d bytes of %d came back", len(turn.Text), len(text))
	}
	var got map[string]string
	if c := of[*harness.ToolCall](h)[0]; json.Unmarshal(c.Arguments.Value, &got) != nil || got["text"] != text {
		t.Error("the arguments changed on the way")
	}
}

// TestStreamedInput holds that a call is told when its arguments are whole: claude-agent-acp streams them into a pending call.
func TestStreamedInput(t *testing.T) {
	t.Parallel()
	update := func(kind, members string) acpagent.Step {
		return acpagent.Step{Update: json.RawMessage(`{"sessionUpdate":"` + kind + `","toolCallId":"s"` + members + `}`)}
	}
	ask := acpagent.Step{Request: &acpagent.Message{Method: "session/request_permission", Params: json.RawMessage(
		`{"toolCall":{"toolCallId":"s","status":"pending","rawInput":{"server":"calc","tool":"add","arguments":{"a":1,"b":2}}},"options":[{"optionId":"y","kind":"allow_once"}]}`)}}
	for name, steps := range map[string][]acpagent.Step{
		"asked":     {update("tool_call", `,"status":"pending","rawInput":{}`), update("tool_call_update", `,"rawInput":{"server":"calc"}`), ask, update("tool_call_update", `,"status":"completed"`)},
		"not asked": {update("tool_call", `,"status":"pending","rawInput":{}`), update("tool_call_update", `,"rawInput":{"server":"calc"}`), update("tool_call_update", `,"rawInput":{"server":"calc","tool":"add","arguments":{"a":1,"b":2}}`), update("tool_call_update", `,"status":"completed"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.permission = func(*harness.PermissionRequest) harness.PermissionAnswer { return harness.Allow }
			send(t, open(t, h, turns(steps...)))
			calls := of[*harness.ToolCall](h)
			if len(calls) != 1 || string(calls[0].Arguments.Value) != `{"a":1,"b":2}` || calls[0].Tool.Value != "add" || len(h.notices()) != 0 {
				t.Errorf("calls %+v, notices %v", calls, h.notices())
			}
		})
	}
}

// TestLies shows that what the agent says is told as it says it, whatever it did.
func TestLies(t *testing.T) {
	t.Parallel()
	args := json.RawMessage(`{"a":1,"b":2}`)
	told := func(c acpagent.Call, f func(*acpagent.Told)) acpagent.Step {
		c.Server, c.Tool, c.Arguments = "calc", "add", args
		if f != nil {
			c.Told = &acpagent.Told{}
			f(c.Told)
		}
		return acpagent.Step{Call: &c}
	}
	for name, tc := range map[string]struct {
		step acpagent.Step
		want []string
	}{
		"arguments": {told(acpagent.Call{}, func(l *acpagent.Told) { l.Arguments = json.RawMessage(`{"a":9}`) }), []string{`call-1 calc:add {"a":9}`, "call-1 success 3 call-1"}},
		"tool":      {told(acpagent.Call{}, func(l *acpagent.Told) { l.Tool = "mul" }), []string{`call-1 calc:mul {"a":1,"b":2}`, "call-1 success 3 call-1"}},
		"result": {told(acpagent.Call{}, func(l *acpagent.Told) { l.Result = json.RawMessage(`{"content":[{"type":"text","text":"42"}]}`) }),
			[]string{`call-1 calc:add {"a":1,"b":2}`, "call-1 success 42"}},
		"status":   {told(acpagent.Call{}, func(l *acpagent.Told) { l.Status = "failed" }), []string{`call-1 calc:add {"a":1,"b":2}`, "call-1 tool_error 3 call-1"}},
		"invented": {told(acpagent.Call{Invented: true}, nil), []string{`call-1 calc:add {"a":1,"b":2}`, "call-1 success invented"}},
		"hidden":   {told(acpagent.Call{Hidden: true}, nil), nil},
		"swapped":  {told(acpagent.Call{ID: "x", WireID: "y"}, nil), []string{`x calc:add {"a":1,"b":2}`, "x success 3 y"}},
		"open":     {told(acpagent.Call{Open: true}, nil), []string{`call-1 calc:add {"a":1,"b":2}`, "call-1 incomplete "}},
		"parallel": {acpagent.Step{Parallel: []acpagent.Call{{Server: "calc", Tool: "add", ID: "p"}, {Server: "calc", Tool: "add", ID: "q"}}},
			[]string{"p calc:add {}", "p success 0 p", "q calc:add {}", "q success 0 q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			script := turns(tc.step, acpagent.Step{Say: "done"})
			script.Join = true
			turn := send(t, open(t, h, script))
			var got []string
			for _, e := range h.events {
				switch e := e.(type) {
				case *harness.ToolCall:
					got = append(got, fmt.Sprintf("%s %s:%s %s", e.ID, e.Server.Value, e.Tool.Value, e.Arguments.Value))
				case *harness.ToolResult:
					got = append(got, fmt.Sprintf("%s %s %s", e.ID, e.Status, e.Result.Value.Text()))
				}
			}
			if name == "parallel" {
				slices.Sort(got)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if unfinished := turn.Doubt != ""; unfinished != (name == "open") {
				t.Errorf("doubt %q", turn.Doubt)
			}
		})
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	ask := func() *acpagent.Script {
		s := turns(acpagent.Step{Call: &acpagent.Call{Server: "calc", Tool: "add", Ask: true}}, acpagent.Step{Say: "{{result}}"})
		s.StringIDs = true
		return s
	}
	for answer, want := range map[harness.PermissionAnswer]string{harness.Allow: "0", harness.Deny: "permission refused", harness.Cancelled: "permission refused"} {
		t.Run(string(answer), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.permission = func(*harness.PermissionRequest) harness.PermissionAnswer { return answer }
			if turn := send(t, open(t, h, ask())); turn.Text != want {
				t.Errorf("turn %+v", turn)
			}
			if len(h.asked) != 1 || h.asked[0].Kind != "tool" || h.asked[0].Server != "calc" || h.asked[0].Tool != "add" || h.asked[0].CallID != "call-1" {
				t.Errorf("asked %+v", h.asked)
			}
			chosen := map[harness.PermissionAnswer]string{harness.Allow: `"optionId":"y"`, harness.Deny: `"optionId":"n"`, harness.Cancelled: `{"outcome":{"outcome":"cancelled"}}`}[answer]
			if reply := h.sent(`"id":"r-0"`); !strings.Contains(reply, chosen) {
				t.Errorf("answered %s, want %s", reply, chosen)
			}
		})
	}
}

// TestPermissionByKind holds that "always" is never chosen, and that an option is chosen by its kind, whatever its id.
func TestPermissionByKind(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`[{"optionId":"allow_once","kind":"allow_always"},{"optionId":"reject","kind":"reject_once"}]`: `"outcome":"cancelled"`,
		`[{"optionId":"reject","kind":"allow_once"}]`:                                                  `"optionId":"reject"`,
		`[{"optionId":7,"kind":"allow_once"}]`:                                                         `"optionId":7`,
		`[]`:                                                                                           `"outcome":"cancelled"`,
		`"none"`:                                                                                       `"outcome":"cancelled"`,
		`[{"kind":"allow_once"}]`:                                                                      `"outcome":"cancelled"`,
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.permission = func(*harness.PermissionRequest) harness.PermissionAnswer { return harness.Allow }
			params := json.RawMessage(`{"sessionId":"scripted-1","toolCall":{"toolCallId":"t","kind":"edit","title":"Edit"},"options":` + options + `}`)
			turn := send(t, open(t, h, turns(acpagent.Step{Request: &acpagent.Message{Method: "session/request_permission", Params: params}}, acpagent.Step{Say: "{{result}}"})))
			if !strings.Contains(turn.Text, want) {
				t.Errorf("answered %s, want %s", turn.Text, want)
			}
			if r := h.asked[0]; r.Kind != "edit" || r.Title != "Edit" || r.Server != "" {
				t.Errorf("asked %+v", r)
			}
		})
	}
}

func TestElicitation(t *testing.T) {
	t.Parallel()
	script := func() *acpagent.Script { return turns(call("calc", "ask", `{}`), acpagent.Step{Say: "{{result}}"}) }
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		h.elicit = func(p *harness.Prompted) (elicit.Response, error) {
			return elicit.Accept(elicit.Content{"name": "Ada"}), nil
		}
		spec := newSpec(t)
		spec.Elicitation = true
		if turn := send(t, openSpec(t, h, acpagent.Config("", script()), spec)); turn.Text != "accept Ada" {
			t.Errorf("turn %+v", turn)
		}
		if p := h.prompted[0]; p.Mode != "form" || p.Message != "What is your name?" || p.Server != "" || !strings.Contains(string(p.Schema), `"name"`) {
			t.Errorf("prompted %+v", p)
		}
	})
	t.Run("unanswerable", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		spec := newSpec(t)
		spec.Elicitation = true
		if turn := send(t, openSpec(t, h, acpagent.Config("", script()), spec)); turn.Text != "cancel <nil>" || !slices.Contains(h.notices(), "elicitation_unanswered") {
			t.Errorf("turn %+v, notices %v", turn, h.notices())
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		turn := send(t, open(t, h, script()))
		if len(h.prompted) != 0 || !strings.Contains(turn.Text, "elicitation") {
			t.Errorf("turn %+v, prompted %v", turn, h.prompted)
		}
	})
	t.Run("not offered", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		turn := send(t, open(t, h, turns(acpagent.Step{Request: &acpagent.Message{Method: "elicitation/create"}}, acpagent.Step{Say: "{{result}}"})))
		if !strings.Contains(turn.Text, "-32601") || !slices.Contains(h.notices(), "unknown_request") {
			t.Errorf("turn %+v, notices %v", turn, h.notices())
		}
	})
}

func TestModesAndOptions(t *testing.T) {
	t.Parallel()
	offer := func() *acpagent.Script {
		s := turns(acpagent.Step{Say: "ok"})
		s.Modes, s.Options = []string{"default", "plan"}, map[string][]string{"effort": {"low", "high"}, "fast": nil}
		return s
	}
	for name, tc := range map[string]struct {
		mode    string
		options map[string]any
		want    string // of the error
	}{
		"set":            {"plan", map[string]any{"effort": "high", "fast": true}, ""},
		"unknown mode":   {"turbo", nil, `no mode "turbo"; it has default, plan`},
		"unknown option": {"", map[string]any{"speed": "high"}, `no option "speed"; it has effort, fast`},
		"unknown value":  {"", map[string]any{"effort": "max"}, `option "effort" has no value "max"; it has low, high`},
		"wrong type":     {"", map[string]any{"effort": 3}, `option "effort" is a int`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			cfg := acpagent.Config("", offer())
			cfg.Mode, cfg.Options = tc.mode, tc.options
			s, err := acp.New(cfg).Open(t.Context(), newSpec(t), h)
			if tc.want != "" {
				e, ok := errors.AsType[*harness.Error](err)
				if !ok || e.Blame != harness.BlameTest || e.Code != "option_unknown" || !strings.Contains(e.Message, tc.want) {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if h.sent("session/prompt") != "" {
					t.Error("prompted all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			send(t, s)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			var selected string
			for _, f := range of[harness.Facts](h) {
				if v, has := f["selected_config"]; has {
					selected = string(v.Value) + string(f["current_mode"].Value)
				}
			}
			if selected != `{"effort":"high","fast":true}"plan"` {
				t.Errorf("selected %s", selected)
			}
		})
	}
}

func TestModeByOption(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	script := turns(acpagent.Step{Say: "ok"})
	script.Options = map[string][]string{"mode": {"build", "plan"}}
	cfg := acpagent.Config("", script)
	cfg.Mode = "plan"
	send(t, openSpec(t, h, cfg, newSpec(t)))
	if !strings.Contains(h.sent("set_config_option"), `"value":"plan"`) {
		t.Error(h.sent("set_config_option"))
	}
}

func TestUnknownThingsAreKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	update := json.RawMessage(`{"sessionUpdate":"compaction_summary_chunk","content":{"type":"hologram","x":[1]},"n":1.50}`)
	s := open(t, h, turns(
		acpagent.Step{Update: update},
		acpagent.Step{Update: json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"hologram","x":[1]}}`)},
		acpagent.Step{Notify: &acpagent.Message{Method: "_vendor/thing", Params: json.RawMessage(`{"a":1}`)}},
		acpagent.Step{Plan: []string{"one"}}, acpagent.Step{Notice: "careful"},
		acpagent.Step{Notes: "Warning: unlabelled"}, acpagent.Step{Line: "this is not json"}, acpagent.Step{Line: `[{"jsonrpc":"2.0","method":"x"}]`},
		acpagent.Step{Line: `{"jsonrpc":"2.0","id":"99","result":{}}`},
		acpagent.Step{Request: &acpagent.Message{Method: "fs/read_text_file", Params: json.RawMessage(`{"path":"/etc/passwd"}`)}},
		acpagent.Step{Say: "{{result}}"},
	))
	turn := send(t, s)
	if !strings.Contains(turn.Text, "-32601") {
		t.Errorf("turn %+v", turn)
	}
	activities := map[string]string{}
	for _, a := range of[*harness.Activity](h) {
		activities[a.Kind] = string(a.Data)
	}
	if activities["compaction_summary_chunk"] != string(update) || activities["_vendor/thing"] != `{"a":1}` || !strings.Contains(activities["plan"], `"one"`) {
		t.Errorf("activities %v", activities)
	}
	if m := of[*harness.Message](h)[0]; m.Content[0].Type != "hologram" || string(m.Content[0].Raw) != `{"type":"hologram","x":[1]}` {
		t.Errorf("message %+v", m)
	}
	if want := []string{"agent_notice", "adapter_notice", "not_json", "batch", "unexpected_response", "unknown_request"}; !slices.Equal(h.notices(), want) {
		t.Errorf("notices %v, want %v", h.notices(), want)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cancelOn := func(h *fakeHost, s harness.Session, fits func(harness.Event) bool) (*harness.Turn, error) {
		ctx, cancel := context.WithCancel(h.t.Context())
		defer cancel()
		go func() { h.wait(fits); cancel() }()
		return s.Send(ctx, &harness.Prompt{Text: "go"})
	}
	isCall := func(e harness.Event) bool { _, is := e.(*harness.ToolCall); return is }
	t.Run("in mid-tool", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		s := open(t, h, &acpagent.Script{Turns: [][]acpagent.Step{{call("calc", "slow", `{}`)}, {{Say: "alive"}}}})
		turn, err := cancelOn(h, s, isCall)
		if err != nil || turn.StopReason != "cancelled" || turn.Doubt != "" {
			t.Fatalf("turn %+v, %v", turn, err)
		}
		if next := send(t, s); next.Text != "alive" {
			t.Errorf("the session is of no more use: %+v", next)
		}
	})
	t.Run("while asked", func(t *testing.T) {
		t.Parallel()
		h := newHost(t) // its Permission waits for the end of its context
		s := open(t, h, turns(acpagent.Step{Call: &acpagent.Call{Server: "calc", Tool: "add", Ask: true}}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { h.waitAsked(); cancel() }()
		turn, err := s.Send(ctx, &harness.Prompt{Text: "go"})
		if err != nil || turn.StopReason != "cancelled" {
			t.Fatalf("turn %+v, %v", turn, err)
		}
		if reply := h.sent(`"outcome"`); !strings.Contains(reply, `{"outcome":{"outcome":"cancelled"}}`) || !strings.Contains(reply, `"id":0`) {
			t.Errorf("answered %q", reply)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		spec := newSpec(t)
		spec.CancelGrace = 50 * time.Millisecond
		s := openSpec(t, h, acpagent.Config("", turns(acpagent.Step{Plan: []string{"sleep"}}, acpagent.Step{Hang: "deaf"})), spec)
		_, err := cancelOn(h, s, func(e harness.Event) bool { _, is := e.(*harness.Activity); return is })
		if e, ok := errors.AsType[*harness.Error](err); !ok || e.Code != "agent_timeout" || e.Blame != harness.BlameAgent || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if _, again := s.Send(t.Context(), &harness.Prompt{Text: "go"}); !errors.Is(again, err) {
			t.Errorf("the second prompt: %v", again)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	code := 3
	for name, tc := range map[string]struct {
		steps []acpagent.Step
		blame harness.Blame
		code  string
		text  string
	}{
		"crash":          {[]acpagent.Step{{Say: "partial"}, {Stderr: "out of cheese"}, {Crash: &code}}, harness.BlameAgent, "agent_crashed", "exit code 3: out of cheese"},
		"internal error": {[]acpagent.Step{{Error: &acpagent.Error{Message: "boom"}}}, harness.BlameAgent, "agent_error", "boom"},
		"provider 400":   {[]acpagent.Step{{Error: &acpagent.Error{Message: "Internal error: fake status 400", Data: json.RawMessage(`{"errorName":"APIError"}`)}}}, harness.BlameProvider, "provider_error", "400"},
		"provider 429":   {[]acpagent.Step{{Error: &acpagent.Error{Message: "API Error: 429 slow down"}}}, harness.BlameProvider, "provider_rate_limited", "429"},
		"key":            {[]acpagent.Step{{Error: &acpagent.Error{Code: -32000, Message: "Authentication required"}}}, harness.BlameProvider, "provider_unauthorized", "Authentication"},
		"huge line":      {[]acpagent.Step{{Huge: 65 << 20}, {Hang: "deaf"}}, harness.BlameAgent, "agent_protocol", "64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			s := open(t, h, turns(tc.steps...))
			_, err := s.Send(t.Context(), &harness.Prompt{Text: "go"})
			e, ok := errors.AsType[*harness.Error](err)
			if !ok || e.Blame != tc.blame || e.Code != tc.code || !strings.Contains(e.Message, tc.text) {
				t.Errorf("error %#v", err)
			}
			if name == "crash" && len(of[*harness.Message](h)) != 1 {
				t.Error("what it had said is gone")
			}
		})
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script *acpagent.Script
		doubt  string
	}{
		"empty":             {turns(acpagent.Step{Think: "hm"}), "no text and no completed tool call"},
		"failed call only":  {turns(call("calc", "fail", `{}`)), "no text and no completed tool call"},
		"call only":         {turns(call("calc", "add", `{}`)), ""},
		"cancelled unasked": {turns(acpagent.Step{Stop: "cancelled"}), "the agent says that the turn was cancelled, and nobody did"},
		"refusal":           {turns(acpagent.Step{Say: "no"}, acpagent.Step{Stop: "refusal"}), ""},
		"answered twice":    {turns(acpagent.Step{Say: "yes"}, acpagent.Step{Twice: true}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if turn := send(t, open(t, newHost(t), tc.script)); turn.Doubt != tc.doubt {
				t.Errorf("doubt %q, want %q", turn.Doubt, tc.doubt)
			}
		})
	}
}

func TestUnlabelledAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	script := turns(acpagent.Step{Say: "first"}, call("calc", "add", `{}`), acpagent.Step{Say: "second "}, acpagent.Step{Say: "part"})
	script.Unlabelled = true
	if turn := send(t, open(t, h, script)); turn.Text != "second part" || len(h.notices()) != 0 {
		t.Errorf("turn %+v, notices %v", turn, h.notices())
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*acp.Config, *acpagent.Script, *harness.Spec, *fakeHost)
		blame  harness.Blame
		code   string
		text   string
	}{
		"version":    {func(_ *acp.Config, s *acpagent.Script, _ *harness.Spec, _ *fakeHost) { s.Protocol = 2 }, harness.BlameAgent, "version_unknown", "answered protocol version 2"},
		"not there":  {func(c *acp.Config, _ *acpagent.Script, _ *harness.Spec, _ *fakeHost) { c.Command = "no-such-agent" }, harness.BlameHarness, "executable_missing", "no-such-agent"},
		"no command": {func(c *acp.Config, _ *acpagent.Script, _ *harness.Spec, _ *fakeHost) { c.Command = "" }, harness.BlameTest, "option_unknown", "Command is empty"},
		"refused": {func(_ *acp.Config, s *acpagent.Script, _ *harness.Spec, _ *fakeHost) {
			s.Refuse = map[string]acpagent.Error{"session/new": {Code: -32000, Message: "Authentication required"}}
		}, harness.BlameProvider, "provider_unauthorized", "session/new"},
		"never": {func(_ *acp.Config, s *acpagent.Script, _ *harness.Spec, _ *fakeHost) {
			s.Deaf = []string{"session/new"}
		}, harness.BlameAgent, "agent_timeout", "session/new"},
		"dropped": {func(_ *acp.Config, s *acpagent.Script, _ *harness.Spec, h *fakeHost) {
			s.DropServers = true
			h.served = func(string) error { return errors.New("no connection was made") }
		}, harness.BlameAgent, "servers_dropped", "server calc"},
		"host's words": {func(_ *acp.Config, _ *acpagent.Script, _ *harness.Spec, h *fakeHost) {
			h.served = func(string) error { return harness.Errorf(harness.BlameServer, "server_failed", "calc died") }
		}, harness.BlameServer, "server_failed", "calc died"},
		"server dead": {func(_ *acp.Config, _ *acpagent.Script, s *harness.Spec, _ *fakeHost) {
			s.Servers[0].Command = "/no/such"
		}, harness.BlameHarness, "agent_refused", "server calc"},
		"no secret": {func(c *acp.Config, _ *acpagent.Script, _ *harness.Spec, _ *fakeHost) {
			c.CredentialEnv = map[string]string{"KEY": "SOURCE"}
		}, harness.BlameTest, "environment_missing", "KEY"},
		"dialect": {func(_ *acp.Config, _ *acpagent.Script, s *harness.Spec, _ *fakeHost) {
			s.Endpoint = &harness.ModelEndpoint{Dialect: harness.OpenAIChat}
		}, harness.BlameTest, "option_unknown", "openai_chat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			script, spec := turns(acpagent.Step{Say: "x"}), newSpec(t)
			cfg := acpagent.Config("", script)
			tc.change(&cfg, script, spec, h)
			ctx := t.Context()
			if name == "never" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				go func() { h.until(func() bool { return h.sent("session/new") != "" }); cancel() }()
			}
			_, err := acp.New(cfg).Open(ctx, spec, h)
			e, ok := errors.AsType[*harness.Error](err)
			if !ok || e.Blame != tc.blame || e.Code != tc.code || !strings.Contains(e.Message, tc.text) {
				t.Errorf("error %#v", err)
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("orderly", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		s := open(t, h, turns(acpagent.Step{Say: "x"}))
		for range 2 {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if code, signal, _ := h.procs[0].Exit(); code != 0 || signal != "" || h.sent("session/close") == "" {
			t.Errorf("exit %d %q, %q", code, signal, h.sent("session/close"))
		}
		if _, err := s.Send(t.Context(), &harness.Prompt{Text: "x"}); err == nil {
			t.Error("a closed session took a prompt")
		}
	})
	t.Run("without session/close", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		script := turns(acpagent.Step{Say: "x"})
		script.NoClose = true
		if err := open(t, h, script).Close(t.Context()); err != nil || h.sent("session/close") != "" {
			t.Error(err, h.sent("session/close"))
		}
	})
	t.Run("in mid-turn", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		s := open(t, h, turns(acpagent.Step{Plan: []string{"x"}}, acpagent.Step{Hang: "deaf"}))
		go func() {
			h.wait(func(e harness.Event) bool { _, is := e.(*harness.Activity); return is })
			_ = s.Close(context.Background())
		}()
		if _, err := s.Send(t.Context(), &harness.Prompt{Text: "x"}); err == nil {
			t.Error("the turn ended well")
		}
	})
}

func TestPromptContent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := open(t, h, turns(acpagent.Step{Say: "seen"}))
	image := trace.Content{Type: "image", Raw: trace.JSON(`{"type":"image","mimeType":"image/png","data":"AA=="}`)}
	if _, err := s.Send(t.Context(), &harness.Prompt{Content: []trace.Content{{Type: "audio", Raw: trace.JSON(`{}`)}}}); err == nil || !strings.Contains(err.Error(), "audio") {
		t.Errorf("audio: %v", err)
	}
	turn, err := s.Send(t.Context(), &harness.Prompt{Text: "look", Content: []trace.Content{image, {Type: "text", Text: "more"}}})
	if err != nil || turn.Text != "seen" {
		t.Fatal(turn, err)
	}
	if !strings.Contains(h.sent("session/prompt"), `"prompt":[{"text":"look","type":"text"},`+string(image.Raw)+`,{"text":"more","type":"text"}]`) {
		t.Error(h.sent("session/prompt"))
	}
}
