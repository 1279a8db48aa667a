package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/trace"
)

// memorySink keeps what it is given; it is a trace.Log, too.
type memorySink struct {
	mu       sync.Mutex
	events   [][]byte
	blobs    map[string][]byte
	failAt   int64 // the event that fails; -1: none
	failBlob bool
}

func newSink() *memorySink { return &memorySink{blobs: map[string][]byte{}, failAt: -1} }

var errDisk = errors.New("disk full near s3cr3t-value")

func (s *memorySink) AppendEvent(seq int64, _ trace.Kind, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq == s.failAt {
		s.failAt = -1
		return errDisk
	}
	if seq != int64(len(s.events)) {
		return fmt.Errorf("sequence %d after %d events", seq, len(s.events))
	}
	s.events = append(s.events, bytes.Clone(body))
	return nil
}

func (s *memorySink) PutBlob(sum string, data []byte) error {
	if s.failBlob {
		return errDisk
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[strings.Clone(sum)] = bytes.Clone(data)
	return nil
}

func (s *memorySink) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

func (s *memorySink) copyEvent(dst []byte, i int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(dst, s.events[i]...)
}

// sinkLog is the sink as a trace.Log.
type sinkLog struct{ *memorySink }

func (l sinkLog) AppendEvent(dst []byte, i int) ([]byte, error) { return l.copyEvent(dst, i), nil }

func (l sinkLog) Blob(sum string) ([]byte, error) {
	b, ok := l.blobs[sum]
	if !ok {
		return nil, errors.New("no blob " + sum)
	}
	return b, nil
}

// decode returns all events, with their bytes.
func (s *memorySink) decode(t testing.TB) []trace.Event {
	t.Helper()
	var out []trace.Event
	for ev, err := range trace.New("e", sinkLog{s}).All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

func frameEvent(b string) *trace.Event {
	return &trace.Event{
		Kind: trace.KindMCPRequest, Phase: trace.PhaseMCPCall, Server: "srv", ConnectionID: "c1", RPCID: "1", Method: "tools/call",
		Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"},
		Frame:  &trace.Frame{Direction: trace.ClientToServer, Framing: trace.FramingLine, Bytes: []byte(b)},
	}
}

func TestRecordFrame(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, mustRedactor(t, nil, "s3cr3t-value"), nil)
	plain := "{\"jsonrpc\":\"2.0\",\"id\":1,\"x\":\"\xff\"}\r\n"
	secret := `{"jsonrpc":"2.0","id":1,"params":{"a":"s3cr3t-value","password":"x"}}` + "\n"
	big := `{"text":"` + strings.Repeat("é", 40<<10) + `"}`
	for i, b := range []string{plain, secret, big} {
		ev := frameEvent(b)
		ev.Frame.Dropped = int64(i)
		if seq := tape.Record(ev); seq != int64(i) {
			t.Errorf("sequence is %d, want %d", seq, i)
		}
		if string(ev.Frame.Bytes) != b || ev.Frame.Size != 0 {
			t.Error("Record changed its event")
		}
	}
	evs := sink.decode(t)
	kept := strings.NewReplacer("s3cr3t-value", mark, `"x"`, `"`+mark+`"`).Replace(secret)
	for i, want := range []string{plain, kept, big} {
		f := evs[i].Frame
		sum := sha256.Sum256([]byte(want))
		if string(f.Bytes) != want || f.Size != int64(len(want)) || f.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("event %d: %.200q, size %d, digest %s", i, f.Bytes, f.Size, f.SHA256)
		}
		if wire := []string{plain, secret, big}[i]; f.WireSize != int64(len(wire)+i) {
			t.Errorf("event %d: wire size %d", i, f.WireSize)
		}
		if f.OutOfLine != (i == 2) {
			t.Errorf("event %d: out of line is %t", i, f.OutOfLine)
		}
	}
	if len(evs[1].Redactions) != 2 || evs[0].Redactions != nil {
		t.Errorf("redactions %v", evs[1].Redactions)
	}
	log := tape.Log(sinkLog{sink}).(trace.Originals)
	if b, ok := log.Original(1); !ok || string(b) != secret {
		t.Errorf("original is %q", b)
	}
	if _, ok := log.Original(0); ok {
		t.Error("an original of a frame that was not redacted")
	}
}

func TestRecordCleansEverything(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value"
	ev := frameEvent("x " + secret)
	ev.RPCID, ev.Method, ev.SessionID, ev.TurnID = trace.RPCID(`"`+secret+`"`), secret, secret, "a"+secret
	ev.Payload = trace.JSON("{\n\"a\": \"" + secret + "\"}")
	ev.Diagnostic = &trace.Diagnostic{Code: "c", Message: secret}
	ev.Frame.HTTP = &trace.HTTPInfo{URL: "https://u:" + secret + "@h/", Header: []trace.HTTPHeader{{Name: "A", Value: "b"}, {Name: "Cookie", Value: "abc"}, {Name: "V", Value: secret}}}
	record := func(r *Redactor) string {
		sink := newSink()
		tape := NewTape("e", sink, r, nil)
		tape.Record(ev)
		tape.Find(trace.Finding{Code: "c", Message: secret + " password=abc", RPCID: trace.RPCID(`"` + secret + `"`)})
		tape.Limit("capture_incomplete", "x "+secret)
		if err := tape.Finish(trace.Finished{Error: trace.JSON(`{"message":"` + secret + `"}`)}); err != nil {
			t.Fatal(err)
		}
		sink.decode(t)
		return string(bytes.Join(sink.events, nil))
	}
	if got := record(mustRedactor(t, nil, secret)); strings.Contains(got, secret) || strings.Contains(got, "abc") {
		t.Errorf("leaked: %s", got)
	}
	off := NewRedactor(&RedactorConfig{Off: true})
	if got := record(off); strings.Count(got, secret) < 10 || !strings.Contains(got, "abc") {
		t.Errorf("the control shows the secret only %d times", strings.Count(got, secret))
	}
	if h := ev.Frame.HTTP; h.Header[1].Value != "abc" || !strings.Contains(h.URL, secret) {
		t.Error("Record changed its event's HTTP part")
	}
}

func TestRecordPayload(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1}`:              `{"a":1}`,
		"{\n \"token\":\"x\"}": `{"token":"` + mark + `"}`,
		"not\njson":            `"not\njson"`,
		"null":                 "null",
	} {
		sink := newSink()
		tape := NewTape("e", sink, nil, nil)
		tape.Record(&trace.Event{Kind: trace.KindUsage, Payload: trace.JSON(in), RPCID: "{broken"})
		ev := sink.decode(t)[0]
		if string(ev.Payload) != want || ev.RPCID != "" || bytes.ContainsAny(sink.events[0], "\r\n") {
			t.Errorf("%q: got %s in %s", in, ev.Payload, sink.events[0])
		}
		if (len(ev.Redactions) == 1) != strings.Contains(want, mark) {
			t.Errorf("%q: redactions %v", in, ev.Redactions)
		}
	}
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sink := newSink()
	tape := NewTape("e", sink, nil, &TapeConfig{Now: func() time.Time { return now }})
	record := func(at time.Time) {
		tape.Record(&trace.Event{Kind: trace.KindUsage, Time: at, Payload: trace.JSON("{}")})
	}
	now = now.Add(time.Second)
	record(time.Time{})
	now = now.Add(-time.Hour) // the wall clock steps back
	record(time.Time{})
	now = now.Add(time.Hour + time.Second)
	record(now.Add(time.Hour)) // another clock that is fast
	record(now.Add(-time.Hour))
	now = now.Add(time.Second)
	record(time.Time{})
	var got []time.Duration
	for _, ev := range sink.decode(t) {
		got = append(got, ev.Offset)
	}
	want := []time.Duration{time.Second, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("offsets %v, want %v", got, want)
	}
	if first := sink.decode(t)[0].Time; !first.Equal(time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)) || first.Location() != time.UTC {
		t.Errorf("time %v", first)
	}
}

func TestRecordConcurrently(t *testing.T) {
	t.Parallel()
	sink := newSink()
	r := mustRedactor(t, nil, "s3cr3t-value")
	tape := NewTape("e", sink, r, &TapeConfig{BlobBytes: 200})
	const workers, each = 8, 100
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			last := int64(-1)
			for i := range each {
				ev := frameEvent(fmt.Sprintf(`{"worker":%d,"i":%d,"a":"s3cr3t-value","b":%q}`, w, i, strings.Repeat("x", i*3)))
				ev.Time = time.Now()
				seq := tape.Record(ev)
				if seq <= last {
					t.Errorf("sequence %d after %d", seq, last)
				}
				last = seq
				if i%10 == 0 {
					tape.Find(trace.Finding{Code: "c", Sequence: seq})
					_ = r.Add("n", fmt.Sprintf("another-secret-%d-%d", w, i))
				}
			}
		})
	}
	wg.Wait()
	if err := tape.Finish(trace.Finished{Outcome: trace.OutcomeCompleted}); err != nil {
		t.Fatal(err)
	}
	evs := sink.decode(t)
	if len(evs) != workers*(each+each/10)+1 {
		t.Fatalf("%d events", len(evs))
	}
	next := make([]int, workers)
	for i, ev := range evs {
		if ev.Sequence != int64(i) || i > 0 && ev.Offset < evs[i-1].Offset {
			t.Fatalf("event %d: sequence %d, offset %v after %v", i, ev.Sequence, ev.Offset, evs[max(0, i-1)].Offset)
		}
		if ev.Kind != trace.KindMCPRequest {
			continue
		}
		var body struct{ Worker, I int }
		if err := json.Unmarshal(ev.Frame.Bytes, &body); err != nil || body.I != next[body.Worker] {
			t.Fatalf("event %d: %s: %v", i, ev.Frame.Bytes, err)
		}
		next[body.Worker]++
	}
}

func TestSinkFailure(t *testing.T) {
	t.Parallel()
	sink := newSink()
	sink.failAt = 1
	tape := NewTape("e", sink, mustRedactor(t, nil, "s3cr3t-value"), nil)
	var got []int64
	for range 3 {
		got = append(got, tape.Record(frameEvent("{}")))
	}
	if !slices.Equal(got, []int64{0, -1, 1}) {
		t.Errorf("sequences %v", got)
	}
	if err := tape.Finish(trace.Finished{Outcome: trace.OutcomeFailed}); !errors.Is(err, errDisk) || !errors.Is(tape.Err(), errDisk) {
		t.Errorf("got %v", err)
	}
	var f trace.Finished
	evs := sink.decode(t)
	if err := evs[len(evs)-1].Payload.Decode(&f); err != nil {
		t.Fatal(err)
	}
	if len(f.Limitations) != 1 || f.Limitations[0].Code != "persistence_failed" || strings.Contains(f.Limitations[0].Message, "s3cr3t") {
		t.Errorf("limitations %v", f.Limitations)
	}
}

func TestBlobFailure(t *testing.T) {
	t.Parallel()
	sink := newSink()
	sink.failBlob = true
	tape := NewTape("e", sink, nil, &TapeConfig{BlobBytes: 4})
	if seq := tape.Record(frameEvent("0123456789")); seq != 0 {
		t.Errorf("sequence %d", seq)
	}
	if ev := sink.decode(t)[0]; ev.Frame.OutOfLine || string(ev.Frame.Bytes) != "0123456789" {
		t.Errorf("got %+v", ev.Frame)
	}
	if tape.Err() == nil {
		t.Error("no error")
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, nil, nil)
	tape.Limit("capture_incomplete", "first")
	tape.Limit("capture_incomplete", "second")
	tape.Stderr("srv", "c1", []byte("last words"))
	for range 2 {
		if err := tape.Finish(trace.Finished{Outcome: trace.OutcomeCompleted, Limitations: []trace.Limitation{{Code: "interrupted", Message: "m"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if seq := tape.Record(frameEvent("{}")); seq != -1 {
		t.Errorf("sequence after Finish is %d", seq)
	}
	tape.Find(trace.Finding{Code: "late"})
	if n := tape.Dropped(); n != 2 {
		t.Errorf("%d dropped", n)
	}
	evs := sink.decode(t)
	if len(evs) != 2 || string(evs[0].Frame.Bytes) != "last words" || !evs[0].Frame.Partial {
		t.Fatalf("events %+v", evs)
	}
	want := `{"outcome":"completed","limitations":[{"code":"capture_incomplete","message":"first"},{"code":"interrupted","message":"m"}]}`
	if got := string(evs[1].Payload); evs[1].Kind != trace.KindExecutionFinished || got != want {
		t.Errorf("payload %s", got)
	}
	if tr := trace.New("e", sinkLog{sink}); !tr.Finalized() {
		t.Error("not finalized")
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, nil, &TapeConfig{MaxFindings: 3})
	seq := tape.Record(frameEvent("noise"))
	for range 5 {
		tape.Find(trace.Finding{Code: "stdout-noise", Severity: trace.SeverityError, Message: strings.Repeat("é", 4000), Sequence: seq, Offset: 7, RPCID: "1"})
	}
	if n := len(tape.Findings()); n != 3 {
		t.Errorf("%d findings", n)
	}
	if err := tape.Finish(trace.Finished{}); err != nil {
		t.Fatal(err)
	}
	fs := tape.Findings()
	if last := fs[len(fs)-1]; last.Code != "findings-truncated" || !strings.HasPrefix(last.Message, "2 more") {
		t.Errorf("last finding %+v", last)
	}
	evs := sink.decode(t)
	ev := evs[1]
	if ev.Kind != trace.KindFinding || ev.Server != "srv" || ev.ConnectionID != "c1" || ev.Phase != trace.PhaseMCPCall || ev.RPCID != "1" {
		t.Errorf("finding event %+v", ev)
	}
	var f trace.Finding
	if err := ev.Payload.Decode(&f); err != nil || f.Sequence != seq || f.Offset != 7 || len(f.Message) > maxFindingMessage {
		t.Errorf("payload: %+v, %v", f, err)
	}
	if len(evs) != 6 {
		t.Errorf("%d events", len(evs))
	}
}

func TestOriginalsBudget(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, nil, &TapeConfig{OriginalBytes: 100})
	frame := func(n int) string { return `{"password":"` + strings.Repeat("x", n-15) + `"}` }
	for _, n := range []int{40, 40, 40, 200} {
		tape.Record(frameEvent(frame(n)))
	}
	log := tape.Log(sinkLog{sink}).(trace.Originals)
	var got []bool
	for i := range 5 {
		_, ok := log.Original(i)
		got = append(got, ok)
	}
	if want := []bool{false, true, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("originals %v, want %v", got, want)
	}
}

// stderrText joins what was recorded, and checks each piece.
func stderrText(t *testing.T, sink *memorySink, log trace.Originals) (kept, wire string) {
	t.Helper()
	for i, ev := range sink.decode(t) {
		if ev.Kind != trace.KindProcessStderr {
			continue
		}
		if ev.Frame.WireSize > 2*stderrPiece {
			t.Errorf("a piece of %d bytes", ev.Frame.WireSize)
		}
		b := string(ev.Frame.Bytes)
		kept += b
		if orig, ok := log.Original(i); ok {
			if restore(t, []byte(b), orig, ev.Redactions) != string(orig) {
				t.Errorf("event %d cannot be restored", i)
			}
			b = string(orig)
		}
		if ev.Frame.Partial == strings.HasSuffix(b, "\n") || ev.Source.Source != "process" || ev.Frame.Direction != trace.ServerToClient {
			t.Errorf("event %d: %+v", i, ev.Frame)
		}
		wire += b
	}
	return kept, wire
}

func TestStderr(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value/with+more"
	fill := func(n int) string { return strings.Repeat("some words ", n/11+1)[:n] }
	cases := []struct {
		name, text string
		replaced   int
	}{
		{"lines", "a\nb\r\npassword=x\nlast", 1},
		{"line of exactly a piece", fill(stderrPiece-1) + "\nb\n", 0},
		{"known value over the cut", fill(stderrPiece-10) + secret + fill(100000) + "\n", 1},
		{"known value over every cut", strings.Repeat(fill(stderrPiece-30)+secret+" ", 5), 5},
		{"name before the cut", fill(stderrPiece-4) + " password=hunter2 " + fill(50000) + "\n", 1},
		{"name up to the cut", fill(stderrPiece-10) + " password=hunter2 " + fill(50000) + "\nnext\n", 1},
		{"value of many pieces", "x " + `{"password":"` + strings.Repeat("hunter2-", 40000) + "\"}\nnext\n", -1},
		{"no line end", fill(300000), 0},
	}
	for _, c := range cases {
		for _, size := range []int{7, 4096, stderrPiece, 1 << 20} {
			if size == 7 && len(c.text) > 1000 {
				continue
			}
			t.Run(fmt.Sprintf("%s in %d", c.name, size), func(t *testing.T) {
				t.Parallel()
				sink := newSink()
				tape := NewTape("e", sink, mustRedactor(t, nil, secret), nil)
				for rest := []byte(c.text); len(rest) > 0; {
					n := min(size, len(rest))
					piece := bytes.Clone(rest[:n])
					tape.Stderr("srv", "c1", piece)
					clear(piece)
					rest = rest[n:]
				}
				tape.Record(&trace.Event{Kind: trace.KindProcessExited, Server: "srv", ConnectionID: "c1", Payload: trace.JSON("{}")})
				evs := sink.decode(t)
				if evs[len(evs)-1].Kind != trace.KindProcessExited {
					t.Error("stderr after the exit")
				}
				kept, wire := stderrText(t, sink, tape.Log(sinkLog{sink}).(trace.Originals))
				if wire != c.text {
					t.Errorf("%d bytes of %d came through", len(wire), len(c.text))
				}
				if strings.Contains(kept, "hunter2") || strings.Contains(kept, secret) || strings.Contains(kept, "with+more") {
					t.Error("leaked")
				}
				if n := strings.Count(kept, mark); c.replaced >= 0 && n != c.replaced || c.replaced < 0 && !strings.HasSuffix(kept, "next\n") {
					t.Errorf("%d replacements", n)
				}
			})
		}
	}
}

// Who waits for a change is woken by the next event, and by the end; after it nobody waits.
func TestTapeChanged(t *testing.T) {
	t.Parallel()
	tape := NewTape("e1", &discard{}, nil, nil)
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first := tape.Changed()
	if closed(first) || tape.Changed() != first {
		t.Error("it changed, and nothing happened")
	}
	tape.Record(&trace.Event{Kind: trace.KindDiagnostic, Diagnostic: &trace.Diagnostic{Code: "x"}})
	second := tape.Changed()
	if !closed(first) || closed(second) {
		t.Errorf("after an event: %v, %v", closed(first), closed(second))
	}
	if err := tape.Finish(trace.Finished{Outcome: trace.OutcomeCompleted}); err != nil {
		t.Fatal(err)
	}
	if !closed(second) || !closed(tape.Changed()) {
		t.Error("the end wakes nobody")
	}
}
