// Package providertest is a scripted provider for tests: an HTTP server on loopback that remembers every request and answers as it is told, well or
// badly. It knows nothing of what it plays but for [Chat].
package providertest

import (
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// TB is what the helper needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(f func())
}

// Request is one that the provider got.
type Request struct {
	Number int // from 1, in the order of arrival
	Method string
	Path   string
	Header http.Header
	Body   []byte
}

// Script says how a request is answered. It may be called from several goroutines.
type Script func(r *Request) Reply

// Reply is an answer, or the lack of one. The zero value is an empty 200.
type Reply struct {
	Status int // 0: 200
	Header map[string]string
	// Body is sent with the Content-Type application/json unless Header says otherwise.
	Body string

	Wait    <-chan struct{} // nothing is sent before it is closed, or the client has gone
	Hang    bool            // nothing is sent until the client has gone
	Endless bool            // the body is sent again and again until the client has gone
	Cut     bool            // the connection is closed after the body, and more was promised
	Drop    bool            // the connection is closed without an answer
	Raw     string          // is sent on the bare connection, instead of a response; then it is closed
}

// Sequence answers with the replies in order; the last answers everything after it.
func Sequence(replies ...Reply) Script {
	return func(r *Request) Reply { return replies[min(r.Number, len(replies))-1] }
}

// Chat is a chat completion in which the model says content.
func Chat(content string) Reply {
	b, _ := json.Marshal(map[string]any{ // texts and numbers: cannot fail
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "scripted-1",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content}}},
		"usage":   map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
	})
	return Reply{Body: string(b)}
}

// Server is a provider that runs until the test ends.
type Server struct {
	// URL is its address, http://127.0.0.1:PORT or https.
	URL string
	// HTTP is the server below, for its certificate.
	HTTP *httptest.Server

	script   Script
	mu       sync.Mutex
	requests []Request
}

// New starts a provider.
func New(t TB, script Script) *Server {
	t.Helper()
	return start(t, script, (*httptest.Server).Start)
}

// NewTLS starts one that speaks TLS, with a certificate that only its own HTTP.Client trusts.
func NewTLS(t TB, script Script) *Server {
	t.Helper()
	return start(t, script, (*httptest.Server).StartTLS)
}

func start(t TB, script Script, begin func(*httptest.Server)) *Server {
	s := &Server{script: script}
	s.HTTP = httptest.NewUnstartedServer(s)
	s.HTTP.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that break off are what tests are about
	begin(s.HTTP)
	s.URL = s.HTTP.URL
	t.Cleanup(func() {
		s.HTTP.CloseClientConnections()
		s.HTTP.Close()
	})
	return s
}

// Requests are those that came so far, whole, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP is that of http.Handler. A request counts when all of it is there.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	req := Request{Number: len(s.requests) + 1, Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	s.script(&req).send(w, r)
}

func (p Reply) send(w http.ResponseWriter, r *http.Request) {
	gone := r.Context().Done()
	switch {
	case p.Hang:
		<-gone
		return
	case p.Wait != nil:
		select {
		case <-p.Wait:
		case <-gone:
			return
		}
	}
	if p.Drop || p.Raw != "" {
		p.bare(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range p.Header {
		w.Header().Set(name, value)
	}
	if p.Cut {
		w.Header().Set("Content-Length", "1000000")
	}
	w.WriteHeader(cmp.Or(p.Status, http.StatusOK))
	for again := true; again; again = p.Endless {
		if _, err := io.Copy(w, strings.NewReader(p.Body)); err != nil {
			return
		}
	}
	if p.Cut {
		panic(http.ErrAbortHandler)
	}
}

// bare answers on the connection itself.
func (p Reply) bare(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, p.Raw) // a client that has gone misses it
	_ = conn.Close()
}
