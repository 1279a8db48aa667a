package trace

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestConflicts(t *testing.T) {
	t.Parallel()
	result := func(s string) Observation[ToolResult] {
		m := &message{}
		v, _ := whole([]byte(s))
		r, ok := m.decodeToolResult(v)
		if !ok {
			t.Fatalf("no result: %s", s)
		}
		return Observe(r)
	}
	fault := Observe(ToolResult{Error: Observe(JSON(`{"code":-32602,"message":"no tool\nhere"}`))})
	text := func(s string) Observation[ToolResult] {
		return Observe(ToolResult{Content: []Content{{Type: "text", Text: s}}})
	}
	const image = `{"type":"image","data":"AA==","mimeType":"image/png"}`
	two := `{"content":[{"type":"text","text":"a"},` + image + `,{"type":"text","text":"b"}]}`
	for _, tt := range []struct {
		name       string
		told, wire Observation[ToolResult]
		as, was    ToolCallStatus // success when empty
		want       string
	}{
		{name: "the same", told: result(two), wire: result(two)},
		{name: "texts joined otherwise, the image dropped", told: text("a\n\nb"), wire: result(two)},
		{name: "texts joined without a break", told: text("ab"), wire: result(two)},
		{name: "an image that was not there", told: result(`{"content":[{"type":"text","text":"ab"},{"type":"audio","data":""}]}`), wire: result(two), want: "result"},
		{name: "a part", told: text("a"), wire: result(two), want: "result"},
		{name: "nothing", told: Observe(ToolResult{}), wire: result(two), want: "result"},
		{name: "nothing of nothing", told: Observe(ToolResult{}), wire: result(`{"content":[]}`)},
		{name: "structured content as the text", told: text(`{"sum": 5.0}`), wire: result(five)},
		{name: "other structured content as the text", told: text(`{"sum":true}`), wire: result(five), want: "result"},
		{name: "other structured content", told: result(`{"content":[{"type":"text","text":"5"}],"structuredContent":{"sum":6}}`), wire: result(five), want: "result"},
		{name: "a truth value for a number", told: result(`{"structuredContent":{"n":1}}`), wire: result(`{"structuredContent":{"n":true}}`), want: "result"},
		{name: "structured content alone", told: result(`{"structuredContent":{"sum":5}}`), wire: result(five)},
		{name: "structured content made of the text", told: result(`{"structuredContent":{"sum":5}}`), wire: text(`{"sum":5}`)},
		{name: "structured content of nowhere", told: result(`{"structuredContent":{"sum":5}}`), wire: text(`5`), want: "result"},
		{name: "no structured content, as null", told: result(`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`), wire: text("x")},
		{name: "a resource's text", told: text("in it"), wire: result(`{"content":[{"type":"resource","resource":{"uri":"x:y","text":"in it"}}]}`)},
		{name: "a failure with more words", told: text("Error: boom"), wire: result(boom), as: ToolError, was: ToolError},
		{name: "a failure with other words", told: text("Error: bang"), wire: result(boom), as: ToolError, was: ToolError, want: "result"},
		{name: "a success with more words", told: text("5 it is"), wire: result(five), want: "result"},
		{name: "an error", told: text("MCP error: no toolhere"), wire: fault, as: ToolError, was: ToolProtocolError},
		{name: "an error without words", told: Observe(ToolResult{}), wire: fault, as: ToolError, was: ToolProtocolError},
		{name: "another error", told: text("it rains"), wire: fault, as: ToolError, was: ToolProtocolError, want: "result"},
		{name: "a success of an error", told: text("no tool\nhere"), wire: fault, was: ToolProtocolError, want: "result status"},
		{name: "not told", wire: result(five)},
		{name: "no end told", wire: result(five), as: ToolIncomplete},
		{name: "lost on the wire", told: text("x"), wire: Absent[ToolResult](Unavailable, ReasonCaptureFailed)},
		{name: "redacted on the wire", told: text("x"), wire: Observation[ToolResult]{State: Redacted, Reason: ReasonRedactedByPolicy}},
		{name: "redacted as told", told: Observation[ToolResult]{State: Redacted, Reason: ReasonRedactedByPolicy}, wire: text("x")},
		{name: "never answered, told as done", told: text("x"), was: ToolIncomplete, want: "result status"},
		{name: "never answered, told as failed", told: text("gave up"), as: ToolError, was: ToolIncomplete},
		{name: "never answered, told as cancelled", as: ToolCancelled, was: ToolIncomplete},
		{name: "failed, told as cancelled", as: ToolCancelled, was: ToolError, want: "status"},
	} {
		for _, s := range []*ToolCallStatus{&tt.as, &tt.was} {
			if *s == "" {
				*s = ToolSuccess
			}
		}
		e := &ToolCallEntry{Result: tt.wire, ToolStatus: tt.was}
		got := conflicts(e, &ReportedToolCall{Result: tt.told, Status: tt.as}, true)
		var fields []string
		for _, c := range got {
			fields = append(fields, c.Field)
			if c.Reported == nil || !json.Valid(c.Reported) || c.Wire != nil && !json.Valid(c.Wire) {
				t.Errorf("%s: %s: %s <> %s", tt.name, c.Field, c.Reported, c.Wire)
			}
		}
		if strings.Join(fields, " ") != tt.want {
			t.Errorf("%s: conflicts %v, want %q", tt.name, got, tt.want)
		}
		if other := conflicts(e, &ReportedToolCall{Result: tt.told, Status: tt.as}, false); len(other) > 0 {
			t.Errorf("%s: the wire does not show the end, and yet %v", tt.name, other)
		}
	}
}

func TestSameArguments(t *testing.T) {
	t.Parallel()
	none := Observation[JSON]{}
	o := func(s string) Observation[JSON] { return Observe(JSON(s)) }
	for _, tt := range []struct {
		told, wire Observation[JSON]
		want       bool
	}{
		{o(`{}`), none, true}, {o(`null`), none, true}, {o(`null`), o(`{}`), true}, {o(`{"a":1}`), none, false},
		{o(`{"a":1,"b":[2]}`), o(`{ "b":[2.0], "a":1e0 }`), true}, {o(`{"a":1}`), o(`{"a":true}`), false}, {o(`{"a":0}`), o(`{"a":false}`), false},
		{o(`{"a":1}`), o(`{"a":"1"}`), false}, {o(`[1,2]`), o(`[2,1]`), false}, {none, o(`{"a":1}`), true},
		{Observation[JSON]{State: Redacted, Value: JSON(`{"a":2}`)}, o(`{"a":1}`), true}, {o(`{"a":1}`), Absent[JSON](Unavailable, ReasonCaptureFailed), true},
	} {
		if got := sameArguments(tt.told, tt.wire); got != tt.want {
			t.Errorf("%+v and %+v: %v", tt.told, tt.wire, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{`{"b":1,"a":{"d":[],"c":null}}`, `{"a":{"c":null,"d":[],},"b":1e0,}`},
		{`{"a":1,"a":2}`, `{"a":2e0,}`},
		{`"\u0041\/"`, `"A/"`},
		{`[0,-0,0.0,0e5]`, `[0,0,0,0,]`},
		{`[100,1e2,100.0,1.00E+2]`, `[1e2,1e2,1e2,1e2,]`},
		{`[-0.05,-5e-2]`, `[-5e-2,-5e-2,]`},
		{`123456789012345678901234567890`, `12345678901234567890123456789e1`},
		{`1e99999999999`, `1e99999999999`},
		{`[true,false,null,1]`, `[true,false,null,1e0,]`},
	} {
		v, ok := whole([]byte(tt.in))
		if got := string(appendCanonical(nil, v)); !ok || got != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, got, tt.want)
		}
	}
}

// FuzzCanonical holds that the canonical text is the same for the same value as encoding/json understands it, and for no truth value of a number.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":[1,true,"x",null,{"b":1.50}]}`, `-0.0e-0`, `"\ud800"`, `{"\u0061":1,"a":2}`, "1E400"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := whole(b)
		if !ok {
			return
		}
		var buf strings.Builder
		enc := json.NewEncoder(&buf)
		var x any
		if JSON(b).Decode(&x) != nil || enc.Encode(x) != nil {
			return
		}
		again, _ := whole([]byte(buf.String()))
		if !sameJSON(v, again) {
			t.Errorf("%q is not %q", b, buf.String())
		}
		if yes, _ := whole([]byte("true")); sameJSON(v, yes) != (strings.TrimSpace(string(b)) == "true") {
			t.Errorf("%q is true", b)
		}
	})
}

func TestAgentNames(t *testing.T) {
	t.Parallel()
	calc := toolName{"calc", "add-two"}
	for name, want := range map[string]bool{
		"add-two": true, "add_two": true, "calc_add_two": true, "calc_add-two": true, "calc.add-two": true, "calc/add-two": true, "calc:add-two": true,
		"mcp__calc__add-two": true, "mcp.calc.add-two": true, "mcp_calc_add_two": true, "calc__add_two": true,
		"add": false, "two": false, "xcalc_add_two": false, "my_other_calc_add_two": false, "mcp__calc_add_two": false, "calc_add_two_more": false, "": false, "_calc_add_two": false,
	} {
		if names(name, calc) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestAgentFrames: the agent's own protocol, lists that were cut, and batches.
func TestAgentFrames(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	sent := b.event(Event{Kind: KindAgentFrame, RPCID: "1", Method: "session/prompt", Source: Source{OriginWire, "acp"}, Frame: line(ClientToServer, `{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)})
	b.event(Event{Kind: KindAgentFrame, Source: Source{OriginWire, "acp"}, Frame: line(ServerToClient, `not JSON`)})
	b.wire(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/list", Frame: line(ClientToServer, `{"id":1,"method":"tools/list"}`)})
	b.wire(Event{Kind: KindMCPResponse, RPCID: "1", Frame: line(ServerToClient, `{"id":1,"result":{"tools":[{"name":"add"},{"name":"rm"}]}}`)})
	cut := b.wire(Event{Kind: KindMCPFiltered, RPCID: "1", Frame: line(ServerToClient, `{"id":1,"result":{"tools":[{"name":"add"}]}}`)})
	// a batch of the agent: its parts have no frame of their own
	b.wire(Event{Kind: KindMCPRequest, Frame: line(ClientToServer, `[{"id":2,"method":"tools/call","params":{"name":"add"}},{"id":3,"method":"ping"}]`)})
	b.wire(Event{Kind: KindMCPRequest, RPCID: "2", Method: "tools/call", Payload: JSON(`{"id":2,"method":"tools/call","params":{"name":"add"}}`)})
	b.wire(Event{Kind: KindMCPRequest, RPCID: "3", Method: "ping", Payload: JSON(`{"id":3,"method":"ping"}`)})
	b.say("2", five)
	b.say("3", `{}`)
	v := b.view()
	first := v.RawMessages().At(0)
	if first.Source != "acp" || first.Verdict != "agent" || first.MediaType != "application/json" || first.Method != "session/prompt" || first.RPCID != "1" ||
		first.Direction != ClientToServer || first.EvidenceRef == nil || first.EvidenceRef.ID != fmt.Sprintf("re:e1:%d", sent) || first.ParentID != "" {
		t.Errorf("the agent's frame %+v", first)
	}
	if noise := v.RawMessages().At(1); noise.MediaType != "text/plain" || noise.Verdict != "agent" {
		t.Errorf("noise %+v", noise)
	}
	list := v.Protocol().At(0)
	if !strings.Contains(string(list.Response.Value), "rm") {
		t.Errorf("the list is not as the server sent it: %s", list.Response.Value)
	}
	e, ok := v.Entry(fmt.Sprintf("raw_message:%d", cut))
	if !ok || e.(*RawMessageEntry).Verdict != "filtered" || e.Common().ParentID != list.EntryID || e.(*RawMessageEntry).MediaType != "application/json" {
		t.Errorf("the list as it was passed on: %+v", e)
	}
	if c := v.ToolCalls().At(0); v.ToolCalls().Len() != 1 || c.Tool != Observe("add") || c.ToolStatus != ToolSuccess {
		t.Errorf("the call in a batch: %+v", c)
	}
	if ping := v.Protocol().At(1); v.Protocol().Len() != 2 || ping.Direction != ClientToServer || string(ping.Response.Value) != `{}` {
		t.Errorf("the ping in a batch: %+v", ping)
	}
}

// TestRefusedBatch: parts of a batch that were refused.
func TestRefusedBatch(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	b.wire(Event{Kind: KindMCPPolicyDenied, RPCID: "1", Method: "tools/call", Frame: line(ClientToServer, `[{"id":1,"method":"tools/call","params":{"name":"rm"}}]`)})
	b.wire(Event{Kind: KindMCPPolicyDenied, RPCID: "1", Method: "tools/call", Payload: JSON(`{"id":1,"method":"tools/call","params":{"name":"rm"}}`)})
	b.wire(Event{Kind: KindMCPPolicyDenied, Frame: line(ClientToServer, `{"id":1,`)})
	v := b.view()
	c := v.ToolCalls().At(0)
	if v.ToolCalls().Len() != 1 || c.Policy != Observe(PolicyDenied) || c.Tool != Observe("rm") || c.Wire.State != NotEmitted || c.Result.State != NotEmitted || c.ToolStatus != ToolProtocolError || v.RawMessages().Len() != 2 {
		t.Errorf("%d calls, %d frames, %+v", v.ToolCalls().Len(), v.RawMessages().Len(), c)
	}
	if s := v.Summary(); s.ToolCallCount != 0 || s.PolicyDeniedCalls != 1 || s.FailedToolCalls != 0 || s.ProtocolErrorCount != 0 || s.ActivityHealth != "no_calls" {
		t.Errorf("summary %+v", s)
	}
}

// TestPausedCallGivenUp: when nobody answered a request for input, only the agent knows how the call ended.
func TestPausedCallGivenUp(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]ToolCallStatus{"tool_error": ToolError, "cancelled": ToolCancelled, "success": ToolIncomplete, "incomplete": ToolIncomplete} {
		b := onTwoTapes(t, "")
		b.tell("a", "add", `{}`)
		b.ask("1", "add", `{}`, "")
		b.say("1", `{"resultType":"input_required","inputRequests":{},"requestState":"s"}`)
		b.told("a", status, "ten rounds")
		c := b.view().ToolCalls().At(0)
		if c.ToolStatus != want || (len(c.Conflicts) > 0) != (status == "success") || c.Result.OK() != (want != ToolIncomplete) || c.Wire.Value.Status != ToolIncomplete {
			t.Errorf("%s: %+v", status, c)
		}
	}
}

// TestRedactedReports: a secret on both tapes is compared as it is kept, and the kept view says so.
func TestRedactedReports(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	const mask = "[REDACTED]"
	told := b.tell("a", "add", `{"key":"[REDACTED]"}`)
	_ = told
	body := `{"id":1,"method":"tools/call","params":{"name":"add","arguments":{"key":"[REDACTED]"}}}` + "\n"
	at := int64(strings.Index(body, mask))
	n := b.wire(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Bytes: []byte(body)},
		Redactions: []Redaction{{at, int64(len(mask)), at, 8}}})
	b.arena.PutOriginal(n, []byte(strings.Replace(body, mask, "hunter22", 1)))
	v := b.view()
	if c := v.ToolCalls().At(0); c.Correlation != Correlated || string(c.Wire.Value.Arguments.Value) != `{"key":"hunter22"}` {
		t.Errorf("%+v", c)
	}
	checkTapes(t, v)
}

// TestLostCallsMayBeTold: what could not be read may be what the agent told.
func TestLostCallsMayBeTold(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	b.tell("a", "add", `{}`)
	b.wire(Event{Kind: KindMCPRequest, RPCID: "1", Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Size: 40, OutOfLine: true, SHA256: strings.Repeat("ab", 32)}})
	b.next.TurnID = "t2"
	b.tell("b", "add", `{}`)
	v := b.view()
	for i, want := range []Correlation{CorrelationUnavailable, CorrelationUnavailable, ReportedOnly} {
		if got := v.ToolCalls().At(i).Correlation; got != want {
			t.Errorf("call %d is %s, want %s", i, got, want)
		}
	}
	if v.Completeness() != Partial {
		t.Error("the trace is complete")
	}
}

// TestUsageScope: the summary has the latest report of the widest scope, and no sum.
func TestUsageScope(t *testing.T) {
	t.Parallel()
	report := func(tokens int, scope string) string {
		return fmt.Sprintf(`{"input_tokens":{"state":"observed","value":%d},"scope":%q}`, tokens, scope)
	}
	for _, tt := range []struct {
		name    string
		reports []string
		tokens  int64
		scope   string
	}{
		{"steps", []string{report(1, "step"), report(2, "step")}, 2, "step"},
		{"a turn before a step", []string{report(3, "turn"), report(1, "step")}, 3, "turn"},
		{"two turns", []string{report(3, "turn"), report(1, "step"), report(4, "turn")}, 4, "turn"},
		{"a session", []string{report(9, "session"), report(4, "turn"), report(1, "step"), report(2, "")}, 9, "session"},
		{"no scope", []string{report(1, ""), report(2, "")}, 2, ""},
		{"a scope of another's", []string{report(1, "week"), report(2, "step")}, 2, "step"},
	} {
		b := onTwoTapes(t, "")
		for _, r := range tt.reports {
			b.payload(KindUsage, r)
		}
		v := b.view()
		s := v.Summary()
		if s.Usage.Value.InputTokens != Observe(tt.tokens) || s.UsageScope != tt.scope || v.Usage().Len() != len(tt.reports) {
			t.Errorf("%s: %+v of %q", tt.name, s.Usage.Value.InputTokens, s.UsageScope)
		}
		var u map[string]any
		if f := v.Runtime().Fields["usage"]; f.Value.Decode(&u) != nil || fmt.Sprint(u["input_tokens"]) != fmt.Sprintf("map[state:observed value:%d]", tt.tokens) {
			t.Errorf("%s: the runtime's usage is %s", tt.name, f.Value)
		}
	}
}

// TestUsageCost: the cost of a session that an agent tells apart stands beside the tokens of its last turn, and nothing is added up.
func TestUsageCost(t *testing.T) {
	t.Parallel()
	const none = `{"state":"not_emitted","reason":"provider_did_not_emit"}`
	report := func(tokens, cost, scope string) string {
		at := func(v string) string {
			if v == "" {
				return none
			}
			return `{"state":"observed","value":` + v + `}`
		}
		return fmt.Sprintf(`{"input_tokens":%s,"cost":%s,"currency":{"state":"observed","value":"USD"},"scope":%q}`, at(tokens), at(cost), scope)
	}
	malformed := `{"cost":{"state":"unavailable","reason":"malformed_source"},"scope":"session"}`
	for _, tt := range []struct {
		name             string
		reports          []string
		tokens           int64
		cost             float64
		scope, costScope string
	}{
		{"one report", []string{report("3", "0.5", "turn")}, 3, 0.5, "turn", ""},
		{"cost of the session after the turn", []string{report("3", "", "turn"), report("", "0.25", "session"), report("4", "", "turn"), report("", "0.75", "session")}, 4, 0.75, "turn", "session"},
		{"cost before the tokens", []string{report("", "0.25", "session"), report("4", "", "turn")}, 4, 0.25, "turn", "session"},
		{"both in both", []string{report("3", "0.1", "turn"), report("9", "0.9", "session"), report("4", "0.2", "turn")}, 9, 0.9, "session", ""},
		{"steps and a session", []string{report("3", "0.1", "step"), report("9", "", "session")}, 9, 0.1, "session", "step"},
		{"a cost alone", []string{report("", "0.1", "session")}, 0, 0.1, "session", ""},
		{"a malformed cost", []string{report("3", "0.1", "turn"), malformed}, 3, 0, "turn", "session"},
	} {
		b := onTwoTapes(t, "")
		for _, r := range tt.reports {
			b.payload(KindUsage, r)
		}
		s := b.view().Summary()
		if u := s.Usage.Value; u.InputTokens.Value != tt.tokens || u.Cost.Value != tt.cost || s.UsageScope != tt.scope || s.CostScope != tt.costScope {
			t.Errorf("%s: %+v, cost %+v, scopes %q %q", tt.name, u.InputTokens, u.Cost, s.UsageScope, s.CostScope)
		}
		if tt.name == "a malformed cost" && s.Usage.Value.Cost.State != Unavailable {
			t.Errorf("%s: %+v", tt.name, s.Usage.Value.Cost)
		}
	}
}

// TestRuntimeVariants: each agent has its own facts; what it does not tell is not made up.
func TestRuntimeVariants(t *testing.T) {
	t.Parallel()
	for kind, names := range runtimeNames {
		b := buildAgent(t, kind)
		b.payload(KindHarnessResolved, `{"runtime":{"session_id":{"state":"observed","value":"ses"},"own_fact":{"state":"observed","value":1},"model_id":"not an observation"}}`)
		b.payload(KindTurnStateChanged, `{"state":"finished","runtime":{"finish_reason":{"state":"observed","value":"stop"}}}`)
		rt := b.view().Runtime()
		if rt.Kind != kind {
			t.Errorf("%s is %s", kind, rt.Kind)
		}
		for _, name := range names {
			o, ok := rt.Fields[name]
			want := Absent[JSON](NotEmitted, ReasonProviderDidNotEmit)
			switch {
			case name == "session_id":
				want = Observe(JSON(`"ses"`))
			case name == "finish_reason":
				want = Observe(JSON(`"stop"`))
			case name == "model_id":
				want = Absent[JSON](Unavailable, ReasonMalformedSource)
			case name == "usage" && kind == "acp":
				want = Absent[JSON](Unsupported, ReasonHarnessUnsupported)
			}
			if !ok || o.State != want.State || o.Reason != want.Reason || string(o.Value) != string(want.Value) {
				t.Errorf("%s: %s is %+v, want %+v", kind, name, o, want)
			}
		}
		if string(rt.Fields["own_fact"].Value) != "1" {
			t.Errorf("%s: a fact of its own is lost: %v", kind, rt.Fields)
		}
	}
}

// TestModelExchanges: what an agent asked of its model is a tape of its own.
func TestModelExchanges(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	b.event(Event{Kind: KindProviderEvent, Source: Source{OriginWire, "provider"}, Payload: JSON(`{"provider":"openai_chat","category":"turn","data":{"state":"observed","value":{"request":{"messages":[]},"status":200}}}`)})
	b.event(Event{Kind: KindProviderEvent, Source: Source{OriginWire, "provider"}, Payload: JSON(`{"provider":"openai_chat","category":"title","status":"failed","data":{"state":"observed","value":{"status":429}}}`)})
	v := b.view()
	p := v.Provider()
	if p.Len() != 2 || p.At(0).Provider != "openai_chat" || p.At(0).Category != "turn" || p.At(0).TurnID != "t1" || p.At(0).Status != StatusCompleted ||
		p.At(1).Category != "title" || p.At(1).Status != StatusFailed || string(p.At(1).Data.Value) != `{"status":429}` {
		t.Errorf("%+v", p)
	}
}

// twoTapes makes an execution of n calls on both tapes.
func twoTapes(t testing.TB, n int, key string) *Trace {
	b := onTwoTapes(t, key)
	for i := range n {
		id, args := fmt.Sprint(i), fmt.Sprintf(`{"n":%d,"message":"0123456789abcdef"}`, i)
		b.tell("call_"+id, "add", args)
		b.ask(id, "add", args, fmt.Sprintf(`{"callId":"call_%d"}`, i))
		b.say(id, five)
		b.told("call_"+id, "success", "5")
	}
	return b.finish()
}

// TestMemoryOfTwoTapes holds the promise of TestMemory for agents. It runs alone: it measures the heap.
func TestMemoryOfTwoTapes(t *testing.T) {
	n, limit := 50_000, int64(25<<20)
	if raceDetector {
		n, limit = n/20, limit/10
	}
	for _, key := range []string{"callId", ""} {
		tr := twoTapes(t, n, key)
		before := heap()
		start := time.Now()
		v, err := tr.View()
		took := time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		grown := int64(heap()) - int64(before)
		t.Logf("join key %q: index of %d events: %d bytes, made in %s", key, tr.Len(), grown, took)
		if grown > limit || took > 15*time.Second {
			t.Errorf("%d bytes, %s", grown, took)
		}
		if c := v.ToolCalls().At(n - 1); v.ToolCalls().Len() != n || c.Correlation != Correlated || len(c.Conflicts) > 0 {
			t.Errorf("%d calls, the last %+v", v.ToolCalls().Len(), c)
		}
		runtime.KeepAlive(v)
	}
}

func BenchmarkProjectAgent(b *testing.B) {
	for _, key := range []string{"callId", ""} {
		b.Run("key="+key, func(b *testing.B) {
			tr := twoTapes(b, 20_000, key)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := project(tr, tr.Len()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHiddenReasoning: reasoning that a provider keeps is a state, and a text that contradicts it is not believed.
func TestHiddenReasoning(t *testing.T) {
	t.Parallel()
	b := onTwoTapes(t, "")
	for _, content := range []string{`{"state":"encrypted","reason":"provider_encrypted"}`, `{"state":"provider_hidden","reason":"provider_hidden"}`,
		`{"state":"encrypted","reason":"provider_encrypted","value":[{"type":"text","text":"plain"}]}`, `{"state":"observed","value":[{"type":"text","text":"aloud"}]}`} {
		b.payload(KindReasoning, `{"content":`+content+`}`)
	}
	v := b.view()
	for i, want := range []State{Encrypted, ProviderHidden, Unavailable, Observed} {
		if r := v.Reasoning().At(i).Content; r.State != want || (len(r.Value) > 0) != (want == Observed) {
			t.Errorf("reasoning %d is %+v, want %s", i, r, want)
		}
	}
}

// TestCostMayBeMissing: cost and currency are what the provider reports, each on its own.
func TestCostMayBeMissing(t *testing.T) {
	t.Parallel()
	for reported, want := range map[string]Usage{
		`{"cost":{"state":"observed","value":0.5},"currency":{"state":"observed","value":"USD"}}`: {Cost: Observe(0.5), Currency: Observe("USD")},
		`{"cost":{"state":"observed","value":0.5}}`:                                               {Cost: Observe(0.5)},
		`{"currency":{"state":"observed","value":"USD"}}`:                                         {Currency: Observe("USD")},
		`{"cost":{"state":"observed","value":-1}}`:                                                {Cost: Absent[float64](Unavailable, ReasonMalformedSource)},
		`{"cost":{"state":"unsupported","reason":"harness_unsupported"}}`:                         {Cost: Absent[float64](Unsupported, ReasonHarnessUnsupported)},
	} {
		b := onTwoTapes(t, "")
		b.payload(KindUsage, reported)
		if got := b.view().Summary().Usage; got.Value != want || !got.OK() {
			t.Errorf("%s: %+v", reported, got.Value)
		}
	}
	for kind, want := range map[string]Observation[Usage]{"acp": Absent[Usage](Unsupported, ReasonHarnessUnsupported), "codex": Absent[Usage](NotEmitted, ReasonProviderDidNotEmit)} {
		if got := buildAgent(t, kind).view().Summary().Usage; got.State != want.State || got.Reason != want.Reason {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	b := buildAgent(t, "acp")
	b.payload(KindUsage, `{"cost":{"state":"observed","value":0.5},"scope":"session"}`)
	if got := b.view().Summary(); got.Usage.Value.Cost != Observe(0.5) || got.UsageScope != "session" {
		t.Errorf("an ACP agent that reports its cost: %+v", got.Usage)
	}
}
