// Package exampleserver is the MCP server that the examples test: a small shop. It is deterministic, needs no network and no
// model, and is built with the official Go SDK.
//
// Package command serves it on stdio or HTTP; [New] and [Handler] serve it in a test's own process.
package exampleserver

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Name and Version are what the server says of itself.
const (
	Name    = "example-shop"
	Version = "1.0.0"
)

// New returns a server with a shop of its own. Over stdio and pipes each connection has one, so its orders are never seen by
// the next.
func New() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: Name, Title: "Example shop", Version: Version}, &mcp.ServerOptions{
		Instructions: "Normalize a customer before you create an order for it.",
	})
	addTools(s)
	addShop(s, newShop())
	addTrouble(s)
	addResources(s)
	addPrompts(s)
	return s
}

// Handler serves one server over streamable HTTP, in the protocols of both eras: with sessions, and without for 2026-07-28. That
// one has no connections, so all clients of a handler share its orders.
func Handler() http.Handler {
	s := New()
	same := func(*http.Request) *mcp.Server { return s }
	sessions := mcp.NewStreamableHTTPHandler(same, nil)
	stateless := mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= "2026-07-28" { // dates: their order is that of their texts
			stateless.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}
