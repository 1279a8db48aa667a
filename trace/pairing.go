package trace

import (
	"bytes"
	"math"
	"strconv"
)

// pairKey identifies an open request. Both sides of a connection number their own requests, so the direction belongs to it; the id
// counts as it stood on the wire: 1 and "1" differ.
type pairKey struct {
	channel  uint32
	toServer bool
	id       string
}

// pending is a request without an answer yet.
type pending struct {
	rec       int32
	op        OperationKind
	closed    bool  // ended by a timeout, a cancellation or a broken transport: an answer is late
	soft      bool  // closed by a cancellation alone, which the recorded reason may still overrule
	ambiguous bool  // more than one request had this id open at once
	answers   int   // how many answers to it may come
	elicits   int32 // for a request of the server for input: its elicitation, plus one
	exchange  int64
}

// recentCalls is how many finished requests are remembered, for what still refers to them: a second answer, a verdict on the answer.
const recentCalls = 256

// ring remembers the last recentCalls records under a key.
type ring[K comparable] struct {
	at [recentCalls]struct {
		key K
		rec int32
	}
	n int
}

func (q *ring[K]) put(k K, rec int32) {
	at := &q.at[q.n%recentCalls]
	at.key, at.rec = k, rec
	q.n++
}

func (q *ring[K]) get(k K) int32 {
	for i := 1; i <= min(q.n, recentCalls); i++ {
		if r := &q.at[(q.n-i)%recentCalls]; r.key == k {
			return r.rec
		}
	}
	return -1
}

// exchangeKey is an HTTP exchange of a connection.
type exchangeKey struct {
	channel  uint32
	exchange int64
}

type pairing struct {
	open   map[pairKey]pending
	closed ring[pairKey]
	posted ring[exchangeKey] // what was sent without an id, by the exchange that carried it
}

// key is the key of the request that the event is about, sent toward the server or by it.
func (p *projector) key(toServer bool, id []byte) pairKey {
	return pairKey{p.ix.scopes[p.cur].channel, toServer, string(id)}
}

// toServer is the direction of a message. One without a frame of its own is a part of a batch, which only servers send, and agents.
func (p *projector) toServer() bool {
	if !p.ev.hasFrame {
		return p.fromAgent
	}
	return Direction(p.ev.direction) != ServerToClient
}

// request adds a call, or another attempt of one that paused for input, and its frame.
func (p *projector) request(i int32) {
	var op OperationKind
	if p.toServer() && string(p.ev.source) != "acp" {
		op = operations[string(p.ev.method)]
		p.ix.wired = true
	}
	n := int32(-1)
	if op != "" {
		n = p.resume(i, op)
	}
	elicits := p.elicits(i)
	switch {
	case n >= 0:
		p.raw(i, n)
	case op == OperationTool:
		frame := p.ix.records.len()
		p.raw(i, -1) // stands before the call in the timeline
		n = p.exchange(i, codeToolCall, verdictIncomplete)
		if p.ev.hasFrame {
			p.ix.records.at(frame).aux = n
		}
	default:
		n = p.exchange(i, codeProtocol, verdictIncomplete)
		p.raw(i, n)
		if p.ix.kind != "direct" && string(p.ev.method) == "tools/list" {
			p.lists = append(p.lists, n)
		}
	}
	if id := p.ev.rpcID; len(id) > 0 {
		p.await(p.key(p.toServer(), id), n, op, elicits)
	}
}

func (p *projector) exchange(i int32, k kindCode, v verdict) int32 {
	return p.ix.push(record{start: i, end: i, resp: -1, aux: -1, scope: p.cur, kind: k, verdict: v, flags: p.flags()})
}

// await opens a request. When its id is taken, nobody can tell whose the answers are.
func (p *projector) await(k pairKey, n int32, op OperationKind, elicits int32) {
	next := pending{rec: n, op: op, answers: 1, elicits: elicits, exchange: p.ev.exchange()}
	if old, ok := p.open[k]; ok && !old.closed {
		next.answers += old.answers
		next.ambiguous = true
		p.ix.records.at(int(old.rec)).flags |= flagAmbiguous
		p.ix.records.at(int(n)).flags |= flagAmbiguous
	}
	p.open[k] = next
}

// response gives an answer to its request and adds its frame.
func (p *projector) response(i int32) {
	k, call, ok := p.asked()
	switch {
	case !ok:
		p.raw(i, p.closed.get(k)) // unknown, or a second answer
	case call.ambiguous:
		if call.answers--; call.answers > 0 {
			p.open[k] = call
		} else {
			delete(p.open, k)
		}
		p.raw(i, -1)
	case call.closed:
		delete(p.open, k)
		p.closed.put(k, call.rec)
		p.ix.records.at(int(call.rec)).flags |= flagAnswered
		p.raw(i, call.rec)
	default:
		delete(p.open, k)
		p.closed.put(k, call.rec)
		p.answer(i, call)
		p.raw(i, call.rec)
	}
}

// asked finds the request that the answer is for: by its id as it stands; else by its value, for a server may write 1.0 for 1; and an
// error without an id by the HTTP exchange that carried it.
func (p *projector) asked() (k pairKey, call pending, ok bool) {
	id := p.ev.rpcID
	k = p.key(!p.toServer(), id)
	if call, ok = p.open[k]; ok {
		return k, call, true
	}
	if len(id) > 0 {
		same := k
		same.id = canonicalID(id)
		if call, ok = p.open[same]; ok {
			return same, call, true
		}
		return k, call, false
	}
	if x := p.ev.exchange(); x > 0 && roles[Kind(p.ev.kind)] == roleErrorResponse {
		return p.openIn(k, x)
	}
	return k, call, false
}

// openIn finds the first request that an HTTP exchange carried.
func (p *projector) openIn(like pairKey, exchange int64) (k pairKey, first pending, ok bool) {
	for other, call := range p.open {
		if call.exchange != exchange || other.channel != like.channel || other.toServer != like.toServer {
			continue
		}
		if !ok || call.rec < first.rec {
			k, first, ok = other, call, true
		}
	}
	return k, first, ok
}

// canonicalID writes an id as most implementations do.
func canonicalID(id []byte) string {
	v := value{b: id}
	if text, ok := v.text(); ok {
		return string(AppendString(nil, text))
	}
	f, err := strconv.ParseFloat(string(id), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return string(id)
	}
	return strconv.FormatInt(int64(f), 10)
}

// answer completes a record by the answer that was read.
func (p *projector) answer(i int32, call pending) {
	v, paused, result := p.judge(call.op)
	r := p.ix.records.at(int(call.rec))
	r.resp, r.end, r.verdict = i, i, v
	r.flags &^= flagHTTPOnly
	if paused {
		r.resp, r.verdict = -1, verdictIncomplete
		p.pause(i, call, result)
		return
	}
	if r.aux >= 0 {
		at := p.ix.groups[r.aux].attempts
		at[len(at)-1].resp = i
	}
	switch {
	case call.elicits > 0:
		p.elicited(i, call.elicits-1, v)
	case v == verdictProtocolError && call.op != "":
		p.askedForURLs(i, call.rec)
	}
}

// judge says how a call ended by its answer, and whether it paused for input.
func (p *projector) judge(op OperationKind) (v verdict, paused bool, result value) {
	if roles[Kind(p.ev.kind)] == roleErrorResponse {
		return verdictProtocolError, false, value{}
	}
	if op == OperationPrompt || op == OperationResource {
		// The usual answer does not pause: most bytes need no look. Anything escaped might hide the word.
		if p.ev.encoding == 't' && !bytes.Contains(p.ev.data, []byte("input_required")) && !bytes.Contains(p.ev.data, []byte(`\\u`)) && !p.ev.lost() && p.ev.dropped == 0 {
			return verdictSuccess, false, value{}
		}
	}
	if op == "" {
		if p.ev.lost() || p.ev.dropped > 0 {
			return verdictUnavailable, false, value{}
		}
		return verdictSuccess, false, value{}
	}
	body, ok := p.frameBody()
	if !ok {
		return verdictUnavailable, false, value{}
	}
	return judgeBody(op, body)
}

func judgeBody(op OperationKind, body []byte) (v verdict, paused bool, result value) {
	msg, ok := whole(body)
	var f [2]value
	if !ok || !msg.fields(answerFields, f[:]) {
		return verdictProtocolError, false, value{}
	}
	result = f[0]
	if f[1].present() && !f[1].null() || !result.present() {
		return verdictProtocolError, false, result
	}
	switch word, _ := result.field("resultType").text(); word {
	case "input_required":
		return verdictIncomplete, true, result
	case "", "complete":
	default:
		return verdictProtocolError, false, result // the specification: unknown is invalid
	}
	if op != OperationTool {
		return verdictSuccess, false, result
	}
	return judgeToolResult(result), false, result
}

var answerFields = []string{"result", "error"}

// cancelled closes the request that a cancellation names. After the answer it closes nothing.
func (p *projector) cancelled() {
	body, ok := p.frameBody()
	if !ok {
		return
	}
	msg, ok := whole(body)
	if !ok {
		return
	}
	id := msg.field("params").field("requestId")
	k := p.key(p.toServer(), id.b)
	if call, ok := p.open[k]; ok && !call.closed && !call.ambiguous {
		call.closed, call.soft = true, true
		p.open[k] = call
		p.ix.records.at(int(call.rec)).verdict = verdictCancelled
	}
}

// notification adds a message that is not answered.
func (p *projector) notification(i int32) {
	n := p.exchange(i, codeProtocol, verdictSuccess)
	p.raw(i, n)
	if x := p.ev.exchange(); x > 0 && p.toServer() {
		p.posted.put(exchangeKey{p.ix.scopes[p.cur].channel, x}, n)
	}
}

// httpExchange adds an HTTP answer that carried no message, and gives its status to what it answers.
func (p *projector) httpExchange(i int32) {
	n, open := p.exchangeOf()
	p.raw(i, n)
	if n < 0 || !open || p.toServer() {
		return
	}
	if r := p.ix.records.at(int(n)); r.resp < 0 || r.flags&flagHTTPOnly != 0 {
		r.resp = i
		r.flags |= flagHTTPOnly
	}
}

// exchangeOf is the record that an HTTP answer without a message belongs to, or -1, and whether it still waits for one.
func (p *projector) exchangeOf() (n int32, open bool) {
	if len(p.ev.rpcID) == 0 {
		n = p.posted.get(exchangeKey{p.ix.scopes[p.cur].channel, p.ev.exchange()})
		return n, n >= 0
	}
	k := p.key(true, p.ev.rpcID)
	if call, ok := p.open[k]; ok {
		return call.rec, true
	}
	return p.closed.get(k), false
}

// callFailed records why a call of ours ended without an answer that counts.
func (p *projector) callFailed(i int32) {
	n := p.fail(i)
	s := p.cur
	if n >= 0 {
		s = p.inTurnOf(n)
	}
	p.ix.push(record{start: i, end: i, resp: -1, aux: n, scope: s, kind: codeDiagnostic, verdict: verdictSuccess, flags: p.flags()})
}

func (p *projector) fail(i int32) int32 {
	payload, _ := whole(p.ev.payload)
	var f [2]value
	payload.fields(failedFields, f[:])
	word, _ := f[0].text()
	v, ok := verdictOf(word)
	if !ok || v == verdictSuccess {
		v = verdictFailed
	}
	id := p.ev.rpcID
	if len(id) == 0 {
		id = f[1].b
	}
	k := p.key(true, id)
	call, open := p.open[k]
	switch {
	case open && (!call.closed || call.soft):
		call.closed, call.soft = true, false
		p.open[k] = call
		r := p.ix.records.at(int(call.rec))
		r.verdict, r.end = v, i
		return call.rec
	case open:
		return call.rec
	}
	n := p.closed.get(k)
	if n < 0 {
		return n
	}
	r := p.ix.records.at(int(n))
	wasCancelled := r.verdict == verdictCancelled && r.flags&flagAnswered != 0
	if wasCancelled || v == verdictProtocolError { // or the answer that came was none
		r.verdict, r.end = v, i
	}
	return n
}

var failedFields = []string{"kind", "rpc_id"}
