// Package trace is what an execution leaves behind: every event in order, and the typed view that tests read.
//
// It is for everybody who asserts on an execution, and for those who build or store traces. It is pure data and one
// projection: nothing in it does any I/O of its own.
//
//	recorded as it happens                        made once, when the execution has ended
//	──────────────────────                        ──────────────────────────────────────
//	0 execution.created      ┐                    ┌ lifecycle:0
//	1 process.started        │                    │ process:1        (with its exit, event 6)
//	2 mcp.request   ──► bytes│  Trace ──► View ──►│ raw_message:2    the frame, and a reference to its bytes
//	3 mcp.response  ◄── bytes│                    │ tool_call:2      request and answer, joined
//	4 process.stderr         │                    │ raw_message:3    (its parent is tool_call:2)
//	…                        │                    │ …
//	9 execution.finished     ┘                    └ lifecycle:9
//
// # Reading a view
//
// A [View] has one [View.Timeline], and one list for each kind of entry. Lists decode an entry when it is asked for, so a view of
// a hundred thousand calls is a few megabytes.
//
//	view, err := tr.View()                       // trace.ErrNotFinalized: close the client first
//	for _, call := range view.ToolCalls().All() {
//		fmt.Println(call.Tool.Value, call.ToolStatus, call.Result.Value.Text())
//	}
//	slow := view.ForServer("shipping").ForTurn(turn)   // filters give views
//
// What may be missing is an [Observation]: look at its State, and at its Reason when there is one, before its Value. A value that
// was redacted reads [Redacted] on a reopened view, while the process that recorded it still compares the real one.
//
// # What a projection does, and does not
//
// A request and its answer are joined by connection, direction and id, the id as it stood on the wire. An answer belongs to the turn
// of its request. A call that ended otherwise first (timed out, cancelled) keeps that status; an answer after it is listed as a
// frame whose parent is the call, and the call's Limitations say late_response. Where two open requests had the same id, the
// answers are nobody's: the calls are [Ambiguous]. A call that a server paused to ask for input is one entry with its Attempts, and
// each thing asked for is an [ElicitationEntry].
//
// Nothing is made up. Bytes that were not kept make a field [Unavailable] or [Truncated] and the trace [Partial]. An agent's
// payload of the wrong type, a negative count, an id that is none, or an observation that contradicts itself is
// [Unavailable] for [ReasonMalformedSource].
//
// # Building traces
//
// An [Arena] is a [Log] in memory for tests and importers. A frame of a message has its Kind, RPCID and Method beside its bytes; a
// message event without a frame is a part of a batch, with the message as its Payload. Every other event's Payload holds the
// fields of its entry under their JSON names, and besides them:
//
//   - tool.call_requested and tool.result_received: call_id, which joins them
//   - permission, sampling, elicitation, filesystem and terminal events: interaction_id, or the event's RPCID, which joins a
//     request with its response
//   - lifecycle events of an agent: runtime, an object of observations that becomes [Runtime] Fields
//   - any of them: status, which becomes the entry's
//
// A frame of m3's own may have a Payload too: a note of what m3 knows and the wire does not say. On the answer to elicitation/create it is
// {"elicitation":{"call":3,"round":2,"request_key":"address"}}, call being the id of the request that the server was at; on a call made again after the
// error -32042, {"continues":{"call":3,"answers":[{"request_key":"pay","action":"accept"}]}}, in the order of the error's URLs.
package trace
