package rpc

import (
	"bytes"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	deepLevels = 512   // nesting that some parsers refuse
	maxLevels  = 10000 // nesting that encoding/json, and so everything above this package, refuses
)

// Received takes a frame.
func (c *Conn) Received(f *wire.Frame) {
	if t := c.raw.Load(); t != nil {
		defer t.received(f)
	}
	switch {
	case f.Err != nil:
		c.undecoded(f)
	case f.HTTP != nil && f.HTTP.Status >= 300 && f.HTTP.Status < 400, f.Framing == trace.FramingSSE && len(f.Body) == 0:
		c.frameEvent(f, trace.KindHTTPExchange)
	case f.Legacy && f.HTTP.Method == http.MethodPost && f.HTTP.Status/100 == 2:
		c.legacyPost(f)
	case f.Legacy && f.Event == "endpoint" && f.Framing == trace.FramingSSE && !f.Partial:
		c.endpoint(f)
	case f.Framing == trace.FramingSSE && f.Event != "":
		seq := c.frameEvent(f, trace.KindHTTPExchange)
		c.find(SSEEventName, where{seq, f.Offset, f.For}, "event %s is skipped: only message events carry messages; its data is %s", quote([]byte(f.Event)), quote(f.Body))
	case f.Dropped > 0:
		c.oversized(f)
	case f.Framing == trace.FramingLine:
		c.line(f)
	default:
		c.body(f)
	}
}

// read takes a frame's text apart with a reader that goes back by done.
func (c *Conn) read(b []byte) (r *reader, one *message, batch []message, err *syntaxError) {
	r = c.readers.Get().(*reader)
	one, batch, err = r.read(b, false)
	return
}

// body takes a frame of HTTP: a whole body, or an event.
func (c *Conn) body(f *wire.Frame) {
	if f.Framing == trace.FramingSSE && f.Partial {
		c.unterminated(f)
		return
	}
	if f.Partial { // cut short, whatever it looks like: the exchange's end tells why
		c.frameEvent(f, trace.KindHTTPExchange)
		c.remarkOn(f, "of its body came %s", quote(f.Body))
		return
	}
	r, one, batch, err := c.read(f.Body)
	defer c.readers.Put(r)
	switch {
	case err != nil:
		c.noJSON(f, err)
	case batch == nil && !one.isMessage() && f.HTTP != nil && f.HTTP.Status >= 300:
		c.frameEvent(f, trace.KindHTTPExchange) // an error page in JSON: the status tells
		c.remarkOn(f, "its body is %s", quote(f.Body))
	default:
		c.checkType(f, c.messages(f, one, batch))
	}
}

// noJSON takes a frame of HTTP that is no JSON.
func (c *Conn) noJSON(f *wire.Frame, err *syntaxError) {
	c.remarkOn(f, "its body is %s", quote(f.Body))
	if f.HTTP != nil && f.HTTP.Status >= 300 {
		c.frameEvent(f, trace.KindHTTPExchange) // the status, or the exchange's end, tells what is wrong
		return
	}
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	at := where{seq, f.Offset, f.For}
	frag := fragmentOf(f.Body, nil)
	if !looksLikeJSON(f.Body) {
		c.find(NotJSONRPC, at, "no JSON: %s", quote(f.Body))
	} else {
		c.find(MalformedJSON, at, "%v: %s", err, quote(f.Body))
	}
	if k := c.recognise(f, frag); k != nil {
		c.failNow(k, &CallError{Kind: KindProtocol, Reason: fmt.Sprintf("the answer is not valid JSON: %v", err), HTTP: f.HTTP, Sequence: seq, Err: nil})
	}
}

// looksLikeJSON reports whether text that is no JSON was meant to be a message.
func looksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 {
		return false
	}
	if b[0] == '[' {
		b = bytes.TrimLeft(b[1:], " \t\r\n")
	}
	return len(b) > 0 && b[0] == '{'
}

// recognise returns the waiting call that a broken answer was for: by its id, or because no other call waits, which on HTTP the exchange
// itself tells. Where there is any doubt it returns nil.
func (c *Conn) recognise(f *wire.Frame, frag fragment) *call {
	if !frag.answer {
		return nil
	}
	if frag.id != "" {
		if k := c.callOf(frag.id); k != nil {
			return k
		}
		return c.callOf(otherType([]byte(frag.id)))
	}
	if f.For != "" {
		return c.callOf(f.For)
	}
	if shared(f) {
		return c.onlyCall()
	}
	return nil
}

// remarkOn notes something about a frame for the call whose exchange carried it.
func (c *Conn) remarkOn(f *wire.Frame, format string, args ...any) {
	if k := c.callOf(f.For); k != nil {
		k.remark(format, args...)
	}
}

// checkType looks at the Content-Type of a message that came as a body.
func (c *Conn) checkType(f *wire.Frame, seq int64) {
	if f.Framing != trace.FramingBody || f.HTTP == nil {
		return
	}
	media := "none"
	for _, h := range f.HTTP.Header {
		if h.Name == "Content-Type" {
			media = h.Value
		}
	}
	if !isJSONType(media) {
		c.find(ContentType, where{seq, -1, f.For}, "the answer has the Content-Type %s, not application/json", quote([]byte(media)))
	}
}

func isJSONType(media string) bool {
	const want = "application/json"
	return len(media) >= len(want) && bytes.EqualFold([]byte(media[:len(want)]), []byte(want)) && (len(media) == len(want) || media[len(want)] == ';' || media[len(want)] == ' ')
}

// undecoded takes a body whose content encoding is not what the headers say.
func (c *Conn) undecoded(f *wire.Frame) {
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.find(ContentEncoding, where{seq, -1, f.For}, "%v", f.Err)
	if k := c.callOf(f.For); k != nil {
		c.failNow(k, &CallError{Kind: KindProtocol, Reason: f.Err.Error(), HTTP: f.HTTP, Sequence: seq, Err: f.Err})
	}
}

// oversized takes a frame that was over the cap.
func (c *Conn) oversized(f *wire.Frame) {
	if f.Framing == trace.FramingLine {
		c.flushLines()
	}
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	total := int64(len(f.Raw)) + f.Dropped
	c.find(FrameTooLarge, where{seq, f.Offset, f.For}, "a message of %d bytes is over the cap of %d", total, len(f.Raw))
	frag := fragmentOf(f.Body, f.Tail)
	if k := c.recognise(f, frag); k != nil {
		c.failNow(k, &CallError{Kind: KindProtocol, HTTP: f.HTTP, Sequence: seq,
			Reason: fmt.Sprintf("the answer is too large: %d bytes, over the cap of %d for one message", total, len(f.Raw))})
	}
}

// unterminated takes the rest of an event stream that ended inside an event.
func (c *Conn) unterminated(f *wire.Frame) {
	seq := c.frameEvent(f, trace.KindMCPMalformed)
	c.find(SSEUnterminated, where{seq, f.Offset, f.For}, "the event stream ended inside an event, without the blank line after it, so that a client discards it: %s", quote(f.Body))
	c.remarkOn(f, "the last event has no blank line after it and does not count: %s", quote(f.Body))
}

// messages takes a frame that is JSON. It returns the frame's event.
func (c *Conn) messages(f *wire.Frame, one *message, batch []message) (seq int64) {
	if batch == nil {
		return c.message(f, one)
	}
	seq = c.record(trace.Event{Kind: trace.KindMCPResponse, Phase: c.phase()}, f)
	if !c.batch.Load() {
		c.find(BatchNotAllowed, where{seq, f.Offset, f.For}, "a batch of %d messages", len(batch))
	}
	for i := range batch {
		c.message(&wire.Frame{For: f.For, Offset: f.Offset, HTTP: f.HTTP, Time: f.Time, Direction: f.Direction, Legacy: f.Legacy}, &batch[i])
	}
	return seq
}

// badUTF8 returns the offset of the first byte of the message that is not UTF-8, or -1.
func badUTF8(m *message) int {
	if utf8.Valid(m.raw) {
		return -1
	}
	for i := 0; i < len(m.raw); {
		r, n := utf8.DecodeRune(m.raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// message takes one JSON value, and returns its event. A part of a batch comes in a frame without bytes.
func (c *Conn) message(f *wire.Frame, m *message) int64 {
	in := &arrival{f: f, m: m, badByte: badUTF8(m)}
	switch {
	case !m.isMessage():
		c.notRPC(in)
	case m.method == nil || m.isAnswer() && c.callOf(trace.RPCID(m.id)) != nil:
		c.answer(in)
	default:
		c.asked(in)
	}
	return in.seq
}

// arrival is a message on its way in.
type arrival struct {
	f       *wire.Frame
	m       *message
	badByte int
	seq     int64
}

func (in *arrival) at(id trace.RPCID) where { return where{in.seq, in.f.Offset, id} }

// put records the message under the given kind.
func (c *Conn) put(in *arrival, ev trace.Event) {
	if in.f.Raw != nil {
		in.seq = c.record(ev, in.f)
		return
	}
	ev.Time = in.f.Time
	ev.Payload = in.m.raw
	if in.badByte >= 0 {
		ev.Payload = bytes.ToValidUTF8(in.m.raw, []byte("\ufffd"))
	}
	in.seq = c.record(ev, nil)
}

// notRPC takes JSON that is no JSON-RPC message.
func (c *Conn) notRPC(in *arrival) {
	c.put(in, trace.Event{Kind: trace.KindMCPMalformed, Phase: c.phase()})
	c.find(NotJSONRPC, in.at(in.f.For), "JSON that is no JSON-RPC message: %s", quote(in.m.raw))
	c.remarkOn(in.f, "it carried %s", quote(in.m.raw))
}

// envelope checks what every message must have. It returns the first problem.
func (c *Conn) envelope(in *arrival, id trace.RPCID) (problem string) {
	m := in.m
	note := func(code Code, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		c.find(code, in.at(id), "%s: %s", text, quote(m.raw))
		if problem == "" && code != DeepNesting && code != DuplicateMember {
			problem = text
		}
	}
	switch {
	case m.jsonrpc == nil:
		note(MissingJSONRPC, "the message has no jsonrpc member")
	case string(m.jsonrpc) != `"2.0"` && unquote(m.jsonrpc) != "2.0", m.jsonrpc[0] != '"':
		note(WrongJSONRPC, "the message's jsonrpc member is %s, not \"2.0\"", m.jsonrpc[:min(len(m.jsonrpc), 20)])
	}
	if m.twice != "" {
		note(DuplicateMember, "the message has two %q members", m.twice)
	}
	if in.badByte >= 0 {
		note(InvalidUTF8, "the message is not UTF-8 at byte %d", in.badByte)
	}
	switch {
	case m.deep > maxLevels:
		problem = fmt.Sprintf("the message is nested %d levels deep, over the limit of %d", m.deep, maxLevels)
		fallthrough
	case m.deep > deepLevels:
		note(DeepNesting, "the message is nested %d levels deep", m.deep)
	}
	return problem
}
