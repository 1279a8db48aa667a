package conformance

import (
	"errors"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// conn is what was seen of one connection.
type conn struct {
	c      *Checker
	server string

	asked       string // the version that the handshake asks for
	protocol    string // the version that holds
	initialized bool   // notifications/initialized was sent
	session     string // Mcp-Session-Id

	ids       map[string]string // every request of m3's: id → method
	open      map[string]string // those that are not answered
	tokens    map[string]string // progress token → id of the open request
	cancelled map[string]bool
	requests  map[string]string // requests of the server that are not answered: id → method
	declared  map[string]any    // client capabilities
}

func newConn(c *Checker, server string) *conn {
	return &conn{c: c, server: server, ids: map[string]string{}, open: map[string]string{}, tokens: map[string]string{}, cancelled: map[string]bool{},
		requests: map[string]string{}}
}

func (k *conn) version() string {
	if k.protocol != "" {
		return k.protocol
	}
	return k.asked
}

// wrong is a rule of the prose that a message of m3's breaks.
func (k *conn) wrong(m *message, format string, args ...any) {
	k.c.problem(trace.ClientToServer, k.server, k.version(), "", m.raw, format, args...)
}

// sent takes a message of m3's.
func (k *conn) sent(f *trace.Frame) {
	m, err := parse(f.Body())
	if err != nil {
		if errors.Is(err, errBatch) {
			err = errors.New("m3 sent a batch")
		}
		k.c.problem(trace.ClientToServer, k.server, k.version(), "", f.Bytes, "%v", err)
		return
	}
	k.handshake(m)
	if v := k.c.schemas.versions[k.version()]; v != nil {
		k.validate(trace.ClientToServer, v, m, k.requests)
	}
	k.prose(m, f)
	switch {
	case m.method != "" && m.id != "":
		k.ids[m.id], k.open[m.id] = m.method, m.method
		if token, ok := m.meta()["progressToken"]; ok {
			k.tokens[text(token)] = m.id
		}
	case m.method == "":
		delete(k.requests, m.id)
	}
}

// handshake follows which version is asked for.
func (k *conn) handshake(m *message) {
	switch m.method {
	case "initialize":
		k.asked, _ = m.params["protocolVersion"].(string)
		k.protocol = ""
		k.declared, _ = m.params["capabilities"].(map[string]any)
	case "server/discover":
		k.asked, _ = m.meta()["io.modelcontextprotocol/protocolVersion"].(string)
	case "notifications/initialized":
		k.initialized = true
	}
}

// validate checks a message by its envelope and by its own definition. asked are the requests that it may answer.
func (k *conn) validate(dir trace.Direction, v *version, m *message, asked map[string]string) {
	check := func(def string, value map[string]any) {
		k.c.check(dir, k.server, k.version(), def, value, m.raw)
	}
	check(v.envelope(m), m.value)
	switch {
	case m.method != "":
		check(v.byMethod[m.method], m.value) // an extension's method has no definition
	case m.result != nil:
		check(v.result(asked[m.id], m.result), m.result)
	}
}

// got takes a message of the server.
func (k *conn) got(f *trace.Frame) {
	m, err := parse(f.Body())
	if err != nil {
		if k.c.received && !errors.Is(err, errBatch) {
			k.c.problem(trace.ServerToClient, k.server, k.version(), "", f.Bytes, "%v", err)
		}
		return
	}
	method := k.open[m.id]
	k.negotiate(m, method)
	if v := k.c.schemas.versions[k.version()]; v != nil && k.c.received {
		k.validate(trace.ServerToClient, v, m, k.open)
		k.serverProse(m, method)
	}
	if f.HTTP != nil && method == "initialize" {
		k.session = headerOf(f.HTTP, "Mcp-Session-Id")
	}
	switch {
	case m.method != "" && m.id != "":
		k.requests[m.id] = m.method
	case m.method == "":
		k.answered(m.id)
	}
}

func (k *conn) answered(id string) {
	delete(k.open, id)
	for token, of := range k.tokens {
		if of == id {
			delete(k.tokens, token)
		}
	}
}

// negotiate follows which version is agreed on.
func (k *conn) negotiate(m *message, method string) {
	switch {
	case m.result == nil:
	case method == "initialize":
		if offered, ok := m.result["protocolVersion"].(string); ok && known(offered) {
			k.protocol = offered
		} else {
			k.protocol = k.asked
		}
	case method == "server/discover":
		k.protocol = k.asked
	}
}

// serverProse are the rules for servers that the schemas cannot say.
func (k *conn) serverProse(m *message, method string) {
	wrong := func(format string, args ...any) {
		k.c.problem(trace.ServerToClient, k.server, k.version(), "", m.raw, format, args...)
	}
	modern := mcp.Modern(k.version())
	switch {
	case m.method != "" && m.id != "" && modern:
		wrong("a server sends no requests in %s", k.version())
	case m.method != "" && m.id != "":
		return
	case m.method == "" && m.id == "" && !m.hasError:
		wrong("an answer without an id")
	case m.method == "" && m.result == nil && !m.hasError:
		wrong("an answer with neither a result nor an error")
	case m.result != nil && modern:
		k.resultProse(m, method, wrong)
	}
}

func (k *conn) resultProse(m *message, method string, wrong func(string, ...any)) {
	kind, typed := m.result["resultType"].(string)
	switch {
	case !typed:
		wrong("the result of %s has no resultType", method)
	case kind == mcp.ResultInputRequired:
		_, requests := m.result["inputRequests"]
		_, state := m.result["requestState"]
		if !requests && !state {
			wrong("a result that asks for input has neither inputRequests nor requestState")
		}
	}
	if method == "subscriptions/listen" {
		meta, _ := m.result["_meta"].(map[string]any)
		if tag := text(meta["io.modelcontextprotocol/subscriptionId"]); tag != m.id {
			wrong("the end of the subscription %s is tagged %s", m.id, tag)
		}
	}
}

func headerOf(h *trace.HTTPInfo, name string) string {
	for _, f := range h.Header {
		if len(f.Name) == len(name) && equalFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}
