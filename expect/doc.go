// Package expect states what a test expects of an execution, from its evidence:
//
//	view := m3test.Finish(t, client)
//	expect.That(t, view).ToolCall("quote", expect.Succeeded(), expect.Latency(expect.Below(2*time.Second)))
//
// [That] reports a failure with t.Errorf and goes on, [Require] stops the test. Every matcher also returns whether it held.
//
// A matcher has three answers. It held; it did not; or the evidence cannot tell, because what it asks about was redacted,
// cut off or never captured. The third is a failure too, and says so: a value that is not there is never taken for equal, and
// never called different.
//
// Subjects are finished: a [trace.View], a closed [*m3.Client], or a [*m3.ToolCallResult]. Calls count as they passed on the wire, and those
// that m3 made for itself (schema validation) are left out.
package expect
