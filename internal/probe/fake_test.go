package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/m3-go/m3"
)

// fake is a good server of either era, with at most one defect: the one that the probe of the same name is for.
type fake struct {
	bad    string
	modern bool

	mu       sync.Mutex
	sessions map[string]bool
	count    int
}

// errDie ends the server.
var errDie = errors.New("the server dies")

// peer is the state of one connection.
type peer struct {
	ready     bool // initialize was answered
	confirmed bool
	skip      int
}

type request struct {
	JSONRPC json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

func (f *fake) is(names ...string) bool {
	for _, n := range names {
		if f.bad == n {
			return true
		}
	}
	return false
}

func errorText(id json.RawMessage, code int, text string) string {
	if id == nil {
		id = json.RawMessage("null")
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text)
}

// frame answers one frame; the answer is empty when there is none.
func (f *fake) frame(p *peer, b []byte) (string, error) {
	if p.skip > 0 {
		p.skip--
		return "", nil
	}
	text := string(b)
	switch {
	case f.is("deep-nesting") && strings.Contains(text, "[[[[[[["), f.is("huge-message") && len(b) > 1<<20-10:
		return "", nil
	case f.is("escaped-members") && strings.Contains(text, `\u006d`), f.is("white-space") && text[0] == ' ':
		return errorText(nil, -32600, "what is that"), nil
	case f.is("invalid-utf8") && !utf8.Valid(b):
		return "", nil
	case f.is("empty-body") && len(b) == 0:
		return `{}`, nil
	}
	var r request
	if !json.Valid(b) {
		if f.is("half-line-recovery") {
			p.skip = 1
		} else if f.is("pretty-printed-recovery") {
			p.skip = 4
		}
		if f.is("bad-json") || f.is("early-garbage") && !p.ready {
			return "", dieIf(f.is("early-garbage"))
		}
		return errorText(nil, -32700, "parse error"), nil
	}
	if trimmed := bytes.TrimSpace(b); trimmed[0] == '[' {
		return f.batch(p, trimmed)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&r); err != nil {
		if f.is("not-an-object") {
			return "", nil
		}
		return errorText(nil, -32600, "invalid request"), nil
	}
	return f.request(p, &r, text)
}

func dieIf(yes bool) error {
	if yes {
		return errDie
	}
	return nil
}

func (f *fake) batch(p *peer, b []byte) (string, error) {
	var parts []json.RawMessage
	_ = json.Unmarshal(b, &parts) // it is valid
	switch {
	case len(parts) == 0 && f.is("empty-batch"):
		return "", nil
	case len(parts) > 0 && f.is("batch"):
		var out []string
		for _, part := range parts {
			a, _ := f.frame(p, part)
			out = append(out, a)
		}
		return "[" + strings.Join(out, ",") + "]", nil
	}
	return errorText(nil, -32600, "no batches"), nil
}

// request looks at the envelope.
func (f *fake) request(p *peer, r *request, text string) (string, error) {
	var method string
	null := string(r.ID) == "null"
	isText := json.Unmarshal(r.Method, &method) == nil && r.Method != nil
	switch {
	case r.Result != nil:
		if f.is("stray-result") {
			return errorText(nil, -32600, "nobody asked"), nil
		}
		return "", nil
	case r.Error != nil:
		return "", dieIf(f.is("stray-error"))
	case string(r.JSONRPC) != `"2.0"` && !(f.is("missing-jsonrpc") && r.JSONRPC == nil) && !(f.is("wrong-jsonrpc") && r.JSONRPC != nil):
		return errorText(r.ID, -32600, "jsonrpc"), nil
	case !isText && (f.is("missing-method") && r.Method == nil || f.is("method-not-text") && r.Method != nil):
		return f.result(r.ID, `{}`), nil
	case !isText:
		return errorText(r.ID, -32600, "method"), nil
	case null && f.is("null-id"):
		return f.result(r.ID, `{}`), nil
	case r.ID == nil:
		return f.notification(p, method, r, text)
	case null:
		return errorText(nil, -32600, "null id"), nil
	}
	if v, done := f.id(r); done {
		return v, nil
	}
	return f.dispatch(p, method, r, text)
}

// id plays what servers do to ids.
func (f *fake) id(r *request) (answer string, done bool) {
	id := string(r.ID)
	swap := func(name, from, to string) {
		if f.is(name) && id == from {
			r.ID = json.RawMessage(to)
		}
	}
	swap("number-id", `4711`, `"4711"`)
	swap("digits-id", `"4712"`, `4712`)
	swap("big-id", `9007199254740993`, `9007199254740992`)
	swap("fraction-id", `1.5`, `1`)
	swap("unicode-id", `"天気-🌦"`, `"??-?"`)
	switch {
	case id[0] == '{' && !f.is("object-id"), id == "1.5" && !f.is("fraction-id"):
		return errorText(nil, -32600, "bad id"), true
	case f.is("text-id") && id[0] == '"':
		return errorText(nil, -32600, "ids are numbers here"), true
	case f.is("zero-id") && id == "0", f.is("empty-id") && id == `""`, f.is("negative-id") && id[0] == '-', f.is("twin-ids") && id == `5`:
		return "", true
	}
	return "", false
}

func (f *fake) result(id json.RawMessage, result string) string {
	if f.modern && !f.is("list-members") {
		result = strings.TrimSuffix(result, "}")
		if result != "{" {
			result += ","
		}
		result += `"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (f *fake) notification(p *peer, method string, r *request, text string) (string, error) {
	var c struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(r.Params, &c)
	switch {
	case method == "notifications/initialized":
		p.confirmed = true
		return "", dieIf(f.is("early-notification") && !p.ready)
	case method == "notifications/cancelled":
		kind := "cancel-running"
		if strings.Contains(text, "no-such") {
			kind = "cancel-unknown"
		} else if c.RequestID[0] == '{' {
			kind = "cancel-malformed"
		}
		return "", dieIf(f.is(kind))
	case method == "notifications/progress":
		return "", dieIf(f.is("progress-unknown"))
	case method == "notifications/roots/list_changed":
		return "", dieIf(f.is("roots-changed-undeclared"))
	case f.is("unknown-notification") && strings.Contains(method, "unknown"):
		return errorText(nil, -32601, "what"), nil
	case f.is("request-as-notification") && !strings.HasPrefix(method, "notifications/"):
		return errorText(nil, -32600, "no id"), nil
	}
	return "", nil
}

// dispatch carries a request out.
func (f *fake) dispatch(p *peer, method string, r *request, text string) (string, error) {
	switch {
	case f.is("unknown-envelope-member") && strings.Contains(text, `{"x-m3":true`), f.is("unknown-meta") && strings.Contains(text, `[null,1]`), f.is("unknown-param") && strings.Contains(text, "x-m3-unknown"):
		return errorText(r.ID, -32600, "unrecognised member"), nil
	case f.is("params-array") && strings.Contains(text, `[1,2]`), f.is("params-null") && strings.Contains(text, `"params":null`):
		return "", nil
	case r.Params != nil && r.Params[0] != '{':
		return errorText(r.ID, -32602, "params"), nil
	}
	if f.modern && method == "initialize" {
		if f.is("removed-initialize") {
			return "", nil
		}
		return errorText(r.ID, -32601, "no initialize"), nil
	}
	if f.modern {
		if e := f.checkMeta(r, text); e != "" {
			return e, nil
		}
	}
	switch method {
	case "initialize":
		if !f.modern {
			return f.initialize(p, r)
		}
	case "ping":
		if f.is("ping-before-initialized") && p.ready && !p.confirmed {
			return errorText(r.ID, -32600, "not yet"), nil
		}
		if !f.modern || f.is("removed-ping") {
			return f.result(r.ID, `{}`), nil
		}
	case "server/discover":
		if f.modern {
			return f.discover(r), nil
		}
		if f.is("discover-probe") {
			return "", errDie
		}
	case "logging/setLevel":
		if f.is("set-level-before-initialized") && p.ready && !p.confirmed {
			return "", errDie
		}
		if !f.modern && (strings.Contains(text, `"info"`) || f.is("log-level-unknown")) || f.modern && f.is("removed-logging-setlevel") {
			return f.result(r.ID, `{}`), nil
		}
		if !f.modern {
			return errorText(r.ID, -32602, "level"), nil
		}
	}
	if f.modern && f.is("removed-"+strings.ReplaceAll(strings.ToLower(method), "/", "-")) {
		return f.result(r.ID, `{}`), nil
	}
	if f.is("early-request") && !p.ready {
		return "", errDie
	}
	return f.feature(method, r, text)
}

func (f *fake) checkMeta(r *request, text string) string {
	var m struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(r.Params, &m) // it is an object
	v := string(m.Meta["io.modelcontextprotocol/protocolVersion"])
	switch {
	case m.Meta == nil && f.is("missing-meta"):
	case m.Meta == nil:
		return errorText(r.ID, -32602, "_meta is missing")
	case v != `"2026-07-28"` && !f.is("unsupported-version"):
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}`, r.ID)
	case m.Meta["io.modelcontextprotocol/clientCapabilities"] == nil && !f.is("missing-capabilities"):
		return errorText(r.ID, -32602, "clientCapabilities")
	case m.Meta["io.modelcontextprotocol/clientInfo"] == nil && f.is("missing-client-info"):
		return errorText(r.ID, -32001, "a header is missing")
	}
	return ""
}

const capabilities = `{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`

func (f *fake) caps() string {
	if f.is("undeclared-feature") {
		return `{"tools":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`
	}
	return capabilities
}

func (f *fake) discover(r *request) string {
	if f.is("discover") {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":%s,"resultType":"complete"}}`, r.ID, f.caps())
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":%s,"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}}`, r.ID, f.caps())
}

func (f *fake) initialize(p *peer, r *request) (string, error) {
	var params struct {
		Version      any             `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
		XM3          json.RawMessage `json:"x-m3"`
	}
	_ = json.Unmarshal(r.Params, &params) // what is missing is missing
	version, isText := params.Version.(string)
	switch {
	case p.ready && f.is("second-initialize"):
		return "", nil
	case r.Params == nil && !f.is("initialize-without-params"):
		return errorText(r.ID, -32602, "params"), nil
	case r.Params != nil && (!isText || len(params.Capabilities) == 0 || params.Capabilities[0] != '{') && !f.is("initialize-wrong-types"):
		return errorText(r.ID, -32602, "types"), nil
	case params.XM3 != nil && f.is("initialize-unknown-members"):
		return errorText(r.ID, -32602, "unrecognised keys"), nil
	case version == "9999-01-01" && f.is("unknown-version-offer"):
		return errorText(r.ID, -32602, "Unsupported protocol version"), nil
	}
	known := version == "2025-11-25" || version == "2025-06-18" || version == "2025-03-26" || version == "2024-11-05"
	if !known && !f.is("echoes-any-version") || f.is("oldest-version") {
		version = "2025-11-25"
	}
	p.ready = true
	info := `,"serverInfo":{"name":"fake","version":"1"}`
	if f.is("initialize-incomplete") {
		info = ""
	}
	return f.result(r.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s%s}`, version, f.caps(), info)), nil
}

// ServeHTTP is the HTTP side.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if s := f.guard(r); s != 0 {
		w.WriteHeader(s)
		return
	}
	if r.Method != http.MethodPost {
		f.otherMethod(w, r)
		return
	}
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string                     `json:"name"`
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &q) // what is broken has none of it
	if f.modern {
		if e := f.modernHeaders(r, q.Method, q.Params.Name, string(q.Params.Meta["io.modelcontextprotocol/protocolVersion"]), q.ID); e != "" {
			write(w, http.StatusBadRequest, e)
			return
		}
	} else if s := f.session(w, r, q.Method); s != 0 {
		w.WriteHeader(s)
		return
	}
	answer, _ := f.frame(&peer{ready: true, confirmed: true}, body)
	f.respond(w, answer, body)
}

func (f *fake) respond(w http.ResponseWriter, answer string, body []byte) {
	switch {
	case f.is("bad-json-status") && !json.Valid(body):
		http.Error(w, "stack trace", http.StatusInternalServerError)
	case answer == "" && (f.is("notification-status") || f.is("bad-json") && !json.Valid(body)):
		w.WriteHeader(http.StatusOK)
	case answer == "":
		w.WriteHeader(http.StatusAccepted)
	case f.is("answer-type"):
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, answer)
	case len(body) == 0 && !f.is("empty-body"), strings.Contains(answer, `"id":null`) && !f.is("null-id"):
		write(w, http.StatusBadRequest, answer)
	default:
		write(w, http.StatusOK, answer)
	}
}

func write(w http.ResponseWriter, status int, answer string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

// guard refuses by headers alone.
func (f *fake) guard(r *http.Request) int {
	media, accept := r.Header.Get("Content-Type"), r.Header.Get("Accept")
	post := r.Method == http.MethodPost
	switch {
	case f.is("content-type-charset") && strings.Contains(media, "charset"), f.is("content-type-case") && media == "Application/JSON":
		return http.StatusUnsupportedMediaType
	case post && !strings.HasPrefix(strings.ToLower(media), "application/json") && !f.is("content-type-wrong"):
		return http.StatusUnsupportedMediaType
	case f.is("accept-wildcard") && accept == "*/*", f.is("accept-order") && strings.HasPrefix(accept, "text/event-stream;"):
		return http.StatusNotAcceptable
	case f.is("accept-none") && accept == "" && post:
		return http.StatusInternalServerError
	case r.Header.Get("Origin") != "" && !f.is("origin-foreign"), r.Host == "evil.example" && !f.is("host-foreign"):
		return http.StatusForbidden
	}
	return 0
}

func (f *fake) otherMethod(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case f.is(strings.ToLower(r.Method)), f.is("get-without-accept") && r.Method == "GET" && r.Header.Get("Accept") == "":
		w.WriteHeader(http.StatusInternalServerError)
	case r.Method == http.MethodDelete && !f.modern:
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.sessions[id] && !f.is("delete-unknown") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if !f.is("delete-ends") {
			delete(f.sessions, id)
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// session keeps the sessions of the legacy era.
func (f *fake) session(w http.ResponseWriter, r *http.Request, method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, version := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version")
	if method == "initialize" && id == "" {
		f.count++
		id = fmt.Sprintf("session-%d", f.count)
		if f.is("session-id-text") {
			id += "\u00e9"
		}
		if f.sessions == nil {
			f.sessions = map[string]bool{}
		}
		f.sessions[id] = true
		w.Header().Set("Mcp-Session-Id", id)
		return 0
	}
	switch {
	case version == "1999-01-01" && !f.is("protocol-header-unknown"), version == "" && id != "" && f.is("protocol-header-missing"):
		return http.StatusBadRequest
	case id == "" && !f.is("session-missing") && f.early(method):
		return http.StatusBadRequest
	case id != "" && !f.sessions[id] && f.is("session-unknown"):
		return http.StatusBadRequest
	case id != "" && !f.sessions[id] && !f.is("session-unknown-served"):
		return http.StatusNotFound
	}
	return 0
}

// early says which methods need a session.
func (f *fake) early(method string) bool {
	return strings.HasSuffix(method, "/list") || method == "ping"
}

func (f *fake) modernHeaders(r *http.Request, method, name, version string, id json.RawMessage) string {
	h := r.Header
	mismatch := func() string { return errorText(id, -32020, "header mismatch") }
	want := name
	got := h.Get("Mcp-Name")
	if strings.HasPrefix(got, "=?base64?") && !f.is("header-name-base64") {
		got = want // the probe's is right
	}
	switch {
	case method == "" || id == nil:
		return ""
	case h.Get("Mcp-Method") == "" && !f.is("header-method-missing"):
		return mismatch()
	case h.Get("Mcp-Method") != "" && h.Get("Mcp-Method") != method && !f.is("header-method-mismatch"):
		return mismatch()
	case `"`+h.Get("Mcp-Protocol-Version")+`"` != version && version != "" && !f.is("header-version-mismatch"):
		return mismatch()
	case want != "" && got != want && !f.is("header-name-mismatch"):
		return mismatch()
	}
	return ""
}

// stdio is the server on a stream.
func (f *fake) stdio() m3.PipeServer {
	return m3.PipeServer{Name: "fake", Serve: func(_ context.Context, s io.ReadWriteCloser) error { return f.serve(s) }}
}

func (f *fake) serve(s io.ReadWriteCloser) error {
	p, buf, chunk := &peer{}, []byte(nil), make([]byte, 64<<10)
	for {
		n, err := s.Read(chunk)
		if err != nil {
			return nil
		}
		buf = append(buf, chunk[:n]...)
		for {
			line, rest, found := f.cut(buf)
			if !found {
				break
			}
			buf = rest
			answer, err := f.line(p, line)
			if err != nil {
				return nil // it dies
			}
			if answer != "" {
				if _, err := io.WriteString(s, answer+"\n"); err != nil {
					return nil
				}
			}
		}
	}
}

// cut takes the next message out of what was read.
func (f *fake) cut(buf []byte) (line, rest []byte, found bool) {
	switch {
	case len(buf) == 0:
		return nil, nil, false
	case f.is("split-write"):
		return bytes.TrimRight(buf, "\n"), nil, true
	case f.is("two-in-one-write"):
		line, _, found = bytes.Cut(buf, []byte("\n"))
		if !found {
			return nil, buf, false
		}
		return line, nil, true
	case f.is("line-separators") && bytes.Contains(buf, []byte("\u2028")):
		return bytes.Cut(buf, []byte("\u2028"))
	}
	return bytes.Cut(buf, []byte("\n"))
}

func (f *fake) line(p *peer, line []byte) (string, error) {
	switch {
	case len(bytes.TrimSpace(line)) == 0 && f.is("blank-lines"):
		return errorText(nil, -32700, "blank"), nil
	case len(bytes.TrimSpace(line)) == 0:
		return "", nil
	case f.is("crlf") && bytes.HasSuffix(line, []byte("\r")):
		return errorText(nil, -32700, "CR"), nil
	}
	return f.frame(p, line)
}
