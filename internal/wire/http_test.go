package wire

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newHTTP returns a transport to url, closed when the test ends.
func newHTTP(t *testing.T, url string, l *journal, cfg *HTTPConfig) *HTTP {
	t.Helper()
	h, err := NewHTTP(url, l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// carriers runs a test over both ways that bytes can go.
func carriers(t *testing.T, test func(t *testing.T, cfg HTTPConfig)) {
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		test(t, HTTPConfig{})
	})
	t.Run("net/http", func(t *testing.T) {
		t.Parallel()
		tr := &http.Transport{DisableCompression: true}
		t.Cleanup(tr.CloseIdleConnections)
		test(t, HTTPConfig{Client: &http.Client{Transport: tr}})
	})
}

func TestNewHTTPRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url    string
		header http.Header
		want   string
	}{
		{"ftp://x/", nil, "http:// or https://"},
		{"http://", nil, "no host"},
		{"http://user:secret@ho st/", nil, "no URL"},
		{"http://x/", http.Header{"X-A": {"secret\n"}}, "X-A"},
		{"http://x/", http.Header{"X A": {"b"}}, "header name"},
	} {
		_, err := NewHTTP(c.url, &journal{}, &HTTPConfig{Header: c.header})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

func TestHTTPHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		h := r.Header.Clone()
		h.Set("Host", r.Host)
		got = append(got, h)
		w.Header().Set("X-Reply", "secret")
		w.WriteHeader(202)
	}))
	t.Cleanup(srv.Close)
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		cfg.Header = http.Header{"x-key": {"secret"}, "User-Agent": {"mine"}, "Accept-Encoding": nil, "Host": {"other.example"}}
		cfg.Redact = func(name, value string) string {
			if name == "X-Key" || name == "X-Reply" || name == "Authorization" {
				return "[redacted]"
			}
			return value
		}
		h := newHTTP(t, strings.Replace(srv.URL, "http://", "http://u:pw@", 1)+"/mcp?x=1", l, &cfg)
		h.SetProtocol("2026-07-28")
		m := message("", "{}")
		m.Name, m.Header = "天気", http.Header{"Mcp-Param-A": {"b"}}
		if err := h.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		g := got[len(got)-1]
		mu.Unlock()
		for name, want := range map[string]string{
			"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "User-Agent": "mine", "Host": "other.example",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?5aSp5rCX?=", "Mcp-Param-A": "b",
			"X-Key": "secret", "Authorization": "Basic dTpwdw==", "Content-Length": "2",
		} {
			if g.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, g.Get(name), want)
			}
		}
		l.wait(t, "the end", func() bool { return len(l.exchanges) == 1 })
		all := fmt.Sprint(*l.sent[0].HTTP, *l.exchanges[0].HTTP)
		if strings.Contains(all, "secret") || strings.Contains(all, "pw") || !strings.Contains(all, "{X-Key [redacted]}") || !strings.Contains(all, "{X-Reply [redacted]}") {
			t.Errorf("recorded %s", all)
		}
		bad := message("", "{}")
		bad.Header = http.Header{"A": {"x\r\nB: y"}}
		if err := h.Send(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "control character") {
			t.Error(err)
		}
	})
}

func TestHeaderValue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"echo": "echo", "two words": "two words", " edge": "=?base64?IGVkZ2U=?=", "": "=?base64??=", "a\nb": "=?base64?YQpi?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		if got := HeaderValue(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// answer writes a JSON answer to whatever was asked.
func answerTo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"echo":%d}`, len(b))
}

// 64 calls at once need at most 64 connections, and later calls none.
func TestHTTPConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(answerTo))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	l := &journal{}
	h := newHTTP(t, srv.URL, l, nil)
	for range 5 {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if err := h.Send(t.Context(), message("1", "{}")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := conns.Load(); n > 64 {
		t.Errorf("%d connections", n)
	}
	if len(l.received) != 320 || len(l.exchanges) != 320 {
		t.Errorf("%d frames, %d exchanges", len(l.received), len(l.exchanges))
	}
	if st := h.Stats(); st.BytesRead != 320*10 || st.BytesHanded != st.BytesRead || st.BytesWritten != 320*2 {
		t.Errorf("%+v", st)
	}
}

// A server that closes idle connections is not met with a dead one.
func TestHTTPStaleConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(answerTo))
	t.Cleanup(srv.Close)
	l := &journal{}
	h := newHTTP(t, srv.URL, l, nil)
	for range 3 {
		if err := h.Send(t.Context(), message("1", "{}")); err != nil {
			t.Fatal(err)
		}
		srv.CloseClientConnections()
	}
	if len(l.received) != 3 {
		t.Errorf("%d answers", len(l.received))
	}
}

func TestHTTPLargeBodies(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusRequestEntityTooLarge) // without reading
			return
		}
		io.Copy(w, r.Body)
	}))
	t.Cleanup(srv.Close)
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		h := newHTTP(t, srv.URL, l, &cfg)
		if err := h.Send(t.Context(), message("1", big)); err != nil {
			t.Fatal(err)
		}
		l.wait(t, "the echo", func() bool { return len(l.exchanges) == 1 })
		if len(l.received) != 1 || string(l.received[0].Body) != big {
			t.Errorf("%d frames", len(l.received))
		}
		refusing := &journal{}
		h = newHTTP(t, srv.URL+"/refuse", refusing, &cfg)
		_ = h.Send(t.Context(), message("1", strings.Repeat("x", 8<<20)))
		refusing.wait(t, "the refusal", func() bool { return len(refusing.exchanges) == 1 })
		if x := refusing.exchanges[0]; x.HTTP.Status != 413 && x.Err == nil {
			t.Errorf("%+v", x)
		}
	})
}

// A content encoding that was asked for is undone; the frame keeps the bytes as they came.
func TestHTTPGzip(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"a":1}`)
		z.Close()
	}))
	t.Cleanup(srv.Close)
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		cfg.Header = http.Header{"Accept-Encoding": {"gzip"}}
		h := newHTTP(t, srv.URL, l, &cfg)
		if err := h.Send(t.Context(), message("1", "{}")); err != nil {
			t.Fatal(err)
		}
		l.wait(t, "the end", func() bool { return len(l.exchanges) == 1 })
		if f := l.received[0]; string(f.Body) != `{"a":1}` || f.Raw[0] != 0x1f || f.Err != nil {
			t.Errorf("%q %q %v", f.Raw, f.Body, f.Err)
		}
	})
}

func TestHTTPMaxFrame(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s%s\n\n: x\n\n", strings.Repeat("x", 100000), `"id":7}`)
			return
		}
		io.WriteString(w, strings.Repeat("x", 100000)+`"id":7}`)
	}))
	t.Cleanup(srv.Close)
	for path, total := range map[string]int{"/json": 100007, "/sse": 100015} {
		l := &journal{}
		h := newHTTP(t, srv.URL+path, l, &HTTPConfig{MaxFrame: 1000})
		if err := h.Send(t.Context(), message("1", "{}")); err != nil {
			t.Fatal(err)
		}
		f := l.received[0]
		if len(f.Raw) != 1000 || f.Dropped != int64(total-1000) {
			t.Errorf("%s: kept %d, dropped %d", path, len(f.Raw), f.Dropped)
		}
	}
}

func TestHTTPUnreachable(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		h := newHTTP(t, "http://"+dead.Addr().String(), l, &cfg)
		err := h.Send(t.Context(), message("1", "{}"))
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v", err)
		}
		var de, told *DialError
		var we *WriteError
		if !errors.As(err, &de) || errors.As(err, &we) || strings.Contains(err.Error(), "bytes sent") {
			t.Errorf("%T %v: nothing was to be written on a connection that never was", err, err)
		}
		if len(l.sent) != 1 || len(l.exchanges) != 1 || !errors.As(l.exchanges[0].Err, &told) {
			t.Errorf("%d sent, %+v", len(l.sent), l.exchanges)
		}
	})
}

// A dial function that refuses an address is told once, in its own words.
func TestHTTPDialRefuses(t *testing.T) {
	t.Parallel()
	refusal := errors.New("m3: server at h.example: not that one")
	for _, url := range []string{"http://h.example/mcp", "https://h.example/mcp"} {
		l := &journal{}
		cfg := HTTPConfig{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, refusal }}
		h := newHTTP(t, url, l, &cfg)
		err := h.Send(t.Context(), message("1", "{}"))
		var de *DialError
		if !errors.As(err, &de) || !errors.Is(err, refusal) || err.Error() != "server at h.example: not that one" {
			t.Errorf("%s: %T %v", url, err, err)
		}
	}
}

// hang is a server that answers nothing until it is released, or sends headers first.
func hang(t *testing.T) (url string) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); srv.Close() })
	return srv.URL
}

func TestHTTPAbortAndClose(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/silent", "/stream"} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			carriers(t, func(t *testing.T, cfg HTTPConfig) {
				url := hang(t) + path
				l := &journal{}
				h := newHTTP(t, url, l, &cfg)
				ended := make(chan error, 2)
				for _, id := range []string{"1", "2"} {
					m := message(id, "{}")
					m.Call = answeredCall(false)
					go func() { ended <- h.Send(t.Context(), m) }()
				}
				l.wait(t, "both requests", func() bool { return len(l.sent) == 2 && (path == "/silent" || len(l.received) == 2) })
				h.Abort("1")
				l.wait(t, "the abort", func() bool { return len(l.exchanges) == 1 })
				if x := l.exchanges[0]; x.For != "1" || !errors.Is(x.Err, ErrAborted) {
					t.Errorf("%+v", x)
				}
				began := time.Now()
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > 900*time.Millisecond {
					t.Errorf("Close took %v", d)
				}
				<-ended
				<-ended
				if x := l.exchanges[1]; len(l.exchanges) != 2 || !errors.Is(x.Err, ErrClosed) || len(l.closed) != 1 {
					t.Errorf("%+v, closed %v", l.exchanges, l.closed)
				}
				if err := h.Send(t.Context(), message("3", "{}")); !errors.Is(err, ErrClosed) {
					t.Errorf("send after Close: %v", err)
				}
			})
		})
	}
}

// The sender goes when its context ends, or when it has its answer; the exchange goes on.
func TestHTTPSenderGoes(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		url := hang(t)
		l := &journal{}
		h := newHTTP(t, url+"/silent", l, &cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var we *WriteError
		if err := h.Send(ctx, message("1", "{}")); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &we) {
			t.Errorf("%v", err)
		}
		if len(l.exchanges) != 0 {
			t.Errorf("the exchange ended: %+v", l.exchanges)
		}
		answered := &journal{}
		s := newHTTP(t, url+"/stream", answered, &cfg)
		m := message("1", "{}")
		m.Call = answeredCall(true)
		if err := s.Send(t.Context(), m); err != nil {
			t.Error(err)
		}
		answered.wait(t, "the answer", func() bool { return len(answered.received) == 1 })
	})
}

// A deaf server takes nothing of a large body. The sender's context bounds that too.
func TestHTTPDeafServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		var kept []net.Conn
		for {
			c, err := ln.Accept()
			if err != nil {
				break
			}
			kept = append(kept, c)
		}
		for _, c := range kept {
			c.Close()
		}
	}()
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		h := newHTTP(t, "http://"+ln.Addr().String(), &journal{}, &cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var we *WriteError
		if err := h.Send(ctx, message("1", strings.Repeat("x", 32<<20))); !errors.As(err, &we) || !errors.Is(err, context.DeadlineExceeded) || we.Broken {
			t.Errorf("%v", err)
		}
	})
}

// A DELETE that is not answered does not hold up Close.
func TestHTTPDelete(t *testing.T) {
	t.Parallel()
	var deleted atomic.Bool
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted.Store(r.Header.Get("Mcp-Session-Id") == "s1")
			<-release
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		answerTo(w, r)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		h := newHTTP(t, srv.URL, l, &cfg)
		m := message("1", "{}")
		m.Method = "initialize"
		if err := h.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		l.wait(t, "initialize", func() bool { return len(l.exchanges) == 1 })
		began := time.Now()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second || !deleted.Load() {
			t.Errorf("Close took %v, deleted %v", d, deleted.Load())
		}
	})
}

// https goes over net/http; certificates are checked.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(answerTo))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that must fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	l := &journal{}
	h := newHTTP(t, srv.URL, l, &HTTPConfig{Client: srv.Client()})
	if err := h.Send(t.Context(), message("1", "{}")); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "the answer", func() bool { return len(l.received) == 1 })
	other := newHTTP(t, srv.URL, &journal{}, nil)
	if err := other.Send(t.Context(), message("1", "{}")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
}

// A redirect out of https is refused, and nothing is sent there.
func TestHTTPSDowngrade(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(plain.Close)
	srv := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/mcp/", http.StatusTemporaryRedirect))
	t.Cleanup(srv.Close)
	l := &journal{}
	h := newHTTP(t, srv.URL, l, &HTTPConfig{Client: srv.Client(), Header: http.Header{"Authorization": {"Bearer x"}}})
	_ = h.Send(t.Context(), message("1", "{}"))
	l.wait(t, "the end", func() bool { return len(l.exchanges) == 1 })
	var re *RedirectError
	if err := l.exchanges[0].Err; !errors.As(err, &re) || !strings.Contains(err.Error(), srv.URL) || !strings.Contains(err.Error(), plain.URL) || !strings.Contains(err.Error(), "https") {
		t.Errorf("%v", err)
	}
	if asked.Load() {
		t.Error("the redirect was followed")
	}
}

func TestHTTPRedirectLoop(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(srv.Close)
	carriers(t, func(t *testing.T, cfg HTTPConfig) {
		l := &journal{}
		h := newHTTP(t, srv.URL, l, &cfg)
		_ = h.Send(t.Context(), message("1", "{}"))
		l.wait(t, "the end", func() bool { return len(l.exchanges) == maxRedirects+1 })
		if x := l.exchanges[maxRedirects]; x.Continues || x.Err == nil {
			t.Errorf("%+v", x)
		}
	})
}

// The GET stream is not asked for again and again when it brings nothing.
func TestHTTPGetStreamGivesUp(t *testing.T) {
	t.Parallel()
	var gets atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gets.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
	}))
	t.Cleanup(srv.Close)
	l := &journal{}
	h := newHTTP(t, srv.URL, l, nil)
	h.OpenStream()
	h.OpenStream()
	l.wait(t, "the end", func() bool { return len(l.exchanges) == maxTries && !l.exchanges[maxTries-1].Continues })
	if n := gets.Load(); n != maxTries {
		t.Errorf("%d GETs", n)
	}
	modern := newHTTP(t, srv.URL, &journal{}, nil)
	modern.SetProtocol("2026-07-28")
	modern.OpenStream()
	if err := modern.Close(); err != nil || gets.Load() != maxTries {
		t.Errorf("%v, %d GETs", err, gets.Load())
	}
}
