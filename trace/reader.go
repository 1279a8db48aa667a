package trace

import "time"

// reader decodes the records of an index into entries. In the recording process it gives the real values of what was redacted,
// unless kept is set; then, and on a reopened trace, it gives what was kept.
type reader struct {
	ix   *viewIndex
	kept bool
}

// message is one event read for an entry: its frame's bytes and the message in them, or its payload.
type message struct {
	ev    rawEvent
	bytes []byte // of the frame
	body  []byte // the message, or the payload
	spans []span // what is redacted, in the body
	reds  []Redaction
	real  bool // the bytes are those before redaction
	http  *HTTPInfo

	// absent is NotEmitted when the body is there; else it says, with reason, why nothing in it can be told.
	absent State
	reason Reason

	id, method, params, result, err value
}

// message reads an event. It never fails: what cannot be read is a message whose fields are unavailable.
func (d reader) message(seq int32) *message {
	m := &message{}
	b, err := d.ix.t.log.AppendEvent(nil, int(seq))
	if err == nil {
		err = parseEvent(&m.ev, b)
	}
	if err != nil {
		m.ev = rawEvent{seq: int64(seq), offset: d.ix.offsets[seq]}
		m.absent, m.reason = Unavailable, ReasonCaptureFailed
		return m
	}
	m.http = m.ev.httpInfo()
	m.reds = m.ev.redacted()
	real := d.original(m)
	m.real = real != nil
	if !m.ev.hasFrame {
		m.body = m.ev.payload
		for _, r := range m.reds {
			m.spans = append(m.spans, span{int(r.Offset), int(r.Offset + r.Length)})
		}
		if real != nil {
			m.body, m.spans = real, nil
		}
		return m
	}
	d.loadFrame(m, real)
	return m
}

// original asks the log of the recording process for the bytes before redaction.
func (d reader) original(m *message) []byte {
	if d.kept || len(m.reds) == 0 {
		return nil
	}
	o, ok := d.ix.t.log.(Originals)
	if !ok {
		return nil
	}
	if b, ok := o.Original(int(m.ev.seq)); ok {
		return b
	}
	return nil
}

func (d reader) loadFrame(m *message, real []byte) {
	var err error
	switch {
	case real != nil:
		m.bytes = real
	case m.ev.lost():
		m.absent, m.reason = Unavailable, ReasonCaptureFailed
	case m.ev.outOfLine:
		m.bytes, err = d.ix.t.log.Blob(string(m.ev.sha))
	default:
		m.bytes, err = m.ev.appendData(nil)
	}
	if err != nil {
		m.bytes = nil
		m.absent, m.reason = Unavailable, ReasonCaptureFailed
	}
	if m.ev.dropped > 0 && len(m.bytes) > 0 {
		m.absent, m.reason = Truncated, ReasonEvidenceTruncated
	}
	body, segs := frameBody(Framing(m.ev.framing), m.bytes)
	m.body = body
	if real == nil {
		m.spans = bodySpans(m.reds, segs)
	}
}

var envelopeFields = []string{"id", "method", "params", "result", "error"}

// parse finds the members of a JSON-RPC message.
func (m *message) parse() *message {
	if m.absent != NotEmitted {
		return m
	}
	v, ok := whole(m.body)
	var f [5]value
	if !ok || !v.fields(envelopeFields, f[:]) {
		m.absent, m.reason = Unavailable, ReasonMalformedSource
		return m
	}
	m.id, m.method, m.params, m.result, m.err = f[0], f[1], f[2], f[3], f[4]
	if m.err.null() {
		m.err = value{} // several implementations write it beside a result
	}
	return m
}

// unanswered is the message of a request that has no answer.
func unanswered() *message { return &message{} }

// uncorrelated is the message of a request whose answer cannot be told from another's.
func uncorrelated() *message {
	return &message{absent: Unavailable, reason: ReasonCorrelationUnavailable}
}

// answer reads the answer to a record's request.
func (d reader) answer(r *record) *message {
	switch {
	case r.flags&flagAmbiguous != 0:
		return uncorrelated()
	case r.resp < 0:
		return unanswered()
	case r.flags&flagHTTPOnly != 0:
		return &message{http: d.message(r.resp).http}
	}
	return d.message(r.resp).parse()
}

// observe makes an observation of a value found in the message.
func observe[T any](m *message, v value, get func(value) (T, bool)) Observation[T] {
	if m.absent != NotEmitted {
		return Absent[T](m.absent, m.reason)
	}
	if !v.present() {
		return Observation[T]{}
	}
	t, ok := get(v)
	if !ok {
		return Absent[T](Unavailable, ReasonMalformedSource)
	}
	if v.overlaps(m.spans) {
		return Observation[T]{State: Redacted, Value: t, Reason: ReasonRedactedByPolicy}
	}
	return Observe(t)
}

func (m *message) text(v value) Observation[string] { return observe(m, v, value.text) }

func (m *message) json(v value) Observation[JSON] {
	return observe(m, v, func(v value) (JSON, bool) { return JSON(v.b), true })
}

// rpcID is the id of the message, from its event's header, which outlives the bytes.
func (m *message) rpcID() Observation[RPCID] {
	if len(m.ev.rpcID) == 0 {
		return Observation[RPCID]{}
	}
	return Observe(RPCID(m.ev.rpcID))
}

// base makes what all entries have of a record and its first event.
func (d reader) base(n int32, first *message) Base {
	r := d.ix.records.at(int(n))
	s := &d.ix.scopes[r.scope]
	b := Base{
		EntryID: d.ix.entryID(n), Kind: entryKinds[r.kind], ExecutionID: d.ix.t.id, SessionID: s.session, TurnID: s.turn,
		ServerBinding: s.server, ConnectionID: s.conn, SequenceStart: int64(r.start), SequenceEnd: int64(r.end),
		Status: r.verdict.status(), Own: r.flags&flagOwn != 0,
		Timing:     Timing{StartedAt: first.ev.time(), StartOffset: d.offset(r.start), EndOffset: d.offset(r.end)},
		Provenance: []Source{{intern[Origin](first.ev.origin), intern[string](first.ev.source)}},
	}
	if r.verdict != verdictIncomplete {
		at := first.ev.time()
		if r.end != r.start {
			at = d.time(r.end)
		}
		b.Timing.FinishedAt = &at
	}
	if r.flags&flagAnswered != 0 {
		b.Limitations = append(b.Limitations, "late_response")
	}
	if r.flags&flagAmbiguous != 0 {
		b.Limitations = append(b.Limitations, "ambiguous_id")
	}
	return b
}

// parent names the record that a raw message, diagnostic or finding belongs to.
func (d reader) parent(r *record) string {
	if r.aux < 0 {
		return ""
	}
	return d.ix.entryID(r.aux)
}

func (d reader) offset(seq int32) time.Duration { return time.Duration(d.ix.offsets[seq]) }

// time reads an event for its time alone.
func (d reader) time(seq int32) time.Time {
	var r rawEvent
	if b, err := d.ix.t.log.AppendEvent(nil, int(seq)); err != nil || parseEvent(&r, b) != nil {
		return time.Time{}
	}
	return r.time()
}

// entry decodes one record.
func (d reader) entry(n int32) Entry {
	switch r := d.ix.records.at(int(n)); r.kind {
	case codeToolCall:
		if r.flags&flagReported != 0 {
			return d.reportedCall(n, r)
		}
		return d.toolCall(n, r)
	case codeProtocol:
		return d.protocol(n, r)
	case codeRawMessage:
		return d.rawMessage(n, r)
	case codeElicitation:
		if r.aux >= 0 {
			return d.elicitation(n, r)
		}
		return d.payloadEntry(n, r)
	case codeDiagnostic:
		return d.diagnostic(n, r)
	default:
		return d.payloadEntry(n, r)
	}
}
