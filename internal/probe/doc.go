// Package probe is the hostile set of m3 probe: it sends to a server what a good client never would (broken JSON, ids of every type, batches, requests
// before the handshake, wrong HTTP methods and headers, invalid arguments for the server's own tools), and judges what comes back by the
// specification. After each probe the server must still answer.
//
// It is safe by default: tools are called with arguments that their own schema refuses, and never those annotated as destructive; valid calls
// go only to tools annotated readOnlyHint, unless the caller allows more.
package probe
