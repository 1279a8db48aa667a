// Package http shows servers on streamable HTTP: a handler in the test, a server that runs somewhere, and a deployed one.
package http

import (
	"net/http/httptest"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// A handler is served on a loopback port of its own while the client is open.
func TestHandler(t *testing.T) {
	t.Parallel()
	quote(t, m3.HandlerServer{Name: "shop", Handler: exampleserver.Handler()}, nil)
}

// A server that somebody else started is reached by its URL. Loopback is allowed without saying so.
func TestRunningServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(exampleserver.Handler())
	t.Cleanup(server.Close)
	quote(t, m3.HTTPServer{Name: "shop", URL: server.URL}, nil)
}

// The same server in the protocols of both eras: with sessions, and without.
func TestEveryProtocol(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			quote(t, m3.HandlerServer{Name: "shop", Handler: exampleserver.Handler()}, &m3.DirectOptions{Protocol: protocol})
		})
	}
}

func quote(t *testing.T, server m3.Server, opts *m3.DirectOptions) {
	t.Helper()
	client := m3test.Direct(t, server, opts)
	if opts != nil && client.Initialization().ProtocolVersion != opts.Protocol {
		t.Errorf("protocol %s, want %s", client.Initialization().ProtocolVersion, opts.Protocol)
	}
	r, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect.That(t, r).StructuredContent(exampleserver.Quote{Price: 7, Currency: "EUR", Days: 2})
	view := m3test.Finish(t, client)
	expect.That(t, view).ToolCall("quote", expect.Succeeded())
	if got := view.Runtime().Transport.Value; got != "streamable_http" {
		t.Errorf("transport %q", got)
	}
}
