package m3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// mirror knows which arguments of each tool go into HTTP headers too (2026-07-28, x-mcp-header in the tool's input schema). It learns from every
// tools/list that passes. A tool that none of them showed makes m3 list the tools once, on its own account: without the headers its request
// would break the protocol.
type mirror struct {
	mu     sync.Mutex
	tools  map[string][]mcp.ParamHeader // empty: nothing is mirrored
	listed bool                         // all tools were listed since the last change
	told   map[string]bool              // broken annotations that were told already
	turn   chan struct{}                // holds one while the tools are listed: many calls at once want one list
}

// learn takes a page of tools. A tool whose annotations break a rule is marked: a client of streamable HTTP must not use it.
func (m *mirror) learn(c *Client, tools []ToolInfo, seq int64) {
	if !c.session.MirrorsParams() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tools == nil {
		m.tools, m.told = map[string][]mcp.ParamHeader{}, map[string]bool{}
	}
	for i := range tools {
		t := &tools[i]
		if t.Malformed != "" {
			continue
		}
		headers, err := mcp.ParamHeaders(t.InputSchema)
		if err != nil {
			headers, t.Malformed = nil, err.Error()
			if key := t.Name + "\x00" + err.Error(); !m.told[key] {
				m.told[key] = true
				c.tape.Find(trace.Finding{Code: "bad-param-header", Severity: trace.SeverityError, Sequence: seq, Offset: -1, Clause: "server/tools#x-mcp-header",
					Message: fmt.Sprintf("the tool %q cannot be used over HTTP: %v", t.Name, err)})
			}
		}
		m.tools[t.Name] = headers
	}
}

// forget is called when the list has changed.
func (m *mirror) forget() {
	m.mu.Lock()
	m.tools, m.listed = nil, false
	m.mu.Unlock()
}

func (m *mirror) known(tool string) (headers []mcp.ParamHeader, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	headers, ok = m.tools[tool]
	return headers, ok || m.listed
}

// headers returns the headers that mirror the arguments of a call; nil when there are none.
func (m *mirror) headers(ctx context.Context, c *Client, tool string, arguments []byte) http.Header {
	if !c.session.MirrorsParams() {
		return nil
	}
	params, ok := m.known(tool)
	if !ok {
		params = m.look(ctx, c, tool)
	}
	var h http.Header
	for i := range params {
		if v, ok := params[i].Value(arguments); ok {
			if h == nil {
				h = http.Header{}
			}
			h.Set(params[i].Name, v)
		}
	}
	return h
}

// look lists the tools unless somebody else has just done so.
func (m *mirror) look(ctx context.Context, c *Client, tool string) []mcp.ParamHeader {
	m.mu.Lock()
	if m.turn == nil {
		m.turn = make(chan struct{}, 1)
	}
	turn := m.turn
	m.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done(): // the call that follows says so
		return nil
	}
	if _, ok := m.known(tool); !ok {
		m.list(ctx, c)
	}
	params, _ := m.known(tool)
	return params
}

// list lists all tools on m3's own account. When that fails the call goes out without headers, and a finding says so.
func (m *mirror) list(ctx context.Context, c *Client) {
	err := eachPage(ctx, c, "tools/list", "tools", nil, true, func(*Page[ToolInfo]) {}) // each page teaches the mirror
	if err != nil {
		c.find(trace.SeverityNote, "param-headers-unknown", "which arguments go into headers is not known, because the tools cannot be listed: "+err.Error(), "")
	}
	m.mu.Lock()
	m.listed = true // also after a failure: a server that has no list is not asked for it with every call
	m.mu.Unlock()
}

// mismatch reports whether the server refused a call because of its headers, which may be because its tools have changed: then the
// tools are listed again, and the headers that the call should have had are returned.
func (m *mirror) mismatch(ctx context.Context, c *Client, err error, tool string, arguments []byte, sent http.Header) (http.Header, bool) {
	const headerMismatch = -32020
	var pe *ProtocolError
	if !errors.As(err, &pe) || !c.session.MirrorsParams() {
		return nil, false
	}
	if code, ok := pe.RPCCode(); !ok || code != headerMismatch {
		return nil, false
	}
	m.forget()
	now := m.headers(ctx, c, tool, arguments)
	same := maps.EqualFunc(now, sent, func(a, b []string) bool { return a[0] == b[0] })
	return now, !same
}

// withHeader adds the caller's own headers, which win, to those that m3 made.
func withHeader(made, own http.Header) http.Header {
	if len(own) == 0 {
		return made
	}
	h := http.Header{}
	maps.Copy(h, made)
	for name, values := range own {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}
