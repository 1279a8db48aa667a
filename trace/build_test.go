package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// builder makes traces for tests: one event a millisecond, on one connection unless told otherwise.
type builder struct {
	t     testing.TB
	arena *Arena
	seq   int64
	next  Event // what the following events have in common
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func build(t testing.TB) *builder {
	b := &builder{t: t, arena: NewArena(), next: Event{
		Server: "shipping", ConnectionID: "c1", Phase: PhaseMCPCall, Source: Source{OriginWire, "mcp"},
	}}
	b.event(Event{Kind: KindExecutionCreated, Payload: JSON(`{"kind":"direct"}`), Phase: PhasePreflight, Source: Source{OriginDerived, "m3"}})
	return b
}

// buildAgent is build for an agent's execution.
func buildAgent(t testing.TB, harness string) *builder {
	b := &builder{t: t, arena: NewArena(), next: Event{SessionID: "s1", TurnID: "t1", Phase: PhaseTurn, Source: Source{OriginReported, harness}}}
	b.event(Event{Kind: KindExecutionCreated, Payload: JSON(fmt.Sprintf(`{"kind":"agent","harness":%q}`, harness)), Phase: PhasePreflight})
	return b
}

func (b *builder) event(ev Event) int64 {
	or := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	or((*string)(&ev.Phase), string(b.next.Phase))
	or((*string)(&ev.SessionID), string(b.next.SessionID))
	or((*string)(&ev.TurnID), string(b.next.TurnID))
	or(&ev.Server, b.next.Server)
	or((*string)(&ev.ConnectionID), string(b.next.ConnectionID))
	if ev.Source == (Source{}) {
		ev.Source = b.next.Source
	}
	ev.Offset = time.Duration(b.seq) * time.Millisecond
	ev.Time = began.Add(ev.Offset)
	b.seq++
	return b.arena.Append(&ev)
}

func (b *builder) payload(k Kind, payload string) int64 {
	return b.event(Event{Kind: k, Payload: JSON(payload)})
}

func (b *builder) frame(k Kind, dir Direction, id, method, body string) int64 {
	return b.event(Event{Kind: k, RPCID: RPCID(id), Method: method, Frame: &Frame{Direction: dir, Framing: FramingLine, Bytes: []byte(body + "\n")}})
}

func (b *builder) request(id, method, params string) int64 {
	return b.frame(KindMCPRequest, ClientToServer, id, method, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
}

func (b *builder) result(id, result string) int64 {
	return b.frame(KindMCPResponse, ServerToClient, id, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (b *builder) fault(id, fault string) int64 {
	return b.frame(KindMCPError, ServerToClient, id, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, fault))
}

func (b *builder) cancel(id string) int64 {
	return b.frame(KindMCPCancelRequested, ClientToServer, "", "notifications/cancelled",
		fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
}

func (b *builder) failed(id, kind string) int64 {
	return b.event(Event{Kind: KindMCPCallFailed, RPCID: RPCID(id),
		Payload: JSON(fmt.Sprintf(`{"rpc_id":%s,"method":"tools/call","kind":%q,"reason":"because"}`, id, kind))})
}

func (b *builder) call(id, tool, args string) int64 {
	return b.request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

func (b *builder) finish() *Trace {
	b.event(Event{Kind: KindExecutionFinished, Payload: JSON(`{"outcome":"completed"}`), Phase: PhaseTerminal, Source: Source{OriginDerived, "m3"}})
	return New("e1", b.arena)
}

func (b *builder) view() View {
	b.t.Helper()
	v, err := b.finish().View()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func asJSON(t testing.TB, v View) string {
	t.Helper()
	b, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// reopened is the same events without what only the recording process has.
func reopened(tr *Trace) *Trace { return New(tr.id, keptLog{tr.log}) }

type keptLog struct{ Log }

func ids(entries List[Entry]) string {
	var out []string
	for _, e := range entries.All() {
		out = append(out, e.Common().EntryID)
	}
	return strings.Join(out, " ")
}
