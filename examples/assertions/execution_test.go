package assertions

import (
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

// order places an order for a customer, and asks for two quotes on the way.
func order(t *testing.T, client *m3.Client) {
	t.Helper()
	for _, call := range []struct {
		tool string
		args m3.Args
	}{
		{"quote", m3.Args{"weight_kg": 2}},
		{"quote", m3.Args{"weight_kg": 200}},
		{"create_order", m3.Args{"customer_id": "cust-asha", "item": "parcel", "quantity": 2}},
	} {
		if _, err := client.CallTool(t.Context(), call.tool, call.args, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// What an execution did: which tools were called, with what, and how that ended.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	order(t, client)
	view := m3test.Finish(t, client)

	expect.That(t, view).ToolCalls([]string{"quote", "quote", "create_order"})
	expect.That(t, view).ToolCall("quote", expect.Succeeded(), expect.Times(1), expect.ResultStructured(m3.Args{"price": 7}, expect.Partial()))
	expect.That(t, view).ToolCall("quote", expect.ToolError(), expect.WithArguments(m3.Args{"weight_kg": 200}), expect.ResultTextContaining("at most 100"))
	expect.That(t, view).ToolCall("create_order", expect.WithArguments(m3.Args{"customer_id": "cust-.*"}, expect.Partial(), expect.Regex()))
	expect.That(t, view).NoToolCall("create_order", expect.Failed())
	expect.That(t, view).ToolCall(expect.AnyTool, expect.Latency(expect.Below(10*time.Second)), expect.Times(3))
	expect.That(t, view).ToolCall("quote", expect.Where(func(c trace.ToolCallEntry) bool { return c.Correlation == trace.WireOnly }), expect.MinTimes(2))
}

// What else is known of it.
func TestExecution(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, &m3.DirectOptions{Protocol: "2025-11-25"})
	order(t, client)
	view := m3test.Finish(t, client)

	expect.That(t, view).Completed()
	expect.That(t, view).Duration(expect.Below(time.Minute))
	expect.That(t, view).ProtocolVersion("2025-11-25")
	expect.That(t, view).Transport("stdio")
	expect.That(t, view).Capability("tools")
	expect.That(t, view).Completeness(trace.Complete)
	expect.That(t, view).NoFindings(trace.SeverityError)
	expect.That(t, view).Entries(trace.EntryInitialization, expect.Times(1))
	expect.That(t, view).Lifecycle(trace.KindExecutionCreated, trace.KindExecutionFinished)
}

// Several checks about one thing, reported as one failure.
func TestGroup(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	order(t, client)
	view := m3test.Finish(t, client)
	expect.Group(t, func(g expect.T) {
		expect.That(g, view).ToolCall("quote", expect.Times(2))
		expect.That(g, view).ToolCall("create_order", expect.Succeeded())
	})
}

// While the client is open there is no view. What is to come can be waited for: every new piece of evidence is another try.
func TestEventually(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	done := make(chan error, 1)
	go func() {
		_, err := client.CallTool(t.Context(), "slow", m3.Args{"steps": 3, "step_ms": 10}, nil)
		done <- err
	}()
	expect.Eventually(t.Context(), t, client, func(e *expect.Expectation) { e.ToolCall("slow", expect.Succeeded()) })
	if err := <-done; err != nil {
		t.Error(err)
	}
}
