package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

// talk makes n calls and checks that both sides get everything.
func talk(t *testing.T, w *wired, n int, filler string) {
	t.Helper()
	ask := strings.Replace(askAdd, `"a":1`, `"a":"`+filler+`"`, 1)
	for range n {
		say(t, w.agent, ask)
		if hear(t, w.server) != ask {
			t.Fatal("the server got something else")
		}
		say(t, w.server, sayAdd)
		if hear(t, w.agent) != sayAdd {
			t.Fatal("the agent got something else")
		}
	}
}

func (r *rig) finish() trace.Finished {
	r.t.Helper()
	r.Close()
	r.tape.Finish(trace.Finished{})
	last := r.sink.events[len(r.sink.events)-1]
	ev, err := trace.DecodeEvent("x1", last)
	if err != nil {
		r.t.Fatal(err)
	}
	var f trace.Finished
	decode(r.t, ev.Payload, &f)
	return f
}

// TestFullDisk: the traffic goes on when the store fails, and the trace says why it is incomplete.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{})
	w := r.stream(t.Context())
	talk(t, w, 3, "")
	r.sink.mu.Lock()
	r.sink.full = true
	r.sink.mu.Unlock()
	talk(t, w, 20, "")
	if err := r.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	r.sink.mu.Lock()
	r.sink.full = false
	r.sink.mu.Unlock()
	w.agent.Close()
	w.server.Close()
	w.wait(t)
	f := r.finish()
	if len(f.Limitations) == 0 || f.Limitations[0].Code != "persistence_failed" || !strings.Contains(f.Limitations[0].Message, "no space left") {
		t.Errorf("limitations: %+v", f.Limitations)
	}
}

// TestStalledStore: the traffic goes on when the store stands still. What the queue holds is recorded in the end, in order; what it could not hold makes
// the trace incomplete.
func TestStalledStore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		buffer int64
		lost   bool
	}{{"room", 0, false}, {"overflow", 100_000, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, relay.Config{Buffer: tc.buffer})
			w := r.stream(t.Context())
			talk(t, w, 1, "")
			gate := make(chan struct{})
			r.sink.mu.Lock()
			r.sink.gate = gate
			r.sink.mu.Unlock()
			start := time.Now()
			talk(t, w, 200, strings.Repeat("x", 2000))
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("the traffic took %v: it waits for the store again and again", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := r.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Drain of a store that stands still: %v", err)
			}
			r.sink.mu.Lock()
			r.sink.gate = nil
			r.sink.mu.Unlock()
			close(gate)
			if err := r.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			talk(t, w, 1, "")
			w.agent.Close()
			w.server.Close()
			w.wait(t)
			events := r.events()
			f := r.finish()
			frames := of(events, trace.KindMCPRequest, trace.KindMCPResponse)
			if !tc.lost {
				if len(frames) != 2*202 || r.Lost() != 0 || len(f.Limitations) != 0 {
					t.Errorf("%d frames, %d lost, %+v", len(frames), r.Lost(), f.Limitations)
				}
				for i, ev := range frames {
					if want := []trace.Kind{trace.KindMCPRequest, trace.KindMCPResponse}[i%2]; ev.Kind != want {
						t.Fatalf("frame %d is a %s", i, ev.Kind)
					}
				}
				return
			}
			if r.Lost() == 0 || len(frames)+int(r.Lost()) != 2*202 || len(frames) < 20 {
				t.Errorf("%d frames and %d lost, of 404", len(frames), r.Lost())
			}
			if len(f.Limitations) != 1 || f.Limitations[0].Code != "capture_incomplete" || !strings.Contains(f.Limitations[0].Message, "calc") {
				t.Errorf("limitations: %+v", f.Limitations)
			}
		})
	}
}

// TestCloseStalled: Close does not hang on a store that stands still.
func TestCloseStalled(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{})
	w := r.stream(t.Context())
	talk(t, w, 1, "")
	gate := make(chan struct{})
	r.sink.mu.Lock()
	r.sink.gate = gate
	r.sink.mu.Unlock()
	talk(t, w, 2, "")
	start := time.Now()
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "stands still") {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("Close took %v", took)
	}
	close(gate) // the second Close, of the cleanup, waits for the rest
}

// TestRecordedFirst: while the store keeps up, a frame is on the tape before the other side has it.
func TestRecordedFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{})
	w := r.stream(t.Context())
	count := func() int { r.sink.mu.Lock(); defer r.sink.mu.Unlock(); return len(r.sink.events) }
	for i := range 200 {
		say(t, w.agent, askAdd)
		hear(t, w.server)
		if n := count(); n != 2*i+2 {
			t.Fatalf("request %d is at the server with %d events recorded", i, n)
		}
		say(t, w.server, sayAdd)
		hear(t, w.agent)
		if n := count(); n != 2*i+3 {
			t.Fatalf("answer %d is at the agent with %d events recorded", i, n)
		}
	}
	w.server.Close()
	w.wait(t)
}
