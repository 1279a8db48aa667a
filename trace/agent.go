package trace

import (
	"fmt"
	"slices"
	"strconv"
)

// payloadEntry decodes an entry whose event is its payload.
func (d reader) payloadEntry(n int32, r *record) Entry {
	first := d.message(r.start)
	e := newPayloadEntry(r.kind)
	base := e.Common()
	*base = d.base(n, first)
	d.prefill(e, first)
	base.limit(fillFields(e, first))
	if r.resp >= 0 {
		base.limit(fillFields(e, d.message(r.resp)))
	}
	if r.kind == codeFinding {
		base.ParentID = d.parent(r)
	}
	if m, ok := e.(*MessageEntry); ok && !slices.Contains(roleWords, m.Role) {
		m.Role = ""
		base.limit([]string{string(ReasonMalformedSource)})
	}
	return e
}

var roleWords = []string{"user", "assistant", "system", "tool"}

func (b *Base) limit(codes []string) {
	for _, c := range codes {
		if !slices.Contains(b.Limitations, c) {
			b.Limitations = append(b.Limitations, c)
		}
	}
}

func newPayloadEntry(k kindCode) Entry {
	switch k {
	case codeArtifact:
		return &ArtifactEntry{}
	case codeElicitation:
		return &ElicitationEntry{}
	case codeFinding:
		return &FindingEntry{}
	case codeInitialization:
		return &InitializationEntry{}
	case codeInteraction:
		return &InteractionEntry{}
	case codeLifecycle:
		return &LifecycleEntry{}
	case codeMessage:
		return &MessageEntry{}
	case codeProcess:
		return &ProcessEntry{}
	case codeProvider:
		return &ProviderEntry{}
	case codeReasoning:
		return &ReasoningEntry{}
	case codeTransport:
		return &TransportEntry{}
	case codeUsage:
		return &UsageEntry{}
	case codeWorkspace:
		return &WorkspaceEntry{}
	}
	panic(fmt.Sprintf("trace: no payload makes a %s entry", entryKinds[k])) // a new kind without its line here
}

// prefill sets what the event says and its payload need not.
func (d reader) prefill(e Entry, m *message) {
	switch e := e.(type) {
	case *LifecycleEntry:
		e.Phase, e.Event = intern[Phase](m.ev.phase), intern[Kind](m.ev.kind)
	case *MessageEntry:
		if Kind(m.ev.kind) == KindAssistantContent {
			e.Role = "assistant"
		}
	case *InteractionEntry:
		e.InteractionKind = family(m.ev.kind)
	case *ElicitationEntry:
		e.Server = e.ServerBinding
	}
}

// diagnostic decodes a note, or why a call ended without an answer.
func (d reader) diagnostic(n int32, r *record) *DiagnosticEntry {
	m := d.message(r.start)
	e := &DiagnosticEntry{Base: d.base(n, m)}
	e.ParentID = d.parent(r)
	if roles[Kind(m.ev.kind)] == roleCallFailed {
		v, _ := whole(m.body)
		e.Code, _ = v.field("kind").text()
		e.Message, _ = v.field("reason").text()
		e.Operation, _ = v.field("method").text()
		e.Stage = "call"
		return e
	}
	ev, err := m.ev.event(d.ix.t.id)
	if err != nil || ev.Diagnostic == nil {
		e.limit([]string{string(ReasonMalformedSource)})
		return e
	}
	dg := ev.Diagnostic
	e.Code, e.Message, e.Stage, e.Operation, e.Elapsed, e.Timeout = dg.Code, dg.Message, dg.Stage, dg.Operation, dg.Elapsed, dg.Timeout
	return e
}

// elicitation decodes one request for input, and its answer: in the next attempt, or, before 2026-07-28, of its own.
func (d reader) elicitation(n int32, r *record) *ElicitationEntry {
	place := d.ix.rounds[r.aux]
	asked := d.message(r.start).parse()
	e := &ElicitationEntry{Base: d.base(n, asked)}
	e.Server = e.ServerBinding
	if place.call >= 0 {
		e.RoundIndex, e.LogicalOperationID = int(place.attempt)+1, d.ix.entryID(place.call)
		e.ParentID = e.LogicalOperationID
		d.operation(e, d.ix.records.at(int(place.call)))
	} else {
		e.limit([]string{string(ReasonCorrelationUnavailable)})
	}
	var answer *message
	if r.resp >= 0 {
		answer = d.message(r.resp).parse()
	}
	var params value
	switch {
	case place.ordinal < 0:
		params = d.ownRequest(e, asked, answer)
	case asked.err.present():
		params = d.urlRequest(e, asked, int(place.ordinal), answer)
	default:
		params = d.keyedRequest(e, asked, int(place.ordinal))
		e.RequestState = asked.text(asked.result.field("requestState"))
		if answer != nil {
			d.elicitationAnswer(e, answer)
		}
	}
	e.Message, e.URL = asked.text(params.field("message")), asked.text(params.field("url"))
	e.RequestedSchema = asked.json(params.field("requestedSchema"))
	return e
}

func (d reader) operation(e *ElicitationEntry, call *record) {
	req := d.message(call.start).parse()
	e.OperationKind = operations[string(req.ev.method)]
	name := "name"
	if e.OperationKind == OperationResource {
		name = "uri"
	}
	e.OperationName, _ = req.params.field(name).text()
}

// keyedRequest finds the request by its place, for a server may send a key twice, and returns its params.
func (d reader) keyedRequest(e *ElicitationEntry, asked *message, ordinal int) (params value) {
	w := asked.result.field("inputRequests").walk()
	for i := 0; w.next(); i++ {
		if i == ordinal {
			e.RequestKey = w.name()
			params = w.val.field("params")
		}
	}
	e.Mode = modeOf(params)
	return params
}

// modeOf is the mode of a request for input: a form when it says nothing.
func modeOf(params value) string {
	if mode, ok := params.field("mode").text(); ok {
		return mode
	}
	return "form"
}

func (d reader) elicitationAnswer(e *ElicitationEntry, m *message) {
	responses := m.params.field("inputResponses")
	e.InputResponses = m.json(responses)
	mine := responses.field(e.RequestKey)
	if action, ok := mine.field("action").text(); ok {
		e.Action = Action(action)
	}
	e.Content = m.json(mine.field("content"))
}

func evidenceID(id ExecutionID, seq int64) string {
	return "re:" + string(id) + ":" + strconv.FormatInt(seq, 10)
}
