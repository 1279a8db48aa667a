package m3

import "testing"

// What a server names is held to the trust that the server has: loopback is no way out for one that is elsewhere.
func TestFetcherTrust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		server string
		trust  Trust
		url    string
		want   bool
	}{
		{"https://mcp.example/mcp", Untrusted, "https://login.example/", true},
		{"https://mcp.example/mcp", Untrusted, "http://localhost:8080/", false},
		{"https://mcp.example/mcp", TrustedPublic, "http://[::1]/", false},
		{"https://mcp.example/mcp", TrustedPrivate, "http://localhost:8080/", true},
		{"http://localhost/mcp", Untrusted, "http://127.0.0.1:9/", true},
		{"http://localhost/mcp", Untrusted, "https://login.example/?access_token=x", false},
	} {
		server, err := parseEndpoint(tc.server)
		if err != nil {
			t.Fatal(err)
		}
		f := &fetcher{endpoint: server, trust: tc.trust}
		if _, err := f.allow(tc.url); (err == nil) != tc.want {
			t.Errorf("%s (%q) names %s: %v", tc.server, tc.trust, tc.url, err)
		}
	}
}
