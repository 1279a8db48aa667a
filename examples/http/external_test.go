package http

import (
	"os"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
)

// Any deployed server: M3_EXAMPLE_URL=https://… go test ./examples/http. A bearer token, if it needs one, comes from
// M3_EXAMPLE_TOKEN and is never stored.
func TestExternalServer(t *testing.T) {
	t.Parallel()
	url := os.Getenv("M3_EXAMPLE_URL")
	if url == "" {
		t.Skip("set M3_EXAMPLE_URL to the URL of a streamable HTTP server to run this")
	}
	server := m3.HTTPServer{Name: "external", URL: url}
	if os.Getenv("M3_EXAMPLE_TOKEN") != "" {
		server.Secrets = map[string]m3.SecretRef{"Authorization": m3.BearerFromEnv("M3_EXAMPLE_TOKEN")}
	}
	client := m3test.Direct(t, server, nil)
	tools, err := client.ListAllTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Malformed != "" {
			t.Errorf("tool %q: %s", tool.Name, tool.Malformed)
		}
	}
	t.Logf("%s speaks %s and offers %d tools", server.ServerName(), client.Initialization().ProtocolVersion, len(tools))
	m3test.Finish(t, client)
}
