// Package traceview shows the typed view of a trace: what was there, what was not, and why not.
package traceview

import (
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// Every value in a view is an observation: with a state, and a reason where one is known. A value that is missing is never just a
// zero.
func TestStatesOfADirectExecution(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "five"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(t.Context(), "no such tool", nil, nil); err == nil {
		t.Error("the server has a tool that it does not have")
	}
	view := m3test.Finish(t, client)

	echo, unknown := view.ToolCalls().At(0), view.ToolCalls().At(1)
	result, ok := echo.Result.Get() // observed
	if !ok || result.Text() != "five" {
		t.Errorf("the result is %s: %q", echo.Result.State, result.Text())
	}
	if state := result.StructuredContent.State; state != trace.NotEmitted { // echo answers in text only
		t.Errorf("structured content is %s, want not_emitted", state)
	}
	if answer := unknown.Result.Value; unknown.ToolStatus != trace.ToolProtocolError || !answer.Error.OK() { // a JSON-RPC error, kept as it was
		t.Errorf("the unknown tool: %s, error %s", unknown.ToolStatus, answer.Error.State)
	}
	if state := unknown.Arguments.State; state != trace.NotEmitted { // none were sent, which is not the same as none kept
		t.Errorf("the arguments of the call without any are %s", state)
	}
	if echo.Reported.OK() { // there is no agent that could have reported anything
		t.Errorf("a direct call was reported by somebody: %+v", echo.Reported)
	}
	if echo.Correlation != trace.WireOnly {
		t.Errorf("correlation is %s, want wire_only", echo.Correlation)
	}
	// What the transport was told is observed; what an agent would have been given instead cannot exist here.
	connected := view.Transports().At(0)
	if !connected.Configured.OK() || connected.Instrumented.State != trace.Unsupported || connected.Instrumented.Reason != trace.ReasonTransportNotApplicable {
		t.Errorf("configured is %s, instrumented %s (%s)", connected.Configured.State, connected.Instrumented.State, connected.Instrumented.Reason)
	}
	if usage := view.Summary().Usage; usage.State != trace.Unsupported { // no model takes part in a direct execution
		t.Errorf("usage is %s", usage.State)
	}
	if kind := view.Runtime().Kind; kind != "direct" {
		t.Errorf("runtime is %s", kind)
	}
}
