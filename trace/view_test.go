package trace

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// twoTurns is a trace with two servers, two sessions and three turns; the answer to c2's call comes in turn t2.
func twoTurns(t testing.TB) *builder {
	b := build(t)
	b.next.SessionID, b.next.TurnID = "s1", "t1"
	b.call("1", "a", `{}`)
	b.next.Server, b.next.ConnectionID = "billing", "c2"
	b.call("1", "b", `{}`)
	b.next.SessionID, b.next.TurnID = "s2", "t2"
	b.result("1", ok)
	b.next.Server, b.next.ConnectionID = "shipping", "c1"
	b.request("2", "ping", `{}`)
	b.next.TurnID = ""
	b.result("1", ok)
	return b
}

func TestFilters(t *testing.T) {
	t.Parallel()
	v := twoTurns(t).view()
	between := func(from, to time.Duration) View {
		out, err := v.Between(from*time.Millisecond, to*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tests := []struct {
		name string
		view View
		want string
	}{
		{"all", v, "lifecycle:0 raw_message:1 tool_call:1 raw_message:2 tool_call:2 raw_message:3 protocol:4 raw_message:4 raw_message:5 lifecycle:6"},
		{"a response belongs to the turn of its request", v.ForTurn(TurnID("t1")), "raw_message:1 tool_call:1 raw_message:2 tool_call:2 raw_message:3 raw_message:5"},
		{"turn 2", v.ForTurn(TurnID("t2")), "protocol:4 raw_message:4"},
		{"no such turn", v.ForTurn(TurnID("t9")), ""},
		{"the empty turn", v.ForTurn(TurnID("")), ""},
		{"no selector", v.ForTurn(nil), ""},
		{"session", v.ForSession("s2"), "protocol:4 raw_message:4 lifecycle:6"},
		{"server", v.ForServer("billing"), "raw_message:2 tool_call:2 raw_message:3"},
		{"nested", v.ForTurn(TurnID("t1")).ForServer("shipping"), "raw_message:1 tool_call:1 raw_message:5"},
		{"nested the other way", v.ForServer("shipping").ForTurn(TurnID("t1")), "raw_message:1 tool_call:1 raw_message:5"},
		{"overlap", between(4, 4), "tool_call:1 protocol:4 raw_message:4"},
		{"between, then server", func() View { return between(3, 9).ForServer("billing") }(), "tool_call:2 raw_message:3"},
		{"after the end", between(100, 200), ""},
	}
	for _, tt := range tests {
		if got := ids(tt.view.Timeline()); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		if diff := cmp.Diff(v.Summary(), tt.view.Summary()); diff != "" {
			t.Errorf("%s: the summary changed\n%s", tt.name, diff)
		}
		var calls []string
		for _, c := range tt.view.ToolCalls().All() {
			calls = append(calls, c.EntryID)
		}
		for _, id := range calls {
			if !strings.Contains(tt.want, id) {
				t.Errorf("%s: index has %s", tt.name, id)
			}
		}
		if n := strings.Count(tt.want, "tool_call"); n != len(calls) {
			t.Errorf("%s: %d tool calls in the index, %d in the timeline", tt.name, len(calls), n)
		}
	}
	if got := v.ForServer("billing").ToolCalls().At(0); got.TurnID != "t1" || got.Result.Value.Text() != "5" {
		t.Errorf("call %+v", got)
	}
	for _, r := range [][2]time.Duration{{-1, 5}, {5, 4}} {
		if _, err := v.Between(r[0], r[1]); err == nil || !strings.Contains(err.Error(), "Between") {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func TestEntryByID(t *testing.T) {
	t.Parallel()
	v := twoTurns(t).view()
	for _, e := range v.Timeline().All() {
		got, ok := v.Entry(e.Common().EntryID)
		if !ok || !cmp.Equal(got, e) {
			t.Errorf("%s: %v", e.Common().EntryID, ok)
		}
	}
	for _, id := range []string{"", ":", "tool_call", "tool_call:", "tool_call:x", "tool_call:3", "tool_call:01", "tool_call:1.0", "tool_call:1.1", "tool_call:-1", "ghost:1", "tool_call:99999999999"} {
		if _, ok := v.Entry(id); ok {
			t.Errorf("%q is an entry", id)
		}
	}
	if _, ok := v.ForServer("billing").Entry("tool_call:1"); ok {
		t.Error("a filtered view knows an entry that it does not show")
	}
}

func TestZeroView(t *testing.T) {
	t.Parallel()
	var v View
	if v.Timeline().Len() != 0 || v.ToolCalls().Len() != 0 || v.ForTurn(TurnID("t")).Messages().Len() != 0 || v.Outcome() != "" {
		t.Error("the zero view is not empty")
	}
	if _, ok := v.Entry("tool_call:0"); ok {
		t.Error("the zero view has an entry")
	}
	if v.Summary().ActivityHealth != "no_calls" {
		t.Errorf("summary %+v", v.Summary())
	}
	asJSON(t, v)
	defer func() {
		if recover() == nil {
			t.Error("At past the end did not panic")
		}
	}()
	v.ToolCalls().At(0)
}

// secretive is a trace in which the argument, the result and a payload were redacted.
func secretive(t testing.TB) *Trace {
	const mask, secret = "[REDACTED]", "hunter22"
	b := build(t)
	frame := func(k Kind, dir Direction, method, kept string) {
		at := strings.Index(kept, mask)
		n := b.event(Event{Kind: k, RPCID: "1", Method: method, Frame: &Frame{Direction: dir, Framing: FramingSSE, Bytes: []byte(kept)},
			Redactions: []Redaction{{int64(at), int64(len(mask)), int64(at), int64(len(secret))}}})
		b.arena.PutOriginal(n, []byte(strings.Replace(kept, mask, secret, 1)))
	}
	frame(KindMCPRequest, ClientToServer, "tools/call", "data: {\"id\":1,\"method\":\"tools/call\",\ndata: \"params\":{\"name\":\"login\",\"arguments\":{\"password\":\"[REDACTED]\"}}}\n\n")
	frame(KindMCPResponse, ServerToClient, "", "data: {\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}],\"structuredContent\":{\"token\":\"[REDACTED]\"}}}\n\n")
	payload := `{"pid":{"state":"observed","value":1},"executable":{"state":"observed","value":"srv"},"stderr":{"state":"observed","value":"key [REDACTED]"}}`
	at := strings.Index(payload, mask)
	n := b.event(Event{Kind: KindProcessExited, Payload: JSON(payload), Redactions: []Redaction{{int64(at), int64(len(mask)), int64(at), int64(len(secret))}}})
	b.arena.PutOriginal(n, []byte(strings.Replace(payload, mask, secret, 1)))
	return b.finish()
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	tr := secretive(t)
	tests := []struct {
		name  string
		trace *Trace
		state State
		value string
	}{
		{"recording process", tr, Observed, "hunter22"},
		{"reopened", reopened(tr), Redacted, "[REDACTED]"},
	}
	for _, tt := range tests {
		v, err := tt.trace.View()
		if err != nil {
			t.Fatal(err)
		}
		c := v.ToolCalls().At(0)
		if c.Arguments.State != tt.state || string(c.Arguments.Value) != `{"password":"`+tt.value+`"}` {
			t.Errorf("%s: arguments %s %s", tt.name, c.Arguments.State, c.Arguments.Value)
		}
		if c.Tool != Observe("login") {
			t.Errorf("%s: the tool's name is %+v", tt.name, c.Tool)
		}
		sc := c.Result.Value.StructuredContent
		if c.Result.State != tt.state || sc.State != tt.state || string(sc.Value) != `{"token":"`+tt.value+`"}` || c.Result.Value.Text() != "ok" {
			t.Errorf("%s: result %+v", tt.name, c.Result)
		}
		p := v.Processes().At(0)
		if p.Stderr.State != tt.state || p.Stderr.Value != "key "+tt.value || p.Executable != Observe("srv") {
			t.Errorf("%s: process %+v", tt.name, p)
		}
		m := v.RawMessages().At(0)
		if m.Preview.State != tt.state || !strings.Contains(m.Preview.Value, tt.value) || len(m.Redactions) != 1 {
			t.Errorf("%s: preview %+v", tt.name, m.Preview)
		}
		text := asJSON(t, v)
		if strings.Contains(text, "hunter22") || strings.Count(text, "redacted_by_policy") < 5 {
			t.Errorf("%s: JSON %s", tt.name, text)
		}
	}
}

func TestJSONIsDeterministic(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]*Trace{"redacted": secretive(t), "turns": twoTurns(t).finish(), "hostile": hostile(t)} {
		first, err := tr.View()
		if err != nil {
			t.Fatal(err)
		}
		second, err := reopened(tr).View()
		if err != nil {
			t.Fatal(err)
		}
		a, b := asJSON(t, first), asJSON(t, second)
		if a != b {
			t.Errorf("%s: two traces with the same events differ: %s", name, cmp.Diff(a, b))
		}
		if again := asJSON(t, first); again != a {
			t.Errorf("%s: the same view differs", name)
		}
		var buf bytes.Buffer
		if err := first.WriteJSON(&buf); err != nil || buf.String() != a {
			t.Errorf("%s: WriteJSON differs from MarshalJSON: %v", name, err)
		}
		if !json.Valid([]byte(a)) {
			t.Errorf("%s: not JSON: %s", name, a)
		}
	}
}

func TestJSONShape(t *testing.T) {
	t.Parallel()
	v := build(t).view()
	want := `{"schema_id":"m3.trace_view","schema_version":"1.0","execution_id":"e1","outcome":"completed","completeness":"complete","limitations":[],` +
		`"runtime":{"kind":"direct","transport":{"state":"not_emitted"},"protocol":{"state":"not_emitted"},"initialization":{"state":"not_emitted"}},` +
		`"summary":{"timing":{"started_at":"2026-01-02T03:04:05Z","finished_at":"2026-01-02T03:04:05.001Z","start_offset_ns":0,"end_offset_ns":1000000},` +
		`"usage":{"state":"unsupported","reason":"transport_not_applicable"},"turn_count":0,"message_count":0,"reasoning_count":0,"tool_call_count":0,` +
		`"successful_tool_calls":0,"failed_tool_calls":0,"protocol_error_count":0,"finding_count":0,"activity_health":"no_calls","cleanup_status":"not_emitted"},` +
		`"timeline":[{"entry_id":"lifecycle:0","kind":"lifecycle","execution_id":"e1","server_binding":"shipping","connection_id":"c1","sequence_start":0,"sequence_end":0,` +
		`"timing":{"started_at":"2026-01-02T03:04:05Z","finished_at":"2026-01-02T03:04:05Z","start_offset_ns":0,"end_offset_ns":0},"status":"completed",` +
		`"provenance":[{"origin":"derived","source":"m3"}],"phase":"preflight","event":"execution.created"},` +
		`{"entry_id":"lifecycle:1","kind":"lifecycle","execution_id":"e1","server_binding":"shipping","connection_id":"c1","sequence_start":1,"sequence_end":1,` +
		`"timing":{"started_at":"2026-01-02T03:04:05.001Z","finished_at":"2026-01-02T03:04:05.001Z","start_offset_ns":1000000,"end_offset_ns":1000000},"status":"completed",` +
		`"provenance":[{"origin":"derived","source":"m3"}],"phase":"terminal","event":"execution.finished","outcome":"completed"}]}`
	if diff := cmp.Diff(want, asJSON(t, v)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if b, err := json.Marshal(v); err != nil || string(b) != want {
		t.Errorf("json.Marshal differs: %v", err)
	}
}

// hostile holds payloads that are hard to keep.
func hostile(t testing.TB) *Trace {
	b := build(t)
	b.frame(KindMCPMalformed, ServerToClient, "", "", "\x00\xff\xfe binary")
	b.frame(KindMCPMalformed, ServerToClient, "", "", "<b>&\u2028\x00\x1b[31m")
	b.call("1", "a", `{"k":1,"k":2,"u":"\ud800","n":1e400,"x":null}`)
	b.result("1", `{"content":[{"type":"text","text":"`+"bad \xff utf-8"+`"}]}`)
	big := []byte(`{"id":2,"method":"tools/call","params":{"name":"big","arguments":"` + strings.Repeat("x", 3<<20) + `"}}` + "\n")
	b.event(Event{Kind: KindMCPRequest, RPCID: "2", Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine,
		Size: int64(len(big)), WireSize: int64(len(big)), SHA256: b.arena.PutBlob(big), OutOfLine: true}})
	return b.finish()
}

func TestHostilePayloads(t *testing.T) {
	t.Parallel()
	v, err := hostile(t).View()
	if err != nil {
		t.Fatal(err)
	}
	bin, text := v.RawMessages().At(0), v.RawMessages().At(1)
	if bin.Preview != Observe("base64:AP/+IGJpbmFyeQo=") || bin.MediaType != "application/octet-stream" {
		t.Errorf("binary %+v", bin)
	}
	if text.Preview != Observe("<b>&\u2028\x00\x1b[31m\n") || text.MediaType != "text/plain" {
		t.Errorf("text %+v", text)
	}
	c := v.ToolCalls().At(0)
	if string(c.Arguments.Value) != `{"k":1,"k":2,"u":"\ud800","n":1e400,"x":null}` {
		t.Errorf("arguments %s", c.Arguments.Value)
	}
	if c.Result.Value.Text() != "bad \ufffd utf-8" || !bytes.Contains(c.Result.Value.Content[0].Raw, []byte("\xff")) {
		t.Errorf("result %q", c.Result.Value.Content)
	}
	big := v.ToolCalls().At(1)
	if len(big.Arguments.Value) != 3<<20+2 || v.Completeness() != Complete {
		t.Errorf("%d bytes, %v", len(big.Arguments.Value), v.Limitations())
	}
	m := v.RawMessages().At(4)
	if m.Preview.State != Truncated || len(m.Preview.Value) != PreviewBytes || m.EvidenceRef.Size != m.SizeBytes || m.EvidenceRef.ID != "re:e1:5" || len(m.EvidenceRef.SHA256) != 64 {
		t.Errorf("big frame: %s, %d, %+v", m.Preview.State, len(m.Preview.Value), m.EvidenceRef)
	}
}

func TestLostEvidence(t *testing.T) {
	t.Parallel()
	request := func(f Frame) func(b *builder) {
		return func(b *builder) {
			f.Direction, f.Framing = ClientToServer, FramingLine
			b.event(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/call", Frame: &f})
		}
	}
	response := func(f Frame) func(b *builder) {
		return func(b *builder) {
			b.call("1", "a", `{}`)
			f.Direction, f.Framing = ServerToClient, FramingLine
			b.event(Event{Kind: KindMCPResponse, RPCID: "1", Frame: &f})
		}
	}
	tests := []struct {
		name   string
		events func(b *builder)
		state  State // of what stood in the frame
		status ToolCallStatus
	}{
		{"bytes given up", request(Frame{Size: 40, WireSize: 40, SHA256: "aa"}), Unavailable, ToolIncomplete},
		{"bytes and size given up", request(Frame{WireSize: 40, Dropped: 40}), Unavailable, ToolIncomplete},
		{"blob gone", request(Frame{Size: 40, WireSize: 40, SHA256: "aa", OutOfLine: true}), Unavailable, ToolIncomplete},
		{"over the cap", request(Frame{Bytes: []byte(`{"id":1,"method":"tools/call","params":{"name":"a","arg`), Dropped: 9}), Truncated, ToolIncomplete},
		{"answer given up", response(Frame{Size: 40, WireSize: 40, SHA256: "aa"}), Unavailable, ToolIncomplete},
		{"answer over the cap", response(Frame{Bytes: []byte(`{"id":1,"result":{"con`), Dropped: 9}), Truncated, ToolIncomplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			tt.events(b)
			v := b.view()
			c := v.ToolCalls().At(0)
			got := c.Result
			if strings.HasPrefix(tt.name, "answer") {
				if c.Status != StatusUnavailable || !c.Arguments.OK() {
					t.Errorf("status %s, arguments %+v", c.Status, c.Arguments)
				}
			} else {
				got = Observation[ToolResult]{State: c.Arguments.State, Reason: c.Arguments.Reason}
			}
			want := ReasonCaptureFailed
			if tt.state == Truncated {
				want = ReasonEvidenceTruncated
			}
			if got.State != tt.state || got.Reason != want || c.ToolStatus != tt.status {
				t.Errorf("%s, %s, status %s", got.State, got.Reason, c.ToolStatus)
			}
			last := v.RawMessages().At(v.RawMessages().Len() - 1)
			if last.Preview.State != tt.state || (last.EvidenceRef != nil) != (tt.state == Truncated) {
				t.Errorf("preview %s, evidence %+v", last.Preview.State, last.EvidenceRef)
			}
			if v.Completeness() != Partial || len(v.Limitations()) != 1 || v.Limitations()[0].Code != "capture_incomplete" {
				t.Errorf("limitations %v", v.Limitations())
			}
		})
	}
}

func TestCompleteness(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.payload(KindTransportDisconnected, `{"phase":"disconnected","bytes_read":7,"bytes_kept":6}`)
	b.event(Event{Kind: KindExecutionFinished, Payload: JSON(`{"outcome":"timed_out","limitations":[{"code":"persistence_failed","message":"disk full"},{"code":"capture_incomplete","message":"again"}]}`)})
	v, err := New("e1", b.arena).View()
	if err != nil {
		t.Fatal(err)
	}
	want := []Limitation{{"capture_incomplete", "bytes of some frames were not kept"}, {"persistence_failed", "disk full"}}
	if diff := cmp.Diff(want, v.Limitations()); diff != "" || v.Completeness() != Partial || v.Outcome() != OutcomeTimedOut {
		t.Errorf("%s %s\n%s", v.Completeness(), v.Outcome(), diff)
	}
	v.Limitations()[0].Code = "changed"
	if v.Limitations()[0].Code != "capture_incomplete" {
		t.Error("a caller can change the view")
	}
}

// failingLog forgets an event after the projection.
type failingLog struct {
	*Arena
	mu     sync.Mutex
	broken bool
}

func (l *failingLog) AppendEvent(dst []byte, i int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return dst, errFailing
	}
	return l.Arena.AppendEvent(dst, i)
}

var errFailing = &codedError{text: "gone"}

func TestLogThatFailsLater(t *testing.T) {
	t.Parallel()
	b := twoTurns(t)
	b.payload(KindProcessStarted, `{}`)
	b.event(Event{Kind: KindDiagnostic, Diagnostic: &Diagnostic{Code: "c"}})
	b.finish()
	log := &failingLog{Arena: b.arena}
	v, err := New("e1", log).View()
	if err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	log.broken = true
	log.mu.Unlock()
	c := v.ToolCalls().At(0)
	if c.Arguments.Reason != ReasonCaptureFailed || c.Result.Reason != ReasonCaptureFailed || c.TurnID != "t1" {
		t.Errorf("call %+v", c)
	}
	if p := v.Processes().At(0); len(p.Limitations) != 1 || p.Limitations[0] != "capture_failed" {
		t.Errorf("process %+v", p)
	}
	asJSON(t, v)
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	tr := twoTurns(t).finish()
	want := ""
	var once sync.Once
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			v, err := tr.View()
			if err != nil {
				t.Error(err)
				return
			}
			got := ids(v.ForServer("billing").Timeline())
			once.Do(func() { want = got })
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}
