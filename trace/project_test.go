package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ok = `{"content":[{"type":"text","text":"5"}],"structuredContent":{"sum":5}}`

func TestToolCall(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "add", `{"a":2,"b":3.00000000000000000001}`)
	b.result("1", ok)
	v := b.view()
	if v.ToolCalls().Len() != 1 {
		t.Fatalf("%d tool calls", v.ToolCalls().Len())
	}
	at := began.Add(2 * time.Millisecond)
	result := Observe(ToolResult{
		Content:           []Content{{Type: "text", Text: "5", Raw: JSON(`{"type":"text","text":"5"}`)}},
		StructuredContent: Observe(JSON(`{"sum":5}`)),
	})
	args, latency := Observe(JSON(`{"a":2,"b":3.00000000000000000001}`)), Observe(time.Millisecond)
	want := ToolCallEntry{
		Base: Base{
			EntryID: "tool_call:1", Kind: EntryToolCall, ExecutionID: "e1", ServerBinding: "shipping", ConnectionID: "c1",
			SequenceStart: 1, SequenceEnd: 2, Status: StatusCompleted, Provenance: []Source{{OriginWire, "mcp"}},
			Timing: Timing{StartedAt: began.Add(time.Millisecond), FinishedAt: &at, StartOffset: time.Millisecond, EndOffset: 2 * time.Millisecond},
		},
		CallID: "tool_call:1", Server: Observe("shipping"), Tool: Observe("add"), Arguments: args, Result: result,
		ToolStatus: ToolSuccess, Correlation: WireOnly, RPCID: Observe(RPCID("1")), ServerLatency: latency,
		Wire: Observe(WireToolCall{RPCID: "1", Server: "shipping", Tool: "add", Arguments: args, Result: result, Status: ToolSuccess, Latency: latency}),
	}
	if diff := cmp.Diff(want, v.ToolCalls().At(0)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, want := ids(v.Timeline()), "lifecycle:0 raw_message:1 tool_call:1 raw_message:2 lifecycle:3"; got != want {
		t.Errorf("timeline %s, want %s", got, want)
	}
	if got := v.RawMessages().At(1).ParentID; got != "tool_call:1" {
		t.Errorf("the answer's frame belongs to %q", got)
	}
}

func TestToolStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		events func(b *builder)
		want   ToolCallStatus
		base   Status
		result State
	}{
		{"success", func(b *builder) { b.result("1", ok) }, ToolSuccess, StatusCompleted, Observed},
		{"isError false", func(b *builder) { b.result("1", `{"content":[],"isError":false}`) }, ToolSuccess, StatusCompleted, Observed},
		{"no content", func(b *builder) { b.result("1", `{"structuredContent":{}}`) }, ToolSuccess, StatusCompleted, Observed},
		{"tool error", func(b *builder) { b.result("1", `{"content":[],"isError":true}`) }, ToolError, StatusToolError, Observed},
		{"tool error, escaped name", func(b *builder) { b.result("1", `{"content":[],"isErr\u006fr":true}`) }, ToolError, StatusToolError, Observed},
		{"isError inside the content only", func(b *builder) { b.result("1", `{"content":[{"type":"x","isError":true}]}`) }, ToolSuccess, StatusCompleted, Observed},
		{"the last isError counts", func(b *builder) { b.result("1", `{"isError":true,"content":[],"isError":false}`) }, ToolSuccess, StatusCompleted, Observed},
		{"protocol error", func(b *builder) { b.fault("1", `{"code":-32602,"message":"no"}`) }, ToolProtocolError, StatusProtocolError, Observed},
		{"isError of the wrong type", func(b *builder) { b.result("1", `{"content":[],"isError":"yes"}`) }, ToolProtocolError, StatusProtocolError, Unavailable},
		{"content of the wrong type", func(b *builder) { b.result("1", `{"content":"5"}`) }, ToolProtocolError, StatusProtocolError, Unavailable},
		{"a block that is none", func(b *builder) { b.result("1", `{"content":[5]}`) }, ToolProtocolError, StatusProtocolError, Unavailable},
		{"result null", func(b *builder) { b.result("1", `null`) }, ToolProtocolError, StatusProtocolError, Unavailable},
		{"unknown result type", func(b *builder) { b.result("1", `{"resultType":"weird","content":[]}`) }, ToolProtocolError, StatusProtocolError, Observed},
		{"timed out", func(b *builder) { b.failed("1", "timed_out") }, ToolTimedOut, StatusTimedOut, NotEmitted},
		{"timed out and cancelled", func(b *builder) { b.cancel("1"); b.failed("1", "timed_out") }, ToolTimedOut, StatusTimedOut, NotEmitted},
		{"timed out, late answer", func(b *builder) { b.failed("1", "timed_out"); b.result("1", ok) }, ToolTimedOut, StatusTimedOut, NotEmitted},
		{"cancelled, answered, reason last", func(b *builder) { b.cancel("1"); b.result("1", ok); b.failed("1", "timed_out") }, ToolTimedOut, StatusTimedOut, NotEmitted},
		{"cancelled", func(b *builder) { b.cancel("1"); b.failed("1", "cancelled") }, ToolCancelled, StatusCancelled, NotEmitted},
		{"cancelled, no reason recorded", func(b *builder) { b.cancel("1") }, ToolCancelled, StatusCancelled, NotEmitted},
		{"cancelled after the answer", func(b *builder) { b.result("1", ok); b.cancel("1") }, ToolSuccess, StatusCompleted, Observed},
		{"another call cancelled", func(b *builder) { b.cancel(`"1"`) }, ToolIncomplete, StatusIncomplete, NotEmitted},
		{"transport error", func(b *builder) { b.failed("1", "transport_error") }, ToolTransportError, StatusTransportError, NotEmitted},
		{"the answer was none", func(b *builder) { b.result("1", ok); b.failed("1", "protocol_error") }, ToolProtocolError, StatusProtocolError, Observed},
		{"incomplete", func(b *builder) {}, ToolIncomplete, StatusIncomplete, NotEmitted},
		{"asked for input, never continued", func(b *builder) { b.result("1", `{"resultType":"input_required","requestState":"s"}`) }, ToolIncomplete, StatusIncomplete, NotEmitted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			b.call("1", "add", `{}`)
			tt.events(b)
			v := b.view()
			if v.ToolCalls().Len() != 1 {
				t.Fatalf("%d tool calls", v.ToolCalls().Len())
			}
			c := v.ToolCalls().At(0)
			if c.ToolStatus != tt.want || c.Status != tt.base || c.Result.State != tt.result {
				t.Errorf("status %s, base %s, result %s; want %s, %s, %s", c.ToolStatus, c.Status, c.Result.State, tt.want, tt.base, tt.result)
			}
			if c.Wire.Value.Status != c.ToolStatus {
				t.Errorf("the wire's status is %s", c.Wire.Value.Status)
			}
			if (c.Timing.FinishedAt == nil) != (c.Status == StatusIncomplete) {
				t.Errorf("finished at %v with status %s", c.Timing.FinishedAt, c.Status)
			}
			if v.Completeness() != Complete {
				t.Errorf("limitations %v", v.Limitations())
			}
		})
	}
}

func TestLateResponseIsListed(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "add", `{}`)
	b.failed("1", "timed_out")
	late := b.result("1", ok)
	v := b.view()
	c := v.ToolCalls().At(0)
	if len(c.Limitations) != 1 || c.Limitations[0] != "late_response" {
		t.Errorf("limitations %v", c.Limitations)
	}
	m := v.RawMessages().At(1)
	if m.SequenceStart != late || m.ParentID != c.EntryID {
		t.Errorf("the late frame %d belongs to %q", m.SequenceStart, m.ParentID)
	}
	d := v.Diagnostics().At(0)
	if d.Code != "timed_out" || d.Message != "because" || d.Operation != "tools/call" || d.ParentID != c.EntryID {
		t.Errorf("diagnostic %+v", d)
	}
}

func TestPairingTraps(t *testing.T) {
	t.Parallel()
	text := func(s string) string { return `{"content":[{"type":"text","text":"` + s + `"}]}` }
	tests := []struct {
		name   string
		events func(b *builder)
		want   string // tool=text of each call, then protocol exchanges
	}{
		{"one id on two connections", func(b *builder) {
			b.call("1", "a", `{}`)
			b.next.ConnectionID = "c2"
			b.call("1", "b", `{}`)
			b.result("1", text("of c2"))
			b.next.ConnectionID = "c1"
			b.result("1", text("of c1"))
		}, "a=of c1 b=of c2"},
		{"one connection id at two servers", func(b *builder) {
			b.call("1", "a", `{}`)
			b.next.Server = "billing"
			b.call("1", "b", `{}`)
			b.result("1", text("billed"))
		}, "a=incomplete b=billed"},
		{"one id in both directions", func(b *builder) {
			b.call("1", "a", `{}`)
			b.frame(KindMCPRequest, ServerToClient, "1", "sampling/createMessage", `{"id":1,"method":"sampling/createMessage","params":{}}`)
			b.frame(KindMCPResponse, ClientToServer, "1", "", `{"id":1,"result":{"role":"assistant"}}`)
			b.result("1", text("mine"))
		}, `a=mine sampling/createMessage={"role":"assistant"}`},
		{"an id used again", func(b *builder) {
			b.call("1", "a", `{}`)
			b.result("1", text("first"))
			b.call("1", "b", `{}`)
			b.result("1", text("second"))
		}, "a=first b=second"},
		{"1 and \"1\"", func(b *builder) {
			b.call("1", "a", `{}`)
			b.call(`"1"`, "b", `{}`)
			b.result(`"1"`, text("text"))
			b.result("1", text("number"))
		}, "a=number b=text"},
		{"an unknown id", func(b *builder) {
			b.call("1", "a", `{}`)
			b.result("2", text("whose?"))
			b.result("1", text("mine"))
		}, "a=mine"},
		{"a second answer", func(b *builder) {
			b.call("1", "a", `{}`)
			b.result("1", text("first"))
			b.result("1", `{"isError":true}`)
		}, "a=first"},
		{"an id taken twice", func(b *builder) {
			b.call("1", "a", `{}`)
			b.call("1", "b", `{}`)
			b.result("1", text("whose?"))
			b.result("1", text("whose?"))
			b.call("1", "c", `{}`)
			b.result("1", text("third"))
		}, "a=ambiguous b=ambiguous c=third"},
		{"out of order", func(b *builder) {
			b.call("1", "a", `{}`)
			b.call("2", "b", `{}`)
			b.result("2", text("two"))
			b.result("1", text("one"))
		}, "a=one b=two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			tt.events(b)
			v := b.view()
			var got []string
			for _, c := range v.ToolCalls().All() {
				text := c.Result.Value.Text()
				switch {
				case c.Correlation == Ambiguous && c.Result.Reason == ReasonCorrelationUnavailable:
					text = "ambiguous"
				case c.ToolStatus == ToolIncomplete:
					text = "incomplete"
				}
				got = append(got, c.Tool.Value+"="+text)
			}
			for _, p := range v.Protocol().All() {
				got = append(got, p.Method.Value+"="+string(p.Response.Value))
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

func TestProtocolEntries(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.request("1", "prompts/get", `{"name":"greet"}`)
	b.fault("1", `{"code":1.5,"message":"no","data":null}`)
	b.request("2", "resources/read", `{"uri":"file:///a"}`)
	b.result("2", `{"contents":[]}`)
	b.frame(KindMCPProgress, ServerToClient, "", "notifications/progress", `{"method":"notifications/progress","params":{"progress":1}}`)
	b.request("3", "ping", `{}`)
	v := b.view()
	if n := v.Protocol().Len(); n != 4 {
		t.Fatalf("%d entries", n)
	}
	prompt, resource, progress, ping := v.Protocol().At(0), v.Protocol().At(1), v.Protocol().At(2), v.Protocol().At(3)
	if prompt.OperationKind != OperationPrompt || prompt.OperationName != Observe("greet") || prompt.Status != StatusProtocolError {
		t.Errorf("prompt %+v", prompt)
	}
	if diff := cmp.Diff(Observe(RPCError{Code: JSON("1.5"), Message: "no", Data: Observe(JSON("null"))}), prompt.Error); diff != "" {
		t.Errorf("error -want +got\n%s", diff)
	}
	if prompt.Response.State != NotEmitted || len(prompt.Attempts) != 0 {
		t.Errorf("prompt %+v", prompt)
	}
	if resource.OperationKind != OperationResource || resource.OperationName.Value != "file:///a" || string(resource.Response.Value) != `{"contents":[]}` {
		t.Errorf("resource %+v", resource)
	}
	if resource.HTTP.Reason != ReasonTransportNotApplicable || resource.Protocol != "mcp" {
		t.Errorf("resource %+v", resource)
	}
	if progress.Direction != ServerToClient || progress.Status != StatusCompleted || progress.OperationKind != "" {
		t.Errorf("progress %+v", progress)
	}
	if ping.Status != StatusIncomplete || ping.Response.State != NotEmitted {
		t.Errorf("ping %+v", ping)
	}
	if s := v.Summary(); s.ProtocolErrorCount != 1 || s.ToolCallCount != 0 || s.ActivityHealth != "no_calls" {
		t.Errorf("summary %+v", s)
	}
}

func TestHTTPExchange(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.event(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/list", Frame: &Frame{Direction: ClientToServer, Framing: FramingBody,
		Bytes: []byte(`{"id":1,"method":"tools/list"}`), HTTP: &HTTPInfo{Exchange: 1, Method: "POST", URL: "http://x/mcp", Header: []HTTPHeader{{"Accept", "*/*"}}}}})
	b.event(Event{Kind: KindMCPResponse, RPCID: "1", Frame: &Frame{Direction: ServerToClient, Framing: FramingSSE,
		Bytes: []byte("event: message\ndata: {\"id\":1,\ndata: \"result\":{\"tools\":[]}}\n\n"), HTTP: &HTTPInfo{Exchange: 1, Status: 200, Header: []HTTPHeader{
			{"Content-Type", "text/event-stream"}, {"Server", "x"}, {"X-Request-Id", "r"}}}}})
	b.event(Event{Kind: KindHTTPExchange, RPCID: "1", Frame: &Frame{Direction: ServerToClient, Framing: FramingBody, HTTP: &HTTPInfo{Exchange: 2, Status: 202}}})
	v := b.view()
	p := v.Protocol().At(0)
	want := HTTPInfo{Exchange: 1, Method: "POST", URL: "http://x/mcp", Status: 200, Header: []HTTPHeader{{"Content-Type", "text/event-stream"}, {"X-Request-Id", "r"}}}
	if diff := cmp.Diff(Observe(want), p.HTTP); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := string(p.Response.Value); got != `{"tools":[]}` {
		t.Errorf("response %s", got)
	}
	sse, empty := v.RawMessages().At(1), v.RawMessages().At(2)
	if sse.MediaType != "text/event-stream" || len(sse.HTTP.Header) != 3 || sse.EvidenceRef.MediaType != "text/event-stream" {
		t.Errorf("sse %+v", sse)
	}
	if empty.Verdict != "http" || empty.HTTP.Status != 202 || empty.EvidenceRef != nil || empty.Preview.State != NotEmitted || empty.ParentID != p.EntryID {
		t.Errorf("empty %+v", empty)
	}
}

func TestOtherEntries(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.payload(KindTransportConnected, `{"phase":"connected","transport":"stdio"}`)
	b.payload(KindProcessStarted, `{"executable":{"state":"observed","value":"srv"},"pid":{"state":"observed","value":7}}`)
	b.event(Event{Kind: KindProcessStderr, Frame: &Frame{Direction: ServerToClient, Framing: FramingLine, Bytes: []byte("boo\n")}})
	b.payload(KindMCPInitialized, `{"protocol_version":{"state":"observed","value":"2025-11-25"},"server_name":{"state":"observed","value":"s"}}`)
	noise := b.frame(KindMCPMalformed, ServerToClient, "", "", "hello")
	b.payload(KindFinding, `{"code":"stdout-noise","severity":"error","message":"m","frame_sequence":5,"offset":0}`)
	b.event(Event{Kind: KindDiagnostic, Diagnostic: &Diagnostic{Code: "slow", Message: "waits", Stage: "start", Elapsed: 1500 * time.Millisecond}})
	b.payload(KindProcessExited, `{"executable":{"state":"observed","value":"srv"},"pid":{"state":"observed","value":7},"exit_code":{"state":"observed"},"ended":"eof","survivors":[9]}`)
	b.payload(KindTransportDisconnected, `{"phase":"disconnected","transport":"stdio","bytes_read":6,"bytes_kept":6,"close":"eof"}`)
	v := b.view()
	if got, want := ids(v.Timeline()), "lifecycle:0 transport:1 process:2 raw_message:3 initialization:4 raw_message:5 finding:6 diagnostic:7 transport:9 lifecycle:10"; got != want {
		t.Errorf("timeline\n got %s\nwant %s", got, want)
	}
	p := v.Processes().At(0)
	if v.Processes().Len() != 1 || p.SequenceEnd != 8 || p.Ended != "eof" || p.ExitCode != Observe(0) || p.PID != Observe(7) || len(p.Survivors) != 1 || p.Status != StatusCompleted {
		t.Errorf("process %+v", p)
	}
	if s := v.RawMessages().At(0); s.Source != "process_stderr" || s.Verdict != "stderr" || s.MediaType != "text/plain" || s.Preview != Observe("boo\n") {
		t.Errorf("stderr %+v", s)
	}
	if f := v.Findings().At(0); f.Code != "stdout-noise" || f.Sequence != noise || f.ParentID != "raw_message:5" {
		t.Errorf("finding %+v", f)
	}
	if d := v.Diagnostics().At(0); d.Code != "slow" || d.Stage != "start" || d.Elapsed != 1500*time.Millisecond {
		t.Errorf("diagnostic %+v", d)
	}
	if tr := v.Transports().At(1); tr.Close != "eof" || tr.BytesRead != 6 {
		t.Errorf("transport %+v", tr)
	}
	rt := v.Runtime()
	if rt.Kind != "direct" || rt.Transport != Observe("stdio") || rt.Protocol != Observe("2025-11-25") || rt.Initialization.Value.ServerName != Observe("s") {
		t.Errorf("runtime %+v", rt)
	}
	if l := v.Lifecycle().At(1); l.Outcome != "completed" || l.Event != KindExecutionFinished || l.Phase != PhaseTerminal {
		t.Errorf("lifecycle %+v", l)
	}
}

func TestProcessStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		exited string
		want   Status
	}{
		{`{"pid":{"state":"observed","value":7},"exit_code":{"state":"observed"},"ended":"exited"}`, StatusCompleted},
		{`{"pid":{"state":"observed","value":7},"exit_code":{"state":"observed","value":3},"ended":"exited"}`, StatusFailed},
		{`{"pid":{"state":"observed","value":7},"signal":{"state":"observed","value":"killed"},"ended":"exited"}`, StatusFailed},
		{`{"pid":{"state":"observed","value":7},"signal":{"state":"observed","value":"killed"},"ended":"sigkill"}`, StatusCompleted},
		{`{"pid":{"state":"observed","value":7}}`, StatusUnavailable},
		{`{"pid":{"state":"observed","value":8},"exit_code":{"state":"observed"}}`, StatusIncomplete}, // another process's end
	}
	for _, tt := range tests {
		b := build(t)
		b.payload(KindProcessStarted, `{"pid":{"state":"observed","value":7}}`)
		b.payload(KindProcessExited, tt.exited)
		if got := b.view().Processes().At(0).Status; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.exited, got, tt.want)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "a", `{}`)
	b.result("1", ok)
	b.call("2", "b", `{}`)
	b.fault("2", `{"code":-32000,"message":"x"}`)
	b.event(Event{Kind: KindMCPRequest, RPCID: "3", Method: "tools/call", Own: true, Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Bytes: []byte(`{"id":3,"method":"tools/call"}`)}})
	b.payload(KindCleanupFinished, `{"state":"failed"}`)
	v := b.view()
	s := v.Summary()
	if s.ToolCallCount != 2 || s.SuccessfulToolCalls != 1 || s.FailedToolCalls != 1 || s.ProtocolErrorCount != 1 || s.ActivityHealth != "mixed" || s.CleanupStatus != "failed" {
		t.Errorf("summary %+v", s)
	}
	if s.Timing.Duration() != 7*time.Millisecond || s.Timing.FinishedAt == nil {
		t.Errorf("timing %+v", s.Timing)
	}
	if s.Usage.Reason != ReasonTransportNotApplicable {
		t.Errorf("usage %+v", s.Usage)
	}
	if own := v.ToolCalls().At(2); !own.Own || own.Tool.State != NotEmitted {
		t.Errorf("own %+v", own)
	}
}

func TestOpenAndUnusableTraces(t *testing.T) {
	t.Parallel()
	open := build(t)
	open.call("1", "a", `{}`)
	tr := New("e1", open.arena)
	if _, err := tr.View(); !errors.Is(err, ErrNotFinalized) {
		t.Errorf("open: %v", err)
	}
	snap, err := tr.Snapshot()
	if err != nil || snap.Completeness() != Partial || snap.Limitations()[0].Code != "open" || snap.Outcome() != "" || snap.ToolCalls().Len() != 1 {
		t.Errorf("snapshot %v %v", snap.Limitations(), err)
	}
	if tr.Finalized() {
		t.Error("finalized")
	}
	open.finish()
	if v, err := tr.View(); err != nil || v.Completeness() != Complete {
		t.Errorf("finished: %v", err)
	}

	broken := map[string]func(a *Arena){
		"no JSON":           func(a *Arena) { a.AppendEncoded([]byte(`{"seq":1,`)) },
		"no kind":           func(a *Arena) { a.AppendEncoded([]byte(`{"seq":1}`)) },
		"gap":               func(a *Arena) { a.AppendEncoded([]byte(`{"seq":7,"kind":"diagnostic"}`)) },
		"unknown kind":      func(a *Arena) { a.AppendEncoded([]byte(`{"seq":1,"kind":"from.the.future"}`)) },
		"no outcome":        func(a *Arena) { a.Append(&Event{Kind: KindExecutionFinished, Payload: JSON(`{"outcome":"great"}`)}) },
		"finished, no JSON": func(a *Arena) { a.Append(&Event{Kind: KindExecutionFinished, Payload: JSON(`[]`)}) },
	}
	for name, add := range broken {
		b := build(t)
		add(b.arena)
		if _, err := b.finish().View(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "event 1 of e1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	last := build(t)
	last.arena.AppendEncoded([]byte(`torn`))
	if _, err := New("e1", last.arena).View(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("torn end: %v", err)
	}
	if _, err := New("e1", NewArena()).View(); !errors.Is(err, ErrNotFinalized) {
		t.Errorf("empty: %v", err)
	}
}

func TestAnswersWithoutTheirID(t *testing.T) {
	t.Parallel()
	post := func(b *builder, k Kind, id, method, body string, exchange int64) {
		b.event(Event{Kind: k, RPCID: RPCID(id), Method: method, Frame: &Frame{Direction: ClientToServer, Framing: FramingBody, Bytes: []byte(body),
			HTTP: &HTTPInfo{Exchange: exchange, Method: "POST", URL: "http://x"}}})
	}
	answer := func(b *builder, k Kind, id, body string, exchange int64, status int) {
		b.event(Event{Kind: k, RPCID: RPCID(id), Frame: &Frame{Direction: ServerToClient, Framing: FramingBody, Bytes: []byte(body),
			HTTP: &HTTPInfo{Exchange: exchange, Status: status}}})
	}
	const ping = `{"id":1,"method":"ping"}`
	tests := []struct {
		name   string
		events func(b *builder)
		want   Status
		code   int // HTTP status
	}{
		{"id 1.0 for 1", func(b *builder) { b.request("1", "ping", `{}`); b.result("1.0", `{}`) }, StatusCompleted, 0},
		{"escaped id", func(b *builder) { b.request(`"ab"`, "ping", `{}`); b.result(`"a\u0062"`, `{}`) }, StatusCompleted, 0},
		{"id 1.5 for 1", func(b *builder) { b.request("1", "ping", `{}`); b.result("1.5", `{}`) }, StatusIncomplete, 0},
		{"null id, by its exchange", func(b *builder) {
			post(b, KindMCPRequest, "1", "ping", ping, 4)
			answer(b, KindMCPError, "null", `{"id":null,"error":{"code":1,"message":"m"}}`, 4, 400)
		}, StatusProtocolError, 400},
		{"null id, of another exchange", func(b *builder) {
			post(b, KindMCPRequest, "1", "ping", ping, 4)
			answer(b, KindMCPError, "null", `{"id":null,"error":{"code":1,"message":"m"}}`, 5, 400)
		}, StatusIncomplete, 0},
		{"status without a message", func(b *builder) {
			post(b, KindMCPRequest, "1", "ping", ping, 4)
			answer(b, KindHTTPExchange, "1", "<html>", 4, 502)
			b.failed("1", "transport_error")
		}, StatusTransportError, 502},
		{"status, then the answer on another stream", func(b *builder) {
			post(b, KindMCPRequest, "1", "ping", ping, 4)
			answer(b, KindHTTPExchange, "1", "", 4, 202)
			answer(b, KindMCPResponse, "1", `{"id":1,"result":{}}`, 5, 200)
		}, StatusCompleted, 200},
		{"accepted notification", func(b *builder) {
			post(b, KindMCPNotification, "", "notifications/initialized", `{"method":"notifications/initialized"}`, 2)
			answer(b, KindHTTPExchange, "", "", 2, 202)
		}, StatusCompleted, 202},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			tt.events(b)
			v := b.view()
			p := v.Protocol().At(0)
			if p.Status != tt.want || p.HTTP.Value.Status != tt.code {
				t.Errorf("status %s, HTTP %d; want %s, %d", p.Status, p.HTTP.Value.Status, tt.want, tt.code)
			}
			if tt.code == 502 && p.Response.State != NotEmitted {
				t.Errorf("response %+v", p.Response)
			}
			asJSON(t, v)
		})
	}
}

// A batch is one frame without an id, and then each message of it as an event without a frame.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "a", `{}`)
	b.request("2", "prompts/get", `{"name":"p"}`)
	b.frame(KindMCPResponse, ServerToClient, "", "", `[{"id":2,"result":{"messages":[]}},{"id":1,"result":{"content":[],"isError":true}},{"id":1,"method":"ping"}]`)
	b.event(Event{Kind: KindMCPResponse, RPCID: "2", Payload: JSON(`{"id":2,"result":{"messages":[]}}`)})
	b.event(Event{Kind: KindMCPResponse, RPCID: "1", Payload: JSON(`{"id":1,"result":{"content":[],"isError":true}}`)})
	b.event(Event{Kind: KindMCPRequest, RPCID: "1", Method: "ping", Payload: JSON(`{"id":1,"method":"ping","params":{"x":1}}`)})
	v := b.view()
	if c := v.ToolCalls().At(0); c.ToolStatus != ToolError || !c.Result.Value.IsError || c.SequenceEnd != 5 {
		t.Errorf("call %+v", c)
	}
	prompt, ping := v.Protocol().At(0), v.Protocol().At(1)
	if string(prompt.Response.Value) != `{"messages":[]}` || prompt.Status != StatusCompleted {
		t.Errorf("prompt %+v", prompt)
	}
	if ping.Direction != ServerToClient || ping.Status != StatusIncomplete || string(ping.Request.Value) != `{"x":1}` {
		t.Errorf("ping %+v", ping)
	}
	if n := v.RawMessages().Len(); n != 3 {
		t.Errorf("%d frames", n)
	}
}

func TestFindingFollowsItsFrame(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.next.TurnID = "t1"
	frame := b.frame(KindMCPMalformed, ServerToClient, "", "", "noise")
	b.next = Event{Source: Source{OriginDerived, "m3"}}
	b.payload(KindFinding, fmt.Sprintf(`{"code":"stdout-noise","severity":"error","frame_sequence":%d,"offset":-1}`, frame))
	b.payload(KindFinding, `{"code":"slow","severity":"note","frame_sequence":-1,"offset":-1}`)
	v := b.view()
	if n := v.ForServer("shipping").ForTurn(TurnID("t1")).Findings().Len(); n != 1 || v.Findings().Len() != 2 {
		t.Errorf("%d findings at the server, %d in all", n, v.Findings().Len())
	}
	if f := v.Findings().At(1); f.ParentID != "" || f.Sequence != -1 || f.Severity != SeverityNote {
		t.Errorf("finding %+v", f)
	}
}

// What ended an execution stands in its last step; nothing does when nothing did.
func TestFinishedError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ payload, want string }{
		{`{"outcome":"timed_out","error":{"code":"timeout","message":"no answer"}}`, `{"code":"timeout","message":"no answer"}`},
		{`{"outcome":"completed"}`, ``},
	} {
		a := NewArena()
		a.Append(&Event{Kind: KindExecutionCreated, Payload: JSON(`{"kind":"direct"}`)})
		a.Append(&Event{Kind: KindExecutionFinished, Payload: JSON(tc.payload)})
		view, err := New("e1", a).View()
		if err != nil {
			t.Fatal(err)
		}
		steps := view.Lifecycle()
		if got := string(steps.At(steps.Len() - 1).Error); got != tc.want {
			t.Errorf("%s: error %s", tc.payload, got)
		}
	}
}
