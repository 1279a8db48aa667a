package trace

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/m3-go/m3/internal/wiretest"
)

func full() Event {
	return Event{
		ExecutionID: "e1", Sequence: 7, Kind: KindMCPResponse, Time: time.Unix(0, 1767323045000000001).UTC(), Offset: 5 * time.Second,
		Phase: PhaseMCPCall, SessionID: "s", TurnID: "t", Server: "shipping \"é\"", ConnectionID: "c", Source: Source{OriginWire, "mcp"},
		RPCID: `"a\nb"`, Method: "tools/call", Own: true, Payload: JSON(`{"a":[1,null,1e400]}`),
		Diagnostic: &Diagnostic{Code: "c", Message: "<m>", Stage: "s", Operation: "o", Elapsed: 1234567891, Timeout: 100 * time.Millisecond},
		Redactions: []Redaction{{1, 2, 3, 4}},
		Frame: &Frame{Direction: ServerToClient, Framing: FramingSSE, Bytes: []byte("data: {}\n\n"), Size: 10, WireSize: 12, SHA256: "ab", Dropped: 2, Partial: true,
			HTTP: &HTTPInfo{Exchange: 3, Method: "POST", URL: "http://x/?a=<b>", Status: 200, Header: []HTTPHeader{{"A", "1"}, {"A", "\"2\""}}}},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	bare := Event{ExecutionID: "e1", Kind: KindDiagnostic}
	events := map[string]Event{"full": full(), "bare": bare}
	for name, b := range map[string]string{
		"empty": "", "binary": "\x00\x01\xff\xfe", "invalid UTF-8": "{\"a\":\"\xc3\x28\"}\n", "separators": "\u2028\u2029\x7f\x85", "NUL": "\x00", "controls": "\r\n\t\b\f\x1b\"\\/",
		"surrogate": `"\ud800"`, "replacement": "\ufffd", "astral": "😀", "escapes": `\\u0041\n`, "3 MB": strings.Repeat("é\n\x00\"", 3<<20/5), "3 MB binary": strings.Repeat("\xff", 3<<20),
	} {
		ev := bare
		ev.Frame = &Frame{Direction: ClientToServer, Framing: FramingLine, Bytes: []byte(b), Size: int64(len(b)), WireSize: int64(len(b))}
		events["frame "+name] = ev
	}
	out := full()
	out.Frame.OutOfLine, out.Frame.Bytes = true, nil
	events["out of line"] = out
	for name, ev := range events {
		enc := AppendEvent([]byte("before"), &ev)
		enc, ok := bytes.CutPrefix(enc, []byte("before"))
		if !ok || bytes.ContainsAny(enc, "\n\r") || !json.Valid(enc) {
			t.Errorf("%s: not one line of JSON: %.200q", name, enc)
		}
		var r rawEvent
		if !scanEvent(&r, enc) && !strings.Contains(name, "full") && name != "out of line" {
			t.Errorf("%s: our own form is not scanned: %.200q", name, enc)
		}
		for _, decode := range []func(ExecutionID, []byte) (Event, error){DecodeEvent, decodeSlow} {
			got, err := decode("e1", enc)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if ev.Frame != nil && !bytes.Equal(ev.Frame.Bytes, got.Frame.Bytes) {
				t.Errorf("%s: the bytes differ", name)
			}
			if f := got.Frame; f != nil && len(f.Bytes) > 1000 { // a diff of megabytes takes seconds
				f.Bytes = ev.Frame.Bytes
			}
			if diff := cmp.Diff(ev, got, cmp.Comparer(bytes.Equal)); diff != "" {
				t.Errorf("%s: -want +got\n%.2000s", name, diff)
			}
		}
	}
}

// A recorder's mistakes must not make a whole trace unreadable.
func TestBadPartsStayReadable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ev   Event
		want Event
	}{
		{Event{Kind: KindDiagnostic, Payload: JSON("{\n\"a\": 1\r}")}, Event{Kind: KindDiagnostic, Payload: JSON(`{"a":1}`)}},
		{Event{Kind: KindDiagnostic, Payload: JSON("{broken")}, Event{Kind: KindDiagnostic, Payload: JSON(`"{broken"`)}},
		{Event{Kind: KindDiagnostic, RPCID: "0x1"}, Event{Kind: KindDiagnostic, RPCID: `"0x1"`}},
		{Event{Kind: KindDiagnostic, RPCID: "01"}, Event{Kind: KindDiagnostic, RPCID: `"01"`}},
		{Event{Kind: KindDiagnostic, RPCID: "{\n}"}, Event{Kind: KindDiagnostic, RPCID: `{}`}},
		{Event{Kind: KindDiagnostic, Server: "a\xffb"}, Event{Kind: KindDiagnostic, Server: "a\ufffdb"}},
	}
	for _, tt := range tests {
		enc := AppendEvent(nil, &tt.ev)
		got, err := DecodeEvent("", enc)
		if err != nil || bytes.ContainsAny(enc, "\n\r") {
			t.Errorf("%s: %v", enc, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s -want +got\n%s", enc, diff)
		}
	}
}

func TestDecodeEventErrors(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "null", "[]", "{", `{"seq":1}`, `{"kind":"diagnostic"}`, `{"seq":"1","kind":"x"}`, `{"seq":1,"kind":"x"} ` + "x",
		`{"seq":1,"kind":"x","time_ns":1,"offset_ns":1,"frame":{"direction":"a","framing":"b","size":1,"wire_size":1,"base64":"!"}}`,
		`{"seq":99999999999999999999,"kind":"x","time_ns":1,"offset_ns":1}`} {
		if ev, err := DecodeEvent("", []byte(s)); err == nil {
			t.Errorf("%s: decoded to %+v", s, ev)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	seedEvents(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeEvent("e", b)
		want, wantErr := decodeSlow("e", b)
		if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(want, got) {
			t.Fatalf("%q\nfast %+v %v\nslow %+v %v", b, got, err, want, wantErr)
		}
		if err != nil {
			return
		}
		again, err := DecodeEvent("e", AppendEvent(nil, &got))
		if err != nil {
			t.Fatalf("%q: encoded again: %v", b, err)
		}
		third, err := DecodeEvent("e", AppendEvent(nil, &again))
		if err != nil || !cmp.Equal(again, third) {
			t.Fatalf("%q: no fixed point: %v\n%s", b, err, cmp.Diff(again, third))
		}
	})
}

func FuzzScanEvent(f *testing.F) {
	seedEvents(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rawEvent
		if !scanEvent(&r, b) {
			return
		}
		ev, err := decodeSlow("", b)
		if err != nil {
			// Parts that the header does not decode may be of a wrong type; DecodeEvent finds that.
			if _, err := r.event(""); err == nil {
				t.Fatalf("%q: scanned and decoded, but: %v", b, err)
			}
			return
		}
		var want rawEvent
		want.fill(&ev)
		if r.seq != want.seq || r.offset != want.offset || r.timeNS != want.timeNS || r.own != want.own || r.hasFrame != want.hasFrame ||
			r.size != want.size || r.wireSize != want.wireSize || r.dropped != want.dropped || r.partial != want.partial || r.outOfLine != want.outOfLine {
			t.Fatalf("%q:\nscan %+v\nwant %+v", b, r, want)
		}
		for i, pair := range [][2][]byte{{r.kind, want.kind}, {r.phase, want.phase}, {r.session, want.session}, {r.turn, want.turn}, {r.server, want.server},
			{r.conn, want.conn}, {r.origin, want.origin}, {r.source, want.source}, {r.rpcID, want.rpcID}, {r.method, want.method}, {r.payload, want.payload},
			{r.direction, want.direction}, {r.framing, want.framing}, {r.sha, want.sha}} {
			if !bytes.Equal(pair[0], pair[1]) {
				t.Fatalf("%q: field %d is %q, want %q", b, i, pair[0], pair[1])
			}
		}
		if data, err := r.appendData(nil); err != nil || !bytes.Equal(data, want.data) {
			t.Fatalf("%q: data %q %v, want %q", b, data, err, want.data)
		}
	})
}

func seedEvents(f *testing.F) {
	ev := full()
	f.Add(AppendEvent(nil, &ev))
	ev.Server, ev.RPCID, ev.Diagnostic = "s", "1", nil
	f.Add(AppendEvent(nil, &ev))
	ev.Frame.Bytes = []byte("\xff\x00")
	f.Add(AppendEvent(nil, &ev))
	ev.Frame = nil
	f.Add(AppendEvent(nil, &ev))
	wiretest.Seed(f, func(sent []byte) {
		ev := full()
		ev.Frame.Bytes = sent
		f.Add(AppendEvent(nil, &ev))
	})
	f.Add([]byte(`{"seq":1,"kind":"a","time_ns":-0,"offset_ns":1,"rpc_id":null,"payload":null}`))
	f.Add([]byte(`{"seq":1,"kind":"a","time_ns":1,"offset_ns":1,"frame":{"direction":"a","framing":"b","size":1,"wire_size":1,"text":"\ud83d\ude00\ud800\u0041"}}`))
}

func FuzzScanJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+9,true,false,null,"\u0041\ud800\n"],"a":{}}`, ` [ ] `, `{"a" : 1 , "b":2}`, `"`, `01`, `-`, `1.`, `1e`, "\"\x01\"", "\"\xff\"", `{"a":1,}`, `[1,]`, `{,}`} {
		f.Add([]byte(s))
	}
	wiretest.Seed(f, func(sent []byte) { f.Add(sent) })
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := whole(b)
		if ok != json.Valid(b) {
			t.Fatalf("%q: valid is %v", b, ok)
		}
		if !ok {
			return
		}
		var s string
		if err := json.Unmarshal(b, &s); err == nil && !v.null() {
			if got, _ := v.text(); got != s {
				t.Fatalf("%q: text %q, want %q", b, got, s)
			}
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(b, &members) == nil && !v.null() {
			got := map[string]json.RawMessage{}
			for w := v.walk(); w.next(); {
				name := string([]rune(w.name()))
				got[name] = json.RawMessage(w.val.b)
				if !bytes.Equal(b[w.val.off:w.val.off+len(w.val.b)], w.val.b) {
					t.Fatalf("%q: offset %d of %q", b, w.val.off, w.val.b)
				}
			}
			if !cmp.Equal(members, got) && len(members)+len(got) > 0 {
				t.Fatalf("%q: members %v, want %v", b, got, members)
			}
		}
		var elements []json.RawMessage
		if json.Unmarshal(b, &elements) == nil && v.is('[') {
			n := 0
			for w := v.walk(); w.next(); n++ {
				if n >= len(elements) || string(w.val.b) != string(elements[n]) {
					t.Fatalf("%q: element %d is %q", b, n, w.val.b)
				}
			}
			if n != len(elements) {
				t.Fatalf("%q: %d elements", b, n)
			}
		}
	})
}
