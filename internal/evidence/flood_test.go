package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3/trace"
)

// A server that writes to stderr without end leaves a bounded trace, and one finding with what was not kept.
func TestStderrFlood(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	line := bytes.Repeat([]byte("x"), 99)
	for _, c := range []struct {
		name   string
		piece  []byte
		pieces int
		exited bool
	}{
		{"blocks without line end", bytes.Repeat([]byte("x"), 64<<10), 100, true},
		{"lines", append(line, '\n'), 30000, false},
		{"empty lines", []byte("\n"), 30000, true},
		{"one piece", bytes.Repeat([]byte("a line\n"), 1<<20), 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink := newSink()
			tape := NewTape("e", sink, nil, &TapeConfig{StderrBytes: most})
			tape.Stderr("other", "c2", []byte("quiet\n"))
			for range c.pieces {
				tape.Stderr("srv", "c1", c.piece)
			}
			if c.exited {
				tape.Record(&trace.Event{Kind: trace.KindProcessExited, Server: "srv", ConnectionID: "c1", Payload: trace.JSON("{}")})
			}
			if err := tape.Finish(trace.Finished{Outcome: trace.OutcomeCompleted}); err != nil {
				t.Fatal(err)
			}
			var kept, keptLines, found, last int64
			for _, ev := range sink.decode(t) {
				switch {
				case ev.Kind == trace.KindProcessStderr && ev.Server == "srv":
					kept, last = kept+ev.Frame.WireSize, ev.Sequence
					if !ev.Frame.Partial {
						keptLines++
					}
				case ev.Kind == trace.KindFinding:
					found++
					if ev.Server != "srv" || ev.ConnectionID != "c1" {
						t.Errorf("a finding about %s %s", ev.Server, ev.ConnectionID)
					}
				}
			}
			total := int64(len(c.piece) * c.pieces)
			lines := int64(bytes.Count(c.piece, []byte("\n")) * c.pieces)
			if total > lines && lines == 0 {
				lines = 1
			}
			if kept > most || kept == 0 || sink.Len() > most/stderrEvent+10 {
				t.Errorf("%d bytes kept in %d events", kept, sink.Len())
			}
			fs := tape.Findings()
			if found != 1 || len(fs) != 1 {
				t.Fatalf("%d findings: %v", found, fs)
			}
			want := fmt.Sprintf("%d bytes (%d lines)", total-kept, lines-keptLines)
			if f := fs[0]; f.Code != "stderr-flood" || f.Severity != trace.SeverityWarning || f.Sequence != last || !strings.Contains(f.Message, want) {
				t.Errorf("%+v, want %s after %d", f, want, last)
			}
		})
	}
}

// Without a flood there is no finding, and no bound means none.
func TestStderrUnbounded(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, nil, &TapeConfig{StderrBytes: -1})
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 20 {
		tape.Stderr("srv", "c1", block)
	}
	tape.StderrEnd("srv", "c1")
	var kept int64
	for _, ev := range sink.decode(t) {
		kept += ev.Frame.WireSize
	}
	if kept != 20<<20 || len(tape.Findings()) != 0 {
		t.Errorf("%d bytes kept, findings %v", kept, tape.Findings())
	}
}

// The id of a session, and the values of an endpoint's query, are kept out of the record of an exchange.
func TestHTTPInfoWithoutSecrets(t *testing.T) {
	t.Parallel()
	sink := newSink()
	tape := NewTape("e", sink, nil, nil)
	info := &trace.HTTPInfo{Exchange: 1, Method: "POST", URL: "http://h/mcp?tenant=acme", Header: []trace.HTTPHeader{{Name: "Mcp-Session-Id", Value: "0a1b2c3d"}, {Name: "Accept", Value: "x/y"}}}
	tape.Record(&trace.Event{Kind: trace.KindHTTPExchange, Frame: &trace.Frame{Framing: trace.FramingBody, HTTP: info}})
	got := sink.decode(t)[0].Frame.HTTP
	if got.URL != "http://h/mcp?tenant="+mark || got.Header[0].Value != mark || got.Header[1].Value != "x/y" {
		t.Errorf("%+v", got)
	}
	if info.Header[0].Value != "0a1b2c3d" || !strings.HasSuffix(info.URL, "acme") {
		t.Errorf("the caller's value was changed: %+v", info)
	}
}
