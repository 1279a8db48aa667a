package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/gosdk"
)

func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		A int `json:"a"`
	}
	type out struct {
		B int `json:"b"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "quote", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, out, error) {
		return nil, out{1}, nil
	})
	return s
}

// What is known of servers built with go-sdk v1.8.0 (measured apart from this set) is found, and they are alive in the end: a stream server dies of much
// and is started again.
func TestGoSDKDefects(t *testing.T) {
	t.Parallel()
	stateless := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdkServer() }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(stateless.Close)
	stateful := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdkServer() }, nil))
	t.Cleanup(stateful.Close)
	for _, tc := range []struct {
		name     string
		server   m3.Server
		protocol string
		fired    []string
		died     []string
		clean    []string
	}{
		{"stream", gosdk.Server("sdk", sdkServer), "", []string{"unsupported-version", "missing-meta", "big-id", "fraction-id", "batch"}, []string{"bad-json", "missing-jsonrpc", "half-line-recovery"},
			[]string{"text-id", "unknown-method", "arguments-missing", "argument-type", "tool-output-schema", "removed-ping"}},
		{"stream, legacy", gosdk.Server("sdk", sdkServer), "2025-11-25", []string{"early-garbage", "log-level-unknown"}, []string{"bad-json", "batch"}, []string{"oldest-version", "echoes-any-version", "discover-probe"}},
		{"stateless HTTP", m3.HTTPServer{URL: stateless.URL}, "", []string{"header-name-base64", "unsupported-version", "big-id"}, nil, []string{"header-name-mismatch", "header-method-mismatch", "missing-capabilities", "host-foreign"}},
		{"stateful HTTP", m3.HTTPServer{URL: stateful.URL}, "", []string{"notification-status", "unknown-method-code"}, nil, []string{"session-unknown", "delete-ends", "content-type-charset", "get"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep := run(t, tc.server, &Options{Protocol: tc.protocol})
			if !rep.Alive.OK {
				t.Error(rep.Alive.Message)
			}
			for _, r := range rep.Results {
				switch {
				case slices.Contains(tc.fired, r.Name) && r.State != Fired,
					slices.Contains(tc.died, r.Name) && !r.Died,
					slices.Contains(tc.clean, r.Name) && r.State != Clean:
					t.Errorf("%s: %s, died %v: %s", r.Name, r.State, r.Died, r.Message)
				}
			}
		})
	}
}
