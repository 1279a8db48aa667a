package trace

import (
	"bytes"
	"strconv"
)

// Before 2026-07-28 a server asks for input by a request of its own, elicitation/create, while it still owes the answer to a call; in 2025-11-25 it
// may also answer a call with the error -32042, which lists URLs, and expects the call again once they were visited. Neither names a key, and
// only an HTTP exchange tells the call of the first. What m3 knows stands as a note in the payload of its own frames:
//
//	{"elicitation":{"call":3,"round":2,"request_key":"address"}}    on the answer to elicitation/create; call is the id of the request
//	{"continues":{"call":3,"answers":[{"request_key":"pay","action":"accept"}]}}    on the call made again, in the order of the URLs

// asked is a run of elicitation records, and the event that asked.
type asked struct{ at, first, n int32 }

// elicits adds the elicitation of a request of the server for input; it returns its record plus one, 0 for every other request.
func (p *projector) elicits(i int32) int32 {
	if p.toServer() || string(p.ev.method) != "elicitation/create" || string(p.ev.source) == "acp" {
		return 0
	}
	place := round{call: p.onlyOperation(), ordinal: -1}
	scope := p.cur
	if place.call >= 0 {
		place.attempt = p.asks[place.call]
		p.asks[place.call]++
		scope = p.inTurnOf(place.call)
	}
	return p.addRound(i, place, scope) + 1
}

func (p *projector) addRound(i int32, place round, scope uint32) int32 {
	p.ix.rounds = append(p.ix.rounds, place)
	return p.ix.push(record{start: i, end: i, resp: -1, aux: int32(len(p.ix.rounds) - 1), scope: scope, kind: codeElicitation, flags: p.flags()})
}

// onlyOperation is the record of the call that the event belongs to: the one whose HTTP exchange carries it, else the only one that is open; -1 when
// that cannot be told.
func (p *projector) onlyOperation() int32 {
	channel, exchange := p.ix.scopes[p.cur].channel, p.ev.exchange()
	only, open := int32(-1), 0
	for k, call := range p.open {
		if call.op == "" || call.closed || k.channel != channel || !k.toServer {
			continue
		}
		if exchange > 0 && call.exchange == exchange {
			return call.rec
		}
		only = call.rec
		open++
	}
	if open != 1 {
		return -1
	}
	return only
}

// elicited takes the answer to a request of the server for input, with m3's note about it.
func (p *projector) elicited(i, n int32, v verdict) {
	r := p.ix.records.at(int(n))
	r.resp, r.end, r.verdict = i, i, v
	note := p.note("elicitation")
	if !note.present() {
		return
	}
	place := &p.ix.rounds[r.aux]
	place.call = -1
	if call := p.noted(note); call >= 0 {
		place.call = call
		if n, err := strconv.ParseInt(string(note.field("round").b), 10, 32); err == nil && n > 0 {
			place.attempt = int32(n - 1)
		}
		r.scope = p.inTurnOf(call)
	}
}

// note is a member of the note on a frame of m3's own.
func (p *projector) note(name string) value {
	if !p.ev.hasFrame || p.ev.payload == nil || !p.toServer() {
		return value{}
	}
	v, _ := whole(p.ev.payload)
	return v.field(name)
}

// noted is the record of the call that a note names, or -1.
func (p *projector) noted(note value) int32 {
	id := note.field("call")
	if !id.present() {
		return -1
	}
	k := p.key(true, id.b)
	if call, ok := p.open[k]; ok {
		return call.rec
	}
	return p.closed.get(k)
}

const urlElicitationRequired = "-32042"

// askedForURLs adds what the error of a call asks for, if it is the one that does.
func (p *projector) askedForURLs(i, call int32) {
	if p.ev.encoding == 't' && !bytes.Contains(p.ev.data, []byte(urlElicitationRequired)) {
		return
	}
	body, ok := p.frameBody()
	if !ok {
		return
	}
	msg, _ := whole(body)
	e := msg.field("error")
	if string(e.field("code").b) != urlElicitationRequired {
		return
	}
	found := asked{at: i, first: int32(p.ix.records.len())}
	scope := p.inTurnOf(call)
	attempt := int32(0)
	if r := p.ix.records.at(int(call)); r.aux >= 0 {
		attempt = int32(len(p.ix.groups[r.aux].attempts) - 1)
	}
	for w := e.field("data").field("elicitations").walk(); w.next(); found.n++ {
		p.addRound(i, round{call, attempt, found.n}, scope)
	}
	if found.n > 0 {
		p.urls[call] = found
	}
}

// continued returns the record of the call that m3 makes again after -32042, or -1.
func (p *projector) continued(i int32) int32 {
	call := p.noted(p.note("continues"))
	found, ok := p.urls[call]
	if !ok {
		return -1
	}
	delete(p.urls, call)
	g := p.group(call)
	last := &g.attempts[len(g.attempts)-1]
	last.resp, last.paused = found.at, true
	g.attempts = append(g.attempts, attempt{req: i, resp: -1})
	r := p.ix.records.at(int(call))
	r.resp, r.end, r.verdict = -1, i, verdictIncomplete
	for n := found.first; n < found.first+found.n; n++ {
		e := p.ix.records.at(int(n))
		e.resp, e.end, e.verdict = i, i, verdictSuccess
	}
	return call
}

// ownRequest reads elicitation/create and its answer.
func (d reader) ownRequest(e *ElicitationEntry, asked, answer *message) (params value) {
	params = asked.params
	e.Mode = modeOf(params)
	e.ElicitationID = asked.text(params.field("elicitationId"))
	if answer == nil {
		return params
	}
	if note, _ := whole(answer.ev.payload); note.present() {
		d.noteKey(e, note.field("elicitation"))
	}
	e.take(answer, answer.result)
	return params
}

// noteKey takes the key that m3's note tells.
func (d reader) noteKey(e *ElicitationEntry, note value) {
	key, _ := note.field("request_key").text()
	if key != "" {
		e.RequestKey = key
		e.Provenance = append(e.Provenance, Source{OriginDerived, "m3"})
	}
}

// take reads an answer that the round has alone.
func (e *ElicitationEntry) take(m *message, answer value) {
	if action, ok := answer.field("action").text(); ok {
		e.Action = Action(action)
	}
	e.Content = m.json(answer.field("content"))
	if e.RequestKey == "" {
		return
	}
	if sent := m.json(answer); sent.State != NotEmitted {
		if sent.Value != nil {
			sent.Value = append(append(append(AppendString([]byte{'{'}, e.RequestKey), ':'), sent.Value...), '}')
		}
		e.InputResponses = sent
	}
}

// urlRequest reads one URL of the error -32042. What was answered stands in the note on the call made again: on the wire there is nothing.
func (d reader) urlRequest(e *ElicitationEntry, asked *message, ordinal int, again *message) (params value) {
	w := asked.err.field("data").field("elicitations").walk()
	for i := 0; w.next(); i++ {
		if i == ordinal {
			params = w.val
		}
	}
	e.Mode = modeOf(params)
	e.ElicitationID = asked.text(params.field("elicitationId"))
	if again == nil {
		return params
	}
	note, _ := whole(again.ev.payload)
	w = note.field("continues").field("answers").walk()
	for i := 0; w.next(); i++ {
		if i == ordinal {
			d.noteKey(e, w.val)
			if action, ok := w.val.field("action").text(); ok {
				e.Action = Action(action)
			}
		}
	}
	return params
}
