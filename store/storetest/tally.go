package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// listing makes the frames of a tools/list whose answer is that large.
func (t *Tape) listing(size int) []store.Record {
	id := trace.RPCID(fmt.Sprint(len(t.Events)))
	var recs []store.Record
	for _, body := range []string{`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"tools":[],"x":"` + fmt.Sprintf("%0*d", size, 0) + `"}}`} {
		kind, direction := trace.KindMCPRequest, trace.ClientToServer
		if len(recs) > 0 {
			kind, direction = trace.KindMCPResponse, trace.ServerToClient
		}
		recs = append(recs, t.add(trace.Event{Kind: kind, Phase: trace.PhaseMCPCall, Server: "orders", ConnectionID: "c1", RPCID: id, Method: "tools/list",
			Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"}, Frame: frame(direction, []byte(body))})...)
	}
	return recs
}

// busy is an execution with something of everything that is counted.
func busy(run, id string, second int, end bool) (*Tape, []store.Record) {
	tape := NewTape(run, id)
	tape.Created = at(second)
	recs := append([]store.Record{tape.Open()}, tape.Begin()...)
	recs = append(recs, tape.listing(BlobBytes)...)
	for _, result := range []string{"success", "tool_error", "protocol_error", "success"} {
		recs = append(recs, tape.Call("quote", result, time.Millisecond)...)
	}
	if end {
		recs = append(recs, tape.End(trace.OutcomeCompleted, "")...)
	}
	return tape, recs
}

// testTallies: what the executions of a run have is counted without reading them.
func testTallies(t *testing.T, s *Subject) {
	_, done := busy("r", "done", 2, true)
	_, open := busy("r", "open", 1, false)
	_, other := busy("other", "other", 1, true)
	bare := NewTape("r", "bare")
	appendAll(t, s.Store, Evaluation("r", "0", "done", 1))
	appendAll(t, s.Store, append(append(append(done, open...), other...), bare.Open())...)
	again, failed, foreign := Evaluation("r", "1", "done", 2), Judged("r", "2", "done", 3), Evaluation("other", "3", "done", 4)
	appendAll(t, s.Store, again, failed, foreign, Evaluation("r", "4", "", 5), Evaluation("r", "5", "nowhere", 6))
	ends := map[trace.ExecutionID]int{} // reopening ends what its process left open
	s.reading(t, func(t *testing.T, r store.Reader) {
		for _, info := range must[[]store.ExecutionInfo](t)(r.Executions(context.Background(), nil)) {
			if info.Finished != nil {
				ends[info.ID] = 1
			}
		}
		counts := map[trace.Kind]int{trace.KindExecutionCreated: 1, trace.KindMCPRequest: 5, trace.KindMCPResponse: 4, trace.KindMCPError: 1}
		want := map[trace.ExecutionID]store.Tally{
			"done": {Events: ended(counts, 1), Evaluations: map[eval.Status]int{eval.Passed: 2, eval.Failed: 1}, ToolCalls: eval.ToolCalls{Total: 4, Successful: 2, Failed: 2}, ProtocolErrors: 1},
			"open": {Events: ended(counts, ends["open"])},
			"bare": {Events: ended(nil, ends["bare"])},
		}
		if ends["open"] > 0 {
			open := want["open"]
			open.ToolCalls, open.ProtocolErrors = want["done"].ToolCalls, 1
			want["open"] = open
		}
		diff(t, "Tally", must[map[trace.ExecutionID]store.Tally](t)(r.Tally(context.Background(), "r")), want)
		diff(t, "Tally of no run", must[map[trace.ExecutionID]store.Tally](t)(r.Tally(context.Background(), "none")), map[trace.ExecutionID]store.Tally{})
	})
}

// ended adds the end to counts.
func ended(counts map[trace.Kind]int, n int) map[trace.Kind]int {
	out := map[trace.Kind]int{}
	for k, v := range counts {
		out[k] = v
	}
	if n > 0 {
		out[trace.KindExecutionFinished] = n
	}
	return out
}

// testSelectedEvents: events are selected by run, execution, kind and method, and have their bytes.
func testSelectedEvents(t *testing.T, s *Subject) {
	late, lateRecs := busy("r", "late", 9, true)
	early, earlyRecs := busy("r", "early", 1, true)
	_, other := busy("other", "other", 5, true)
	appendAll(t, s.Store, append(append(lateRecs, earlyRecs...), other...)...)
	s.reading(t, func(t *testing.T, r store.Reader) {
		ctx := context.Background()
		for _, tt := range []struct {
			name string
			q    store.EventQuery
			want []trace.Event
		}{
			{"kinds of a run", store.EventQuery{RunID: "r", Kinds: []trace.Kind{trace.KindExecutionFinished, trace.KindExecutionCreated}},
				[]trace.Event{early.Events[0], early.Events[11], late.Events[0], late.Events[11]}},
			{"method", store.EventQuery{RunID: "r", Method: "tools/list"}, append(append([]trace.Event{}, early.Events[1:3]...), late.Events[1:3]...)},
			{"an execution", store.EventQuery{Execution: "late"}, late.Events},
			{"an execution of another run", store.EventQuery{RunID: "r", Execution: "other"}, nil},
			{"kind and method", store.EventQuery{Execution: "early", Kinds: []trace.Kind{trace.KindMCPError}, Method: "tools/call"}, early.Events[8:9]},
		} {
			var got []trace.Event
			if err := r.Events(ctx, &tt.q, func(ev *trace.Event) error {
				got = append(got, *ev)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			diff(t, tt.name, got, tt.want)
		}
		stop := fmt.Errorf("enough")
		n := 0
		err := r.Events(ctx, &store.EventQuery{RunID: "r"}, func(*trace.Event) error { n++; return stop })
		if n != 1 {
			t.Errorf("%d events after the error", n)
		}
		wantErr(t, "Events", err, stop)
	})
}
