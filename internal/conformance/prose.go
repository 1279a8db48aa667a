package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

const metaPrefix = "io.modelcontextprotocol/"

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

// prose are the rules for clients that the schemas cannot say.
func (k *conn) prose(m *message, f *trace.Frame) {
	k.framing(m, f)
	if name := duplicate(m.raw); name != "" {
		k.wrong(m, "the member %q stands twice", name)
	}
	switch {
	case m.method != "" && m.id != "":
		k.request(m)
	case m.method != "":
		k.notification(m, f.HTTP != nil)
	default:
		k.response(m)
	}
	if mcp.Modern(k.version()) {
		k.modern(m, f)
	} else {
		k.legacy(m, f)
	}
}

// framing: on a stream a message is one line of UTF-8; over HTTP it is the whole body.
func (k *conn) framing(m *message, f *trace.Frame) {
	if f.Framing == trace.FramingLine && (!bytes.HasSuffix(f.Bytes, []byte("\n")) || bytes.ContainsAny(m.raw, "\r\n")) {
		k.wrong(m, "a message on a stream is not one line")
	}
	if f.HTTP != nil && f.HTTP.Method != "POST" {
		k.wrong(m, "a message was sent by %s", f.HTTP.Method)
	}
	if !utf8.Valid(m.raw) {
		k.wrong(m, "the message is not UTF-8")
	}
}

// request: an id is a string or an integer, and never used twice; a progress token belongs to one open request.
func (k *conn) request(m *message) {
	switch id := m.value["id"].(type) {
	case string:
	case json.Number:
		if strings.ContainsAny(string(id), ".eE") {
			k.wrong(m, "the id %s is no integer", id)
		}
	default:
		k.wrong(m, "the id %s is neither a string nor an integer", m.id)
	}
	if method, used := k.ids[m.id]; used {
		k.wrong(m, "the id %s was used before, by %s", m.id, method)
	}
	if token, ok := m.meta()["progressToken"]; ok {
		if of, used := k.tokens[text(token)]; used {
			k.wrong(m, "the progress token %s belongs to the open request %s", text(token), of)
		}
	}
}

// notification: one that the version lets clients send; a cancellation names an open request, which is not initialize; progress names a
// request of the server.
func (k *conn) notification(m *message, http bool) {
	v := k.version()
	if v != "" && known(v) && !mcp.ClientNotifies(v, m.method) {
		k.wrong(m, "clients do not send %s in %s", m.method, v)
	}
	if m.method != "notifications/cancelled" {
		return
	}
	id := text(m.params["requestId"])
	switch method, made := k.ids[id]; {
	case !made:
		k.wrong(m, "it cancels the request %s, which was never made", id)
	case method == "initialize":
		k.wrong(m, "it cancels initialize")
	case k.cancelled[id]:
		k.wrong(m, "the request %s was cancelled before", id)
	case mcp.Modern(v) && http:
		k.wrong(m, "over HTTP a request is cancelled by closing its exchange in %s", v)
	}
	k.cancelled[id] = true
}

// response: it answers a request that is open, and a request for something undeclared only with an error.
func (k *conn) response(m *message) {
	method, asked := k.requests[m.id]
	if !asked {
		k.wrong(m, "it answers the request %s, which was never made or is answered", m.id)
		return
	}
	capability := map[string]string{"sampling/createMessage": "sampling", "roots/list": "roots", "elicitation/create": "elicitation"}[method]
	if _, declared := k.declared[capability]; capability != "" && !declared && !m.hasError {
		k.wrong(m, "it answers %s, which was not declared", method)
	}
	if _, both := m.value["result"]; both == m.hasError {
		k.wrong(m, "it has not exactly one of result and error")
	}
}

// modern are the rules of 2026-07-28 on: every request carries the version and the capabilities, and headers mirror it; there are no
// answers, no sessions, no initialize.
func (k *conn) modern(m *message, f *trace.Frame) {
	v := k.version()
	switch {
	case m.method == "":
		k.wrong(m, "a client sends no answers in %s", v)
		return
	case m.id == "":
		return
	}
	if got, _ := m.meta()[metaPrefix+"protocolVersion"].(string); got != v {
		k.wrong(m, "its _meta names the protocol version %q, the session's is %q", got, v)
	}
	if _, ok := m.meta()[metaPrefix+"clientInfo"]; !ok {
		k.wrong(m, "its _meta does not name the client")
	}
	if f.HTTP != nil {
		k.modernHeaders(m, f.HTTP)
	}
}

func (k *conn) modernHeaders(m *message, h *trace.HTTPInfo) {
	k.commonHeaders(m, h)
	want := map[string]string{"MCP-Protocol-Version": k.version(), "Mcp-Method": m.method, "Mcp-Session-Id": "", "Last-Event-ID": "", "Mcp-Name": ""}
	switch m.method {
	case "tools/call", "prompts/get":
		want["Mcp-Name"], _ = m.params["name"].(string)
	case "resources/read":
		want["Mcp-Name"], _ = m.params["uri"].(string)
	}
	for name, value := range want {
		if got := decodeHeader(headerOf(h, name)); got != value {
			k.wrong(m, "the header %s is %q, want %q", name, got, value)
		}
	}
	for _, f := range h.Header {
		if rest, ok := strings.CutPrefix(strings.ToLower(f.Name), "mcp-param-"); ok && !mirrors(m.params["arguments"], decodeHeader(f.Value)) {
			k.wrong(m, "the header Mcp-Param-%s mirrors no argument: %q", rest, f.Value)
		}
	}
}

// mirrors reports whether the value is that of some argument.
func mirrors(v any, value string) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if mirrors(e, value) {
				return true
			}
		}
		return false
	case string:
		return v == value
	case json.Number:
		want, err := v.Float64()
		var got float64
		return string(v) == value || err == nil && json.Unmarshal([]byte(value), &got) == nil && got == want
	}
	return text(v) == value
}

// decodeHeader undoes the base64 form.
func decodeHeader(v string) string {
	b, begins := strings.CutPrefix(v, "=?base64?")
	b, ends := strings.CutSuffix(b, "?=")
	if !begins || !ends {
		return v
	}
	plain, err := base64.StdEncoding.DecodeString(b)
	if err != nil {
		return v
	}
	return string(plain)
}

func (k *conn) commonHeaders(m *message, h *trace.HTTPInfo) {
	accept := headerOf(h, "Accept")
	if !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream") {
		k.wrong(m, "the header Accept is %q", accept)
	}
	if got := headerOf(h, "Content-Type"); !strings.HasPrefix(got, "application/json") {
		k.wrong(m, "the header Content-Type is %q", got)
	}
}

// legacy are the rules of the eras with initialize: it comes first, then notifications/initialized, then the rest; over HTTP the session's
// id and, since 2025-06-18, the version stand in headers.
func (k *conn) legacy(m *message, f *trace.Frame) {
	early := m.method == "initialize" || m.method == "notifications/initialized" || m.method == "notifications/cancelled" || m.method == "ping" || m.method == ""
	if !early && !k.initialized {
		k.wrong(m, "%s was sent before notifications/initialized", m.method)
	}
	if m.method == "server/discover" {
		k.wrong(m, "server/discover does not exist in %s", k.version())
	}
	if f.HTTP == nil {
		return
	}
	k.commonHeaders(m, f.HTTP)
	if m.method == "initialize" {
		return
	}
	if got := headerOf(f.HTTP, "Mcp-Session-Id"); got != k.session {
		k.wrong(m, "the header Mcp-Session-Id is %q, the server gave %q", got, k.session)
	}
	if got := headerOf(f.HTTP, "MCP-Protocol-Version"); k.version() >= mcp.Version20250618 && got != k.version() {
		k.wrong(m, "the header MCP-Protocol-Version is %q, the session's is %q", got, k.version())
	}
}
