package trace

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Body returns the message in the frame: a line without its terminator, the joined data of a server-sent event, or the HTTP body as it
// is. It may alias Bytes.
func (f *Frame) Body() []byte {
	b, _ := frameBody(f.Framing, f.Bytes)
	return b
}

// segment says that n bytes of a body stand at raw in the frame's bytes.
type segment struct{ body, raw, n int }

// frameBody returns the message and where its parts stand in the frame.
func frameBody(fr Framing, b []byte) ([]byte, []segment) {
	switch fr {
	case FramingLine:
		b = bytes.TrimSuffix(b, []byte{'\n'})
		b = bytes.TrimSuffix(b, []byte{'\r'})
	case FramingSSE:
		return eventData(b)
	}
	return b, []segment{{0, 0, len(b)}}
}

// eventData joins the data fields of a server-sent event (HTML standard, 9.2.6). One field, which is the usual case, is not copied.
func eventData(b []byte) ([]byte, []segment) {
	var segs []segment
	body := 0
	for at := 0; at < len(b); {
		line, next := eventLine(b[at:])
		if data, ok := bytes.CutPrefix(line, []byte("data")); ok && (len(data) == 0 || data[0] == ':') {
			data = bytes.TrimPrefix(data, []byte(":"))
			data = bytes.TrimPrefix(data, []byte(" "))
			if segs != nil {
				body++ // the newline between them
			}
			segs = append(segs, segment{body, at + len(line) - len(data), len(data)})
			body += len(data)
		}
		at += next
	}
	if len(segs) == 0 {
		return nil, nil
	}
	if s := segs[0]; len(segs) == 1 {
		return b[s.raw : s.raw+s.n : s.raw+s.n], segs
	}
	out := make([]byte, 0, body)
	for i, s := range segs {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, b[s.raw:s.raw+s.n]...)
	}
	return out, segs
}

// eventLine splits off one line, which ends with CR LF, LF or CR.
func eventLine(b []byte) (line []byte, next int) {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return b, len(b)
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		return b[:i], i + 2
	}
	return b[:i], i + 1
}

// span is a range of bytes.
type span struct{ from, to int }

// bodySpans moves redactions from the bytes of a frame to its body.
func bodySpans(rs []Redaction, segs []segment) (out []span) {
	for _, r := range rs {
		for _, s := range segs {
			from, to := max(int(r.Offset), s.raw), min(int(r.Offset+r.Length), s.raw+s.n)
			if from <= to {
				out = append(out, span{from - s.raw + s.body, to - s.raw + s.body})
			}
		}
	}
	return out
}

// overlaps reports whether the value has bytes in one of the spans. A span of no bytes counts where it stands inside.
func (v value) overlaps(spans []span) bool {
	from, to := v.off, v.off+len(v.b)
	for _, s := range spans {
		if s.from < to && s.to > from || s.from == s.to && s.from >= from && s.to <= to {
			return true
		}
	}
	return false
}

// PreviewBytes is how much of a frame a [RawMessageEntry] shows.
const PreviewBytes = 64 << 10

// preview shows the beginning of b; bytes that are not UTF-8 as base64, marked.
func preview(b []byte) (text string, cut bool) {
	if !utf8.Valid(b) {
		cut = len(b) > PreviewBytes
		return "base64:" + base64.StdEncoding.EncodeToString(b[:min(len(b), PreviewBytes)]), cut
	}
	if len(b) <= PreviewBytes {
		return string(b), false
	}
	n := PreviewBytes
	for !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:n]), true
}

// mediaType names the kind of bytes that a frame is.
func mediaType(r *rawEvent, bytesKept []byte, http *HTTPInfo) string {
	switch roles[Kind(r.kind)] {
	case roleAgentFrame:
		if _, isJSON := whole(bytesKept); isJSON {
			return "application/json"
		}
	case roleRequest, roleResponse, roleErrorResponse, roleNotification, roleCancel, roleDenied, roleFiltered:
		if Framing(r.framing) == FramingSSE {
			return "text/event-stream"
		}
		return "application/json"
	}
	switch {
	case Framing(r.framing) == FramingSSE:
		return "text/event-stream"
	case Framing(r.framing) == FramingBody && headerValue(http, "content-type") != "":
		t, _, _ := strings.Cut(headerValue(http, "content-type"), ";")
		return strings.ToLower(strings.TrimSpace(t))
	case len(bytesKept) > 0 && utf8.Valid(bytesKept):
		return "text/plain"
	}
	return "application/octet-stream"
}

func headerValue(h *HTTPInfo, name string) string {
	if h == nil {
		return ""
	}
	for _, f := range h.Header {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// shownHeaders are the headers that a ProtocolEntry shows; the raw message has all of them.
var shownHeaders = [...]string{"content-type", "content-length", "retry-after", "request-id", "x-request-id"}

// shown returns the exchange with those headers alone.
func (h *HTTPInfo) shown() HTTPInfo {
	out := *h
	out.Header = nil
	for _, f := range h.Header {
		for _, n := range shownHeaders {
			if strings.EqualFold(f.Name, n) {
				out.Header = append(out.Header, f)
			}
		}
	}
	return out
}
