// Package expect states what a test expects of results and executions, and judges it by the evidence:
//
//	quote, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
//	expect.Require(t, err).Not().Error()
//	expect.That(t, quote).StructuredContent(m3.Args{"price": 7}, expect.Partial())
//
//	view := m3test.Finish(t, client)
//	expect.That(t, view).ToolCall("quote", expect.Succeeded(), expect.Latency(expect.Below(2*time.Second)))
//
// [That] reports a failure with t.Errorf and goes on, [Require] stops the test, [Group] reports several as one, [Eventually] waits. Every matcher
// also returns whether it held.
//
// # Subjects
//
// A subject is finished: a [trace.View], a closed [*m3.Client] or any other [Subject] whose execution has ended; the result of a call (a tool's, a
// prompt's, a resource's, a completion's); a list ([*m3.Page], []m3.ToolInfo and its like); an error, also a nil one; a text; a map or a slice. While an
// execution is open every matcher fails, also one that would hold already: client.Snapshot() is the view of what there is so far, asked for by name.
//
// # Answers
//
// A matcher held; it did not; the evidence cannot tell, because what it asks about was redacted, cut off or never captured; or it was asked wrongly.
// All but the first fail the test, and say which it was: a value that is not there is never taken for equal, and never called different. [Expectation.Not] turns
// the first two over.
//
// Calls count as they passed on the wire, unless [Reported] or [Any] says otherwise, and those that m3 made for itself (schema validation) are
// left out.
//
// docs/matchers.md has every matcher and option, with an example.
package expect
