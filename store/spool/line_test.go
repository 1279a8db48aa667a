package spool_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

func TestEventLine(t *testing.T) {
	t.Parallel()
	for _, r := range []store.Event{
		{ExecutionID: "e1", Sequence: 0, Kind: "mcp.request", Body: []byte(`{"seq":0,"kind":"mcp.request"}`)},
		{ExecutionID: `q"u\o<>t é ` + "\n", Sequence: 1<<62 + 1, Kind: `"`, Body: []byte(`{"a":"\n\"}"}`)},
		{ExecutionID: "lines", Sequence: 12, Kind: "finding", Body: []byte("{\n\"a\": 1\r\n}\n")},
		{ExecutionID: "no json", Sequence: 3, Kind: "k", Body: []byte("}{,\"b\":\x00\xff")},
		{ExecutionID: "one byte", Sequence: 999999999999999999, Kind: "k", Body: []byte("}")},
	} {
		line := spool.AppendEventLine(nil, &r)
		if n := bytes.Count(line, []byte("\n")); n != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("%s is written with %d newlines", r.ExecutionID, n)
		}
		var l spool.Line
		if err := l.Decode(line[:len(line)-1]); err != nil {
			t.Fatalf("%s: %v", r.ExecutionID, err)
		}
		if l.Type != "event" || string(l.ExecutionID) != string(r.ExecutionID) || l.Sequence != r.Sequence || string(l.Kind) != string(r.Kind) || !bytes.Equal(l.Body, r.Body) {
			t.Errorf("%s: read back as %+v", r.ExecutionID, l)
		}
	}
}

// What does not have our layout is read by encoding/json, and means the same.
func TestLineOfOtherLayout(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"t":"event","x":"e","s":7,"k":"finding","b":{"a": 1}}`,
		` { "t" : "event" , "x" : "e" , "s" : 7 , "k" : "finding" , "b" : {"a": 1} } `,
		`{"k":"finding","b":{"a": 1},"s":7,"x":"\u0065","t":"event","new":true}`,
	} {
		var l spool.Line
		if err := l.Decode([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if l.Type != "event" || string(l.ExecutionID) != "e" || l.Sequence != 7 || string(l.Kind) != "finding" || string(l.Body) != `{"a": 1}` {
			t.Errorf("%s: read as %+v", line, l)
		}
	}
}

func TestBadLine(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "null", "{}", "[]", `{"t":"event"`, `{"t":"event","x":"e"}`, `{"t":"event","x":"e","s":1,"k":"k"}`, `{"t":"event","x":"e","s":1,"k":"k","b":}`,
		`{"t":"event","x":"e","s":-1,"k":"k","b":{}}`, `{"t":"event","x":"e","k":"k","b":{}}`, `{"t":"event","x":"e","s":1e3,"k":"k","b":{}}`, `{"t":"event","x":"","s":1,"k":"k","b":{}}`,
		`{"t":"event","x":"e","s":1,"k":"k","b64":"*"}`, `{"t":"event","x":"e","s":99999999999999999999,"k":"k","b":{}}`,
		`{"t":"blob","x":"e","h":"../x","n":1}`, `{"t":"run"}`, `{"t":"verdict","v":{}}`,
	} {
		var l spool.Line
		if err := l.Decode([]byte(line)); err == nil {
			t.Errorf("%s: no error, read as %+v", line, l)
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "{}", "null", `{"m3_spool":0,"run_id":"r"}`, `{"m3_spool":1}`, `{"t":"run","v":{}}`, "\x00"} {
		if _, err := spool.ParseHeader([]byte(line)); err == nil || errors.Is(err, store.ErrVersion) {
			t.Errorf("%q: error %v", line, err)
		}
	}
	_, err := spool.ParseHeader([]byte(`{"m3_spool":7,"m3_version":"v9.1.0","run_id":"r","new":{}}`))
	if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "format 7 (m3 v9.1.0), this m3 reads up to 2") {
		t.Errorf("a newer format: %v", err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"t":"event","x":"e","s":7,"k":"finding","b":{"a": 1}}`), "e", int64(1), []byte("{}"))
	f.Add([]byte(`{"t":"blob","x":"e","h":"00","n":1}`), "\"\\\u2028", int64(1<<60), []byte("\n"))
	f.Add([]byte(`{"t":"run","v":{}}`), "\x00\x1f<", int64(0), []byte("}"))
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, "e", int64(2), sent) })
	f.Fuzz(func(t *testing.T, line []byte, id string, seq int64, body []byte) {
		var l spool.Line
		if err := l.Decode(line); err == nil && l.Type == "event" {
			if rec := (&store.Event{ExecutionID: trace.ExecutionID(l.ExecutionID), Sequence: l.Sequence, Kind: trace.Kind(l.Kind), Body: l.Body}); store.Check(rec) != nil {
				t.Errorf("%q is read as an event that cannot be kept: %+v", line, l)
			}
		}
		_, _ = spool.ParseHeader(line)
		r := store.Event{ExecutionID: trace.ExecutionID(id), Sequence: seq, Kind: trace.Kind(id), Body: body}
		if store.Check(&r) != nil {
			return
		}
		out := spool.AppendEventLine(nil, &r)
		if i := bytes.IndexByte(out, '\n'); i != len(out)-1 {
			t.Fatalf("not one line: %q", out)
		}
		if err := l.Decode(out[:len(out)-1]); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		want := strings.ToValidUTF8(id, "\ufffd")
		if b, err := json.Marshal(id); err == nil {
			_ = json.Unmarshal(b, &want) // one replacement a byte, as encoding/json does
		}
		if string(l.ExecutionID) != want || l.Sequence != seq || string(l.Kind) != want || !bytes.Equal(l.Body, body) {
			t.Errorf("%q is read back as %+v", out, l)
		}
	})
}
