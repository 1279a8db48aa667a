package m3_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
)

type echoArgs struct {
	Text string `json:"text"`
}

// sdkServer is a small server of the official SDK.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, echoArgs, error) {
		return nil, in, nil
	})
	return s
}

// sdkHandler serves it over streamable HTTP, under whatever name it is reached. The newest protocol needs a stateless one.
func sdkHandler(stateless bool) http.Handler {
	s := sdkServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless, DisableLocalhostProtection: true})
}

// loopback serves a handler on a port of 127.0.0.1 for as long as the test runs.
func loopback(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// A loopback URL is trusted without a word, by whatever name, and with whatever trust is stated (decision 16).
func TestLoopbackIsTrusted(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(loopback(t, sdkHandler(false)).Listener.Addr().String())
	kit := newKit(t, m3.Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]"} {
		for _, trust := range []m3.Trust{m3.Untrusted, m3.TrustedPublic, m3.TrustedPrivate} {
			client := connect(t, kit, m3.HTTPServer{URL: "http://" + host + ":" + port + "/", Trust: trust}, old())
			r, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "hi"}, nil)
			if err != nil || !strings.Contains(r.Text(), "hi") {
				t.Errorf("%s, trust %q: %v, %v", host, trust, r, err)
			}
		}
	}
}

// A host that resolves to an address that is not public is refused, before a byte is sent; the text tells the fix and nothing of the URL but the
// host.
func TestPrivateAddressesNeedTrust(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	for _, host := range []string{"10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "[fd00::1]", "[fe80::1]", "[::]", "[::ffff:10.0.0.1]"} {
		for _, trust := range []m3.Trust{m3.Untrusted, "untrusted", m3.TrustedPublic} {
			_, err := kit.Direct(t.Context(), m3.HTTPServer{Name: "far", URL: "http://" + host + ":9/hidden?q=hidden", Trust: trust}, nil)
			e := wantError[*m3.EndpointTrustError](t, err, "endpoint_trust", "m3.TrustedPrivate")
			if strings.Contains(err.Error(), "hidden") || e.Details["host"] != strings.Trim(host, "[]") || len(e.Details) != 1 {
				t.Errorf("%s: %v, details %v", host, err, e.Details)
			}
		}
	}
}

// TrustedPrivate allows them. 0.0.0.0 reaches this machine.
func TestTrustedPrivate(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(loopback(t, sdkHandler(false)).Listener.Addr().String())
	client := connect(t, newKit(t, m3.Config{}), m3.HTTPServer{URL: "http://0.0.0.0:" + port + "/", Trust: m3.TrustedPrivate}, old())
	if client.Initialization().ServerName != "sdk" {
		t.Errorf("%+v", client.Initialization())
	}
}

// A dead URL is one clear error, and the URL is shown and stored without its query.
func TestDeadURL(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	kit := newKit(t, m3.Config{})
	_, err = kit.Direct(t.Context(), m3.HTTPServer{Name: "dead", URL: "http://" + ln.Addr().String() + "/mcp?tenant=quiet-shop"}, nil)
	wantError[*m3.TransportError](t, err, "transport_error", "refused")
	all, err := kit.Store().Executions(t.Context(), nil)
	if err != nil || len(all) != 1 || !strings.Contains(string(all[0].Spec), ln.Addr().String()+"/mcp\"") || strings.Contains(string(all[0].Spec), "quiet-shop") {
		t.Errorf("%+v, %v", all, err)
	}
}

// A redirect within the origin is followed whole; one to another origin is refused, and that origin is never asked, let alone with a credential.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := loopback(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	var mu sync.Mutex
	tokens := map[string]string{}
	inner := sdkHandler(false)
	srv := loopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tokens[r.URL.Path] = r.Header.Get("Authorization")
		mu.Unlock()
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, r, other.URL+"/new", http.StatusTemporaryRedirect)
		case "/found":
			http.Redirect(w, r, "/new", http.StatusFound)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	kit := newKit(t, m3.Config{})
	at := func(path string) m3.HTTPServer {
		return m3.HTTPServer{Name: "moved", URL: srv.URL + path, Secrets: map[string]m3.SecretRef{"Authorization": m3.BearerFromEnv(secretName)}}
	}
	client := connect(t, kit, at("/old"), old())
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "hi"}, nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	for _, path := range []string{"/old", "/new"} {
		if tokens[path] != "Bearer "+secretValue {
			t.Errorf("%s was sent %q", path, tokens[path])
		}
	}
	mu.Unlock()
	_, err := kit.Direct(t.Context(), at("/away"), old())
	wantError[*m3.TransportError](t, err, "transport_error", "another origin")
	_, err = kit.Direct(t.Context(), at("/found"), old())
	wantError[*m3.TransportError](t, err, "transport_error", "307")
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("the other origin was asked %d times", n)
	}
}

// Headers go out with every request, a secret before a plain one of the same name.
func TestHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	inner := sdkHandler(false)
	srv := loopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Header.Get("X-Tenant")+" "+r.Header.Get("X-Key"))
		mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	client := connect(t, newKit(t, m3.Config{}), m3.HTTPServer{URL: srv.URL, Headers: map[string]string{"X-Tenant": "shop", "X-Key": "plain"},
		Secrets: map[string]m3.SecretRef{"X-Key": m3.EnvSecret(secretName)}}, old())
	if _, err := client.CallTool(t.Context(), "echo", m3.Args{"text": "hi"}, nil); err != nil {
		t.Fatal(err)
	}
	text, err := finish(t, client).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 3 {
		t.Errorf("%d requests", len(seen))
	}
	for _, s := range seen {
		if !strings.HasSuffix(s, " shop "+secretValue) {
			t.Errorf("a request was %q", s)
		}
	}
	if strings.Contains(string(text), secretValue) {
		t.Error("the secret was kept")
	}
}

// The error of an HTTP server that does not answer names the deadline, and its credential in the URL's place is nowhere.
func TestHTTPServerThatIsSilent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := loopback(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(func() { close(release) })
	u, _ := url.Parse(srv.URL)
	_, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HTTPServer{Name: "quiet", URL: u.String()}, &m3.DirectOptions{Protocol: legacy5, StartTimeout: 50 * time.Millisecond})
	wantError[*m3.TimeoutError](t, err, "timeout", "did not finish the handshake within 50ms")
}
