package realtest

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness/opencode"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// TestRealOpenCodeKit: the whole way: kit, server on stdio behind its relay, the real OpenCode, a scripted model. Both tapes tell the same calls.
func TestRealOpenCodeKit(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := model.Script{
		model.Think("add them").Call("calc:get_sum_of", args(`{"a":2,"b":3}`)),
		model.Call("calc:fail", args(`{}`)).When(model.Result("plain 5")),
		model.Say("It is 5.").When(model.Result("deliberate")),
		model.Say("Still 5."),
	}
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	agents, err := kit.Agents([]m3.Selection{{Harness: opencode.New(opencode.Config{Executable: openCodeBinary(t)}), Models: []m3.Model{model.Scripted("scripted", script)}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	server := m3.StdioServer{Name: "calc", Command: exe, Env: map[string]string{calcVariable: "calc", "GORACE": "atexit_sleep_ms=0"}}
	session, err := agents[0].Session(t.Context(), &m3.SessionOptions{Server: server, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := session.Send(t.Context(), "what is 2 and 3", nil)
	if err != nil || turn.Text() != "It is 5." || turn.StopReason != "stop" {
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
	checkRuntime(t, view)
	frames := 0
	for _, ev := range result.Trace.Events() {
		if ev.Kind == trace.KindAgentFrame {
			frames++
		}
		if ev.Frame != nil && bytes.Contains(ev.Frame.Bytes, []byte("OPENCODE_SERVER_PASSWORD")) {
			t.Errorf("a frame has the agent's environment: %.200s", ev.Frame.Bytes)
		}
	}
	if frames < 50 {
		t.Errorf("%d frames of the agent", frames)
	}
}

func checkRuntime(t *testing.T, view trace.View) {
	t.Helper()
	r := view.Runtime()
	if r.Kind != "opencode" {
		t.Errorf("the runtime is %s", r.Kind)
	}
	for name, want := range map[string]string{"session_id": `"ses_`, "provider_id": `"m3"`, "model_id": `"scripted"`, "finish_reason": `"stop"`, "usage": `{`} {
		if got := string(r.Fields[name].Value); !strings.HasPrefix(got, want) {
			t.Errorf("the runtime's %s is %s, want %s…", name, got, want)
		}
	}
}
