package realtest

import (
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// realAgent is a real agent under a script, in a kit of its own, and the server that it is given.
func realAgent(t *testing.T, driver harness.Driver, script model.Script) (*m3.Agent, m3.Server) {
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
	agents, err := kit.Agents([]m3.Selection{{Harness: driver, Models: []m3.Model{model.Scripted("scripted", script)}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return agents[0], m3.StdioServer{Name: "calc", Command: exe, Env: map[string]string{calcVariable: "calc", "GORACE": "atexit_sleep_ms=0"}}
}

// twoTurns has an agent make a call that succeeds and one that does not, and then say something more. What passed on the wire and what the agent reported must be the same calls.
func twoTurns(t *testing.T, driver harness.Driver, stop string) (*m3.Result, trace.View) {
	t.Helper()
	agent, server := realAgent(t, driver, model.Script{
		model.Think("add them").Call("calc:get_sum_of", args(`{"a":2,"b":3}`)),
		model.Call("calc:fail", args(`{}`)).When(model.Result("plain 5")),
		model.Say("It is 5.").When(model.Result("deliberate")),
		model.Say("Still 5."),
	})
	session, err := agent.Session(t.Context(), &m3.SessionOptions{Server: server, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := session.Send(t.Context(), "what is 2 and 3", nil)
	if err != nil || turn.Text() != "It is 5." || turn.StopReason != stop {
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
		text   string
	}{{"get_sum_of", trace.ToolSuccess, "plain 5"}, {"fail", trace.ToolError, "deliberate tool error"}}
	calls := view.ForTurn(turn).ToolCalls()
	if calls.Len() != len(want) {
		t.Fatalf("%d calls", calls.Len())
	}
	for i, w := range want {
		c := calls.At(i)
		if c.Correlation != trace.Correlated || c.Tool.Value != w.tool || c.ToolStatus != w.status || c.Result.Value.Text() != w.text || len(c.Conflicts) > 0 || c.Reported.Value.Tool.Value != w.tool {
			t.Errorf("call %d is %s, %s %s %q, conflicts %+v, reported %+v", i, c.Correlation, c.Tool.Value, c.ToolStatus, c.Result.Value.Text(), c.Conflicts, c.Reported.Value)
		}
	}
	if n := view.Provider().Len(); n < 4 {
		t.Errorf("%d exchanges with the model, want one for each step", n)
	}
	return result, view
}
