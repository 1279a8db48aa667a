package realtest

import (
	"errors"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/trace"
)

// acpOpenCode is the driver of the real `opencode acp`.
func acpOpenCode(t *testing.T) harness.Driver {
	t.Helper()
	cfg := acp.OpenCode()
	cfg.Command = openCodeBinary(t)
	return acp.New(cfg)
}

// TestRealACPOpenCode: two turns of the real `opencode acp`.
func TestRealACPOpenCode(t *testing.T) {
	t.Parallel()
	if _, view := twoTurns(t, acpOpenCode(t), "end_turn"); view.Runtime().Kind != "acp" {
		t.Errorf("the runtime is %s", view.Runtime().Kind)
	}
}

// TestRealACPOpenCodeTools: a tool that is not allowed is not offered to the model, and a call of it by its name does not reach the server.
func TestRealACPOpenCodeTools(t *testing.T) {
	t.Parallel()
	agent, server := realAgent(t, acpOpenCode(t), model.Script{
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
	agent, server := realAgent(t, acpOpenCode(t), model.Script{model.Fault(model.Failure{Status: 401})})
	result, err := agent.Run(t.Context(), "what is 2 and 3", &m3.RunOptions{Server: server, Timeout: 2 * time.Minute})
	if failure, ok := errors.AsType[*harness.Error](err); !ok || result == nil {
		t.Fatalf("%+v, %v", failure, err)
	}
	if result.Outcome != trace.OutcomeFailed || result.Failure == nil || result.Failure.Blame != harness.BlameProvider {
		t.Errorf("%s, %+v", result.Outcome, result.Failure)
	}
}
