package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// legacyHTTP is a legacy server that answers server/discover by refuse, and GET by get (nil: 405).
func legacyHTTP(refuse func(w http.ResponseWriter, id json.RawMessage), get http.HandlerFunc, posted func(m *message)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && get != nil {
			get(w, r)
			return
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m message
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &m)
		if posted != nil {
			posted(&m)
		}
		switch {
		case m.Method == "server/discover":
			refuse(w, m.ID)
		case m.Method == "initialize":
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},%s}}`, m.ID, serverInfo)
		case m.ID == nil || m.Method == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		}
	})
}

func answerJSON(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, format, args...)
}

// The body of a 400 decides about the era; every other refusal falls back to initialize.
func TestProbeOverHTTP(t *testing.T) {
	t.Parallel()
	object := func(status int, body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			answerJSON(w, status, "%s", strings.ReplaceAll(body, "ID", string(id)))
		}
	}
	plain := func(status int, body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, _ json.RawMessage) { http.Error(w, body, status) }
	}
	for _, tc := range []struct {
		name   string
		refuse func(http.ResponseWriter, json.RawMessage)
		dials  int
		words  []string // of the error; none: it must connect
	}{
		{"modern error", object(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}`), 1, nil},
		{"modern error, null id", object(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}`), 1, nil},
		{"other error", object(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32600,"message":"initialize first"}}`), 1, nil},
		{"unknown method", object(404, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`), 1, nil},
		{"plain 400", plain(400, "Bad Request: Unsupported protocol version"), 2, nil},
		{"plain 404", plain(404, "no session"), 2, nil},
		{"plain 500", plain(500, "panic"), 2, nil},
		{"empty 200", func(http.ResponseWriter, json.RawMessage) {}, 2, nil},
		{"no common version", object(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}}`), 1, []string{"2026-07-28", "2099-01-01"}},
		{"missing capability", object(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32021,"message":"sampling wanted"}}`), 1, []string{"-32021", "sampling wanted"}},
		{"unauthorized", plain(401, "token please"), 1, []string{"server/discover", "401 Unauthorized"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cfg := r.http(legacyHTTP(tc.refuse, nil, nil))
			if tc.words != nil {
				r.refused(cfg, tc.words...)
			} else if s := r.connect(cfg); s.Protocol() != Version20251125 {
				t.Errorf("protocol %s", s.Protocol())
			}
			if r.dialed() != tc.dials {
				t.Errorf("%d dials, want %d", r.dialed(), tc.dials)
			}
		})
	}
}

// A modern pin on a legacy server names both versions, however the server refuses, and keeps the cause.
func TestModernPinOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.http(legacyHTTP(func(w http.ResponseWriter, _ json.RawMessage) { http.Error(w, "Unsupported protocol version", 400) }, nil, nil))
	cfg.Protocol = Version20260728
	ce := r.refused(cfg, "2026-07-28", "2025-11-25", "HTTP 400", "Unsupported protocol version")
	var call *rpc.CallError
	if !errors.Is(ce, ErrVersion) || !errors.As(ce, &call) || call.HTTP.Status != 400 {
		t.Errorf("cause %v", ce.Err)
	}
	if slices.Contains(r.sent(), "notifications/initialized") {
		t.Error("a session was begun in a version that nobody asked for")
	}
}

// Where nothing listens there is one try and one reason.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	r := newRig(t)
	n := 0
	ce := r.refused(&Config{Tape: r.tape, Dial: func(_ context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
		n++
		t, err := wire.NewHTTP(url, h, nil)
		return "c", t, err
	}}, "connection refused")
	if n != 1 || strings.Count(ce.Error(), "refused") != 1 || strings.Contains(ce.Error(), "before that") {
		t.Errorf("%d tries: %v", n, ce)
	}
	for _, f := range r.tape.Findings() { // nothing is known of the server's wire
		t.Errorf("finding %s: %s", f.Code, f.Message)
	}
}

// A dial function that refuses the address is asked once, and its error is the one that is told.
func TestDialRefusesAddress(t *testing.T) {
	t.Parallel()
	refusal := errors.New("m3: server at 10.0.0.1: the host resolves to a private address")
	for _, pin := range []string{"", Version20251125, Version20260728} {
		r := newRig(t)
		n := 0
		ce := r.refused(&Config{Tape: r.tape, Protocol: pin, Dial: func(_ context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
			t, err := wire.NewHTTP("http://10.0.0.1:1/", h, &wire.HTTPConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
				n++
				return nil, refusal
			}})
			return "c", t, err
		}}, "private address")
		if n != 1 || strings.Count(ce.Error(), "private address") != 1 || strings.Contains(ce.Error(), "m3:") || !errors.Is(ce, refusal) {
			t.Errorf("pin %q: %d dials: %v", pin, n, ce)
		}
		for _, f := range r.tape.Findings() {
			t.Errorf("pin %q: finding %s: %s", pin, f.Code, f.Message)
		}
	}
}

// W-H02: a legacy server may send its requests on the GET stream, so it is there as soon as something was declared that may be asked for.
func TestGetStream(t *testing.T) {
	t.Parallel()
	answered := make(chan string, 1)
	get := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"g\",\"method\":\"roots/list\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	r := newRig(t)
	cfg := r.http(legacyHTTP(nil, get, func(m *message) {
		if string(m.ID) == `"g"` {
			answered <- string(m.Result)
		}
	}))
	cfg.Protocol, cfg.Capabilities = Version20251125, Capabilities{Roots: true}
	cfg.Request = func(context.Context, string, trace.JSON) (any, *rpc.ErrorObject, bool) {
		return map[string]any{"roots": []any{}}, nil, true
	}
	r.connect(cfg)
	select {
	case got := <-answered:
		if got != `{"roots":[]}` {
			t.Errorf("answered %s", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request on the GET stream was not answered")
	}
}

// Many servers drop a request for which there is no GET stream yet. So a session begins when the stream is there, or a quarter of a second later.
func TestSessionBeginsWithItsGetStream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answers bool
	}{{"slow to answer", true}, {"no headers before the first event", false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var open atomic.Bool
			r := newRig(t)
			cfg := r.http(legacyHTTP(nil, func(w http.ResponseWriter, r *http.Request) {
				if tc.answers {
					time.Sleep(100 * time.Millisecond) // the server's own slowness
					open.Store(true)
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}, nil))
			cfg.Protocol, cfg.Capabilities = Version20251125, Capabilities{Roots: true}
			began := time.Now()
			r.connect(cfg)
			if open.Load() != tc.answers {
				t.Error("the session began before its GET stream was there")
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestNoGetStreamUndeclared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	gets := 0
	cfg := r.http(legacyHTTP(nil, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		gets++
		w.WriteHeader(http.StatusMethodNotAllowed)
	}, nil))
	cfg.Protocol = Version20251125
	s := r.connect(cfg)
	if _, err := s.Do(t.Context(), &Op{Method: "ping", Header: http.Header{"X-Test": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	mu.Lock()
	defer mu.Unlock()
	if gets != 0 {
		t.Errorf("%d GET requests though nothing was declared", gets)
	}
}
