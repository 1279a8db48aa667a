package trace

import (
	"fmt"
	"strings"
	"testing"
)

const askForm = `{"message":"Where?","requestedSchema":{"type":"object"}}`

// askFor is a request of the server's own; on an HTTP exchange when that is not 0.
func (b *builder) askFor(id, params string, exchange int64) int64 {
	f := &Frame{Direction: ServerToClient, Framing: FramingLine, Bytes: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`+"\n", id, params)}
	if exchange > 0 {
		f.HTTP = &HTTPInfo{Exchange: exchange}
	}
	return b.event(Event{Kind: KindMCPRequest, RPCID: RPCID(id), Method: "elicitation/create", Frame: f})
}

// reply is our answer, with a note.
func (b *builder) reply(id, result, note string) int64 {
	ev := Event{Kind: KindMCPResponse, RPCID: RPCID(id), Frame: &Frame{Direction: ClientToServer, Framing: FramingLine, Bytes: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, result)}}
	if strings.HasPrefix(result, `"error"`) {
		ev.Kind = KindMCPError
	}
	if note != "" {
		ev.Payload = JSON(note)
	}
	return b.event(ev)
}

func (b *builder) callIn(id, tool string, exchange int64) int64 {
	return b.event(Event{Kind: KindMCPRequest, RPCID: RPCID(id), Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingBody, HTTP: &HTTPInfo{Exchange: exchange},
		Bytes: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q}}`, id, tool)}})
}

// A request of the server's own belongs to a call by its HTTP exchange, by m3's note, or because the call was open alone; else nobody says so.
func TestWhoseElicitationItIs(t *testing.T) {
	t.Parallel()
	accept := `"result":{"action":"accept","content":{"city":"Pune"}}`
	tests := []struct {
		name   string
		events func(b *builder)
		want   string // call/operation round key action status, of each
	}{
		{"the only call", func(b *builder) {
			b.call("1", "book", `{}`)
			b.askFor("9", askForm, 0)
			b.reply("9", accept, "")
			b.askFor("10", askForm, 0)
			b.reply("10", `"result":{"action":"decline"}`, "")
			b.result("1", ok)
		}, "tool_call:1/book 1  accept completed; tool_call:1/book 2  decline completed"},
		{"the key that m3 notes", func(b *builder) {
			b.call("1", "book", `{}`)
			b.askFor("9", askForm, 0)
			b.reply("9", accept, `{"elicitation":{"call":1,"round":3,"request_key":"address"}}`)
			b.result("1", ok)
		}, "tool_call:1/book 3 address accept completed"},
		{"the call that m3 notes", func(b *builder) {
			b.call("1", "book", `{}`)
			b.call("2", "pay", `{}`)
			b.askFor("9", askForm, 0)
			b.reply("9", accept, `{"elicitation":{"call":2,"round":1,"request_key":"address"}}`)
			b.result("1", ok)
		}, "tool_call:2/pay 1 address accept completed"},
		{"two calls and no note", func(b *builder) {
			b.call("1", "book", `{}`)
			b.call("2", "pay", `{}`)
			b.askFor("9", askForm, 0)
			b.reply("9", `"error":{"code":-32603,"message":"no"}`, "")
		}, "/ 0   protocol_error correlation_unavailable"},
		{"the exchange", func(b *builder) {
			b.callIn("1", "book", 1)
			b.callIn("2", "pay", 2)
			b.askFor("9", askForm, 2)
		}, "tool_call:2/pay 1   incomplete"},
		{"no call at all", func(b *builder) { b.askFor("9", askForm, 0) }, "/ 0   incomplete correlation_unavailable"},
		{"an answered call", func(b *builder) {
			b.call("1", "book", `{}`)
			b.result("1", ok)
			b.askFor("9", askForm, 0)
		}, "/ 0   incomplete correlation_unavailable"},
		{"a note that is none", func(b *builder) {
			b.call("1", "book", `{}`)
			b.askFor("9", askForm, 0)
			b.reply("9", accept, `{"elicitation":{"call":77,"round":-5,"request_key":7}}`)
		}, "/ 0  accept completed correlation_unavailable"},
		{"a request of the client is none", func(b *builder) { b.request("1", "elicitation/create", askForm) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			tt.events(b)
			var got []string
			v := b.view()
			for _, e := range v.Elicitations().All() {
				s := fmt.Sprintf("%s/%s %d %s %s %s %s", e.LogicalOperationID, e.OperationName, e.RoundIndex, e.RequestKey, e.Action, e.Status, strings.Join(e.Limitations, ","))
				got = append(got, strings.TrimSpace(s))
				if back, ok := v.Entry(e.EntryID); !ok || back.Common().EntryID != e.EntryID || e.Message.Value != "Where?" || e.Mode != "form" {
					t.Errorf("%+v", e)
				}
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

// The answer stands under the key that is known, as the answers of a round do.
func TestAnswerOfARequestOfItsOwn(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "book", `{}`)
	b.askFor("9", `{"mode":"url","message":"Pay","url":"https://example.test/p","elicitationId":"e1"}`, 0)
	b.reply("9", `"result":{"action":"accept"}`, `{"elicitation":{"call":1,"round":1,"request_key":"pay"}}`)
	e := b.view().Elicitations().At(0)
	if string(e.InputResponses.Value) != `{"pay":{"action":"accept"}}` || !e.InputResponses.OK() || e.Content.State != NotEmitted || e.ElicitationID != Observe("e1") || e.URL != Observe("https://example.test/p") || e.RequestState.State != NotEmitted {
		t.Errorf("%+v", e)
	}
	if len(e.Provenance) != 2 || e.Provenance[1].Origin != OriginDerived {
		t.Errorf("a key that m3 knows is shown as one of the wire: %+v", e.Provenance)
	}
}

// A call made again after -32042 is one call with two attempts, when m3's note says so; and what the error asks for is shown in any case.
func TestURLsOfAnError(t *testing.T) {
	t.Parallel()
	const fault = `{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","message":"A","url":"https://example.test/a","elicitationId":"e1"},{"mode":"url","message":"B","url":"https://example.test/b","elicitationId":"e2"}]}}`
	again := func(b *builder, id, note string) {
		ev := Event{Kind: KindMCPRequest, RPCID: RPCID(id), Method: "tools/call", Frame: &Frame{Direction: ClientToServer, Framing: FramingLine,
			Bytes: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"book"}}`+"\n", id)}}
		if note != "" {
			ev.Payload = JSON(note)
		}
		b.event(ev)
	}
	note := `{"continues":{"call":1,"answers":[{"request_key":"a","action":"accept"},{"request_key":"b","action":"accept"}]}}`
	for _, tt := range []struct {
		name, note, want string
		calls            int
	}{
		{"noted", note, "tool_call:1 1 a accept completed; tool_call:1 1 b accept completed", 1},
		{"not noted", "", "tool_call:1 1   incomplete; tool_call:1 1   incomplete", 2},
		{"another call noted", `{"continues":{"call":8}}`, "tool_call:1 1   incomplete; tool_call:1 1   incomplete", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			b.call("1", "book", `{}`)
			b.fault("1", fault)
			again(b, "2", tt.note)
			b.result("2", ok)
			v := b.view()
			var got []string
			for _, e := range v.Elicitations().All() {
				got = append(got, fmt.Sprintf("%s %d %s %s %s", e.LogicalOperationID, e.RoundIndex, e.RequestKey, e.Action, e.Status))
			}
			if s := strings.Join(got, "; "); s != tt.want || v.ToolCalls().Len() != tt.calls {
				t.Errorf("%d calls; got %s", v.ToolCalls().Len(), s)
			}
			last := v.ToolCalls().At(tt.calls - 1)
			if last.ToolStatus != ToolSuccess || len(last.Attempts) != map[int]int{1: 2, 2: 0}[tt.calls] {
				t.Errorf("%+v", last)
			}
			if tt.calls == 1 && (!last.Attempts[0].InputRequired || last.Attempts[0].Status != ToolIncomplete || !strings.Contains(last.Attempts[0].RawResult.Value.String(), "-32042") || last.Attempts[1].Status != ToolCompleted || last.SequenceEnd != 4) {
				t.Errorf("%+v", last.Attempts)
			}
		})
	}
}
