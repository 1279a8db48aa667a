package wiretest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// HTTP is a script that plays over TCP.
type HTTP struct {
	// URL is where the server listens, with the path /mcp.
	URL  string
	l    net.Listener
	done chan error
	quit chan struct{}

	mu      sync.Mutex
	conns   []net.Conn
	waiting []*request // came, and not yet taken by a step
	came    chan struct{}
	closed  bool

	names map[string]*request
	cur   *request
}

// request is one HTTP request and its connection.
type request struct {
	*http.Request
	conn    net.Conn
	body    []byte
	chunked bool
	over    chan struct{} // closed when the answer is complete: the connection may carry the next request
	ended   bool
}

// ServeHTTP starts the script on a loopback port.
func (s *Script) ServeHTTP() (*HTTP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &HTTP{URL: "http://" + l.Addr().String() + "/mcp", l: l, done: make(chan error, 1), quit: make(chan struct{}), came: make(chan struct{}, 1), names: map[string]*request{}}
	go t.accept()
	go func() { t.done <- s.play(&player{peer: t, vars: map[string]string{"HOST": l.Addr().String()}}) }()
	return t, nil
}

// Wait waits for the script's end and closes the server. The error is the first step that failed.
func (t *HTTP) Wait() error {
	err := <-t.done
	t.done <- err
	t.l.Close()
	t.mu.Lock()
	if !t.closed {
		close(t.quit)
	}
	t.closed = true
	for _, c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	return err
}

func (t *HTTP) accept() {
	for {
		c, err := t.l.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		t.conns = append(t.conns, c)
		if t.closed {
			c.Close()
		}
		t.mu.Unlock()
		go t.read(c)
	}
}

// read reads the requests of one connection.
func (t *HTTP) read(c net.Conn) {
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
		r := &request{Request: req, conn: c, body: body, over: make(chan struct{})}
		t.mu.Lock()
		t.waiting = append(t.waiting, r)
		t.mu.Unlock()
		select {
		case t.came <- struct{}{}:
		default:
		}
		select {
		case <-r.over:
		case <-t.quit:
			return
		}
	}
}

// take removes the first waiting request that matches.
func (t *HTTP) take(verb, method string) (*request, message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.waiting {
		var m message
		_ = json.Unmarshal(r.body, &m) // a GET has none
		if r.Method == verb && (method == "" || m.matches(method) == nil) {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			return r, m
		}
	}
	return nil, message{}
}

func (t *HTTP) wait(what string) (message, error) {
	verb, method, _ := strings.Cut(what, " ")
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		if r, m := t.take(verb, method); r != nil {
			t.cur = r
			return m, nil
		}
		select {
		case <-t.came:
		case <-timer.C:
			return message{}, errors.New("it did not come")
		}
	}
}

func (t *HTTP) named(name string) { t.names[name] = t.cur }

func (t *HTTP) send(b []byte) error {
	if t.cur == nil {
		return errors.New("no request")
	}
	if t.cur.chunked {
		b = fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b)
	}
	t.cur.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := t.cur.conn.Write(b)
	return err
}

func (t *HTTP) do(st step) error {
	r := t.cur
	switch st.verb {
	case "@":
		if t.cur = t.names[st.rest]; t.cur == nil {
			return errors.New("no such request")
		}
		return nil
	case "header":
		return r.checkHeader(st.rest)
	case "path":
		if r.RequestURI != st.rest {
			return fmt.Errorf("it is %q", r.RequestURI)
		}
		return nil
	case "data":
		return t.send([]byte("data: " + st.rest + "\n\n"))
	case "reply":
		return t.reply(st.rest)
	case "stream":
		r.chunked = true
		_, err := fmt.Fprintf(r.conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%sTransfer-Encoding: chunked\r\n\r\n", headers(st.rest))
		return err
	case "end":
		var err error
		if r.chunked {
			_, err = io.WriteString(r.conn, "0\r\n\r\n")
		}
		r.finish()
		return err
	case "cut":
		r.finish()
		return r.conn.Close()
	case "drain":
		_, err := io.Copy(io.Discard, r.conn)
		return err
	}
	return errors.New("this step is for streams")
}

func headers(s string) string {
	if s == "" {
		return ""
	}
	return strings.ReplaceAll(s, "; ", "\r\n") + "\r\n"
}

func (r *request) finish() {
	if !r.ended {
		r.ended = true
		close(r.over)
	}
}

func (r *request) checkHeader(rest string) error {
	name, want, _ := strings.Cut(rest, ":")
	want = strings.TrimSpace(want)
	got := strings.Join(r.Header.Values(name), " | ")
	if strings.EqualFold(name, "Host") {
		got = r.Host
	}
	if got != want {
		return fmt.Errorf("it is %q", got)
	}
	return nil
}

// reply sends a whole answer: "STATUS", or "STATUS TYPE BODY", or "STATUS NAME: VALUE" with an empty body.
func (t *HTTP) reply(rest string) error {
	status, rest, _ := strings.Cut(rest, " ")
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %s Status\r\n", status)
	kind, body, found := strings.Cut(rest, " ")
	switch {
	case strings.HasSuffix(kind, ":"):
		fmt.Fprintf(&b, "%s\r\nContent-Length: 0\r\n\r\n", rest)
	case found:
		fmt.Fprintf(&b, "Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s", strings.ReplaceAll(kind, ";", "; "), len(body), body)
	case status == "204":
		b.WriteString("\r\n")
	default:
		b.WriteString("Content-Length: 0\r\n\r\n")
	}
	_, err := t.cur.conn.Write(b.Bytes())
	t.cur.finish()
	return err
}
