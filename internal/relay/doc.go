// Package relay stands between an agent and a server under test, inside the kit: what passes is recorded, a restriction of the
// tools is enforced, and everything else is the same bytes, in the same order, with the same ids.
//
//	agent ──stdio──► shim ──unix socket──► [Agent] ──► [Relay.Stream] ──► the server's stdin and stdout
//	agent ──loopback HTTP────────────────────────────► [Relay.Handler] ─► the server's URL
//	                                                          │
//	                                                          ▼ one queue, one order
//	                                                    evidence.Tape
//
// A frame is recorded before it is forwarded. A store that stands still stops no traffic: after a moment frames are forwarded first and recorded
// when the store goes on; when the queue is full, they are not recorded, and the trace says so.
//
// A restriction ([Config.Allow]) changes two things only: tools that are not allowed are cut out of the answers to tools/list, and a call to
// one is answered by the relay as a server answers a call to a tool that it does not have. So that no parser of a server can read
// a forbidden call where the relay reads an allowed one, what is ambiguous is refused as well (policy.go).
package relay
