package realtest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// acpOpenCode is an agent: the real `opencode acp` under a script, and the server that it is given.
func acpOpenCode(t *testing.T, script model.Script) (*m3.Agent, m3.Server) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kit.Close() })
	cfg := acp.OpenCode()
	cfg.Command = openCodeBinary(t)
	agents, err := kit.Agents([]m3.Selection{{Harness: acp.New(cfg), Models: []m3.Model{model.Scripted("scripted", script)}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return agents[0], m3.StdioServer{Name: "calc", Command: exe, Env: map[string]string{calcVariable: "calc", "GORACE": "atexit_sleep_ms=0"}}
}

// TestRealACPOpenCode: two turns of the real `opencode acp`: what passed on the wire and what the agent reported are the same calls.
func TestRealACPOpenCode(t *testing.T) {
	t.Parallel()
	agent, server := acpOpenCode(t, model.Script{
		model.Call("calc:get_sum_of", args(`{"a":2,"b":3}`)),
		model.Call("calc:fail", args(`{}`)).When(model.Result("plain 5")),
		model.Say("It is 5.").When(model.Result("deliberate")),
		model.Say("Still 5."),
	})
	session, err := agent.Session(t.Context(), &m3.SessionOptions{Server: server, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := session.Send(t.Context(), "what is 2 and 3", nil)
	if err != nil || turn.Text() != "It is 5." || turn.StopReason != "end_turn" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if turn, err := session.Send(t.Context(), "sure?", nil); err != nil || turn.Text() != "Still 5." {
		t.Fatalf("%+v, %v", turn, err)
	}
	result, err := session.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	view := result.View()
	if view.Completeness() != trace.Complete || len(view.Limitations()) > 0 {
		t.Errorf("the trace is %s: %v", view.Completeness(), view.Limitations())
	}
	want := []struct {
		tool   string
		status trace.ToolCallStatus
	}{{"get_sum_of", trace.ToolSuccess}, {"fail", trace.ToolError}}
	calls := view.ForTurn(turn).ToolCalls()
	if calls.Len() != len(want) {
		t.Fatalf("%d calls", calls.Len())
	}
	for i, w := range want {
		c := calls.At(i)
		if c.Correlation != trace.Correlated || c.Tool.Value != w.tool || c.ToolStatus != w.status || len(c.Conflicts) > 0 || c.Reported.Value.Tool.Value != w.tool {
			t.Errorf("call %d is %s, %s %s, conflicts %+v, reported %+v", i, c.Correlation, c.Tool.Value, c.ToolStatus, c.Conflicts, c.Reported.Value)
		}
	}
	if r := view.Runtime(); r.Kind != "acp" {
		t.Errorf("the runtime is %s", r.Kind)
	}
	if n := view.Provider().Len(); n < 4 {
		t.Errorf("%d exchanges with the model, want one for each step", n)
	}
}

// TestRealACPOpenCodeTools: a tool that is not allowed is not offered to the model, and a call of it by its name does not reach the server.
func TestRealACPOpenCodeTools(t *testing.T) {
	t.Parallel()
	agent, server := acpOpenCode(t, model.Script{
		model.Call("calc:get_sum_of", args(`{"a":2,"b":3}`)),
		model.CallRaw("calc_fail", args(`{}`)).When(model.Result("plain 5")), // guessed: it was not offered
		model.Say("It is 5."),
	})
	result, err := agent.Run(t.Context(), "what is 2 and 3", &m3.RunOptions{Server: server, Tools: m3.OnlyTools("calc:get_sum_of"), Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if result.Text() != "It is 5." {
		t.Errorf("%s %v: %q", result.Outcome, result.Failure, result.Text())
	}
	view := result.View()
	reached := 0
	for _, c := range view.ToolCalls().All() {
		if c.Wire.OK() {
			reached++
			if c.Tool.Value != "get_sum_of" {
				t.Errorf("%s reached the server", c.Tool.Value)
			}
		}
	}
	if reached != 1 {
		t.Errorf("%d calls reached the server", reached)
	}
	filtered := 0
	for _, ev := range result.Trace.Events() {
		if ev.Kind == trace.KindMCPFiltered {
			filtered++
		}
	}
	if filtered == 0 {
		t.Error("the list reached the agent as the server gave it")
	}
}

// TestRealACPOpenCodeProvider: what the provider refuses is no answer, and not the task's failure.
func TestRealACPOpenCodeProvider(t *testing.T) {
	t.Parallel()
	agent, server := acpOpenCode(t, model.Script{model.Fault(model.Failure{Status: 401})})
	result, err := agent.Run(t.Context(), "what is 2 and 3", &m3.RunOptions{Server: server, Timeout: 2 * time.Minute})
	if failure, ok := errors.AsType[*harness.Error](err); !ok || result == nil {
		t.Fatalf("%+v, %v", failure, err)
	}
	if result.Outcome != trace.OutcomeFailed || result.Failure == nil || result.Failure.Blame != harness.BlameProvider {
		t.Errorf("%s, %+v", result.Outcome, result.Failure)
	}
}
