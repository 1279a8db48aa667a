package m3_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// A clock that is set back by a minute whenever somebody looks, and that has no monotonic reading to make up for it, is as bad as a clock can be. All the same
// nothing takes less than no time, and the order is that of the sequence.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	defer st.Close()
	kit, err := m3.New(m3.Config{Store: st, RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64
	base := time.Now().Round(0)
	kit.SetClock(func() time.Time { return base.Add(-time.Duration(looks.Add(1)) * time.Minute) })
	client := connect(t, kit, silent().server(), old())
	for range 3 {
		if _, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	view := finish(t, client)
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if looks.Load() < 5 {
		t.Fatalf("the clock was looked at %d times", looks.Load())
	}
	run, err := st.Run(context.Background(), "r")
	if err != nil || run.Finished == nil || run.Finished.Before(run.Started) {
		t.Errorf("run %+v, %v", run, err)
	}
	info, err := st.Execution(context.Background(), client.ExecutionID())
	if err != nil || info.Finished == nil || info.Finished.Before(info.Created) {
		t.Errorf("execution %+v, %v", info, err)
	}
	holdOrder(t, st, client.ExecutionID())
	for _, e := range view.Timeline().All() {
		if b := e.Common(); b.Timing.Duration() < 0 || b.SequenceEnd < b.SequenceStart {
			t.Errorf("%s takes %v, from event %d to %d", b.EntryID, b.Timing.Duration(), b.SequenceStart, b.SequenceEnd)
		}
	}
	calls := view.ToolCalls()
	if calls.Len() != 3 {
		t.Errorf("%d calls", calls.Len())
	}
	for _, c := range calls.All() {
		if d, ok := c.Wire.Value.Latency.Get(); ok && d < 0 {
			t.Errorf("%s has the latency %v", c.EntryID, d)
		}
	}
}

// holdOrder holds that the events of an execution are in the order of their sequence, and their offsets as well.
func holdOrder(t *testing.T, r store.Reader, id trace.ExecutionID) {
	t.Helper()
	tr, err := r.Trace(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var offsets []time.Duration
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Sequence != int64(len(offsets)) || ev.Offset < 0 {
			t.Errorf("event %d at place %d, %v after the start", ev.Sequence, len(offsets), ev.Offset)
		}
		offsets = append(offsets, ev.Offset)
	}
	if !slices.IsSorted(offsets) {
		t.Errorf("offsets %v", offsets)
	}
}
