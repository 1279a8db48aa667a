// Package mcp speaks the client side of the Model Context Protocol over [rpc], in both of its eras: the versions that begin with
// initialize (2024-11-05 to 2025-11-25) and 2026-07-28, which has no handshake and carries what it needs with each request.
//
//	Connect ── pin, or probe by server/discover ──► Session ── Do ──► rpc.Conn ──► wire.Transport
//	                                                   ▲
//	            requests, notifications, progress ─────┘ from the server, also while a call of ours is pending
//
// It decides versions, adds _meta and HTTP headers, and answers the server. It does not interpret results, keep catalogues, cache, filter
// or fill in defaults. What a server does wrong becomes a finding on the tape; only what leaves no session to go on with
// becomes an error.
package mcp
