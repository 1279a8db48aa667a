package expect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/trace"
)

// fakeT notes what a matcher does to a test.
type fakeT struct {
	name    string
	errors  []string
	stopped bool
}

func (f *fakeT) Helper()      {}
func (f *fakeT) Name() string { return f.name }
func (f *fakeT) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fakeT) FailNow() { f.stopped = true }

// story builds the trace of an execution, one event a millisecond.
type story struct {
	arena  *trace.Arena
	n      int
	server string
	turn   trace.TurnID
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newStory() *story {
	s := &story{arena: trace.NewArena(), server: "shipping"}
	s.event(&trace.Event{Kind: trace.KindExecutionCreated, Phase: trace.PhasePreflight, Payload: trace.JSON(`{"kind":"direct"}`)})
	return s
}

// on goes on with another server.
func (s *story) on(server string) *story { s.server = server; return s }

// in goes on in a turn.
func (s *story) in(turn trace.TurnID) *story { s.turn = turn; return s }

func (s *story) event(ev *trace.Event) {
	ev.Server, ev.ConnectionID, ev.TurnID = s.server, trace.ConnectionID("c-"+s.server), s.turn
	if ev.Source.Source == "" {
		ev.Source = trace.Source{Origin: trace.OriginWire, Source: "mcp"}
	}
	ev.Offset = time.Duration(s.n) * time.Millisecond
	ev.Time = began.Add(ev.Offset)
	s.n++
	s.arena.Append(ev)
}

// add adds an event that is its payload.
func (s *story) add(kind trace.Kind, payload string) *story {
	s.event(&trace.Event{Kind: kind, Phase: trace.PhaseMCPCall, Payload: trace.JSON(payload), Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"}})
	return s
}

func (s *story) frame(kind trace.Kind, dir trace.Direction, id, method, body string, edit ...func(*trace.Event)) {
	ev := &trace.Event{Kind: kind, Phase: trace.PhaseMCPCall, RPCID: trace.RPCID(id), Method: method,
		Frame: &trace.Frame{Direction: dir, Framing: trace.FramingLine, Bytes: []byte(body + "\n")}}
	for _, f := range edit {
		f(ev)
	}
	s.event(ev)
}

// ask adds a request and its answer, each as it stands.
func (s *story) ask(id, method, params, answer string, edit ...func(*trace.Event)) *story {
	s.frame(trace.KindMCPRequest, trace.ClientToServer, id, method, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params), edit...)
	if answer != "" {
		kind := trace.KindMCPResponse
		if strings.HasPrefix(answer, `"error"`) {
			kind = trace.KindMCPError
		}
		s.frame(kind, trace.ServerToClient, id, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, answer), edit...)
	}
	return s
}

// call adds a call and its result. Without arguments the member is left out.
func (s *story) call(id, tool, args, result string, edit ...func(*trace.Event)) *story {
	params := fmt.Sprintf(`{"name":%q}`, tool)
	if args != "" {
		params = fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args)
	}
	if result != "" && !strings.HasPrefix(result, `"error"`) {
		result = `"result":` + result
	}
	return s.ask(id, "tools/call", params, result, edit...)
}

// view ends the story.
func (s *story) view(t *testing.T, limitations string) trace.View {
	t.Helper()
	if limitations == "" {
		limitations = "[]"
	}
	return s.end(t, `{"outcome":"completed","limitations":`+limitations+`}`)
}

func (s *story) end(t *testing.T, finished string) trace.View {
	t.Helper()
	s.server, s.turn = "", ""
	s.event(&trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Payload: trace.JSON(finished)})
	view, err := trace.New("e1", s.arena).View()
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// snapshot is the story so far.
func (s *story) snapshot(t *testing.T) trace.View {
	t.Helper()
	view, err := trace.New("e1", s.arena).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// own marks an event as m3's.
func own(ev *trace.Event) { ev.Own = true }

// hidden marks the byte ranges of a text in a frame as redacted.
func hidden(text string) func(*trace.Event) {
	return func(ev *trace.Event) {
		for from := 0; ; {
			i := strings.Index(string(ev.Frame.Bytes[from:]), text)
			if i < 0 {
				return
			}
			from += i
			ev.Redactions = append(ev.Redactions, trace.Redaction{Offset: int64(from), Length: int64(len(text)), OriginalOffset: int64(from), OriginalLength: 12})
			from += len(text)
		}
	}
}

// cutOff leaves only the beginning of answers.
func cutOff(ev *trace.Event) {
	if ev.Frame.Direction == trace.ServerToClient {
		ev.Frame.Bytes, ev.Frame.Dropped = ev.Frame.Bytes[:10], int64(len(ev.Frame.Bytes)-10)
	}
}

// cutRequest leaves only the beginning of requests.
func cutRequest(ev *trace.Event) {
	if ev.Frame.Direction == trace.ClientToServer {
		ev.Frame.Bytes, ev.Frame.Dropped = ev.Frame.Bytes[:10], int64(len(ev.Frame.Bytes)-10)
	}
}

// gone refers to bytes that nobody has.
func gone(dir trace.Direction) func(*trace.Event) {
	return func(ev *trace.Event) {
		if ev.Frame.Direction == dir {
			ev.Frame.Size, ev.Frame.OutOfLine, ev.Frame.SHA256, ev.Frame.Bytes = 100, true, strings.Repeat("ab", 32), nil
		}
	}
}

const (
	okResult  = `{"content":[{"type":"text","text":"7.00 EUR"},{"type":"text","text":"in 2 days"}],"structuredContent":{"price":7,"id":9007199254740993}}`
	badResult = `{"content":[{"type":"text","text":"too light"}],"isError":true}`
	asked     = `"result":{"resultType":"input_required","inputRequests":{"address":{"method":"elicitation/create","params":{"mode":"form","message":"Where to?","requestedSchema":{"type":"object"}}}},"requestState":"s1"}`
	retried   = `{"name":"book","arguments":{},"requestState":"s1","inputResponses":{"address":{"action":"accept","content":{"city":"Pune"}}}}`
)

func twoQuotes() *story {
	return newStory().
		call("1", "quote", `{"weight_kg":2}`, okResult).
		call("2", "quote", `{"weight_kg":-1}`, badResult).
		call("3", "echo", `{}`, `{"content":[]}`).
		call("4", "quote", `{"weight_kg":99}`, okResult, own)
}

// shop is an execution that has something of everything. Its reported call never passed on the wire.
func shop() *story {
	return newStory().
		add(trace.KindTransportConnected, `{"phase":"connected","transport":"stdio"}`).
		add(trace.KindMCPInitialized, `{"protocol_version":{"state":"observed","value":"2025-11-25"},"capabilities":{"state":"observed","value":{"tools":{"listChanged":true},"prompts":{},"logging":null,"extensions":{"io.example/ui":{"v":1}}}}}`).
		in("t1").
		add(trace.KindTurnCreated, `{"state":"created"}`).
		call("1", "quote", `{"weight_kg":2,"tags":["a","b"]}`, okResult).
		call("2", "quote", `{"weight_kg":-1}`, badResult).
		in("t2").
		call("3", "echo", ``, `{"content":[],"structuredContent":null}`).
		call("4", "echo", `null`, `null`).
		call("5", "lookup", `{}`, `"error":{"code":-32602,"message":"no such order"}`).
		add(trace.KindToolCallRequested, `{"call_id":"r1","tool":{"state":"observed","value":"search"},"arguments":{"state":"observed","value":{"q":"parcel"}}}`).
		add(trace.KindToolResultReceived, `{"call_id":"r1","status":"success","result":{"state":"observed","value":{"content":[{"type":"text","text":"one hit"}],"is_error":false,"structured_content":{"state":"not_emitted"},"error":{"state":"not_emitted"}}}}`).
		ask("6", "tools/call", `{"name":"book","arguments":{}}`, asked).
		ask("7", "tools/call", retried, `"result":{"content":[]}`).
		add(trace.KindTurnStateChanged, `{"state":"finished","outcome":"completed"}`).
		in("").
		call("8", "quote", `{}`, okResult, own).
		add(trace.KindFinding, `{"code":"stdout-noise","severity":"warning","message":"a banner","frame_sequence":3,"offset":0}`).
		add(trace.KindArtifactRecorded, `{"name":"report.txt","media_type":"text/plain","sha256":"cafe","size_bytes":3}`).
		add(trace.KindWorkspaceChanged, `{"change":{"state":"observed","value":{"added":["old.txt"]}}}`).
		add(trace.KindWorkspaceChanged, `{"change":{"state":"observed","value":{"added":["a.txt","b.txt"],"deleted":[]}}}`)
}

const lossy = `[{"code":"capture_incomplete","message":"10 bytes were lost"}]`

func checkFailure(t *testing.T, f *fakeT, got bool, want []string) {
	t.Helper()
	if got != (len(want) == 0) || got != (len(f.errors) == 0) {
		t.Fatalf("held = %v with %d errors, want %v: %q", got, len(f.errors), len(want) == 0, f.errors)
	}
	for _, part := range want {
		if !strings.Contains(f.errors[0], part) {
			t.Errorf("the message lacks %q:\n%s", part, f.errors[0])
		}
	}
	if f.stopped {
		t.Error("That stopped the test")
	}
}
