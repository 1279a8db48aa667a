package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

func infinity() float64 { return math.Inf(1) }

func jsonNumber(s string) json.Number { return json.Number(s) }

// failingStore is a memory store whose appends of events fail when told to.
type failingStore struct {
	*memory.Store
	events atomic.Bool // fail events
	all    atomic.Bool // fail everything
	runs   atomic.Int64
	closed atomic.Bool
}

func newFailingStore() *failingStore { return &failingStore{Store: memory.New(nil)} }

var errDisk = errors.New("no space left on device")

// Append fails, or does not.
func (s *failingStore) Append(ctx context.Context, recs ...store.Record) error {
	for _, r := range recs {
		switch r.(type) {
		case *store.Run:
			s.runs.Add(1)
		case *store.Event:
			if s.events.Load() {
				return errDisk
			}
		}
	}
	if s.all.Load() {
		return errDisk
	}
	return s.Store.Append(ctx, recs...)
}

// Close notes that it was called.
func (s *failingStore) Close() error { s.closed.Store(true); return s.Store.Close() }

// A store that fails does not fail a call: the call goes on, the trace says what it lacks, and Close reports it.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	st := newFailingStore()
	kit := newKit(t, m3.Config{Store: st})
	client := connect(t, kit, silent().server(), old())
	st.events.Store(true)
	r, err := client.CallTool(t.Context(), "lost", nil, nil)
	if err != nil || r.Text() != "lost" {
		t.Fatalf("the call: %v, %v", r, err)
	}
	st.events.Store(false)
	if r, err = client.CallTool(t.Context(), "kept", nil, nil); err != nil || r.Text() != "kept" {
		t.Fatalf("the call: %v, %v", r, err)
	}
	for range 2 {
		if err := client.Close(); !errors.Is(err, errDisk) {
			t.Errorf("Close: %v", err)
		}
	}
	view, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	limits := view.Limitations()
	if view.Completeness() != trace.Partial || len(limits) != 1 || limits[0].Code != "persistence_failed" || !strings.Contains(limits[0].Message, errDisk.Error()) {
		t.Errorf("%s with %+v", view.Completeness(), limits)
	}
	if view.ToolCalls().Len() != 1 || view.ToolCalls().At(0).Tool.Value != "kept" {
		t.Errorf("%d calls", view.ToolCalls().Len())
	}
	if err := kit.Close(); err != nil || st.closed.Load() {
		t.Errorf("kit.Close: %v; the store that was passed in is closed: %v", err, st.closed.Load())
	}
}

// A store that cannot even record the run, or the execution, is an error of Direct, and nothing was started.
func TestStoreThatRecordsNothing(t *testing.T) {
	t.Parallel()
	st := newFailingStore()
	st.all.Store(true)
	kit, err := m3.New(m3.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	p := silent()
	if _, err := kit.Direct(t.Context(), p.server(), nil); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "record the run") {
		t.Errorf("Direct: %v", err)
	}
	if len(p.got("server/discover")) != 0 {
		t.Error("the server was started")
	}
	if err := kit.Close(); err != nil { // the run never began: there is no end to record
		t.Errorf("Close: %v", err)
	}
}

// Raw evidence is read by reference; a reference that was forged or altered is an error of a type of its own.
func TestRawEvidenceOfTheKit(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	client := connect(t, kit, silent().server(), old())
	if _, err := client.CallTool(t.Context(), "echo", json.RawMessage(`{"n":1e400}`), nil); err != nil {
		t.Fatal(err)
	}
	view := finish(t, client)
	var ref trace.EvidenceRef
	for _, m := range view.RawMessages().All() {
		if m.Method == "tools/call" && m.Verdict == "request" {
			ref = *m.EvidenceRef
		}
	}
	ev, err := kit.ReadRawEvidence(t.Context(), ref, 0)
	if err != nil || !strings.Contains(string(ev.Bytes), `"arguments":{"n":1e400}`) || ev.Truncated {
		t.Fatalf("%q, %v", ev.Bytes, err)
	}
	if ev, err = kit.ReadRawEvidence(t.Context(), ref, 5); err != nil || len(ev.Bytes) != 5 || !ev.Truncated {
		t.Errorf("%q, %v", ev.Bytes, err)
	}
	forged := ref
	forged.ID = "re:00000000-0000-7000-8000-000000000000:1"
	_, err = kit.ReadRawEvidence(t.Context(), forged, 0)
	if wantError[*m3.Error](t, err, "raw_evidence_unavailable", forged.ID); !errors.Is(err, m3.ErrRawEvidenceUnavailable) {
		t.Errorf("%v", err)
	}
	for field, alter := range map[string]func(*trace.EvidenceRef){
		"sha256":     func(r *trace.EvidenceRef) { r.SHA256 = strings.Repeat("0", 64) },
		"size_bytes": func(r *trace.EvidenceRef) { r.Size++ },
	} {
		altered := ref
		alter(&altered)
		_, err := kit.ReadRawEvidence(t.Context(), altered, 0)
		if e := wantError[*m3.RawEvidenceIntegrityError](t, err, "raw_evidence_integrity", "altered"); e.Details["field"] != field {
			t.Errorf("details %v, want %s", e.Details, field)
		}
	}
}
