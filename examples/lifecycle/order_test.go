// Package lifecycle shows how an execution begins and ends, and what of it is left.
package lifecycle

import (
	"errors"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

var shop = m3.StdioServer{Name: "shop", Build: "../internal/exampleserver/command"}

// A trace is finalized once, by Close. Before, there is no view; after, it never changes. It is in the order in which things
// happened, from the first event to the last.
func TestFinalizedOrder(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "hello"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := client.View(); !errors.Is(err, m3.ErrTraceNotFinalized) {
		t.Fatalf("the view of an open client: %v, want ErrTraceNotFinalized", err)
	}
	view := m3test.Finish(t, client)

	finalTrace, err := client.FinalTrace()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []trace.Kind
	for i, ev := range finalTrace.Events() {
		if ev.Sequence != int64(i) {
			t.Fatalf("event %d has the sequence %d", i, ev.Sequence)
		}
		kinds = append(kinds, ev.Kind)
	}
	if kinds[0] != trace.KindExecutionCreated || kinds[len(kinds)-1] != trace.KindExecutionFinished {
		t.Errorf("the trace goes from %s to %s", kinds[0], kinds[len(kinds)-1])
	}
	if view.Outcome() != trace.OutcomeCompleted || view.Completeness() != trace.Complete {
		t.Errorf("outcome %s, %s: %v", view.Outcome(), view.Completeness(), view.Limitations())
	}
	last := int64(-1)
	for _, entry := range view.Timeline().All() {
		if at := entry.Common().SequenceStart; at < last {
			t.Errorf("%s stands after sequence %d", entry.Common().EntryID, last)
		} else {
			last = at
		}
	}
}

// A completed execution is not a pass: its outcome says that it ran to its end, whatever the tools answered.
func TestCompletedIsNotPassed(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	r, err := client.CallTool(t.Context(), "fail", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	view := m3test.Finish(t, client)
	if !r.IsError || view.Outcome() != trace.OutcomeCompleted {
		t.Errorf("isError %v, outcome %s", r.IsError, view.Outcome())
	}
	if s := view.Summary(); s.FailedToolCalls != 1 || s.SuccessfulToolCalls != 0 {
		t.Errorf("summary: %+v", s)
	}
}
