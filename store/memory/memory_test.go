package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) *storetest.Subject {
		return &storetest.Subject{Store: memory.New(nil)}
	})
}

func TestNoBudgetLimit(t *testing.T) {
	t.Parallel()
	s := memory.New(&memory.Config{Budget: -1})
	tape := record(t, s, "e", 50, 100<<10)
	checkEvents(t, s, tape)
}

func TestBudgetDropsOldestPayloadsFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		size int // of each frame: in the arena, or out of line
	}{{"in the arena", 10 << 10}, {"blobs", 100 << 10}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			const frames = 100
			s := memory.New(&memory.Config{Budget: int64(frames * tt.size)})
			first := record(t, s, "first", frames/2, tt.size)
			held, err := s.Trace(ctx, "first")
			if err != nil {
				t.Fatal(err)
			}
			checkEvents(t, s, first)
			second := record(t, s, "second", frames, tt.size)

			dropped := missing(t, s, first)
			if dropped == 0 {
				t.Fatal("nothing of the oldest execution was dropped")
			}
			checkPartial(t, s, first, dropped, tt.size)
			// The newest frame of all is still there.
			n := len(second.Events) - 2
			if ev, err := s.ReadRawEvidence(ctx, second.Ref(n), 0); err != nil || !bytes.Equal(ev.Bytes, second.Events[n].Frame.Bytes) {
				t.Errorf("the newest frame is gone: %v", err)
			}
			// A trace that was handed out before keeps what it had.
			if !reflect.DeepEqual(held.Events(), first.Events) {
				t.Error("a finished trace that was handed out has changed")
			}
		})
	}
}

// What is dropped before an execution ends is in its end.
func TestBudgetOfAnOpenExecution(t *testing.T) {
	t.Parallel()
	s := memory.New(&memory.Config{Budget: 1 << 20})
	tape := record(t, s, "e", 400, 10<<10)
	dropped := missing(t, s, tape)
	if dropped < 250 || dropped > 398 {
		t.Fatalf("%d of 400 frames of 10 KiB were dropped for a budget of 1 MiB", dropped)
	}
	checkPartial(t, s, tape, dropped, 10<<10)
}

func record(t *testing.T, s *memory.Store, id string, frames, size int) *storetest.Tape {
	t.Helper()
	tape := storetest.NewTape("r", id)
	recs := append([]store.Record{tape.Open()}, tape.Begin()...)
	for i := range frames {
		recs = append(recs, tape.Frame(fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", size-len(fmt.Sprint(i))-1)))...)
	}
	for _, rec := range append(recs, tape.End(trace.OutcomeCompleted, "")...) {
		if err := s.Append(context.Background(), rec); err != nil {
			t.Fatal(err)
		}
	}
	return tape
}

func checkEvents(t *testing.T, s *memory.Store, tape *storetest.Tape) {
	t.Helper()
	tr, err := s.Trace(context.Background(), tape.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tr.Events(), tape.Events) {
		t.Errorf("the events of %s are not what was recorded", tape.ID)
	}
}

// missing counts the frames without their bytes. They are the oldest ones, every event is there, and nothing else changed.
func missing(t *testing.T, s *memory.Store, tape *storetest.Tape) (n int) {
	t.Helper()
	tr, err := s.Trace(context.Background(), tape.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := tr.Events()
	if len(got) != len(tape.Events) {
		t.Fatalf("%d events, want %d", len(got), len(tape.Events))
	}
	for i, ev := range got[:len(got)-1] {
		want := tape.Events[i]
		if want.Frame != nil && len(ev.Frame.Bytes) == 0 {
			n++
			if i != n {
				t.Errorf("frame %d was dropped before frame %d", i, n)
			}
			slim := *want.Frame
			slim.Dropped, slim.Bytes, slim.Size, slim.SHA256, slim.OutOfLine = slim.Size, []byte{}, 0, "", false
			want.Frame, want.Redactions = &slim, nil
		}
		if !reflect.DeepEqual(ev, want) { // cmp takes seconds for megabytes
			t.Fatalf("event %d differs (-want +got):\n%.2000s", i, cmp.Diff(want, ev))
		}
	}
	return n
}

func checkPartial(t *testing.T, s *memory.Store, tape *storetest.Tape, dropped, size int) {
	t.Helper()
	ctx := context.Background()
	info, err := s.Execution(ctx, tape.ID)
	if err != nil || info.Complete || info.Outcome != trace.OutcomeCompleted {
		t.Errorf("Execution: %+v, %v; want a completed execution with an incomplete trace", info, err)
	}
	tr, err := s.Trace(ctx, tape.ID)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := tr.Event(tr.Len() - 1)
	if err != nil {
		t.Fatal(err)
	}
	var f trace.Finished
	if err := json.Unmarshal(ev.Payload, &f); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the oldest %d frames (%d bytes)", dropped, dropped*size)
	if len(f.Limitations) != 1 || f.Limitations[0].Code != "capture_incomplete" || !strings.Contains(f.Limitations[0].Message, want) {
		t.Errorf("limitations %+v, want capture_incomplete with %q", f.Limitations, want)
	}
	v, err := tr.View()
	if err != nil || v.Completeness() != trace.Partial {
		t.Fatalf("View: %v, completeness %v", err, v.Completeness())
	}
	if first := v.RawMessages().At(0); first.Preview.OK() || first.EvidenceRef != nil || first.Dropped != int64(size) {
		t.Errorf("a frame without its bytes is shown as %+v", first)
	}
	if last := v.RawMessages().At(v.RawMessages().Len() - 1); dropped < v.RawMessages().Len() && last.EvidenceRef == nil {
		t.Errorf("a frame with its bytes is shown as %+v", last)
	}
	if _, err := s.ReadRawEvidence(ctx, tape.Ref(1), 0); !strings.Contains(fmt.Sprint(err), "dropped") {
		t.Errorf("evidence that was dropped: %v", err)
	}
}
