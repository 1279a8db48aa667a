package trace

import (
	"fmt"
	"slices"
)

// project reads the first n events of a trace once and makes the index that its views share.
// Only what is kept counts, never an original: a reopened trace projects to the same index.
func project(t *Trace, n int) (*viewIndex, error) {
	p := newProjector(t, n)
	for i := range n {
		if err := p.read(i); err != nil {
			return nil, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, i, t.id, err)
		}
		if err := p.event(int32(i)); err != nil {
			return nil, fmt.Errorf("%w: event %d of %s: %w", ErrUnavailable, i, t.id, err)
		}
	}
	p.finish()
	return p.ix, nil
}

// projector is the state of one projection. It is in three parts: this file walks the events, pairing.go joins requests with their
// answers, and rounds.go joins the attempts of a call that paused for input.
type projector struct {
	ix  *viewIndex
	log Log

	buf  []byte   // the encoded event
	body []byte   // scratch for a decoded frame
	ev   rawEvent // the event in buf
	cur  uint32   // its scope

	scopeKey []byte
	scopeOf  map[string]uint32
	channels map[string]uint32

	pairing
	paused map[string][]pausedCall // by operation
	asks   map[int32]int32         // how many requests of the server's own each call had for input
	urls   map[int32]asked         // what the error of a call asked for, which may be continued
	joins  map[string]int32        // open processes, interactions and reported tool calls, by a key of their own

	fromAgent bool // the last frame came from an agent: parts of a batch follow it
	gathered
}

func newProjector(t *Trace, n int) *projector {
	return &projector{
		ix:       &viewIndex{t: t, n: n, offsets: make([]int64, n), kind: "direct"},
		log:      t.log,
		scopeOf:  map[string]uint32{},
		channels: map[string]uint32{},
		pairing:  pairing{open: map[pairKey]pending{}},
		paused:   map[string][]pausedCall{},
		asks:     map[int32]int32{},
		urls:     map[int32]asked{},
		joins:    map[string]int32{},
	}
}

// read loads event i and checks that it is in its place.
func (p *projector) read(i int) (err error) {
	if p.buf, err = p.log.AppendEvent(p.buf[:0], i); err != nil {
		return err
	}
	if err = parseEvent(&p.ev, p.buf); err != nil {
		return err
	}
	if p.ev.seq != int64(i) {
		return fmt.Errorf("its sequence is %d", p.ev.seq)
	}
	p.ix.offsets[i] = p.ev.offset
	if p.ev.hasFrame {
		p.fromAgent = p.ix.kind != "direct" && Direction(p.ev.direction) == ClientToServer
	}
	p.cur = p.scope()
	return nil
}

// scope numbers the event's place. Events of one place mostly follow each other.
func (p *projector) scope() uint32 {
	k := p.scopeKey[:0]
	for _, part := range [...][]byte{p.ev.session, p.ev.turn, p.ev.server, p.ev.conn} {
		k = append(append(k, part...), 0)
	}
	p.scopeKey = k
	if n, ok := p.scopeOf[string(k)]; ok {
		return n
	}
	return p.addScope(string(k), scope{session: SessionID(p.ev.session), turn: TurnID(p.ev.turn), server: string(p.ev.server), conn: ConnectionID(p.ev.conn)})
}

func (p *projector) addScope(key string, s scope) uint32 {
	ch := s.server + "\x00" + string(s.conn)
	if _, ok := p.channels[ch]; !ok {
		p.channels[ch] = uint32(len(p.channels))
	}
	s.channel = p.channels[ch]
	if s.turn != "" && !slices.ContainsFunc(p.ix.scopes, func(o scope) bool { return o.turn == s.turn }) {
		p.ix.turns++
	}
	n := uint32(len(p.ix.scopes))
	p.ix.scopes = append(p.ix.scopes, s)
	p.scopeOf[key] = n
	return n
}

// inTurnOf is the event's scope, in the session and turn of another record: a response belongs to the turn of its request.
func (p *projector) inTurnOf(n int32) uint32 {
	own, of := &p.ix.scopes[p.cur], &p.ix.scopes[p.ix.records.at(int(n)).scope]
	if own.turn == of.turn && own.session == of.session {
		return p.cur
	}
	s := *own
	s.session, s.turn = of.session, of.turn
	key := string(s.session) + "\x00" + string(s.turn) + "\x00" + s.server + "\x00" + string(s.conn) + "\x00"
	if n, ok := p.scopeOf[key]; ok {
		return n
	}
	return p.addScope(key, s)
}

// event adds the entries of the event that was read.
func (p *projector) event(i int32) error {
	switch roles[Kind(p.ev.kind)] {
	case roleRequest:
		p.request(i)
	case roleResponse, roleErrorResponse:
		p.response(i)
	case roleNotification:
		p.notification(i)
	case roleCancel:
		p.cancelled()
		p.notification(i)
	case roleMalformed, roleStderr, roleAgentFrame:
		p.raw(i, -1)
	case roleDenied:
		p.denied(i)
	case roleFiltered:
		p.raw(i, p.answered())
	case roleHTTP:
		p.httpExchange(i)
	case roleCallFailed:
		p.callFailed(i)
	case roleUnknown:
		return fmt.Errorf("its kind %q is not one that this version of m3 knows", p.ev.kind)
	default:
		return p.payloadEvent(i)
	}
	return nil
}

// raw adds the entry of a frame; parent is the record of the exchange it belongs to, or -1.
func (p *projector) raw(i, parent int32) {
	if !p.ev.hasFrame {
		return
	}
	p.noteLoss()
	s := p.cur
	if parent >= 0 {
		s = p.inTurnOf(parent)
	}
	p.ix.push(record{start: i, end: i, resp: -1, aux: parent, scope: s, kind: codeRawMessage, verdict: verdictSuccess, flags: p.flags()})
}

func (p *projector) flags() (f flags) {
	if p.ev.own {
		f |= flagOwn
	}
	if !p.ev.hasFrame && p.fromAgent {
		f |= flagFromAgent
	}
	return f
}

// noteLoss makes the trace partial when bytes of the frame were not kept.
func (p *projector) noteLoss() {
	if p.ev.dropped > 0 || p.ev.lost() || p.ev.outOfLine && !p.hasBlob() {
		p.limit("capture_incomplete", "bytes of some frames were not kept")
	}
}

// hasBlob asks a log that can tell without loading.
func (p *projector) hasBlob() bool {
	if h, ok := p.log.(BlobFinder); ok {
		return h.HasBlob(string(p.ev.sha))
	}
	_, err := p.log.Blob(string(p.ev.sha))
	return err == nil
}

func (p *projector) limit(code, message string) {
	if !slices.ContainsFunc(p.ix.limitations, func(l Limitation) bool { return l.Code == code }) {
		p.ix.limitations = append(p.ix.limitations, Limitation{code, message})
	}
}

// frameBody decodes the message in the frame into scratch memory. It is false when the bytes are not all there.
func (p *projector) frameBody() ([]byte, bool) {
	if !p.ev.hasFrame {
		return p.ev.payload, p.ev.payload != nil
	}
	if p.ev.dropped > 0 || p.ev.lost() {
		return nil, false
	}
	var b []byte
	var err error
	if p.ev.outOfLine {
		b, err = p.log.Blob(string(p.ev.sha)) // the log's own memory: never scratch
	} else {
		b, err = p.ev.appendData(p.body[:0])
		p.body = b
	}
	if err != nil {
		return nil, false
	}
	body, _ := frameBody(Framing(p.ev.framing), b)
	return body, true
}

// finish closes the index: what has no end stays incomplete, and the summary is counted.
func (p *projector) finish() {
	ix := p.ix
	if !ix.finished {
		p.limit("open", "the execution is still open")
	}
	if ix.counts.cleanup == "" && slices.ContainsFunc(ix.limitations, func(l Limitation) bool { return l.Code == "cleanup_failed" }) {
		ix.counts.cleanup = "failed"
	}
	p.correlate()
	for _, k := range [...]kindCode{codeToolCall, codeProtocol} {
		for i := range ix.byKind[k].len() {
			ix.counts.add(ix.records.at(int(*ix.byKind[k].at(i))))
		}
	}
}

func (c *counts) add(r *record) {
	switch {
	case r.flags&flagOwn != 0:
		return
	case r.flags&flagDenied != 0:
		c.denied++
		return
	case r.flags&flagReported != 0:
		if r.flags&(flagJoined|flagTwins|flagUnsure) == 0 {
			c.reportedOnly++
		}
		return
	}
	if r.verdict == verdictProtocolError {
		c.protocolErrors++
	}
	if r.kind != codeToolCall {
		return
	}
	c.tools++
	switch r.verdict {
	case verdictSuccess:
		c.succeeded++
	case verdictIncomplete, verdictUnavailable:
	default:
		c.failed++
	}
}
