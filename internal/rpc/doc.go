// Package rpc speaks JSON-RPC 2.0 over a [wire.Transport], the way a tester must: every frame becomes an event, what is wrong with one becomes a
// finding, and nothing that a server sends ends the session.
//
//	Call ─► pending ─► wire.Send ─► Sent: event ─► bytes out
//	  ▲        ▲
//	  │        └── id, by its JSON text and type
//	  └── answer ◄── envelope ◄── Received: event ◄── bytes in
//	                    └── anomaly ─► finding, and the call that it was for fails at once
//
// It knows ids, answers and anomalies, but nothing of MCP beyond the names of two notifications. Findings are listed in
// [Findings].
package rpc
