package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const askAddress = `{"resultType":"input_required","requestState":"st-1","inputRequests":{
	"address":{"method":"elicitation/create","params":{"mode":"form","message":"Where?","requestedSchema":{"type":"object"}}},
	"motto":{"method":"sampling/createMessage","params":{"maxTokens":5}},
	"pay":{"method":"elicitation/create","params":{"mode":"url","message":"Pay","url":"https://example.test/pay","elicitationId":"x"}}}}`

// oneLine makes JSON fit a stdio line.
func oneLine(s string) string { return strings.NewReplacer("\n", "", "\t", "").Replace(s) }

func TestAttempts(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.call("1", "book", `{"kg":2}`)
	b.result("1", oneLine(askAddress))
	b.request("2", "tools/call", `{"name":"book","arguments":{"kg":2},"requestState":"st-1","inputResponses":{"address":{"action":"accept","content":{"city":"Pune"}},"pay":{"action":"decline"}}}`)
	b.result("2", `{"resultType":"input_required","requestState":"st-2","inputRequests":{"note":{"method":"elicitation/create","params":{"message":"Note?","requestedSchema":{}}}}}`)
	b.request("3", "tools/call", `{"name":"book","arguments":{"kg":2},"requestState":"st-2","inputResponses":{"note":{"action":"cancel"}}}`)
	b.result("3", `{"resultType":"complete","content":[{"type":"text","text":"booked"}]}`)
	v := b.view()

	if v.ToolCalls().Len() != 1 {
		t.Fatalf("%d calls", v.ToolCalls().Len())
	}
	c := v.ToolCalls().At(0)
	if c.ToolStatus != ToolSuccess || c.Result.Value.Text() != "booked" || c.RPCID != Observe(RPCID("1")) || c.SequenceStart != 1 || c.SequenceEnd != 6 {
		t.Errorf("call %+v", c)
	}
	if c.ServerLatency != Observe(3*time.Millisecond) {
		t.Errorf("latency %v: the client's own time counted", c.ServerLatency)
	}
	if len(c.Attempts) != 3 {
		t.Fatalf("%d attempts", len(c.Attempts))
	}
	first, second, last := c.Attempts[0], c.Attempts[1], c.Attempts[2]
	if !first.InputRequired || first.RequestState.State != NotEmitted || first.ContinuationState != Observe("st-1") || first.Status != ToolIncomplete || first.Result.State != NotEmitted {
		t.Errorf("first %+v", first)
	}
	if !first.RawResult.OK() || !strings.Contains(first.RawResult.Value.String(), "Where?") || first.SequenceStart != 1 || first.SequenceEnd != 2 {
		t.Errorf("first %+v", first)
	}
	if second.AttemptIndex != 1 || second.RequestState != Observe("st-1") || second.ContinuationState != Observe("st-2") || second.RPCID != Observe(RPCID("2")) {
		t.Errorf("second %+v", second)
	}
	if got := second.InputResponses.Value.String(); got != `{"address":{"action":"accept","content":{"city":"Pune"}},"pay":{"action":"decline"}}` {
		t.Errorf("second sent %s", got)
	}
	if last.Status != ToolCompleted || last.InputRequired || last.Result.Value.Text() != "booked" || last.ContinuationState.State != NotEmitted || last.Timing.Duration() != time.Millisecond {
		t.Errorf("last %+v", last)
	}
	for _, m := range v.RawMessages().All() {
		if m.ParentID != c.EntryID {
			t.Errorf("frame %d belongs to %q", m.SequenceStart, m.ParentID)
		}
	}
}

func TestElicitationsOfRounds(t *testing.T) {
	t.Parallel()
	b := build(t)
	b.next.TurnID = "t1"
	b.request("1", "prompts/get", `{"name":"checkout"}`)
	b.result("1", oneLine(askAddress))
	b.next.TurnID = ""
	b.request("2", "prompts/get", `{"name":"checkout","requestState":"st\u002d1","inputResponses":{"address":{"action":"accept","content":{"city":"Pune"}},"pay":{"action":"decline"}}}`)
	b.result("2", `{"messages":[]}`)
	v := b.view()
	if v.Elicitations().Len() != 2 || v.Protocol().Len() != 1 {
		t.Fatalf("%d elicitations, %d exchanges: %s", v.Elicitations().Len(), v.Protocol().Len(), ids(v.Timeline()))
	}
	p := v.Protocol().At(0)
	if p.Status != StatusCompleted || len(p.Attempts) != 2 || p.Attempts[1].Status != StatusCompleted || p.Attempts[0].Status != StatusIncomplete {
		t.Errorf("prompt %+v", p)
	}
	at := began.Add(3 * time.Millisecond)
	base := Base{EntryID: "elicitation:2", Kind: EntryElicitation, ParentID: "protocol:1", ExecutionID: "e1", TurnID: "t1", ServerBinding: "shipping", ConnectionID: "c1",
		SequenceStart: 2, SequenceEnd: 3, Status: StatusCompleted, Provenance: []Source{{OriginWire, "mcp"}},
		Timing: Timing{StartedAt: began.Add(2 * time.Millisecond), FinishedAt: &at, StartOffset: 2 * time.Millisecond, EndOffset: 3 * time.Millisecond}}
	sent := Observe(JSON(`{"address":{"action":"accept","content":{"city":"Pune"}},"pay":{"action":"decline"}}`))
	form := ElicitationEntry{Base: base, Server: "shipping", OperationKind: OperationPrompt, OperationName: "checkout", LogicalOperationID: "protocol:1",
		RoundIndex: 1, RequestKey: "address", Mode: "form", Message: Observe("Where?"), RequestedSchema: Observe(JSON(`{"type":"object"}`)),
		RequestState: Observe("st-1"), InputResponses: sent, Action: ActionAccept, Content: Observe(JSON(`{"city":"Pune"}`))}
	base.EntryID = "elicitation:2.1"
	url := ElicitationEntry{Base: base, Server: "shipping", OperationKind: OperationPrompt, OperationName: "checkout", LogicalOperationID: "protocol:1",
		RoundIndex: 1, RequestKey: "pay", Mode: "url", Message: Observe("Pay"), URL: Observe("https://example.test/pay"),
		RequestState: Observe("st-1"), InputResponses: sent, Action: ActionDecline}
	if diff := cmp.Diff([]ElicitationEntry{form, url}, []ElicitationEntry{v.Elicitations().At(0), v.Elicitations().At(1)}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := v.ForTurn(TurnID("t1")).Elicitations().Len(); n != 2 {
		t.Errorf("%d elicitations in the turn", n)
	}
	if e, ok := v.Entry("elicitation:2.1"); !ok || e.(*ElicitationEntry).RequestKey != "pay" {
		t.Errorf("entry by id: %v %v", e, ok)
	}
}

func TestContinuationsFindTheirCall(t *testing.T) {
	t.Parallel()
	ask := func(state string) string { return `{"resultType":"input_required","inputRequests":{}` + state + `}` }
	state := func(s string) string { return fmt.Sprintf(`,"requestState":%q`, s) }
	retry := func(args, rest string) string {
		return fmt.Sprintf(`{"name":"book","arguments":%s,"inputResponses":{}%s}`, args, rest)
	}
	answer := func(s string) string { return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, s) }
	tests := []struct {
		name   string
		events func(b *builder)
		want   string // arguments=text(attempts) of each call
	}{
		{"by state", func(b *builder) {
			b.call("1", "book", `1`)
			b.call("2", "book", `1`)
			b.result("1", ask(state("a")))
			b.result("2", ask(state("b")))
			b.request("3", "tools/call", retry(`1`, state("b")))
			b.request("4", "tools/call", retry(`1`, state("a")))
			b.result("3", answer("B"))
			b.result("4", answer("A"))
		}, "1=A(2) 1=B(2)"},
		{"by arguments", func(b *builder) {
			b.call("1", "book", `1`)
			b.call("2", "book", `2`)
			b.result("1", ask(""))
			b.result("2", ask(""))
			b.request("3", "tools/call", retry(`2`, ""))
			b.result("3", answer("two"))
		}, "1=(1) 2=two(2)"},
		{"a tampered state, one call waiting", func(b *builder) {
			b.call("1", "book", `1`)
			b.result("1", ask(state("a")))
			b.request("2", "tools/call", retry(`1`, state("z")))
			b.result("2", answer("ok"))
		}, "1=ok(2)"},
		{"a tampered state, two waiting", func(b *builder) {
			b.call("1", "book", `1`)
			b.call("2", "book", `2`)
			b.result("1", ask(state("a")))
			b.result("2", ask(state("b")))
			b.request("3", "tools/call", retry(`3`, state("z")))
			b.result("3", answer("ok"))
		}, "1=(1) 2=(1) 3=ok(0)"},
		{"the same operation anew", func(b *builder) {
			b.call("1", "book", `1`)
			b.result("1", ask(state("a")))
			b.call("2", "book", `1`)
			b.result("2", answer("new"))
		}, "1=(1) 1=new(0)"},
		{"another connection", func(b *builder) {
			b.call("1", "book", `1`)
			b.result("1", ask(state("a")))
			b.next.ConnectionID = "c2"
			b.request("2", "tools/call", retry(`1`, state("a")))
			b.result("2", answer("other"))
		}, "1=(1) 1=other(0)"},
		{"a failed continuation", func(b *builder) {
			b.call("1", "book", `1`)
			b.result("1", ask(state("a")))
			b.request("2", "tools/call", retry(`1`, state("a")))
			b.failed("2", "timed_out")
		}, "1=timed_out(2)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			tt.events(b)
			var got []string
			for _, c := range b.view().ToolCalls().All() {
				text := c.Result.Value.Text()
				if c.ToolStatus != ToolSuccess && c.ToolStatus != ToolIncomplete {
					text = string(c.ToolStatus)
				}
				got = append(got, fmt.Sprintf("%s=%s(%d)", c.Arguments.Value, text, len(c.Attempts)))
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

func TestManyOpenRoundsStayBounded(t *testing.T) {
	t.Parallel()
	b := build(t)
	const n = 3 * maxPaused
	for i := range n {
		id := fmt.Sprint(i)
		b.call(id, "book", id)
		b.result(id, `{"resultType":"input_required","requestState":"same"}`)
	}
	b.request("x", "tools/call", `{}`) // malformed id: no pairing, no panic
	v := b.view()
	if got := v.ToolCalls().Len(); got != n+1 {
		t.Errorf("%d calls, want %d", got, n+1)
	}
	if c := v.ToolCalls().At(n - 1); len(c.Attempts) != 1 || c.ToolStatus != ToolIncomplete {
		t.Errorf("last %+v", c)
	}
}
