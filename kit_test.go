package m3_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Close closes the clients, is idempotent, and everybody who calls it waits for its end. A closed kit refuses everything by name.
func TestKitClose(t *testing.T) {
	t.Parallel()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := connect(t, kit, silent().server(), old()), connect(t, kit, fixture(t, "plain"), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := kit.Close(); err != nil {
				t.Error(err)
			}
			if _, err := one.CallTool(t.Context(), "x", nil, nil); !errors.Is(err, m3.ErrClientClosed) {
				t.Errorf("a client after the kit's Close: %v", err)
			}
		})
	}
	wg.Wait()
	if err := two.Close(); err != nil {
		t.Errorf("closing a client of a closed kit: %v", err)
	}
	for what, err := range map[string]error{
		"Direct":          second(kit.Direct(t.Context(), silent().server(), nil)),
		"Trace":           second(kit.Trace(t.Context(), one.ExecutionID())),
		"ReadRawEvidence": second(kit.ReadRawEvidence(t.Context(), trace.EvidenceRef{}, 0)),
	} {
		if e := wantError[*m3.Error](t, err, "kit_closed", "closed"); !errors.Is(e, m3.ErrKitClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Closing the kit while a server is opening ends the opening: Direct does not return a client that nobody will close.
func TestKitCloseWhileOpening(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*m3.Kit) error{
		"close": (*m3.Kit).Close,
		"stop": func(k *m3.Kit) error {
			return k.Stop(context.Background(), trace.OutcomeTimedOut, "the test's time is over")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			p := &peer{handle: func(*peer, *message) bool { return true }}
			opening := during(func() error { return second(kit.Direct(t.Context(), p.server(), old())) })
			p.await(t, "initialize", 1)
			if err := end(kit); err != nil {
				t.Error(err)
			}
			err := <-opening
			if name == "close" {
				wantError[*m3.CancelledError](t, err, "cancelled", "connect to peer: the kit was closed")
			} else {
				wantError[*m3.TimeoutError](t, err, "timeout", "connect to peer: the test's time is over")
			}
		})
	}
}

// A client may be closed often and by many; whoever uses it then is told, also one whose call was still open.
func TestClientClose(t *testing.T) {
	t.Parallel()
	p := silent()
	client := connect(t, newKit(t, m3.Config{}), p.server(), old())
	waiting := during(func() error { return second(client.CallTool(t.Context(), "silent", nil, nil)) })
	p.await(t, "tools/call", 1)
	if _, err := client.View(); !errors.Is(err, m3.ErrTraceNotFinalized) {
		t.Errorf("the view of an open client: %v", err)
	}
	if _, err := client.FinalTrace(); !errors.Is(err, m3.ErrTraceNotFinalized) {
		t.Errorf("the trace of an open client: %v", err)
	}
	snap, err := client.Snapshot()
	if err != nil || snap.Completeness() != trace.Partial || snap.ToolCalls().Len() != 1 {
		t.Fatalf("snapshot: %v", err)
	}
	if l := snap.Limitations(); len(l) != 1 || l[0].Code != "open" {
		t.Errorf("the snapshot's limitations are %+v", l)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			if _, err := client.View(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := <-waiting; !errors.Is(err, m3.ErrClientClosed) {
		t.Errorf("the call that waited: %v", err)
	}
	for _, err := range []error{
		client.Ping(t.Context(), nil), second(client.CallTool(t.Context(), "x", nil, nil)), second(client.ListAllTools(t.Context(), nil)),
		second(client.ReadResource(t.Context(), "x", nil)), second(client.GetPrompt(t.Context(), "x", nil, nil)),
	} {
		if e := wantError[*m3.Error](t, err, "client_closed", "closed"); !errors.Is(e, m3.ErrClientClosed) {
			t.Errorf("%v", err)
		}
	}
	if view := finish(t, client); view.Completeness() != trace.Complete || view.Outcome() != trace.OutcomeCompleted {
		t.Errorf("%s, %s: %v", view.Completeness(), view.Outcome(), view.Limitations())
	}
}

// Stop ends what is open with its outcome and reason, keeps the evidence, and refuses what comes later.
func TestKitStop(t *testing.T) {
	t.Parallel()
	for outcome, code := range map[trace.Outcome]string{trace.OutcomeTimedOut: "timeout", trace.OutcomeCancelled: "cancelled"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			p := silent()
			client := connect(t, kit, p.server(), old())
			waiting := during(func() error { return second(client.CallTool(t.Context(), "silent", nil, nil)) })
			p.await(t, "tools/call", 1)
			if err := kit.Stop(t.Context(), outcome, "out of time"); err != nil {
				t.Error(err)
			}
			for what, err := range map[string]error{
				"the open call": <-waiting, "a later call": client.Ping(t.Context(), nil), "a new client": second(kit.Direct(t.Context(), silent().server(), nil)),
			} {
				var coded interface{ Code() string }
				if !errors.As(err, &coded) || coded.Code() != code || !strings.Contains(err.Error(), "out of time") {
					t.Errorf("%s: %v", what, err)
				}
			}
			view := finish(t, client)
			if view.Outcome() != outcome || view.ToolCalls().Len() != 1 || view.Completeness() != trace.Complete {
				t.Errorf("%s, %s, %d calls", view.Outcome(), view.Completeness(), view.ToolCalls().Len())
			}
			if err := kit.Stop(t.Context(), outcome, "again"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Stop waits as long as its context allows.
func TestKitStopIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	kit := newKit(t, m3.Config{})
	p := silent()
	server := m3.PipeServer{Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
		err := p.serve(stream, stream)
		<-release
		return err
	}}
	connect(t, kit, server, old())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := kit.Stop(ctx, trace.OutcomeCancelled, "over"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop: %v", err)
	}
	close(release)
}

// An execution is told of as it begins, and is of its run; two clients are two executions.
func TestExecutionsOfAKit(t *testing.T) {
	t.Parallel()
	var begun atomic.Int64
	kit := newKit(t, m3.Config{OnExecution: func(trace.ExecutionID) { begun.Add(1) }})
	a, b := connect(t, kit, silent().server(), old()), connect(t, kit, silent().server(), old())
	if a.ExecutionID() == b.ExecutionID() || begun.Load() != 2 || a.Server() != "peer" {
		t.Errorf("%s and %s, %d begun", a.ExecutionID(), b.ExecutionID(), begun.Load())
	}
	finish(t, a)
	all, err := kit.Store().Executions(t.Context(), &store.ExecutionQuery{RunID: kit.RunID()})
	if err != nil || len(all) != 2 || all[0].Outcome != trace.OutcomeCompleted || all[1].Outcome != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := kit.Trace(t.Context(), "no-such"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the trace of nothing: %v", err)
	}
	open, err := kit.Trace(t.Context(), b.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.View(); !errors.Is(err, m3.ErrTraceNotFinalized) {
		t.Errorf("the stored view of an open client: %v", err)
	}
}
