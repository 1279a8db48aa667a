package concurrent

import (
	"context"
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// One call is cancelled by its context, as soon as it shows progress. The server is told, and the connection stays usable.
func TestCancelOneCall(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := client.CallTool(ctx, "slow", m3.Args{"steps": 10_000, "step_ms": 5}, &m3.CallOptions{
		Progress: func(m3.Progress) { cancel() },
	})
	var cancelled *m3.CancelledError
	if !errors.As(err, &cancelled) || !errors.Is(err, context.Canceled) {
		t.Fatalf("the call ended with %v, want a *m3.CancelledError", err)
	}
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "still there"}, nil); err != nil {
		t.Fatal(err)
	}
	view := m3test.Finish(t, client)
	if got := view.ToolCalls().At(0).ToolStatus; got != trace.ToolCancelled {
		t.Errorf("the cancelled call reads %s in the trace", got)
	}
	expect.That(t, view).ToolCall("slow", expect.Failed())
	expect.That(t, view).ToolCall("echo", expect.Succeeded(), expect.ResultText("still there"))
}
