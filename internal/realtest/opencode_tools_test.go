package realtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// TestRealOpenCodeTools: exactly the tools that the test allows are offered to the model, by the names that OpenCode makes of them.
func TestRealOpenCodeTools(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tools harness.Tools
		want  []string
	}{
		"all":  {harness.Tools{All: true}, []string{"calc_add", "calc_big", "calc_die", "calc_echo", "calc_empty", "calc_env", "calc_fail", "calc_get_sum", "calc_get_sum_of", "calc_picture", "calc_slow"}},
		"some": {harness.Tools{Allowed: map[string][]string{"calc": {"add", "get.sum"}}}, []string{"calc_add", "calc_get_sum"}},
		"none": {harness.Tools{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOC(t, model.Script{model.Say("Hello.")})
			o.spec.Tools, o.spec.AskPermission = tc.tools, name == "some"
			o.start()
			o.send("hello")
			if got := offered(t, o.requests()[0]); !slices.Equal(got, tc.want) {
				t.Errorf("offered %v, want %v", got, tc.want)
			}
			o.followed()
		})
	}
}

// TestRealOpenCodeTurnTools: a turn's own restriction holds for that turn; what is not offered does not reach the server.
func TestRealOpenCodeTurnTools(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.CallRaw("calc_fail", args(`{}`)).When(model.Text("one")),
		model.Say("No."),
		model.Call("calc:add", args(`{"a":1,"b":1}`)).When(model.Text("two")),
		model.Say("Yes."),
	})
	o.spec.Tools = harness.Tools{Allowed: map[string][]string{"calc": {"add", "fail", "get.sum"}}}
	o.spec.AskPermission = true
	o.start()
	if _, err := o.try(&harness.Prompt{Text: "one", Tools: &harness.Tools{Allowed: map[string][]string{"calc": {"get.sum", "slow"}}}}); err != nil {
		t.Fatal(err)
	}
	o.send("two")
	reqs := o.requests()
	if got := offered(t, reqs[0]); !slices.Equal(got, []string{"calc_get_sum"}) {
		t.Errorf("the restricted turn offers %v", got)
	}
	if got := offered(t, reqs[2]); !slices.Equal(got, []string{"calc_add", "calc_fail", "calc_get_sum"}) {
		t.Errorf("the turn after offers %v", got)
	}
	if log := o.calc.log(); !slices.Equal(log, []string{"add"}) {
		t.Errorf("the server was called for %v", log)
	}
	if asked := o.host.Asked(); len(asked) != 1 || asked[0].Tool != "add" { // a restriction does not take the question away
		t.Errorf("asked %+v", asked)
	}
	o.followed()
}

// TestRealOpenCodeNames: servers a and a_b with tools b_c and c: four names that are three for OpenCode. Each server keeps its own tools.
func TestRealOpenCodeNames(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	other := newCalc()
	calcTool(o.calc, "b_get_sum_of", func(context.Context, calcArgs) (string, error) { return "from a", nil })
	o.spec.Servers = []harness.Endpoint{{Name: "a", URL: o.spec.Servers[0].URL}, {Name: "a_b", URL: other.serve(t)}}
	o.spec.Tools = harness.Tools{Allowed: map[string][]string{"a": {"b_get_sum_of"}, "a_b": {"get_sum_of", "get.sum"}}}
	o.script(model.Script{
		model.CallRaw("a_b_get_sum_of", args(`{"a":1,"b":1}`)),
		model.CallRaw("a-b_get_sum_of", args(`{"a":1,"b":2}`)).When(model.Result("from a")),
		model.CallRaw("a-b_get_sum", args(`{"a":1,"b":3}`)).When(model.Result("plain 3")),
		model.Say("Done.").When(model.Result("dotted 4")),
	})
	o.start()
	o.send("go")
	o.followed()
	got := ""
	for _, c := range all[*harness.ToolCall](o.host.Events()) {
		got += c.Server.Value + ":" + c.Tool.Value + " "
	}
	if want := "a:b_get_sum_of a_b:get_sum_of a_b:get.sum "; got != want {
		t.Errorf("the calls are %q, want %q", got, want)
	}
	if a, b := o.calc.log(), other.log(); !slices.Equal(a, []string{"b_get_sum_of"}) || !slices.Equal(b, []string{"get_sum_of", "get.sum"}) {
		t.Errorf("a was called for %v, a_b for %v", a, b)
	}
}

// TestRealOpenCodePermission: OpenCode asks before a call, the answer decides, and a refusal ends the turn.
func TestRealOpenCodePermission(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{
		model.Call("calc:get.sum", args(`{"a":1,"b":2}`)).When(model.Text("allow")),
		model.Say("3."),
		model.Call("calc:add", args(`{"a":1,"b":2}`)).When(model.Text("refuse")),
		model.Calls(model.Use{Tool: "calc:add", Args: args(`{"a":5,"b":5}`)}, model.Use{Tool: "calc:fail", Args: args(`{}`)}).When(model.Text("both")),
		model.Say("Still here.").When(model.Text("after")),
	})
	o.spec.AskPermission = true
	o.spec.Tools = harness.Tools{Allowed: map[string][]string{"calc": {"get.sum", "add", "fail"}}}
	o.host.Answer = func(_ context.Context, r *harness.PermissionRequest) harness.PermissionAnswer {
		if r.Tool == "get.sum" {
			return harness.Allow
		}
		return harness.Deny
	}
	o.start()
	if turn := o.send("allow"); turn.Text != "3." {
		t.Errorf("the turn is %+v", turn)
	}
	n := len(o.host.Events())
	if e := o.fails("refuse", harness.BlamePolicy, "permission_refused"); e.Details["permission"] != "calc_add" {
		t.Errorf("the details are %v", e.Details)
	}
	if told := story(o.since(n)); !strings.Contains(told, "calls calc_add") || !strings.Contains(told, "gets tool_error") {
		t.Errorf("the events tell\n%s", told)
	}
	o.fails("both", harness.BlamePolicy, "permission_refused")
	if turn := o.send("after"); turn.Text != "Still here." {
		t.Errorf("the turn is %+v", turn)
	}
	first := o.host.Asked()[0]
	if first.Kind != "tool" || first.Server != "calc" || first.Tool != "get.sum" || first.CallID == "" || !json.Valid(first.Raw) {
		t.Errorf("the question is %+v", first)
	}
	if log := o.calc.log(); !slices.Equal(log, []string{"get.sum"}) {
		t.Errorf("the server was called for %v", log)
	}
	o.followed()
}

// TestRealOpenCodeAskedAndCancelled: a turn that waits for an answer can be cancelled.
func TestRealOpenCodeAskedAndCancelled(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{model.Call("calc:add", args(`{"a":1,"b":2}`)), model.Say("Still here.")})
	o.spec.AskPermission = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.host.Answer = func(asking context.Context, _ *harness.PermissionRequest) harness.PermissionAnswer {
		cancel()
		<-asking.Done()
		return harness.Cancelled
	}
	o.start()
	if turn, err := o.session.Send(ctx, &harness.Prompt{Text: "add"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", turn, err)
	}
	if turn := o.send("again"); turn.Text != "Still here." {
		t.Errorf("the turn is %+v", turn)
	}
	if log := o.calc.log(); len(log) != 0 {
		t.Errorf("the server was called for %v", log)
	}
	o.followed()
}

// TestRealOpenCodeEqualCalls: OpenCode's own question after three equal calls in a row is not asked: they are the test's business.
func TestRealOpenCodeEqualCalls(t *testing.T) {
	t.Parallel()
	use := model.Use{Tool: "calc:add", Args: args(`{"a":1,"b":2}`)}
	o := newOC(t, model.Script{model.Calls(use, use, use, use, use), model.Say("Enough.")})
	o.start()
	if turn := o.send("add"); turn.Text != "Enough." {
		t.Errorf("the turn is %+v", turn)
	}
	if log := o.calc.log(); len(log) != 5 {
		t.Errorf("the server was called for %v", log)
	}
	o.followed()
}

// TestRealOpenCodeResults: large, empty, and mixed results as OpenCode tells them.
func TestRealOpenCodeResults(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("größe 🙂 \\ \" \n", 60000) // 1 MB
	arg, _ := json.Marshal(map[string]string{"text": text})
	o := newOC(t, model.Script{
		model.Call("calc:empty", args(`{}`)), model.Call("calc:picture", args(`{}`)), model.Call("calc:big", args(`{"n":400000}`)), model.Call("calc:echo", trace.JSON(arg)), model.Say("Seen."),
	})
	o.start()
	o.send("go")
	o.followed()
	results := all[*harness.ToolResult](o.host.Events())
	if len(results) != 4 {
		t.Fatalf("%d results", len(results))
	}
	empty, picture, big := results[0], results[1], results[2]
	if empty.Status != trace.ToolSuccess || !empty.Result.OK() || len(empty.Result.Value.Content) != 0 {
		t.Errorf("the empty result is %+v", empty)
	}
	if c := picture.Result.Value.Content; len(c) != 2 || c[0].Text != "a dot" || c[1].Type != "image" || !strings.Contains(string(c[1].Raw), "image/png") {
		t.Errorf("the picture is %+v", picture.Result)
	}
	if big.Status != trace.ToolSuccess || big.Result.State != trace.Truncated {
		t.Errorf("the big result is %s, %s with %d bytes", big.Status, big.Result.State, len(big.Result.Value.Text()))
	}
	calls := all[*harness.ToolCall](o.host.Events())
	var told struct{ Text string }
	if err := json.Unmarshal(calls[3].Arguments.Value, &told); err != nil || told.Text != text {
		t.Errorf("the arguments of 1 MB came as %d bytes, %v", len(told.Text), err)
	}
}

// TestRealOpenCodeImage: an image in the message reaches the model.
func TestRealOpenCodeImage(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{model.Say("A dot.").When(model.Text("what is this"))})
	o.start()
	raw, _ := json.Marshal(map[string]any{"type": "image", "mimeType": "image/png", "data": onePixel})
	turn, err := o.try(&harness.Prompt{Text: "what is this", Content: []trace.Content{{Type: "image", Raw: raw}}})
	if err != nil || turn.Text != "A dot." {
		t.Fatalf("%+v, %v", turn, err)
	}
	if req := string(o.requests()[0].Request); !strings.Contains(req, "data:image/png;base64,iVBOR") {
		t.Errorf("the request has no image:\n%.3000s", req)
	}
	o.followed()
}

// TestRealOpenCodeServerDies: a server that ends in mid-session takes its tools with it, and OpenCode says nothing of that in the turn. It is the server's fault.
func TestRealOpenCodeServerDies(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	o.stdio("calc")
	o.script(model.Script{model.Call("calc:die", args(`{}`)), model.Say("It went quiet.")})
	o.start()
	o.fails("kill it", harness.BlameServer, "server_failed")
	o.fails("again", harness.BlameServer, "server_failed")
	o.followed()
	o.close()
	checkEnd(t, o)
}

// TestRealOpenCodeCrash: the process is killed in mid-turn, and between two.
func TestRealOpenCodeCrash(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	o.stdio("calc")
	o.script(model.Script{model.Call("calc:slow", args(`{"ms":60000}`))})
	o.host.OnEvent = func(e harness.Event) {
		if _, ok := e.(*harness.ToolCall); ok {
			_ = syscall.Kill(o.host.Processes()[0].PID(), syscall.SIGKILL)
		}
	}
	o.start()
	if e := o.fails("slowly", harness.BlameAgent, "agent_crashed"); e.Details["signal"] == nil {
		t.Errorf("the details are %v: %s", e.Details, e.Message)
	}
	o.fails("again", harness.BlameAgent, "agent_crashed")
	o.close()
	checkGone(t, o)
}

// TestRealOpenCodeClosed: closing in mid-turn ends it; a deadline of the opening leaves nothing.
func TestRealOpenCodeClosed(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{model.Call("calc:slow", args(`{"ms":60000}`))})
	o.start()
	go func() { <-o.calc.started; o.close() }()
	o.fails("slowly", harness.BlameTest, "session_closed")
	o.close() // waits for the other
	checkEnd(t, o)

	o = newOC(t, model.Script{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s, err := opencode.New(o.cfg).Open(ctx, o.spec, o.host); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v", s, err)
	}
	checkGone(t, o)
}

// TestRealOpenCodeConfiguration: what OpenCode refuses in its configuration is not the agent's fault.
func TestRealOpenCodeConfiguration(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{})
	o.cfg.Options = map[string]any{"compaction": "no object"}
	var e *harness.Error
	if err := o.open(); !errors.As(err, &e) || e.Blame != harness.BlameHarness || e.Code != "configuration_refused" {
		t.Fatalf("%v", err)
	}
}

// TestRealOpenCodeToolTimeout: OpenCode waits as long for a server as the test says.
func TestRealOpenCodeToolTimeout(t *testing.T) {
	t.Parallel()
	o := newOC(t, model.Script{model.Call("calc:slow", args(`{"ms":60000}`)), model.Say("Too slow.").When(model.Result("timed out"))})
	o.cfg.ToolTimeout = 1500 * time.Millisecond
	o.start()
	o.send("slowly")
	o.followed()
}
