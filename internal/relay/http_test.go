package relay_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// upstream is a scripted server: each request is kept as it came, and answered by a function.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, path, body
	header   []http.Header
	hosts    []string
}

func newUpstream(t *testing.T, tls bool, answer http.HandlerFunc) *upstream {
	u := &upstream{}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		u.mu.Lock()
		u.requests = append(u.requests, req.Method+" "+req.URL.RequestURI()+" "+string(b))
		u.header = append(u.header, req.Header.Clone())
		u.hosts = append(u.hosts, req.Host)
		u.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(b))
		answer(w, req)
	})
	if tls {
		u.Server = httptest.NewTLSServer(h)
	} else {
		u.Server = httptest.NewServer(h)
	}
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) came() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.requests...)
}

// proxied returns the address that an agent gets for the server.
func (r *rig) proxied(u *upstream, path string, header http.Header) string {
	r.t.Helper()
	target, err := url.Parse(u.URL + path)
	if err != nil {
		r.t.Fatal(err)
	}
	s := httptest.NewServer(r.Handler(target, header, u.Client()))
	r.t.Cleanup(s.Close)
	return s.URL + "/agent/secret"
}

// send makes one request as an agent does: nothing is added.
func send(t *testing.T, method, addr, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, addr, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func answerJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// TestHTTPPasses: bodies, statuses and headers pass both ways unchanged, on http and https, and are recorded as a direct client records them.
func TestHTTPPasses(t *testing.T) {
	t.Parallel()
	big := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("y", 16<<20) + `"}}`
	for _, tls := range []bool{false, true} {
		for _, tc := range []struct {
			name, ask, answer string
			status            int
			media             string
			kinds             string
		}{
			{"call", askAdd, sayAdd, 200, "application/json", "mcp.request mcp.response"},
			{"error", askAdd, `{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}`, 400, "application/json", "mcp.request mcp.error"},
			{"notification", initDone, "", 202, "", "mcp.notification mcp.http_exchange"},
			{"error page", askAdd, "<html>", 500, "text/html", "mcp.request mcp.http_exchange"},
			{"no JSON", askAdd, "{broken", 200, "application/json", "mcp.request mcp.malformed"},
			{"broken request", "{broken", `{}`, 400, "application/json", "mcp.malformed mcp.http_exchange"},
			{"batch", "[" + askAdd + "]", "[" + sayAdd + "]", 200, "application/json", "mcp.request mcp.request mcp.response mcp.response"},
			{"no content", askAdd, "", 204, "", "mcp.request mcp.http_exchange"},
			{"16 MiB", `{"jsonrpc":"2.0","id":1,"method":"a"}`, big, 200, "application/json", "mcp.request mcp.response"},
			{"binary", "\x00\xff\n", "\xff\x00\r\n", 200, "application/octet-stream", "mcp.malformed mcp.malformed"},
		} {
			t.Run(fmt.Sprint(tc.name, " tls=", tls), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, relay.Config{})
				u := newUpstream(t, tls, func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["X-Own"] = []string{"a", "b"}
					w.Header().Set("Mcp-Session-Id", "s")
					if tc.media != "" {
						w.Header().Set("Content-Type", tc.media)
					}
					w.WriteHeader(tc.status)
					io.WriteString(w, tc.answer)
				})
				addr := r.proxied(u, "/mcp?key=1", http.Header{"Authorization": {"Bearer kits"}})
				resp, body := send(t, "POST", addr+"?more=2", tc.ask, "Authorization", "Bearer agents", "Accept", "text/event-stream", "Accept-Encoding", "gzip, br", "Connection", "X-Hop", "X-Hop", "1", "Te", "trailers", "X-Agent", "é")
				if resp.StatusCode != tc.status || body != tc.answer || resp.Header.Get("Content-Type") != tc.media || strings.Join(resp.Header["X-Own"], "") != "ab" {
					t.Errorf("the agent got %d, %d bytes, %v", resp.StatusCode, len(body), resp.Header)
				}
				if got, want := u.came(), []string{"POST /mcp?key=1&more=2 " + tc.ask}; !cmp.Equal(got, want) {
					t.Errorf("the server got %.200q", got)
				}
				h := u.header[0]
				want := http.Header{"Authorization": {"Bearer kits"}, "Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "X-Agent": {"é"}, "Content-Type": {"application/json"},
					"User-Agent": {"Go-http-client/1.1"}, "Content-Length": {fmt.Sprint(len(tc.ask))}}
				if diff := cmp.Diff(want, h); diff != "" {
					t.Errorf("the server's headers (-want +got):\n%s", diff)
				}
				if u.hosts[0] != strings.TrimPrefix(strings.TrimPrefix(u.URL, "http://"), "https://") {
					t.Errorf("Host was %s", u.hosts[0])
				}
				checkHTTPEvents(t, r, tc.kinds, tc.ask, tc.answer, u.URL)
			})
		}
	}
}

func checkHTTPEvents(t *testing.T, r *rig, kinds, ask, answer, target string) {
	t.Helper()
	var got []string
	events := r.events()
	for _, ev := range events[1:] { // after the connection's begin
		got = append(got, string(ev.Kind))
		if ev.Frame == nil {
			continue
		}
		if ev.Frame.HTTP == nil || ev.Frame.HTTP.Exchange != 1 || !strings.HasPrefix(ev.Frame.HTTP.URL, target) {
			t.Errorf("%s has HTTP %+v", ev.Kind, ev.Frame.HTTP)
		}
		for _, h := range ev.Frame.HTTP.Header {
			if strings.Contains(h.Value, "kits") || strings.Contains(h.Value, "agents") {
				t.Errorf("the credentials are recorded: %v", h)
			}
		}
	}
	if strings.Join(got, " ") != kinds {
		t.Errorf("events: %v, want %s", got, kinds)
	}
	if string(bytesOf(events, trace.ClientToServer)) != ask || string(bytesOf(events, trace.ServerToClient)) != answer {
		t.Error("the recorded bytes are not those that passed")
	}
	r.Close()
	checkKept(t, r.events())
}

// TestHTTPEvents: each event of a stream reaches the agent as soon as the server has sent it, byte for byte, whatever its line ends.
func TestHTTPEvents(t *testing.T) {
	t.Parallel()
	pieces := []string{
		": hello\n\n",
		"id: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n",
		"data: {\"jsonrpc\":\"2.0\",\r\ndata:\"id\":\"e\",\"method\":\"ping\"}\r\n\r\n",
		"event: odd\rdata: x\r\r",
		"data: " + sayAdd + "\n\n",
		"data: not an ev",
	}
	for _, verb := range []string{"POST", "GET"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			r := newRig(t, relay.Config{})
			u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for _, p := range pieces {
					io.WriteString(w, p)
					w.(http.Flusher).Flush()
					<-next
				}
			})
			body := askAdd
			if verb == "GET" {
				body = ""
			}
			req, _ := http.NewRequestWithContext(t.Context(), verb, r.proxied(u, "/", nil), strings.NewReader(body))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for i, p := range pieces {
				if i == len(pieces)-1 {
					next <- struct{}{} // the beginning of an event passes with the end of the stream
				}
				b := make([]byte, len(p))
				if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != p {
					t.Fatalf("got %q, %v, want %q", b, err, p)
				}
				if i < len(pieces)-1 {
					next <- struct{}{}
				}
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
				t.Errorf("at the end: %q, %v", rest, err)
			}
			var kinds []string
			events := r.events()
			for _, ev := range events {
				if ev.Frame != nil && ev.Frame.Direction == trace.ServerToClient {
					kinds = append(kinds, string(ev.Kind))
				}
			}
			if got, want := strings.Join(kinds, " "), "mcp.http_exchange mcp.progress mcp.request mcp.http_exchange mcp.response mcp.malformed"; got != want {
				t.Errorf("events: %s", got)
			}
			if got := bytesOf(events, trace.ServerToClient); string(got) != strings.Join(pieces, "") {
				t.Errorf("recorded: %q", got)
			}
		})
	}
}

// TestHTTPSessions: connections are told apart by session, GET and DELETE belong to theirs, and the end of a session is the end of its connection.
func TestHTTPSessions(t *testing.T) {
	t.Parallel()
	n := 0
	r := newRig(t, relay.Config{})
	u := newUpstream(t, false, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		switch {
		case strings.Contains(string(b), "initialize\""):
			n++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", n))
			answerJSON(w, 200, sayInit)
		case req.Method == "GET":
			w.WriteHeader(405)
		default:
			answerJSON(w, 200, sayAdd)
		}
	})
	addr := r.proxied(u, "/mcp", nil)
	for i := range 2 {
		resp, _ := send(t, "POST", addr, askInit)
		id := resp.Header.Get("Mcp-Session-Id")
		if id != fmt.Sprint("s", i+1) {
			t.Fatalf("session %s", id)
		}
	}
	for _, id := range []string{"s1", "s2", "s1"} {
		send(t, "GET", addr, "", "Mcp-Session-Id", id)
		send(t, "POST", addr, askAdd, "Mcp-Session-Id", id)
	}
	send(t, "DELETE", addr, "", "Mcp-Session-Id", "s1")
	conns := r.Connections()
	if len(conns) != 2 || conns[0].Calls != 2 || conns[1].Calls != 1 || conns[0].Closed.IsZero() || !conns[1].Closed.IsZero() || conns[0].Protocol == "" {
		t.Errorf("connections: %+v", conns)
	}
	if got := u.header[len(u.header)-1].Get("Mcp-Session-Id"); got != "s1" {
		t.Errorf("DELETE had the session %q", got)
	}
}

// TestHTTPRestricted: over HTTP, too, lists are filtered, in bodies and in events, and forbidden calls never pass; their answers are those of the era.
func TestHTTPRestricted(t *testing.T) {
	t.Parallel()
	filteredList := `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","inputSchema":{}},{"name":"sub","inputSchema":{}}],"nextCursor":"p2"}}`
	r := newRig(t, relay.Config{Allow: only("add", "sub")})
	u := newUpstream(t, false, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		switch {
		case req.Header.Get("X-Gzip") != "":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, sayList)
			z.Close()
		case strings.Contains(string(b), "tools/list") && req.Header.Get("X-Events") != "":
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": c\nid: 7\ndata: "+strings.Replace(sayList, ", ", ",\ndata: ", 1)+"\nretry: 5\n\n")
		case strings.Contains(string(b), "tools/list"):
			answerJSON(w, 200, sayList)
		case b[0] == '[' && req.Header.Get("X-Events") != "":
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+sayAdd+"\n\n")
		case strings.HasPrefix(string(b), "["+initDone):
			w.WriteHeader(202)
		case b[0] == '[':
			answerJSON(w, 200, "["+sayAdd+"]")
		default:
			answerJSON(w, 200, sayAdd)
		}
	})
	addr := r.proxied(u, "/mcp", nil)
	for _, tc := range []struct {
		name, ask, want string
		status          int
		header          []string
	}{
		{"list", askList, filteredList, 200, nil},
		{"list in an event", askList, ": c\nid: 7\ndata: " + filteredList + "\nretry: 5\n\n", 200, []string{"X-Events", "1"}},
		{"allowed", askAdd, sayAdd, 200, nil},
		{"forbidden", askDrop, sayDrop, 200, []string{"Mcp-Protocol-Version", "2025-11-25"}},
		{"forbidden in 2026", askDrop, sayDrop, 400, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "drop"}},
		{"forbidden notification", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"drop"}}`, "", 202, nil},
		{"batch of notifications", `[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"drop"}}]`, "", 202, nil},
		{"batch", "[" + askAdd + "," + askDrop + "]", "[" + sayDrop + "," + sayAdd + "]", 200, nil},
		{"batch, events", "[" + askAdd + "," + askDrop + "]", "event: message\ndata: [" + sayDrop + "]\n\ndata: " + sayAdd + "\n\n", 200, []string{"X-Events", "1"}},
		{"batch, accepted", "[" + initDone + "," + askDrop + "]", "[" + sayDrop + "]", 200, nil},
		{"batch of forbidden", "[" + askDrop + "]", "[" + sayDrop + "]", 200, nil},
	} {
		resp, body := send(t, "POST", addr, tc.ask, tc.header...)
		if body != tc.want || resp.StatusCode != tc.status {
			t.Errorf("%s: got %d %q, want %d %q", tc.name, resp.StatusCode, body, tc.status, tc.want)
		}
	}
	before := len(u.came())
	for name, header := range map[string][]string{
		"another name in the header":   {"Mcp-Method", "tools/call", "Mcp-Name", "drop"},
		"two names in headers":         {"Mcp-Name", "add", "Mcp-Name", "drop"},
		"another name, in base64":      {"Mcp-Name", "=?base64?ZHJvcA==?="},
		"compressed":                   {"Content-Encoding", "gzip"},
		"another charset":              {"Content-Type", "application/json; charset=utf-7"},
		"a Content-Type that is none":  {"Content-Type", "application/json; charset="},
		"more than one Content-Type":   {"Content-Type", "application/json", "Content-Type", "text/plain"},
		"the method in the other case": {"mcp-name", "DROP"},
	} {
		if resp, body := send(t, "POST", addr, askAdd, header...); !strings.Contains(body, "-32602") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	for name, req := range map[string][2]string{
		"broken JSON":            {"POST", `{"method":"tools/call","params":{"name":"drop"},}`},
		"a body of GET":          {"GET", askDrop},
		"a body of PUT":          {"PUT", askDrop},
		"text before":            {"POST", "x" + askDrop},
		"UTF-16":                 {"POST", "\xff\xfe{\x00}\x00"},
		"a call hidden in a GET": {"GET", "[" + askDrop + "]"},
	} {
		send(t, req[0], addr, req[1])
		_ = name
	}
	send(t, "POST", addr, initDone, "Mcp-Method", "tools/call", "Mcp-Name", "drop")
	if got := u.came(); len(got) != before {
		t.Errorf("these came through: %q", got[before:])
	}
	for _, req := range u.came() {
		if strings.Contains(req, "drop") {
			t.Errorf("the server got %s", req)
		}
	}
	if resp, body := send(t, "POST", addr, askList, "X-Gzip", "1"); resp.StatusCode != 502 || !strings.Contains(body, "Content-Encoding gzip") {
		t.Errorf("a list that cannot be read: %d %q", resp.StatusCode, body)
	}
	if resp, body := send(t, "POST", addr, askAdd, "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?YWRk?=", "Content-Type", `application/json; charset="UTF-8"`); body != sayAdd {
		t.Errorf("a call with right headers: %d %q", resp.StatusCode, body)
	}
	denied := of(r.events(), trace.KindMCPPolicyDenied)
	if c := of(r.events(), trace.KindMCPFiltered); len(c) != 2 || len(denied) < 10 {
		t.Errorf("%d filtered and %d refused were recorded", len(c), len(denied))
	}
}

// TestHTTPFails: the agent gets one clear answer when the server gives none, and the trace the reason.
func TestHTTPFails(t *testing.T) {
	t.Parallel()
	failed := func(t *testing.T, r *rig, word string) {
		t.Helper()
		ev := of(r.events(), trace.KindMCPCallFailed)
		if len(ev) != 1 || !strings.Contains(string(ev[0].Payload), word) || ev[0].RPCID != "3" || ev[0].Method != "tools/call" {
			t.Errorf("call_failed: %v", ev)
		}
	}
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, relay.Config{})
		u := newUpstream(t, false, nil)
		addr := r.proxied(u, "/", nil)
		u.Close()
		if resp, body := send(t, "POST", addr, askAdd); resp.StatusCode != 502 || !strings.Contains(body, "refused") {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		failed(t, r, "transport_error")
	})
	t.Run("redirects", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, relay.Config{})
		u := newUpstream(t, false, func(w http.ResponseWriter, req *http.Request) {
			switch req.URL.Path {
			case "/near":
				http.Redirect(w, req, "/there", http.StatusTemporaryRedirect)
			case "/there":
				answerJSON(w, 200, sayAdd)
			case "/round":
				http.Redirect(w, req, "/round", http.StatusPermanentRedirect)
			case "/far":
				http.Redirect(w, req, "http://198.51.100.1/mcp", http.StatusTemporaryRedirect)
			default:
				http.Redirect(w, req, "/there", http.StatusFound)
			}
		})
		if _, body := send(t, "POST", r.proxied(u, "/near", nil), askAdd); body != sayAdd {
			t.Errorf("within the origin: %s", body)
		}
		for path, want := range map[string]string{"/round": "too often", "/far": "198.51.100.1", "/login": "past m3"} {
			if resp, body := send(t, "POST", r.proxied(u, path, nil), askAdd); resp.StatusCode != 502 || !strings.Contains(body, want) || resp.Header.Get("Location") != "" {
				t.Errorf("%s: %d %q", path, resp.StatusCode, body)
			}
		}
	})
	for _, media := range []string{"application/json", "text/event-stream"} {
		t.Run("cut "+media, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, relay.Config{})
			u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				w.Header().Set("Content-Length", "1000")
				io.WriteString(w, "data: {")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			resp, err := http.Post(r.proxied(u, "/", nil), "application/json", strings.NewReader(askAdd))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err == nil || string(b) != "data: {" {
				t.Errorf("the agent got %q, %v, and does not see that it was cut", b, err)
			}
			failed(t, r, "cut off")
		})
	}
	t.Run("agent goes", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		r := newRig(t, relay.Config{})
		u := newUpstream(t, false, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done(); close(gone) })
		c, err := net.Dial("tcp", strings.Split(strings.TrimPrefix(r.proxied(u, "/", nil), "http://"), "/")[0])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(askAdd), askAdd)
		for len(u.came()) == 0 {
			time.Sleep(time.Millisecond)
		}
		c.Close()
		<-gone
		for len(of(r.events(), trace.KindMCPCallFailed)) == 0 {
			time.Sleep(time.Millisecond)
		}
		failed(t, r, "cancelled")
	})
	t.Run("relay closes", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, relay.Config{})
		u := newUpstream(t, false, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		})
		addr := r.proxied(u, "/", nil)
		resp, err := http.Get(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := bufio.NewReader(resp.Body).ReadByte(); err == nil {
			t.Error("the stream goes on")
		}
		if resp, _ := send(t, "GET", addr, ""); resp.StatusCode != 503 {
			t.Errorf("a closed relay answers %d", resp.StatusCode)
		}
	})
}

// TestHTTPOverCap: a body over the cap passes; its beginning is kept.
func TestHTTPOverCap(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{MaxFrame: 1000})
	long := strings.Repeat("z", 100_000)
	u := newUpstream(t, false, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Events") != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+long+"\n\ndata: 1\n\n")
			return
		}
		io.Copy(w, req.Body)
	})
	addr := r.proxied(u, "/", nil)
	if _, body := send(t, "POST", addr, long); body != long {
		t.Errorf("%d bytes came back", len(body))
	}
	if _, body := send(t, "POST", addr, initDone, "X-Events", "1"); body != "data: "+long+"\n\ndata: 1\n\n" {
		t.Errorf("%d bytes of events came", len(body))
	}
	for _, ev := range of(r.events(), trace.KindMCPMalformed)[:3] {
		if len(ev.Frame.Bytes) != 1000 && ev.Frame.Dropped < 99_000 {
			t.Errorf("kept %d, dropped %d", len(ev.Frame.Bytes), ev.Frame.Dropped)
		}
	}
}
