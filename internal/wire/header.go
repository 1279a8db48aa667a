package wire

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/m3-go/m3/trace"
)

const (
	acceptBoth   = "application/json, text/event-stream"
	acceptStream = "text/event-stream"

	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"
	headerMethod   = "Mcp-Method"
	headerName     = "Mcp-Name"
	headerLastID   = "Last-Event-Id"

	// Modern is the first protocol version without sessions, GET streams and DELETE, and with the method and the name in headers.
	modernProtocol = "2026-07-28"
)

type headerField struct{ name, value string }

// headers returns the header fields of a request, those of the message before those of the configuration before our own. A name
// that a caller gives without a value is left out.
func (x *exchange) headers() []headerField {
	t := x.t
	session, protocol := t.era()
	out := make([]headerField, 0, 12)
	own := func(name, value string) {
		if value != "" && !x.given(name) {
			out = append(out, headerField{name, value})
		}
	}
	if x.method == http.MethodPost {
		own("Content-Type", "application/json")
		own("Accept", acceptBoth)
	} else if x.method == http.MethodGet {
		own("Accept", acceptStream)
		own(headerLastID, x.lastID)
	}
	own("Accept-Encoding", "identity")
	own("User-Agent", "m3")
	if t.auth != "" {
		own("Authorization", t.auth)
	}
	own(headerProtocol, protocol)
	if protocol >= modernProtocol {
		if m := x.message; m != nil {
			own(headerMethod, HeaderValue(m.Method))
			if m.Name != "" {
				own(headerName, HeaderValue(m.Name))
			}
		}
	} else {
		own(headerSession, session)
	}
	for _, f := range t.fixed {
		if x.message == nil || x.message.Header == nil || !has(x.message.Header, f.name) {
			out = append(out, f)
		}
	}
	if x.message != nil {
		out = appendFields(out, x.message.Header)
	}
	return out
}

// given reports whether the caller sets the header.
func (x *exchange) given(name string) bool {
	if has(x.t.header, name) {
		return true
	}
	return x.message != nil && has(x.message.Header, name)
}

func has(h http.Header, name string) bool {
	if len(h) == 0 {
		return false
	}
	_, ok := h[http.CanonicalHeaderKey(name)]
	return ok
}

// appendFields appends a header in the order of its names; Host and Content-Length are the transport's.
func appendFields(out []headerField, h http.Header) []headerField {
	if len(h) == 0 {
		return out
	}
	from := len(out)
	for name, values := range h {
		if name == "Host" || name == "Content-Length" {
			continue
		}
		for _, v := range values {
			out = append(out, headerField{name, v})
		}
	}
	slices.SortStableFunc(out[from:], func(a, b headerField) int { return strings.Compare(a.name, b.name) })
	return out
}

// HeaderValue returns s as the value of a header: as it is when it is plain, else in the base64 form of 2026-07-28
// (basic/transports/streamable-http): text outside of visible ASCII and inner spaces, and text that looks like that form itself.
func HeaderValue(s string) string {
	if plainHeader(s) {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func plainHeader(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' || strings.HasPrefix(s, "=?base64?") {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// checkHeader refuses what cannot stand in a header, without telling the value.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ':' || r >= 0x7f }) {
			return fmt.Errorf("wire: %q is no HTTP header name", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("wire: the value of HTTP header %s has a control character (a line break at its end, perhaps)", name)
			}
		}
	}
	return nil
}

// recorded returns the header fields as they are kept.
func (t *HTTP) recorded(host string, length int, fields []headerField) []trace.HTTPHeader {
	out := make([]trace.HTTPHeader, 0, len(fields)+2)
	out = append(out, trace.HTTPHeader{Name: "Host", Value: host})
	for _, f := range fields {
		out = append(out, trace.HTTPHeader{Name: f.name, Value: t.redactHeader(f.name, f.value)})
	}
	if length > 0 {
		out = append(out, trace.HTTPHeader{Name: "Content-Length", Value: strconv.Itoa(length)})
	}
	return out
}

// received returns an answer's header as it is kept, sorted by name.
func (t *HTTP) received(h http.Header) []trace.HTTPHeader {
	out := make([]trace.HTTPHeader, 0, len(h)+1)
	for name, values := range h {
		for _, v := range values {
			out = append(out, trace.HTTPHeader{Name: name, Value: t.redactHeader(name, v)})
		}
	}
	if len(out) > 1 {
		slices.SortStableFunc(out, func(a, b trace.HTTPHeader) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// origin is scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// mediaOf returns the media type of a Content-Type, in lower case.
func mediaOf(h http.Header) string {
	v, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(v))
}
