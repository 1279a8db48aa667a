package trace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// agentRig makes traces of an agent on two tapes.
type agentRig struct{ *builder }

func onTwoTapes(t testing.TB, joinKey string) agentRig {
	b := &builder{t: t, arena: NewArena(), next: Event{SessionID: "s1", TurnID: "t1", Phase: PhaseTurn, Source: Source{OriginReported, "opencode"}}}
	b.event(Event{Kind: KindExecutionCreated, Payload: JSON(fmt.Sprintf(`{"kind":"agent","harness":"opencode","join_key":%q}`, joinKey))})
	return agentRig{b}
}

// wire adds an event of the relay.
func (b agentRig) wire(ev Event) int64 {
	ev.Source, ev.ConnectionID = Source{OriginWire, "mcp"}, "c1"
	if ev.Server == "" {
		ev.Server = "calc"
	}
	return b.event(ev)
}

func line(dir Direction, format string, args ...any) *Frame {
	return &Frame{Direction: dir, Framing: FramingLine, Bytes: []byte(fmt.Sprintf(format, args...) + "\n")}
}

func (b agentRig) ask(id, tool, args, meta string) int64 {
	if meta != "" {
		meta = `,"_meta":` + meta
	}
	return b.wire(Event{Kind: KindMCPRequest, RPCID: RPCID(id), Method: "tools/call",
		Frame: line(ClientToServer, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, args, meta)})
}

func (b agentRig) say(id, result string) int64 {
	return b.wire(Event{Kind: KindMCPResponse, RPCID: RPCID(id), Frame: line(ServerToClient, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)})
}

func (b agentRig) listed(server string, tools ...string) {
	b.wire(Event{Server: server, Kind: KindMCPRequest, RPCID: "90", Method: "tools/list", Frame: line(ClientToServer, `{"id":90,"method":"tools/list"}`)})
	var list []map[string]string
	for _, tool := range tools {
		list = append(list, map[string]string{"name": tool})
	}
	text, _ := json.Marshal(list)
	b.wire(Event{Server: server, Kind: KindMCPResponse, RPCID: "90", Frame: line(ServerToClient, `{"id":90,"result":{"tools":%s}}`, text)})
}

// tell reports a call with the server's words, or with the agent's own name for tool when it starts with a colon.
func (b agentRig) tell(id, tool, args string) int64 {
	name := fmt.Sprintf(`"server":{"state":"observed","value":"calc"},"tool":{"state":"observed","value":%q}`, tool)
	if own, ok := strings.CutPrefix(tool, ":"); ok {
		name = fmt.Sprintf(`"name":%q`, own)
	}
	return b.payload(KindToolCallRequested, fmt.Sprintf(`{"call_id":%q,"provider_call_id":{"state":"observed","value":%q},%s,"arguments":{"state":"observed","value":%s}}`, id, id, name, args))
}

func (b agentRig) told(id, status, text string) int64 {
	return b.payload(KindToolResultReceived, fmt.Sprintf(`{"call_id":%q,"status":%q,"result":{"state":"observed","value":{"content":[{"type":"text","text":%q}]}}}`, id, status, text))
}

const five, boom = `{"content":[{"type":"text","text":"5"}],"structuredContent":{"sum":5}}`, `{"content":[{"type":"text","text":"boom"}],"isError":true}`

// story is what the entries of the tool calls say, in short.
func story(v View) string {
	var out []string
	for _, c := range v.ToolCalls().All() {
		line := fmt.Sprintf("%s %s", c.CallID, c.Correlation)
		if w, ok := c.Wire.Get(); ok {
			line += fmt.Sprintf(" wire %s/%s%s=%s", w.Server, w.Tool, w.Arguments.Value, w.Status)
		}
		if r, ok := c.Reported.Get(); ok {
			line += fmt.Sprintf(" told %s%s=%s", r.Tool.Value, r.Arguments.Value, r.Status)
		}
		if c.Policy.OK() {
			line += " " + c.Policy.Value
		}
		for _, x := range c.Conflicts {
			line += fmt.Sprintf(" !%s %s<>%s", x.Field, x.Reported, x.Wire)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestLyingAgent holds every lie against the wire, once for an agent with a join key and once for one without.
func TestLyingAgent(t *testing.T) {
	t.Parallel()
	type test struct {
		name    string
		tapes   func(b agentRig, meta func(id string) string)
		keyed   string // with a join key
		unkeyed string // without, when it differs
	}
	for _, tt := range []test{
		{name: "the truth", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{"y":3.0,"x":2}`)
			b.ask("1", "add", `{"x":2,"y":3}`, meta("a"))
			b.say("1", five)
			b.told("a", "success", "5")
		}, keyed: `a correlated wire calc/add{"x":2,"y":3}=success told add{"y":3.0,"x":2}=success`},
		{name: "told in pieces, and late", tapes: func(b agentRig, meta func(string) string) {
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`)
			b.told("a", "success", "a\n\nb")
			b.tell("z", "sub", `{}`) // never made
		}, keyed: "a correlated wire calc/add{}=success told =success\nz reported_only told sub{}=incomplete",
			// its report names neither tool nor arguments: it may be this call
			unkeyed: "tool_call:1 unavailable wire calc/add{}=success\na unavailable told =success\nz reported_only told sub{}=incomplete"},
		{name: "other arguments", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{"x":1}`)
			b.ask("1", "add", `{"x":true}`, meta("a"))
			b.say("1", five)
			b.told("a", "success", "5")
		}, keyed: `a correlated wire calc/add{"x":true}=success told add{"x":1}=success !arguments {"x":1}<>{"x":true}`,
			unkeyed: "a reported_only told add{\"x\":1}=success\ntool_call:2 wire_only wire calc/add{\"x\":true}=success"},
		{name: "other tool", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "sub", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", five)
			b.told("a", "success", "5")
		}, keyed: `a correlated wire calc/add{}=success told sub{}=success !tool "sub"<>"add"`,
			unkeyed: "a reported_only told sub{}=success\ntool_call:2 wire_only wire calc/add{}=success"},
		{name: "other result", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", five)
			b.told("a", "success", "6")
		}, keyed: `a correlated wire calc/add{}=success told add{}=success !result {"content":[{"type":"text","text":"6"}]}<>` + five},
		{name: "other status", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", boom)
			b.told("a", "success", "boom")
		}, keyed: `a correlated wire calc/add{}=tool_error told add{}=success !status "success"<>"tool_error"`},
		{name: "a success told as a failure", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", five)
			b.told("a", "cancelled", "5")
		}, keyed: `a correlated wire calc/add{}=success told add{}=cancelled !status "cancelled"<>"success"`},
		{name: "a result that never came", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.told("a", "success", "6")
		}, keyed: `a correlated wire calc/add{}=incomplete told add{}=success !result {"content":[{"type":"text","text":"6"}]}<> !status "success"<>"incomplete"`},
		{name: "a failure in the agent's words", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.wire(Event{Kind: KindMCPError, RPCID: "1", Frame: line(ServerToClient, `{"id":1,"error":{"code":-32602,"message":"no such tool"}}`)})
			b.told("a", "tool_error", "MCP error -32602: no such tool")
		}, keyed: `a correlated wire calc/add{}=protocol_error told add{}=tool_error`},
		{name: "a call never made, a hidden call", tapes: func(b agentRig, meta func(string) string) {
			b.ask("1", "add", `{"hidden":1}`, meta("h"))
			b.say("1", five)
			b.tell("n", "add", `{"never":1}`)
			b.told("n", "success", "5")
		}, keyed: "tool_call:1 wire_only wire calc/add{\"hidden\":1}=success\nn reported_only told add{\"never\":1}=success"},
		{name: "the two with the same arguments", tapes: func(b agentRig, meta func(string) string) {
			b.ask("1", "add", `{}`, meta("h"))
			b.say("1", five)
			b.tell("n", "add", `{}`)
			b.told("n", "success", "5")
		}, keyed: "tool_call:1 wire_only wire calc/add{}=success\nn reported_only told add{}=success",
			unkeyed: "n correlated wire calc/add{}=success told add{}=success"}, // nothing tells them from one honest call
		{name: "two equal calls", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.tell("b", "add", `{}`)
			b.ask("1", "add", `{}`, meta("b"))
			b.ask("2", "add", `{}`, meta("a"))
			b.say("2", five)
			b.say("1", boom)
			b.told("a", "success", "5")
			b.told("b", "tool_error", "boom")
		}, keyed: "b correlated wire calc/add{}=tool_error told add{}=tool_error\na correlated wire calc/add{}=success told add{}=success",
			unkeyed: "a ambiguous told add{}=success\nb ambiguous told add{}=tool_error\ntool_call:3 ambiguous wire calc/add{}=tool_error\ntool_call:4 ambiguous wire calc/add{}=success"},
		{name: "one of two equal calls", tapes: func(b agentRig, meta func(string) string) {
			b.ask("1", "add", `{}`, meta("a"))
			b.ask("2", "add", `{}`, meta("h"))
			b.tell("a", "add", `{}`)
		}, keyed: "a correlated wire calc/add{}=incomplete told add{}=incomplete\ntool_call:2 wire_only wire calc/add{}=incomplete",
			unkeyed: "tool_call:1 ambiguous wire calc/add{}=incomplete\ntool_call:2 ambiguous wire calc/add{}=incomplete\na ambiguous told add{}=incomplete"},
		{name: "ids swapped", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{"x":1}`)
			b.tell("b", "add", `{"x":2}`)
			b.ask("1", "add", `{"x":1}`, meta("b"))
			b.ask("2", "add", `{"x":2}`, meta("a"))
		}, keyed: `b correlated wire calc/add{"x":1}=incomplete told add{"x":2}=incomplete !arguments {"x":2}<>{"x":1}` + "\n" +
			`a correlated wire calc/add{"x":2}=incomplete told add{"x":1}=incomplete !arguments {"x":1}<>{"x":2}`,
			unkeyed: `a correlated wire calc/add{"x":1}=incomplete told add{"x":1}=incomplete` + "\n" + `b correlated wire calc/add{"x":2}=incomplete told add{"x":2}=incomplete`},
		{name: "one id twice", tapes: func(b agentRig, meta func(string) string) { // a client that tries again: told apart by their arguments
			b.tell("a", "add", `{"x":1}`)
			b.ask("1", "add", `{"x":1}`, meta("a"))
			b.ask("2", "add", `{"x":2}`, meta("a"))
		}, keyed: `a correlated wire calc/add{"x":1}=incomplete told add{"x":1}=incomplete` + "\n" + `tool_call:3 wire_only wire calc/add{"x":2}=incomplete`},
		{name: "an id in two turns", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", five)
			b.told("a", "success", "5")
			b.next.TurnID = "t2"
			b.ask("2", "add", `{}`, meta("a"))
			b.say("2", boom)
			b.tell("a", "add", `{}`)
			b.told("a", "tool_error", "boom")
		}, keyed: "a correlated wire calc/add{}=success told add{}=success\na correlated wire calc/add{}=tool_error told add{}=tool_error"},
		{name: "the arguments of another turn", tapes: func(b agentRig, meta func(string) string) {
			b.ask("1", "add", `{}`, "")
			b.next.TurnID = "t2"
			b.tell("a", "add", `{}`)
		}, keyed: "tool_call:1 wire_only wire calc/add{}=incomplete\na reported_only told add{}=incomplete"},
		{name: "the agent's own names", tapes: func(b agentRig, meta func(string) string) {
			b.listed("calc", "add", "sub-it")
			b.listed("other", "add")
			b.tell("a", ":mcp__calc__add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.tell("b", ":calc_sub_it", `{}`) // never made
			b.tell("c", ":add", `{}`)         // of which server?
			b.tell("d", ":bash", `{}`)
		}, keyed: "a correlated wire calc/add{}=incomplete told add{}=incomplete\nb reported_only told sub-it{}=incomplete\nc reported_only told {}=incomplete\nd reported_only told {}=incomplete"},
		{name: "a name that can mean two", tapes: func(b agentRig, meta func(string) string) {
			b.listed("a", "b_c")
			b.listed("a_b", "c")
			b.tell("x", ":a_b_c", `{}`)
			b.wire(Event{Server: "a_b", Kind: KindMCPRequest, RPCID: "1", Method: "tools/call",
				Frame: line(ClientToServer, `{"id":1,"method":"tools/call","params":{"name":"c","_meta":%s}}`, meta("x"))})
		}, keyed: "x correlated wire a_b/c=incomplete told {}=incomplete", unkeyed: "x unavailable told {}=incomplete\ntool_call:6 unavailable wire a_b/c=incomplete"},
		{name: "a cancellation after the answer", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", five)
			b.wire(Event{Kind: KindMCPCancelRequested, Method: "notifications/cancelled", Frame: line(ClientToServer, `{"method":"notifications/cancelled","params":{"requestId":1}}`)})
			b.told("a", "success", "5")
		}, keyed: "a correlated wire calc/add{}=success told add{}=success"},
		{name: "a cancellation", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.wire(Event{Kind: KindMCPCancelRequested, Method: "notifications/cancelled", Frame: line(ClientToServer, `{"method":"notifications/cancelled","params":{"requestId":1}}`)})
			b.told("a", "tool_error", "aborted")
		}, keyed: "a correlated wire calc/add{}=cancelled told add{}=tool_error"},
		{name: "a paused call that the agent gave up", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "add", `{}`)
			b.ask("1", "add", `{}`, meta("a"))
			b.say("1", `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{}}}}`)
			b.told("a", "tool_error", "input_required did not complete")
		}, keyed: "a correlated wire calc/add{}=incomplete told add{}=tool_error"},
		{name: "a refused call", tapes: func(b agentRig, meta func(string) string) {
			b.tell("a", "rm", `{}`)
			b.wire(Event{Kind: KindMCPPolicyDenied, RPCID: "1", Method: "tools/call",
				Frame: line(ClientToServer, `{"id":1,"method":"tools/call","params":{"name":"rm","arguments":{},"_meta":%s}}`, meta("a"))})
			b.told("a", "tool_error", "Unknown tool: rm")
			b.wire(Event{Kind: KindMCPPolicyDenied, RPCID: "2", Method: "tools/call", Payload: JSON(`{"id":2,"method":"tools/call","params":{"name":"rm","arguments":{"x":1}}}`)})
			b.tell("b", "rm", `{"y":1}`)
			b.told("b", "success", "gone")
		}, keyed: "a correlated told rm{}=tool_error policy_denied\ntool_call:4 wire_only policy_denied\nb reported_only told rm{\"y\":1}=success"},
	} {
		if tt.unkeyed == "" {
			tt.unkeyed = tt.keyed
		}
		for key, want := range map[string]string{"callId": tt.keyed, "": tt.unkeyed} {
			t.Run(tt.name+"/"+key, func(t *testing.T) {
				t.Parallel()
				b := onTwoTapes(t, key)
				tt.tapes(b, func(id string) string {
					if key == "" {
						return `{"progressToken":1}`
					}
					return fmt.Sprintf(`{"progressToken":1,"callId":%q}`, id)
				})
				v := b.view()
				if got := story(v); got != want {
					t.Errorf("\n got %s\nwant %s", got, want)
				}
				checkTapes(t, v)
			})
		}
	}
}

// checkTapes holds what is so whatever an agent tells: every call on the wire and every report is in exactly one entry, and what a call is
// is what the wire says.
func checkTapes(t *testing.T, v View) {
	t.Helper()
	var wire, told, denied []int64
	for _, e := range v.ToolCalls().All() {
		if e.Wire.OK() {
			wire = append(wire, e.SequenceStart)
			w := e.Wire.Value
			same := e.Tool.Value == w.Tool && string(e.Arguments.Value) == string(w.Arguments.Value) && e.Server.Value == w.Server
			if gaveUp := len(e.Attempts) > 0; !same || !gaveUp && (e.ToolStatus != w.Status || e.Result.State != w.Result.State) {
				t.Errorf("%s: the fields are not the wire's: %+v", e.EntryID, e)
			}
		}
		if e.Policy.OK() {
			denied = append(denied, e.SequenceStart)
		}
		if r, ok := e.Reported.Get(); ok {
			told = append(told, r.SequenceStart)
		}
		if both := (e.Wire.OK() || e.Policy.OK()) && e.Reported.OK(); both != (e.Correlation == Correlated) {
			t.Errorf("%s is %s: wire %s, reported %s", e.EntryID, e.Correlation, e.Wire.State, e.Reported.State)
		}
		if e.Correlation != Correlated && len(e.Conflicts) > 0 {
			t.Errorf("%s is %s and has conflicts", e.EntryID, e.Correlation)
		}
		if got, ok := v.Entry(e.EntryID); !ok || got.Common().EntryID != e.EntryID {
			t.Errorf("%s cannot be found", e.EntryID)
		}
	}
	var wantWire, wantTold, wantDenied []int64
	asked := map[string]bool{}
	for ev, err := range v.ix.t.All() {
		if err != nil {
			t.Fatal(err)
		}
		id := string(ev.SessionID) + toldID(mustWhole(ev.Payload))
		switch {
		case ev.Kind == KindMCPRequest && ev.Method == "tools/call" && !strings.Contains(string(ev.Frame.Bytes), "requestState"):
			wantWire = append(wantWire, ev.Sequence)
		case ev.Kind == KindMCPPolicyDenied:
			wantDenied = append(wantDenied, ev.Sequence)
		case ev.Kind == KindToolCallRequested:
			wantTold = append(wantTold, ev.Sequence)
			asked[id] = true
		case ev.Kind == KindToolResultReceived && !asked[id]:
			wantTold = append(wantTold, ev.Sequence)
		case ev.Kind == KindToolResultReceived:
			delete(asked, id)
		}
	}
	slices.Sort(told)
	for what, pair := range map[string][2][]int64{"wire": {wire, wantWire}, "told": {told, wantTold}, "denied": {denied, wantDenied}} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("calls of tape %q: %v, want %v", what, pair[0], pair[1])
		}
	}
	if s := v.Summary(); s.ToolCallCount != len(wantWire) || s.PolicyDeniedCalls != len(wantDenied) {
		t.Errorf("summary %+v", s)
	}
	if got := v.Timeline().Len() - v.ToolCalls().Len() + len(wire) + len(told) + len(denied); got != v.ix.records.len() {
		t.Errorf("%d entries and reports of %d records", got, v.ix.records.len())
	}
	again, err := reopened(v.ix.t).View()
	if err != nil || asJSON(t, again) != asJSON(t, v) {
		t.Errorf("reopened it differs: %v", err)
	}
}

func mustWhole(j JSON) value {
	v, _ := whole(j)
	return v
}

// TestAnyReports lets an agent tell anything, in any order.
func TestAnyReports(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		pick := func(words ...string) string { return words[r.IntN(len(words))] }
		key := pick("callId", "")
		type step func(b agentRig)
		var wire, told []step
		meta := func() string {
			if key == "" || r.IntN(4) == 0 {
				return ""
			}
			return fmt.Sprintf(`{"callId":%q}`, pick("a", "b", "c", "d"))
		}
		for i := range r.IntN(7) {
			id, tool, args, m := fmt.Sprint(i), pick("add", "sub"), pick(`{}`, `{"x":1}`, `{"x":true}`), meta()
			if r.IntN(6) == 0 {
				wire = append(wire, func(b agentRig) {
					b.wire(Event{Kind: KindMCPPolicyDenied, RPCID: RPCID(id), Method: "tools/call", Frame: line(ClientToServer, `{"id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)})
				})
				continue
			}
			wire = append(wire, func(b agentRig) { b.ask(id, tool, args, m) })
			if result := pick(five, boom, ""); result != "" {
				wire = append(wire, func(b agentRig) { b.say(id, result) })
			}
			if r.IntN(5) == 0 {
				wire = append(wire, func(b agentRig) { b.next.TurnID = "t2" })
			}
		}
		for range r.IntN(7) {
			id, tool, args := pick("a", "b", "c", "d", "e"), pick("add", "sub", ":calc_add", ":add", ":x", ":"), pick(`{}`, `{"x":1}`, `{"x":1.0}`, `null`, `"x"`)
			told = append(told, func(b agentRig) { b.tell(id, tool, args) })
			if status := pick("success", "tool_error", "", "nonsense"); r.IntN(3) > 0 {
				told = append(told, func(b agentRig) { b.told(id, status, pick("5", "boom")) })
			}
		}
		b := onTwoTapes(t, key)
		for len(wire)+len(told) > 0 {
			from := &wire
			if len(wire) == 0 || len(told) > 0 && r.IntN(2) == 0 {
				from = &told
			}
			(*from)[0](b)
			*from = (*from)[1:]
		}
		checkTapes(t, b.view())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestOrderTellsNothing joins the same calls in every order of arrival.
func TestOrderTellsNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"callId", ""} {
		var want string
		for seed := range uint64(60) {
			b := onTwoTapes(t, key)
			steps := []func(){}
			for _, id := range []string{"a", "b", "c", "d"} {
				args := map[string]string{"a": `{"x":1}`, "b": `{"x":2}`, "c": `{"x":3}`, "d": `{"x":3}`}[id]
				steps = append(steps, func() { b.tell(id, "add", args) })
				steps = append(steps, func() {
					b.ask(fmt.Sprint(id[0]), "add", args, fmt.Sprintf(`{"callId":%q}`, id))
				})
			}
			rand.New(rand.NewPCG(seed, 7)).Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			for _, step := range steps {
				step()
			}
			var pairs []string
			for _, c := range b.view().ToolCalls().All() {
				pairs = append(pairs, fmt.Sprint(c.Correlation, c.RPCID.Value, c.ProviderCallID.Value))
			}
			slices.Sort(pairs)
			got := strings.Join(pairs, "\n")
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("seed %d\n%s\nbefore:\n%s", seed, got, want)
			}
		}
	}
}
