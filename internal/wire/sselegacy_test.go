package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func newSSE(t *testing.T, url string, l *journal, cfg *HTTPConfig) *SSE {
	t.Helper()
	s, err := NewSSE(url, l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sseServer names an endpoint, and answers each POST with the status of post and, where that is 202, with an event.
func sseServer(t *testing.T, endpoint string, post int) *httptest.Server {
	answers, quit := make(chan string, 8), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			b, _ := io.ReadAll(r.Body)
			w.WriteHeader(post)
			fmt.Fprintf(w, "Accepted")
			if post == 202 {
				answers <- r.URL.RequestURI() + " " + string(b)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, ": hello\n\nevent: ping\ndata: 1\n\n")
		if endpoint != "" {
			fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case a := <-answers:
				fmt.Fprintf(w, "data: %s\n\n", a)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			case <-quit:
				return
			}
		}
	}))
	t.Cleanup(func() { close(quit); srv.Close() })
	return srv
}

// W-F04, W-F05: what comes before the endpoint event is skipped, a relative endpoint is resolved, and the answer comes on the stream.
func TestSSETransport(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		srv := sseServer(t, "/messages?session=1", 202)
		l := &journal{}
		s := newSSE(t, srv.URL+"/sse", l, &cfg)
		for i := range 3 {
			id := fmt.Sprint(i)
			if err := s.Send(t.Context(), message(id, "{}")); err != nil {
				t.Fatal(err)
			}
		}
		events := func() (n int) {
			for _, f := range l.received {
				if f.Framing == "sse" && string(f.Body) == "/messages?session=1 {}" && f.Legacy && f.For == "" {
					n++
				}
			}
			return n
		}
		l.wait(t, "three answers", func() bool { return events() == 3 && len(l.exchanges) == 3 })
		if st := s.Stats(); st.BytesRead != st.BytesHanded || st.BytesWritten != 6 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestSSERefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, endpoint, want string }{
		{"other origin", "http://127.0.0.1:1/messages", "another origin (http://127.0.0.1:1, the stream is of http://127.0.0.1:"},
		{"same host by another name", "http://localhost:1/m", "another origin"},
		{"network path", "//evil.example/m", "another origin (http://evil.example:80"},
		{"other scheme", "ftp://evil.example/m", "another origin"},
		{"opaque", "mailto:a@b", "no host"},
		{"empty", " ", "it is empty"},
		{"quoted", `"/messages"`, "without quotes or JSON"},
		{"JSON", `{"endpoint":"/messages"}`, "without quotes or JSON"},
		{"control", "/m\x01", "no URI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			carriers(t, func(t *testing.T, cfg HTTPConfig) {
				l := &journal{}
				s := newSSE(t, sseServer(t, c.endpoint, 202).URL+"/sse", l, &cfg)
				err := s.Send(t.Context(), message("1", "{}"))
				var ee *EndpointError
				if !errors.As(err, &ee) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
				l.wait(t, "the end", func() bool { return len(l.closed) == 1 && errors.As(l.closed[0], &ee) })
				for _, f := range l.sent {
					if f.Message != nil {
						t.Error("something was posted")
					}
				}
			})
		})
	}
}

func TestSSEWithoutEndpoint(t *testing.T) {
	t.Parallel()
	page := func(status int, kind, body string) *httptest.Server {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		return srv
	}
	for _, c := range []struct {
		name string
		srv  *httptest.Server
		want string
	}{
		{"silent", sseServer(t, "", 202), "no endpoint event within 80ms; one other event came"},
		{"405", page(405, "text/plain", "no"), "GET was answered with HTTP 405 Method Not Allowed"},
		{"page", page(200, "text/html", "<html>"), "no event stream: its Content-Type is text/html"},
		{"ends", page(200, "text/event-stream", "data: 1\n\n"), "it ended before its endpoint event; one other event came"},
		{"half", page(200, "text/event-stream", "event: endpoint\ndata: /m\n"), "it ended before its endpoint event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSSE(t, c.srv.URL, &journal{}, &HTTPConfig{IdleTimeout: 80 * time.Millisecond})
			if err := s.Send(t.Context(), message("1", "{}")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		s := newSSE(t, sseServer(t, "", 202).URL, &journal{}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		err := s.Send(ctx, message("1", "{}"))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no endpoint event came in time") {
			t.Error(err)
		}
	})
}

// W-F01: a 404 of an endpoint outside of the stream's prefix says so; one inside is a plain status.
func TestSSEPrefixLost(t *testing.T) {
	t.Parallel()
	for path, lost := range map[string]string{"/mcp/sse": "/mcp", "/a/b/sse": "/a/b", "/sse": "", "/messages/sse": ""} {
		l := &journal{}
		s := newSSE(t, sseServer(t, "/messages/?session_id=1", 404).URL+path, l, nil)
		if err := s.Send(t.Context(), message("1", "{}")); err != nil && lost == "" {
			t.Fatal(err)
		}
		l.wait(t, "the POST's end", func() bool { return len(l.exchanges) > 0 })
		var ee *EndpointError
		if errors.As(l.exchanges[0].Err, &ee) != (lost != "") || ee != nil && ee.Lost != lost {
			t.Errorf("%s: %v", path, l.exchanges[0].Err)
		}
	}
}

// A redirect of the stream within its origin is followed, and the endpoint is seen from there.
func TestSSERedirect(t *testing.T) {
	t.Parallel()
	inner := sseServer(t, "post", 202)
	to, _ := url.Parse(inner.URL)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" {
			http.Redirect(w, r, "/v1/sse/", http.StatusTemporaryRedirect)
			return
		}
		req, _ := http.NewRequestWithContext(r.Context(), r.Method, to.JoinPath(r.URL.Path).String(), r.Body)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		b := make([]byte, 1024)
		for {
			n, err := resp.Body.Read(b)
			w.Write(b[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	l := &journal{}
	s := newSSE(t, srv.URL+"/sse", l, nil)
	if err := s.Send(t.Context(), message("1", "{}")); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "the answer", func() bool {
		for _, f := range l.received {
			if string(f.Body) == "/v1/sse/post {}" {
				return true
			}
		}
		return false
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A server may hold a POST open until the request is done: the sender does not wait for it. When the stream ends, so does everything.
func TestSSEHeldPost(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		end, posted := make(chan struct{}), make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				io.Copy(io.Discard, r.Body)
				close(posted)
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: ?m=a b\n\n")
			w.(http.Flusher).Flush()
			<-end
		}))
		t.Cleanup(srv.Close)
		l := &journal{}
		s := newSSE(t, srv.URL+"/sse", l, &cfg)
		if err := s.Send(t.Context(), message("1", "{}")); err != nil {
			t.Fatal(err)
		}
		<-posted
		close(end)
		l.wait(t, "the end", func() bool { return len(l.closed) == 1 })
		if !errors.Is(l.closed[0], io.EOF) || len(l.exchanges) != 2 {
			t.Errorf("closed with %v after %d exchanges", l.closed[0], len(l.exchanges))
		}
		if err := s.Send(t.Context(), message("2", "{}")); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// FuzzEndpoint: whatever a server names, what is posted to is of the stream's origin, and fits into a request line.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"/messages/?session_id=1", "http://127.0.0.1:10105/x/message?session=1", "//evil.example/m", "?a b", "m\u00e9?\u00e9", "http:opaque", "/a%zz", "\\\\evil\\m", "http://host:80/m", "HTTP://HOST/m", "https://host/m", "http://u:p@host/m#f", "/m\r\nX: y", "..//../m", "http://[::1]/m", ""} {
		f.Add(s)
	}
	base, _ := url.Parse("http://host/mcp/sse?x=1")
	f.Fuzz(func(t *testing.T, s string) {
		to, reason := resolveEndpoint(base, s)
		if reason != "" {
			return
		}
		if origin(to) != origin(base) || to.User != nil || to.Fragment != "" {
			t.Errorf("%q leads to %s", s, to)
		}
		if line := to.RequestURI(); strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || !strings.HasPrefix(line, "/") {
			t.Errorf("%q makes the request line %q", s, line)
		}
		again, reason := resolveEndpoint(base, to.String())
		if reason != "" || again.RequestURI() != to.RequestURI() {
			t.Errorf("%q, as %s, is refused or changed the second time: %s", s, to, reason)
		}
	})
}

// W-E17 with https for real: neither a redirect nor an endpoint leads from https to http, and nothing is sent there.
func TestNothingLeavesHTTPS(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s arrived over http, with Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, plain.URL+"/mcp/", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", plain.URL)
	}))
	t.Cleanup(secure.Close)
	cfg := &HTTPConfig{Client: secure.Client(), Header: http.Header{"Authorization": {"Bearer secret"}}}
	l := &journal{}
	h := newHTTP(t, secure.URL+"/mcp", l, cfg)
	if err := h.Send(t.Context(), message("1", "{}")); err != nil {
		t.Log(err) // what counts is how the exchange ended
	}
	l.wait(t, "the redirect's refusal", func() bool { return len(l.exchanges) == 1 })
	var re *RedirectError
	if err := l.exchanges[0].Err; !errors.As(err, &re) || !strings.Contains(re.Reason, "leaves https") {
		t.Errorf("the redirect: %v", err)
	}
	s := newSSE(t, secure.URL+"/sse", &journal{}, cfg)
	var ee *EndpointError
	if err := s.Send(t.Context(), message("1", "{}")); !errors.As(err, &ee) || !strings.Contains(ee.Reason, "leaves https") {
		t.Errorf("the endpoint: %v", err)
	}
}
