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
	for _, tool := range []string{"add", "echo"} {
		if _, err := client.CallTool(t.Context(), tool, m3.Args{"a": 2, "b": 3, "text": "five"}, nil); err != nil {
			t.Log(err) // the server may refuse the arguments that it does not know
		}
	}
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "five"}, nil); err != nil {
		t.Fatal(err)
	}
	view := m3test.Finish(t, client)

	calls := view.ToolCalls()
	echo := calls.At(calls.Len() - 1)
	result, ok := echo.Result.Get() // observed
	if !ok || result.Text() != "five" {
		t.Errorf("the result is %s: %q", echo.Result.State, result.Text())
	}
	if state := result.StructuredContent.State; state != trace.NotEmitted { // echo answers in text only
		t.Errorf("structured content is %s, want not_emitted", state)
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
	if usage := view.Summary().Usage; usage.State != trace.NotEmitted && usage.State != trace.Unsupported { // no model took part
		t.Errorf("usage is %s", usage.State)
	}
	if kind := view.Runtime().Kind; kind != "direct" {
		t.Errorf("runtime is %s", kind)
	}
}
