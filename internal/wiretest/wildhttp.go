package wiretest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// WildHTTP is a [Wild] server on a loopback port.
type WildHTTP struct {
	// URL is the endpoint, or the event stream where the server speaks HTTP+SSE.
	URL  string
	w    *Wild
	host string
	sse  bool
	l    net.Listener
	quit chan struct{}
	left sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]bool
	session *answering // the stream of HTTP+SSE
	opened  chan struct{}
}

// ServeHTTP starts the server: streamable HTTP at /mcp, or HTTP+SSE with its stream at /mcp/sse.
func (w *Wild) ServeHTTP(sse bool) (*WildHTTP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &WildHTTP{w: w, l: l, host: l.Addr().String(), sse: sse, quit: make(chan struct{}), conns: map[net.Conn]bool{}, opened: make(chan struct{})}
	h.URL = "http://" + h.host + "/mcp"
	if sse {
		h.URL += "/sse"
	}
	h.left.Go(h.accept)
	return h, nil
}

// Close ends the server.
func (h *WildHTTP) Close() {
	h.shut()
	h.left.Wait()
}

func (h *WildHTTP) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.quit)
	}
	h.l.Close()
	for c := range h.conns {
		c.Close()
	}
}

func (h *WildHTTP) accept() {
	for {
		c, err := h.l.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns[c] = true
		if h.closed {
			c.Close()
		}
		h.mu.Unlock()
		h.left.Go(func() { h.requests(c) })
	}
}

// requests serves the requests of one connection in turn.
func (h *WildHTTP) requests(c net.Conn) {
	defer func() {
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
		c.Close()
	}()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		a := &answering{h: h, c: c, verb: req.Method}
		if err := h.answer(a, req, body); err != nil || a.cut {
			return
		}
	}
}

func (h *WildHTTP) answer(a *answering, req *http.Request, body []byte) error {
	m := &asked{}
	_ = json.Unmarshal(body, m) // a GET has none
	r := h.w.came(req.Method)
	if req.Method == http.MethodPost {
		if own := h.w.came(m.name()); r == nil {
			r = own
		}
	}
	a.m = m
	if r == nil {
		return a.wellBehaved()
	}
	return a.byRule(r)
}

// answering is one request being answered.
type answering struct {
	h       *WildHTTP
	c       net.Conn
	verb    string
	m       *asked
	headers string
	chunked bool
	replied bool
	cut     bool
	mu      sync.Mutex
}

func (a *answering) wellBehaved() error {
	switch {
	case a.verb == http.MethodGet && a.h.sse:
		return a.hold("event: endpoint\ndata: /mcp/messages?session_id=1\n\n")
	case a.verb == http.MethodPost:
		if text := a.m.answer(); text != "" {
			return a.send(text)
		}
		return a.reply("202")
	case a.verb == http.MethodDelete:
		return a.reply("200")
	}
	return a.reply("405")
}

func (a *answering) byRule(r *rule) error {
	if a.h.sse && a.verb == http.MethodPost && !r.has("reply", "stream", "cut") {
		if err := a.reply("202"); err != nil {
			return err
		}
		a.h.left.Go(func() { _ = a.h.w.play(r, a.m, a.h.host, a, a.h.quit) }) // the connection may carry the next request
		return nil
	}
	if !a.h.sse && a.verb == http.MethodPost && r.several() {
		if err := a.stream(); err != nil {
			return err
		}
	}
	err := a.h.w.play(r, a.m, a.h.host, a, a.h.quit)
	switch {
	case err != nil || a.cut:
		return err
	case a.chunked && a.verb == http.MethodGet && !r.has("end"):
		<-a.h.quit
		return nil
	case a.chunked:
		return a.end()
	case !a.replied && a.verb == http.MethodGet && a.h.sse:
		return a.hold("")
	case !a.replied && r.has("raw", "repeat"):
		a.cut = true // exact bytes, the last ones of the connection
		return nil
	case !a.replied && len(a.m.ID) > 0 && a.m.Method != "":
		<-a.h.quit // a request that the rule leaves without an answer
		return nil
	case !a.replied:
		return a.reply("202")
	}
	return nil
}

func (r *rule) has(verbs ...string) bool {
	for _, st := range r.steps {
		for _, v := range verbs {
			if st.verb == v {
				return true
			}
		}
	}
	return false
}

// hold opens the session's stream of HTTP+SSE and keeps it.
func (a *answering) hold(first string) error {
	if !a.chunked {
		if err := a.stream(); err != nil {
			return err
		}
	}
	if first != "" {
		if err := a.chunk(first); err != nil {
			return err
		}
	}
	a.h.mu.Lock()
	if a.h.session == nil {
		a.h.session = a
		close(a.h.opened)
	}
	a.h.mu.Unlock()
	<-a.h.quit
	return nil
}

func (a *answering) chunk(s string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := fmt.Fprintf(a.c, "%x\r\n%s\r\n", len(s), s)
	return err
}

func (a *answering) stream() error {
	a.chunked, a.replied = true, true
	_, err := fmt.Fprintf(a.c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%sTransfer-Encoding: chunked\r\n\r\n", a.headers)
	if a.h.sse && a.verb == http.MethodGet {
		a.h.mu.Lock()
		if a.h.session == nil {
			a.h.session = a
			close(a.h.opened)
		}
		a.h.mu.Unlock()
	}
	return err
}

func (a *answering) end() error {
	a.chunked = false
	_, err := io.WriteString(a.c, "0\r\n\r\n")
	return err
}

// onSession runs fn with the session's stream.
func (a *answering) onSession(fn func(s *answering) error) error {
	select {
	case <-a.h.opened:
	case <-a.h.quit:
		return errQuit
	}
	return fn(a.h.session)
}

func (a *answering) send(text string) error {
	switch {
	case a.chunked:
		return a.chunk("data: " + text + "\n\n")
	case a.h.sse:
		if !a.replied {
			if err := a.reply("202"); err != nil {
				return err
			}
		}
		return a.onSession(func(s *answering) error { return s.chunk("data: " + text + "\n\n") })
	}
	return a.reply("200 application/json " + text)
}

func (a *answering) raw(b []byte) error {
	switch {
	case a.chunked:
		return a.chunk(string(b))
	case a.h.sse && a.replied:
		return a.onSession(func(s *answering) error { return s.chunk(string(b)) })
	}
	_, err := a.c.Write(b)
	return err
}

// reply sends a whole answer: STATUS [TYPE [BODY]].
func (a *answering) reply(rest string) error {
	status, rest, _ := strings.Cut(rest, " ")
	kind, body, _ := strings.Cut(rest, " ")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %s %s\r\n%s", status, "Status", a.headers)
	if kind != "" && kind != "-" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", strings.ReplaceAll(kind, ";", "; "))
	}
	if status != "204" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	a.headers, a.replied = "", true
	_, err := io.WriteString(a.c, b.String())
	return err
}

func (a *answering) do(st step) error {
	switch st.verb {
	case "reply":
		return a.reply(st.rest)
	case "header":
		a.headers += st.rest + "\r\n"
		return nil
	case "stream":
		return a.stream()
	case "data":
		return a.chunk("data: " + st.rest + "\n\n")
	case "end":
		return a.end()
	case "cut":
		a.cut = true
		return a.c.Close()
	case "exit":
		a.cut = true
		a.h.shut()
		return nil
	}
	return fmt.Errorf("line %d: %s is for stdio", st.line, st.verb)
}
