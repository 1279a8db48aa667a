package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// epoch is when everything that the suite makes up happened.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)

// BlobBytes is from which size on [Tape] puts the bytes of a frame out of line.
const BlobBytes = 64 << 10

// Payload is a frame's bytes that are hard to keep.
type Payload struct {
	Name  string
	Bytes []byte
}

// Payloads are the bytes that every store gives back exactly.
func Payloads() []Payload {
	return []Payload{
		{"plain", []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")},
		{"empty", []byte{}},
		{"crlf", []byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n")},
		{"null", []byte("null\n")},
		{"duplicate keys", []byte(`{"id":1,"id":2,"result":{"a":1,"a":1.000000000000000000001,"a":1e400}}` + "\n")},
		{"malformed", []byte(`{"jsonrpc":"2.0","id":` + "\n")},
		{"noise", []byte("\x1b[31mServer ready\x1b[0m\t\"quoted\\\"\n")},
		{"controls", []byte("\x00\x01\x1f\x7f\u2028\u2029\n")},
		{"unicode", []byte(`{"text":"żółw 🐢 \ud800 ` + "\u0000é\U0010FFFF" + `"}` + "\n")},
		{"binary", binary(2000)},
		{"split utf-8", []byte("{\"text\":\"\xc5")},
		{"large", append([]byte(`{"text":"`+strings.Repeat("long ünd breit ", 200_000)), "\"}\n"...)},
		{"large binary", binary(3 << 20)},
	}
}

// binary is n bytes of all values in no order.
func binary(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// Tape makes the records of one execution, with sequences and times, as a recording kit does.
type Tape struct {
	RunID, Suite, Case, TestID string
	ID                         trace.ExecutionID
	Created                    time.Time
	// Events are the events made so far, with the bytes of their frames.
	Events []trace.Event
}

// NewTape returns a tape whose names derive from the run and id.
func NewTape(run, id string) *Tape {
	return &Tape{RunID: run, Suite: "suite", Case: "case of " + id, TestID: "test of " + id, ID: trace.ExecutionID(id), Created: epoch}
}

// Open is the execution's record.
func (t *Tape) Open() *store.Execution {
	return &store.Execution{ID: t.ID, RunID: t.RunID, Suite: t.Suite, Case: t.Case, TestID: t.TestID, Kind: "direct", Created: t.Created,
		Servers: []string{"orders"}, Spec: trace.JSON(`{"protocol":"2025-11-25","exact":1.000000000000000000001,"html":"<&>","twice":1,"twice":2}`)}
}

// Begin makes the execution.created event.
func (t *Tape) Begin() []store.Record {
	b, _ := json.Marshal(trace.Created{Kind: "direct", RunID: t.RunID, Suite: t.Suite, Case: t.Case})
	return t.add(trace.Event{Kind: trace.KindExecutionCreated, Phase: trace.PhaseStartup, Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"}, Payload: b})
}

// Frame makes the event of a frame, and its blob when it is large.
func (t *Tape) Frame(data []byte) []store.Record {
	n := int64(len(t.Events))
	f := frame(trace.ServerToClient, data)
	f.HTTP = &trace.HTTPInfo{Exchange: 1, Status: 200, Header: []trace.HTTPHeader{{Name: "X-A", Value: "<b>"}}}
	return t.add(trace.Event{Kind: trace.KindMCPResponse, Phase: trace.PhaseMCPCall, Server: "orders", ConnectionID: "c1", RPCID: `"a\"b"`, Method: "tools/call",
		Source:     trace.Source{Origin: trace.OriginWire, Source: "mcp"},
		Redactions: []trace.Redaction{{Offset: n, Length: 1, OriginalOffset: n + 1, OriginalLength: 2}},
		Frame:      f})
}

func frame(direction trace.Direction, data []byte) *trace.Frame {
	sum := sha256.Sum256(data)
	return &trace.Frame{Direction: direction, Framing: trace.FramingLine, Bytes: data, Size: int64(len(data)), WireSize: int64(len(data)) + 1,
		SHA256: hex.EncodeToString(sum[:]), OutOfLine: len(data) > BlobBytes}
}

// Call makes the frames of a tool call, the answer so long after the request. The result is success, tool_error or protocol_error.
func (t *Tape) Call(tool, result string, latency time.Duration) []store.Record {
	id := trace.RPCID(strconv.Itoa(len(t.Events)))
	kind, answer := trace.KindMCPResponse, `"result":{"content":[{"type":"text","text":"ok"}]}`
	switch result {
	case "tool_error":
		answer = `"result":{"content":[],"isError":true}`
	case "protocol_error":
		kind, answer = trace.KindMCPError, `"error":{"code":-32603,"message":"no"}`
	}
	event := func(kind trace.Kind, direction trace.Direction, after time.Duration, body string) []store.Record {
		return t.addAfter(trace.Event{Kind: kind, Phase: trace.PhaseMCPCall, Server: "orders", ConnectionID: "c1", RPCID: id, Method: "tools/call",
			Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"}, Frame: frame(direction, []byte(body+"\n"))}, after)
	}
	request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)
	recs := event(trace.KindMCPRequest, trace.ClientToServer, time.Millisecond, request)
	return append(recs, event(kind, trace.ServerToClient, latency, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, answer))...)
}

// End makes the execution.finished event. A message makes the trace partial.
func (t *Tape) End(outcome trace.Outcome, limitation string) []store.Record {
	f := trace.Finished{Outcome: outcome}
	if limitation != "" {
		f.Limitations = []trace.Limitation{{Code: "capture_incomplete", Message: limitation}}
	}
	b, _ := json.Marshal(f)
	return t.add(trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"}, Payload: b})
}

// Whole makes everything: the execution, its begin, a frame for each of the payloads, its end.
func (t *Tape) Whole(payloads ...Payload) []store.Record {
	recs := append([]store.Record{t.Open()}, t.Begin()...)
	for _, p := range payloads {
		recs = append(recs, t.Frame(p.Bytes)...)
	}
	return append(recs, t.End(trace.OutcomeCompleted, "")...)
}

// Ref is the reference to the evidence of event seq.
func (t *Tape) Ref(seq int) trace.EvidenceRef {
	f := t.Events[seq].Frame
	return trace.EvidenceRef{ID: fmt.Sprintf("re:%s:%d", t.ID, seq), SHA256: f.SHA256, Size: f.Size, MediaType: "application/json"}
}

func (t *Tape) add(ev trace.Event) []store.Record {
	after := time.Millisecond
	if len(t.Events) == 0 {
		after = 0
	}
	return t.addAfter(ev, after)
}

// addAfter adds an event so long after the one before.
func (t *Tape) addAfter(ev trace.Event, after time.Duration) []store.Record {
	n := len(t.Events)
	ev.ExecutionID, ev.Sequence = t.ID, int64(n)
	ev.Offset = after
	if n > 0 {
		ev.Offset += t.Events[n-1].Offset
	}
	ev.Time = t.Created.Add(ev.Offset)
	var recs []store.Record
	if ev.Frame != nil && ev.Frame.OutOfLine {
		recs = append(recs, &store.Blob{ExecutionID: t.ID, SHA256: ev.Frame.SHA256, Data: bytes.Clone(ev.Frame.Bytes)})
	}
	t.Events = append(t.Events, ev)
	return append(recs, &store.Event{ExecutionID: t.ID, Sequence: ev.Sequence, Kind: ev.Kind, Body: trace.AppendEvent(nil, &ev)})
}
