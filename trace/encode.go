package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendEvent appends the stored form of ev to dst: one JSON object on one line, members in a fixed order, without the
// execution's id (the record around it has that). Frame bytes stand in it as a JSON string, or in base64 when they
// are not UTF-8, so that [DecodeEvent] gives back exactly the bytes. Bytes that are out of line do not stand in it.
func AppendEvent(dst []byte, ev *Event) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, ev.Sequence, 10)
	dst = appendMember(dst, "kind", string(ev.Kind))
	dst = append(dst, `,"time_ns":`...)
	dst = strconv.AppendInt(dst, timeNS(ev.Time), 10)
	dst = append(dst, `,"offset_ns":`...)
	dst = strconv.AppendInt(dst, int64(ev.Offset), 10)
	dst = appendMember(dst, "lifecycle_phase", string(ev.Phase))
	dst = appendMember(dst, "session_id", string(ev.SessionID))
	dst = appendMember(dst, "turn_id", string(ev.TurnID))
	dst = appendMember(dst, "server", ev.Server)
	dst = appendMember(dst, "connection_id", string(ev.ConnectionID))
	dst = appendMember(dst, "origin", string(ev.Source.Origin))
	dst = appendMember(dst, "source", ev.Source.Source)
	if ev.RPCID != "" {
		dst = appendRPCID(append(dst, `,"rpc_id":`...), ev.RPCID)
	}
	dst = appendMember(dst, "method", ev.Method)
	if ev.Own {
		dst = append(dst, `,"own":true`...)
	}
	if ev.Diagnostic != nil {
		dst = appendDiagnostic(dst, ev.Diagnostic)
	}
	if len(ev.Redactions) > 0 {
		dst = append(dst, `,"redactions":`...)
		b, _ := json.Marshal(ev.Redactions) // integers only: cannot fail
		dst = append(dst, b...)
	}
	if ev.Payload != nil {
		dst = appendPayload(append(dst, `,"payload":`...), ev.Payload)
	}
	if ev.Frame != nil {
		dst = appendFrame(dst, ev.Frame)
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return AppendString(dst, value)
}

func appendDiagnostic(dst []byte, d *Diagnostic) []byte {
	dst = append(dst, `,"diagnostic":`...)
	return append(dst, marshalDiagnostic(d)...)
}

func marshalDiagnostic(d *Diagnostic) []byte {
	b, _ := json.Marshal(storedDiagnostic{*d, d.Elapsed.Seconds(), d.Timeout.Seconds()}) // strings and finite numbers: cannot fail
	return b
}

// appendRPCID writes the id as it stood on the wire. What is no JSON on one line can only come from a hand-made event; it is
// kept as a string, so that the event stays readable.
func appendRPCID(dst []byte, id RPCID) []byte {
	for i := 0; i < len(id); i++ {
		if c := id[i]; c < '0' || c > '9' || i == 0 && c == '0' && len(id) > 1 {
			return appendPayload(dst, JSON(id))
		}
	}
	return append(dst, id...)
}

// appendPayload writes a JSON value on one line. What is no JSON is kept as a string.
func appendPayload(dst []byte, p JSON) []byte {
	v, ok := whole(p)
	if !ok {
		return AppendString(dst, string(p))
	}
	if bytes.IndexByte(p, '\n') < 0 && bytes.IndexByte(p, '\r') < 0 {
		return append(dst, v.b...)
	}
	var buf bytes.Buffer
	_ = json.Compact(&buf, v.b) // valid: cannot fail
	return append(dst, buf.Bytes()...)
}

type storedDiagnostic struct {
	Diagnostic
	ElapsedSeconds float64 `json:"elapsed_seconds,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
}

func appendFrame(dst []byte, f *Frame) []byte {
	dst = append(dst, `,"frame":{"direction":`...)
	dst = AppendString(dst, string(f.Direction))
	dst = append(dst, `,"framing":`...)
	dst = AppendString(dst, string(f.Framing))
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, f.Size, 10)
	dst = append(dst, `,"wire_size":`...)
	dst = strconv.AppendInt(dst, f.WireSize, 10)
	dst = appendMember(dst, "sha256", f.SHA256)
	if f.Dropped > 0 {
		dst = append(dst, `,"dropped":`...)
		dst = strconv.AppendInt(dst, f.Dropped, 10)
	}
	if f.Partial {
		dst = append(dst, `,"partial":true`...)
	}
	if f.HTTP != nil {
		dst = appendHTTP(append(dst, `,"http":`...), f.HTTP)
	}
	switch {
	case f.OutOfLine:
		dst = append(dst, `,"out_of_line":true`...)
	case utf8.Valid(f.Bytes):
		dst = append(dst, `,"text":`...)
		dst = appendQuoted(dst, f.Bytes)
	default:
		dst = append(dst, `,"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, f.Bytes)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendHTTP writes what json.Marshal would, but for its escapes of HTML.
func appendHTTP(dst []byte, h *HTTPInfo) []byte {
	dst = append(dst, `{"exchange":`...)
	dst = strconv.AppendInt(dst, h.Exchange, 10)
	dst = appendMember(dst, "method", h.Method)
	dst = appendMember(dst, "url", h.URL)
	if h.Status != 0 {
		dst = append(dst, `,"status":`...)
		dst = strconv.AppendInt(dst, int64(h.Status), 10)
	}
	for i, f := range h.Header {
		if i == 0 {
			dst = append(dst, `,"header":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"name":`...), f.Name)
		dst = AppendString(append(dst, `,"value":`...), f.Value)
		dst = append(dst, '}')
	}
	if len(h.Header) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, as encoding/json does.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !plainByte[c] || c >= utf8.RuneSelf {
			return appendAnyString(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendAnyString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		b, _ := json.Marshal(s) // a string cannot fail
		return append(dst, b...)
	}
	return appendQuoted(dst, s)
}

const hexDigits = "0123456789abcdef"

// escapeRoom is more than the longest escape takes.
const escapeRoom = 8

// appendQuoted quotes valid UTF-8 with the fewest escapes that JSON allows. It is most of what recording a frame costs, so it writes
// by index: there is always room for the rest of s and one escape more.
func appendQuoted[S string | []byte](dst []byte, s S) []byte {
	dst = slices.Grow(dst, len(s)+len(s)/4+2*escapeRoom)
	n := len(dst)
	buf := dst[:cap(dst)]
	buf[n] = '"'
	n++
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plainByte[c] {
			buf[n] = c
			n++
			continue
		}
		n += putEscape(buf[n:], c)
		if rest := len(s) - i + escapeRoom; len(buf)-n < rest {
			buf = slices.Grow(buf[:n], rest+rest/4)
			buf = buf[:cap(buf)]
		}
	}
	buf[n] = '"'
	return buf[:n+1]
}

// putEscape writes the escape of a byte that may not stand for itself.
func putEscape(to []byte, c byte) int {
	switch c {
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	case '"', '\\':
	default:
		return copy(to, []byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]})
	}
	to[0], to[1] = '\\', c
	return 2
}

func (d *storedDiagnostic) diagnostic() *Diagnostic {
	if d == nil {
		return nil
	}
	d.Diagnostic.Elapsed, d.Diagnostic.Timeout = seconds(d.ElapsedSeconds), seconds(d.TimeoutSeconds)
	return &d.Diagnostic
}

type storedEvent struct {
	Sequence     *int64            `json:"seq"`
	Kind         Kind              `json:"kind"`
	TimeNS       int64             `json:"time_ns"`
	OffsetNS     int64             `json:"offset_ns"`
	Phase        Phase             `json:"lifecycle_phase"`
	SessionID    SessionID         `json:"session_id"`
	TurnID       TurnID            `json:"turn_id"`
	Server       string            `json:"server"`
	ConnectionID ConnectionID      `json:"connection_id"`
	Origin       Origin            `json:"origin"`
	Source       string            `json:"source"`
	RPCID        RPCID             `json:"rpc_id"`
	Method       string            `json:"method"`
	Own          bool              `json:"own"`
	Diagnostic   *storedDiagnostic `json:"diagnostic"`
	Redactions   []Redaction       `json:"redactions"`
	Payload      JSON              `json:"payload"`
	Frame        *storedFrame      `json:"frame"`
}

type storedFrame struct {
	Direction Direction `json:"direction"`
	Framing   Framing   `json:"framing"`
	Size      int64     `json:"size"`
	WireSize  int64     `json:"wire_size"`
	SHA256    string    `json:"sha256"`
	Dropped   int64     `json:"dropped"`
	Partial   bool      `json:"partial"`
	HTTP      *HTTPInfo `json:"http"`
	OutOfLine bool      `json:"out_of_line"`
	Text      *string   `json:"text"`
	Base64    *string   `json:"base64"`
}

// DecodeEvent reads what [AppendEvent] wrote. The error names what is wrong with it.
func DecodeEvent(id ExecutionID, b []byte) (Event, error) {
	var r rawEvent
	if scanEvent(&r, b) {
		if ev, err := r.event(id); err == nil {
			return ev, nil
		}
	}
	return decodeSlow(id, b)
}

// decodeSlow is the definition of what an encoded event means: encoding/json.
func decodeSlow(id ExecutionID, b []byte) (Event, error) {
	var s storedEvent
	if err := json.Unmarshal(b, &s); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if s.Sequence == nil || s.Kind == "" {
		return Event{}, fmt.Errorf("decode event: no sequence or kind in %.80q", b)
	}
	ev := Event{
		ExecutionID: id, Sequence: *s.Sequence, Kind: s.Kind, Time: timeAt(s.TimeNS), Offset: time.Duration(s.OffsetNS),
		Phase: s.Phase, SessionID: s.SessionID, TurnID: s.TurnID, Server: s.Server, ConnectionID: s.ConnectionID,
		Source: Source{s.Origin, s.Source}, RPCID: s.RPCID, Method: s.Method, Own: s.Own, Redactions: s.Redactions, Payload: s.Payload,
	}
	ev.Diagnostic = s.Diagnostic.diagnostic()
	if s.Frame == nil {
		return ev, nil
	}
	f := &Frame{Direction: s.Frame.Direction, Framing: s.Frame.Framing, Size: s.Frame.Size, WireSize: s.Frame.WireSize,
		SHA256: s.Frame.SHA256, OutOfLine: s.Frame.OutOfLine, Dropped: s.Frame.Dropped, Partial: s.Frame.Partial, HTTP: s.Frame.HTTP}
	switch {
	case s.Frame.Text != nil:
		f.Bytes = []byte(*s.Frame.Text)
	case s.Frame.Base64 != nil:
		var err error
		if f.Bytes, err = base64.StdEncoding.DecodeString(*s.Frame.Base64); err != nil {
			return Event{}, fmt.Errorf("decode event %d: frame: %w", ev.Sequence, err)
		}
	}
	ev.Frame = f
	return ev, nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// timeNS and timeAt keep the zero time, which has no count of nanoseconds, as 0.
func timeNS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeAt(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
