package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// rawEvent is an encoded event taken apart but not decoded: its slices alias the encoded text. It exists because a projection looks
// at the header of every event, and at the bytes of few.
type rawEvent struct {
	seq, timeNS, offset                 int64
	kind, phase, session, turn          []byte
	server, conn, origin, source        []byte
	rpcID, method                       []byte
	own                                 bool
	diagnostic, redactions, payload     []byte // JSON
	hasFrame                            bool
	direction, framing, sha, http, data []byte // of the frame; data is encoded as encoding says
	size, wireSize, dropped             int64
	partial, outOfLine                  bool
	encoding                            byte // of data: 't' the inside of a JSON string, 'b' base64, 'r' the bytes themselves, 0 none
}

// scanEvent takes apart what AppendEvent wrote. It accepts that form alone, members in their order and no white space, and then means
// exactly what encoding/json would; for everything else it returns false, and the caller asks encoding/json.
func scanEvent(r *rawEvent, b []byte) bool {
	*r = rawEvent{}
	s := eventScanner{cursor{b: b}}
	ok := s.literal(`{"seq":`) && s.int(&r.seq) &&
		s.literal(`,"kind":`) && s.text(&r.kind) && len(r.kind) > 0 &&
		s.literal(`,"time_ns":`) && s.int(&r.timeNS) &&
		s.literal(`,"offset_ns":`) && s.int(&r.offset) &&
		s.optText(`,"lifecycle_phase":`, &r.phase) &&
		s.optText(`,"session_id":`, &r.session) &&
		s.optText(`,"turn_id":`, &r.turn) &&
		s.optText(`,"server":`, &r.server) &&
		s.optText(`,"connection_id":`, &r.conn) &&
		s.optText(`,"origin":`, &r.origin) &&
		s.optText(`,"source":`, &r.source) &&
		s.optJSON(`,"rpc_id":`, &r.rpcID) &&
		s.optText(`,"method":`, &r.method)
	if !ok {
		return false
	}
	r.own = s.literal(`,"own":true`)
	ok = s.optJSON(`,"diagnostic":`, &r.diagnostic) &&
		s.optJSON(`,"redactions":`, &r.redactions) &&
		s.optJSON(`,"payload":`, &r.payload)
	if ok && s.literal(`,"frame":{"direction":`) {
		r.hasFrame = true
		ok = s.frame(r)
	}
	if string(r.rpcID) == "null" {
		r.rpcID = nil
	}
	return ok && s.literal(`}`) && s.i == len(b)
}

type eventScanner struct{ cursor }

func (s *eventScanner) frame(r *rawEvent) bool {
	ok := s.text(&r.direction) &&
		s.literal(`,"framing":`) && s.text(&r.framing) &&
		s.literal(`,"size":`) && s.int(&r.size) &&
		s.literal(`,"wire_size":`) && s.int(&r.wireSize) &&
		s.optText(`,"sha256":`, &r.sha)
	if ok && s.literal(`,"dropped":`) {
		ok = s.int(&r.dropped)
	}
	if !ok {
		return false
	}
	r.partial = s.literal(`,"partial":true`)
	if !s.optJSON(`,"http":`, &r.http) {
		return false
	}
	switch {
	case s.literal(`,"out_of_line":true`):
		r.outOfLine = true
	case s.literal(`,"text":`):
		r.encoding = 't'
		ok = s.escaped(&r.data)
	case s.literal(`,"base64":`):
		r.encoding = 'b'
		ok = s.text(&r.data)
	}
	return ok && s.literal(`}`)
}

func (s *eventScanner) int(n *int64) (ok bool) {
	*n, ok = s.integer()
	return ok
}

// escaped reads a JSON string and gives the inside of its quotes.
func (s *eventScanner) escaped(t *[]byte) bool {
	start := s.i + 1
	if !s.skipString() {
		return false
	}
	*t = s.b[start : s.i-1 : s.i-1]
	return utf8.Valid(*t) // encoding/json would replace what is not
}

// text reads a JSON string that has no escapes in it.
func (s *eventScanner) text(t *[]byte) bool {
	if !s.has('"') {
		return false
	}
	start, ascii := s.i, true
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			*t = s.b[start:s.i:s.i]
			s.i++
			return ascii || utf8.Valid(*t)
		case c == '\\' || c < 0x20:
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.i++
	}
	return false
}

func (s *eventScanner) optText(member string, t *[]byte) bool {
	return !s.literal(member) || s.text(t)
}

func (s *eventScanner) optJSON(member string, t *[]byte) bool {
	if !s.literal(member) {
		return true
	}
	start := s.i
	if !s.skip(1) { // inside the event's own object
		return false
	}
	*t = s.b[start:s.i:s.i]
	return true
}

// parseEvent takes apart any encoded event: by scanning, or, when it is not in our own form, by decoding it.
func parseEvent(r *rawEvent, b []byte) error {
	if scanEvent(r, b) {
		return nil
	}
	ev, err := decodeSlow("", b)
	if err != nil {
		return err
	}
	r.fill(&ev)
	return nil
}

// fill is the way back from a decoded event.
func (r *rawEvent) fill(ev *Event) {
	*r = rawEvent{
		seq: ev.Sequence, offset: int64(ev.Offset), timeNS: timeNS(ev.Time),
		kind: []byte(ev.Kind), phase: []byte(ev.Phase), session: []byte(ev.SessionID), turn: []byte(ev.TurnID),
		server: []byte(ev.Server), conn: []byte(ev.ConnectionID), origin: []byte(ev.Source.Origin), source: []byte(ev.Source.Source),
		rpcID: []byte(ev.RPCID), method: []byte(ev.Method), own: ev.Own, payload: ev.Payload,
	}
	if ev.Diagnostic != nil {
		r.diagnostic = marshalDiagnostic(ev.Diagnostic)
	}
	if len(ev.Redactions) > 0 {
		r.redactions, _ = json.Marshal(ev.Redactions) // integers only: cannot fail
	}
	f := ev.Frame
	if f == nil {
		return
	}
	r.hasFrame, r.encoding = true, 'r'
	r.direction, r.framing, r.sha, r.data = []byte(f.Direction), []byte(f.Framing), []byte(f.SHA256), f.Bytes
	r.size, r.wireSize, r.dropped, r.partial, r.outOfLine = f.Size, f.WireSize, f.Dropped, f.Partial, f.OutOfLine
	if f.HTTP != nil {
		r.http, _ = json.Marshal(f.HTTP) // strings and integers: cannot fail
	}
}

// appendData appends the frame's bytes, as far as they stand in the event.
func (r *rawEvent) appendData(dst []byte) ([]byte, error) {
	switch r.encoding {
	case 't':
		return unquote(dst, r.data), nil
	case 'b':
		return base64.StdEncoding.AppendDecode(dst, r.data)
	}
	return append(dst, r.data...), nil
}

// lost reports whether the frame had bytes and the log has none of them: a memory budget ran out. For bytes out of line only the log
// can tell.
func (r *rawEvent) lost() bool {
	return r.hasFrame && len(r.data) == 0 && !r.outOfLine && (r.size > 0 || r.dropped > 0)
}

func (r *rawEvent) time() time.Time { return timeAt(r.timeNS) }

// redacted decodes the list of redactions. One that cannot be read counts as none: the event itself was valid JSON.
func (r *rawEvent) redacted() (rs []Redaction) {
	if r.redactions != nil {
		_ = json.Unmarshal(r.redactions, &rs)
	}
	return rs
}

// exchange is the number of the HTTP exchange that carried the frame, 0 without one. It stands first in its object.
func (r *rawEvent) exchange() int64 {
	digits, ok := bytes.CutPrefix(r.http, []byte(`{"exchange":`))
	if !ok {
		return 0
	}
	c := cursor{b: digits}
	n, _ := c.integer()
	return n
}

func (r *rawEvent) httpInfo() *HTTPInfo {
	if r.http == nil {
		return nil
	}
	var h *HTTPInfo
	_ = json.Unmarshal(r.http, &h) // of another shape: as good as none
	return h
}

// event decodes the rest. Nothing in the result aliases the encoded text.
func (r *rawEvent) event(id ExecutionID) (Event, error) {
	ev := Event{
		ExecutionID: id, Sequence: r.seq, Kind: intern[Kind](r.kind), Time: r.time(), Offset: time.Duration(r.offset),
		Phase: intern[Phase](r.phase), SessionID: SessionID(r.session), TurnID: TurnID(r.turn), Server: string(r.server),
		ConnectionID: ConnectionID(r.conn), Source: Source{intern[Origin](r.origin), intern[string](r.source)},
		RPCID: RPCID(r.rpcID), Method: intern[string](r.method), Own: r.own,
	}
	if r.payload != nil {
		ev.Payload = append(JSON{}, r.payload...)
	}
	if r.diagnostic != nil {
		var d *storedDiagnostic
		if err := json.Unmarshal(r.diagnostic, &d); err != nil {
			return Event{}, err
		}
		ev.Diagnostic = d.diagnostic()
	}
	if r.redactions != nil {
		if err := json.Unmarshal(r.redactions, &ev.Redactions); err != nil {
			return Event{}, err
		}
	}
	if !r.hasFrame {
		return ev, nil
	}
	f := &Frame{Direction: intern[Direction](r.direction), Framing: intern[Framing](r.framing), Size: r.size, WireSize: r.wireSize,
		SHA256: string(r.sha), OutOfLine: r.outOfLine, Dropped: r.dropped, Partial: r.partial}
	if r.http != nil {
		if err := json.Unmarshal(r.http, &f.HTTP); err != nil {
			return Event{}, err
		}
	}
	if r.encoding != 0 {
		var err error
		if f.Bytes, err = r.appendData([]byte{}); err != nil {
			return Event{}, err
		}
	}
	ev.Frame = f
	return ev, nil
}

// words are the strings that occur in nearly every event: they are not allocated again.
var words = func() map[string]string {
	m := map[string]string{}
	for k := range roles {
		m[string(k)] = string(k)
	}
	for _, w := range []string{
		string(PhasePreflight), string(PhaseStartup), string(PhaseInitialization), string(PhaseIdle), string(PhaseTurn), string(PhaseMCPCall),
		string(PhaseCleanup), string(PhaseTerminal), string(PhaseUnknown), string(ClientToServer), string(ServerToClient),
		string(OriginWire), string(OriginNormalized), string(OriginReported), string(OriginDerived),
		string(FramingLine), string(FramingSSE), string(FramingBody), "mcp", "acp", "process", "provider", "m3",
		"tools/call", "tools/list", "prompts/get", "resources/read", "initialize", "ping", "notifications/progress",
	} {
		m[w] = w
	}
	return m
}()

func intern[T ~string](b []byte) T {
	if s, ok := words[string(b)]; ok {
		return T(s)
	}
	return T(b)
}
