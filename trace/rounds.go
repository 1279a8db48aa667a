package trace

import "strconv"

// A server may answer tools/call, prompts/get and resources/read with a result that asks for input. The client then sends the same operation
// again, under a new id, with the answers and the state that the server gave it. All of that is one logical call with several attempts.

// maxPaused bounds how many calls of one operation wait for their continuation; the oldest are given up first.
const maxPaused = 1024

// pausedCall is a call whose last answer asked for input.
type pausedCall struct {
	rec       int32
	state     string // "" when the answer had none, else its JSON text decoded, marked by its type
	arguments string
	first, n  int32 // the elicitations of the round
}

// operation is what the parameters of a call say of it.
type operation struct {
	name, arguments, state string
	continues              bool // it has a state or responses
}

var operationFields = []string{"name", "uri", "arguments", "requestState", "inputResponses"}

func operationOf(op OperationKind, body []byte) (o operation, ok bool) {
	msg, ok := whole(body)
	var f [5]value
	if !ok || !msg.field("params").fields(operationFields, f[:]) {
		return o, false
	}
	name := f[0]
	if op == OperationResource {
		name = f[1]
	}
	o.name, ok = name.text()
	o.arguments, o.state = string(f[2].b), stateText(f[3])
	o.continues = f[3].present() || f[4].present()
	return o, ok
}

// stateText makes request states comparable, however their strings are escaped.
func stateText(v value) string {
	if s, ok := v.text(); ok {
		return `"` + s
	}
	return string(v.b)
}

// pausedKey groups by operation, within a connection.
func (p *projector) pausedKey(op OperationKind, name string) string {
	return strconv.Itoa(int(p.ix.scopes[p.cur].channel)) + string(op) + "\x00" + name
}

// pause records that the answer i to an attempt asks for input, and what it asks.
func (p *projector) pause(i int32, call pending, result value) {
	g := p.group(call.rec)
	at := &g.attempts[len(g.attempts)-1]
	at.resp, at.paused = i, true
	paused := pausedCall{rec: call.rec, state: stateText(result.field("requestState")), first: int32(p.ix.records.len())}
	scope := p.inTurnOf(call.rec)
	ordinal := int32(0)
	for w := result.field("inputRequests").walk(); w.next(); ordinal++ {
		if m, _ := w.val.field("method").text(); m != "elicitation/create" {
			continue
		}
		p.ix.rounds = append(p.ix.rounds, round{call.rec, int32(len(g.attempts) - 1), ordinal})
		p.ix.push(record{start: i, end: i, resp: -1, aux: int32(len(p.ix.rounds) - 1), scope: scope, kind: codeElicitation, flags: p.flags()})
		paused.n++
	}
	o, ok := p.operationAt(at.req, call.op)
	if !ok {
		return // it cannot be recognised again
	}
	paused.arguments = o.arguments
	key := p.pausedKey(call.op, o.name)
	list := append(p.paused[key], paused)
	p.paused[key] = list[max(0, len(list)-maxPaused):]
}

// group returns the attempts of a call, making them when this is the first answer that paused.
func (p *projector) group(rec int32) *group {
	r := p.ix.records.at(int(rec))
	if r.aux < 0 {
		r.aux = int32(len(p.ix.groups))
		p.ix.groups = append(p.ix.groups, group{[]attempt{{req: r.start, resp: -1}}})
	}
	return &p.ix.groups[r.aux]
}

// operationAt reads an earlier request again.
func (p *projector) operationAt(seq int32, op OperationKind) (o operation, ok bool) {
	d := reader{p.ix, true}
	m := d.message(seq)
	if m.absent != NotEmitted {
		return o, false
	}
	return operationOf(op, m.body)
}

// resume returns the record of the call that the request i continues, or -1 when it is a call of its own.
func (p *projector) resume(i int32, op OperationKind) int32 {
	if n := p.continued(i); n >= 0 {
		return n
	}
	if len(p.paused) == 0 {
		return -1
	}
	body, ok := p.frameBody()
	if !ok {
		return -1
	}
	o, ok := operationOf(op, body)
	if !ok || !o.continues {
		return -1
	}
	key := p.pausedKey(op, o.name)
	list := p.paused[key]
	at := choosePaused(list, o)
	if at < 0 {
		return -1
	}
	c := list[at]
	p.paused[key] = append(list[:at:at], list[at+1:]...)
	if len(p.paused[key]) == 0 {
		delete(p.paused, key)
	}
	r := p.ix.records.at(int(c.rec))
	r.end = i
	g := &p.ix.groups[r.aux]
	g.attempts = append(g.attempts, attempt{req: i, resp: -1})
	for n := c.first; n < c.first+c.n; n++ {
		e := p.ix.records.at(int(n))
		e.resp, e.end, e.verdict = i, i, verdictSuccess
	}
	return c.rec
}

// choosePaused finds the call that is continued: by the state that the server gave it; among several with that state, by the arguments;
// among several that do not differ at all the oldest, for nothing could tell them apart. A state that no call was given (a test
// that tampers with it) still means the only call that waits. Otherwise it is -1: no guess.
func choosePaused(list []pausedCall, o operation) int {
	found, matches := -1, 0
	for i, c := range list {
		if c.state != o.state {
			continue
		}
		if c.arguments == o.arguments {
			return i
		}
		found = i
		matches++
	}
	switch {
	case matches == 1:
		return found
	case matches == 0 && len(list) == 1:
		return 0
	}
	return -1
}
