package trace_test

import (
	"fmt"
	"time"

	"github.com/m3-go/m3/trace"
)

// A trace built by hand: one tool call over one connection.
func ExampleNewArena() {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	frame := func(kind trace.Kind, dir trace.Direction, method, line string, at time.Duration) *trace.Event {
		return &trace.Event{
			Kind: kind, RPCID: "1", Method: method, Server: "math", ConnectionID: "c1", Time: began.Add(at), Offset: at,
			Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"},
			Frame:  &trace.Frame{Direction: dir, Framing: trace.FramingLine, Bytes: []byte(line + "\n")},
		}
	}
	arena := trace.NewArena()
	arena.Append(&trace.Event{Kind: trace.KindExecutionCreated, Time: began, Payload: trace.JSON(`{"kind":"direct"}`)})
	arena.Append(frame(trace.KindMCPRequest, trace.ClientToServer, "tools/call",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":3}}}`, time.Millisecond))
	arena.Append(frame(trace.KindMCPResponse, trace.ServerToClient, "",
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"5"}]}}`, 3*time.Millisecond))
	arena.Append(&trace.Event{Kind: trace.KindExecutionFinished, Payload: trace.JSON(`{"outcome":"completed"}`)})

	view, err := trace.New("example", arena).View()
	if err != nil {
		fmt.Println(err)
		return
	}
	call := view.ToolCalls().At(0)
	fmt.Println(call.Tool.Value, call.Arguments.Value, call.ToolStatus, call.Result.Value.Text(), call.ServerLatency.Value)
	fmt.Println(call.Result.Value.StructuredContent.State)
	for _, e := range view.Timeline().All() {
		fmt.Println(e.Common().EntryID, e.Common().Status)
	}
	// Output:
	// add {"a":2,"b":3} success 5 2ms
	// not_emitted
	// lifecycle:0 completed
	// raw_message:1 completed
	// tool_call:1 completed
	// raw_message:2 completed
	// lifecycle:3 completed
}
