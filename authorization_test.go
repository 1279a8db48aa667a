package m3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
)

// protected is a server behind OAuth, as far as a client without a token sees it. docs are its documents by path; BASE in them is its origin.
type protected struct {
	challenge string
	docs      map[string]string
	status    int // of POST; 0 is 401
	getStatus int

	mu    sync.Mutex
	asked []string // paths but /mcp
	leaks []string // paths that got a credential and are not /mcp
	posts int
}

func (p *protected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	base := "http://" + r.Host
	if r.URL.Path != "/mcp" {
		p.asked = append(p.asked, r.URL.Path)
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" || r.Header.Get("Cookie") != "" {
			p.leaks = append(p.leaks, r.URL.Path)
		}
		if doc, ok := p.docs[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.ReplaceAll(doc, "BASE", base))
			return
		}
		http.NotFound(w, r)
		return
	}
	p.posts++
	switch {
	case r.Method == http.MethodGet && p.getStatus != 0:
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(p.getStatus)
	case p.status == http.StatusOK:
		body, _ := io.ReadAll(r.Body)
		reply := strictReply(body)
		if reply == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, reply)
	default:
		if p.challenge != "" {
			w.Header().Set("WWW-Authenticate", strings.ReplaceAll(p.challenge, "BASE", base))
		}
		w.WriteHeader(max(p.status, 401))
	}
}

const (
	asDoc  = `{"issuer":"BASE/login","authorization_endpoint":"BASE/authorize","token_endpoint":"BASE/token","code_challenge_methods_supported":["S256"]}`
	prmDoc = `{"resource":"BASE/mcp","authorization_servers":["BASE/login"],"scopes_supported":["read"]}`
)

// A 401 shows the whole chain that the server offers, and what is wrong with it: cases G01, G02, G04, G05 of the public reports, and their repaired twin.
func TestAuthorizationChain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		challenge string
		docs      map[string]string
		steps     []string // status and path
		findings  []string
	}{
		{"whole", `Bearer realm="x", resource_metadata="BASE/.well-known/oauth-protected-resource/mcp", scope="read write"`,
			map[string]string{"/.well-known/oauth-protected-resource/mcp": prmDoc, "/.well-known/oauth-authorization-server/login": asDoc},
			[]string{"401 /mcp", "200 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource", "200 /.well-known/oauth-authorization-server/login"},
			[]string{}},
		{"G01 no challenge", "", nil,
			[]string{"401 /mcp", "404 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource", "404 /.well-known/oauth-authorization-server"},
			[]string{"oauth-no-challenge", "oauth-no-resource-metadata"}},
		{"G02 challenge without metadata", "Bearer", map[string]string{"/.well-known/oauth-authorization-server": asDoc},
			[]string{"401 /mcp", "404 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource", "200 /.well-known/oauth-authorization-server"},
			[]string{"oauth-challenge-without-metadata", "oauth-no-resource-metadata", "oauth-legacy-metadata"}},
		{"G04 metadata only in the header", `Bearer resource_metadata="BASE/odd/place"`,
			map[string]string{"/odd/place": prmDoc, "/login/.well-known/openid-configuration": asDoc},
			[]string{"401 /mcp", "200 /odd/place", "404 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource",
				"404 /.well-known/oauth-authorization-server/login", "404 /.well-known/openid-configuration/login", "200 /login/.well-known/openid-configuration"},
			[]string{"oauth-metadata-only-in-header"}},
		{"G05 no resource metadata at all", `Bearer error="invalid_token"`, map[string]string{"/.well-known/oauth-authorization-server": `{"issuer":"BASE","token_endpoint":"BASE/token"}`},
			[]string{"401 /mcp", "404 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource", "200 /.well-known/oauth-authorization-server"},
			[]string{"oauth-challenge-without-metadata", "oauth-no-resource-metadata", "oauth-no-pkce", "oauth-legacy-metadata"}},
		{"another resource and issuer", `Bearer resource_metadata="/.well-known/oauth-protected-resource/mcp"`,
			map[string]string{"/.well-known/oauth-protected-resource/mcp": strings.ReplaceAll(prmDoc, "BASE/mcp", "https://other.example/mcp"), "/.well-known/oauth-authorization-server/login": strings.ReplaceAll(asDoc, "BASE/login", "https://evil.example")},
			[]string{"401 /mcp", "200 /.well-known/oauth-protected-resource/mcp", "404 /.well-known/oauth-protected-resource", "200 /.well-known/oauth-authorization-server/login"},
			[]string{"oauth-resource-mismatch", "oauth-issuer-mismatch"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &protected{challenge: tc.challenge, docs: tc.docs}
			srv := httptest.NewServer(p)
			defer srv.Close()
			kit := newKit(t, m3.Config{})
			_, err := kit.Direct(t.Context(), m3.HTTPServer{URL: srv.URL + "/mcp", Headers: map[string]string{"X-Key": "tell-nobody-1"},
				Secrets: map[string]m3.SecretRef{"Authorization": {Prefix: "Bearer ", Name: "t", Lookup: func(context.Context) (string, error) { return "stale-token-123", nil }}}}, nil)
			var te *m3.TransportError
			if !errors.As(err, &te) || te.Details["status"] != 401 {
				t.Fatalf("%T %v", err, err)
			}
			checkChain(t, te, srv.URL, tc.steps, tc.findings)
			if strings.Contains(err.Error(), "stale-token-123") || len(p.leaks) > 0 {
				t.Errorf("a credential left for %v: %v", p.leaks, err)
			}
			if p.posts > 2 {
				t.Errorf("%d requests to a server that wants a token: a retry loop", p.posts)
			}
		})
	}
}

func checkChain(t *testing.T, te *m3.TransportError, base string, steps, findings []string) {
	t.Helper()
	chain, _ := te.Details["authorization"].(map[string]any)
	var got []string
	list, _ := chain["steps"].([]any)
	for i, s := range list {
		step := s.(map[string]any)
		path := strings.TrimPrefix(step["url"].(string), base)
		got = append(got, fmt.Sprintf("%v %s", step["status"], path))
		if line := fmt.Sprintf("%d. %s: %s → %v ", i+1, step["what"], step["url"], step["status"]); !strings.Contains(te.Error(), line) {
			t.Errorf("the text lacks %q:\n%v", line, te)
		}
	}
	if !slices.Equal(got, steps) {
		t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(steps, "\n"))
	}
	codes := []string{}
	for _, c := range chain["findings"].([]any) {
		codes = append(codes, c.(string))
	}
	if !slices.Equal(codes, findings) {
		t.Errorf("findings %v, want %v", codes, findings)
	}
}

// What is no 401 starts no discovery: a 406 (E07), a 403, and a 401 to the optional GET stream (E14).
func TestNoAuthorizationChain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		p    *protected
		want string // in the error; empty: the connection works
	}{
		{"E07 406", &protected{status: 406, challenge: "Bearer"}, "406"},
		{"403", &protected{status: 403}, "403"},
		{"E14 GET 401", &protected{status: 200, getStatus: 401}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tc.p)
			defer srv.Close()
			c, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HTTPServer{URL: srv.URL + "/mcp"}, &m3.DirectOptions{Protocol: "2025-11-25", Roots: []m3.Root{}})
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "authoriz")):
				t.Errorf("%v", err)
			}
			if c != nil {
				if err := c.Ping(t.Context(), nil); err != nil {
					t.Error(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			tc.p.mu.Lock()
			defer tc.p.mu.Unlock()
			if len(tc.p.asked) > 0 {
				t.Errorf("discovery began: %v", tc.p.asked)
			}
			if tc.p.getStatus != 0 && tc.p.posts < 3 {
				t.Error("the GET stream was never tried")
			}
		})
	}
}

// A server cannot make m3 fetch what its trust does not reach, nor follow redirects.
func TestAuthorizationTrust(t *testing.T) {
	t.Parallel()
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inside.Close()
	for _, tc := range []struct{ name, url, want string }{
		{"private", "http://10.1.2.3/prm", "private address"},
		{"credentials", "http://user:pw@127.0.0.1/prm", "credentials"},
		{"scheme", "file:///etc/passwd", "only http and https"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(&protected{challenge: fmt.Sprintf("Bearer resource_metadata=%q", tc.url)})
			defer srv.Close()
			_, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HTTPServer{URL: srv.URL + "/mcp"}, nil)
			if err == nil || !strings.Contains(err.Error(), "not fetched") || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "user:pw@127") {
				t.Errorf("%v", err)
			}
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })
	mux.Handle("/", http.RedirectHandler(inside.URL, http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	_, err := newKit(t, m3.Config{}).Direct(t.Context(), m3.HTTPServer{URL: srv.URL + "/mcp"}, nil)
	if err == nil || !strings.Contains(err.Error(), "302") || reached {
		t.Errorf("a redirect was followed (%v): %v", reached, err)
	}
}
