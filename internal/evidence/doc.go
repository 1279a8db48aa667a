// Package evidence is the gate through which everything passes before it is kept: [Redactor] takes secrets out of bytes,
// [Tape] numbers, stamps and encodes the events of one execution and hands them to a [Sink].
//
//	frame as read ──► Redactor.Bytes ──► digest ──► encode ──┐ outside the lock
//	                                                         ▼
//	                         sequence, offset ──► Sink (blob, then event)   under the lock
//
// Redaction works on bytes and never fails (design/architecture.md). It looks for two kinds of things:
//
//   - known values, which somebody added by name: raw, JSON-escaped in any spelling, URL-encoded, base64 at its three
//     alignments, and these nested in each other as far as traffic does that (search.go, match.go);
//   - things that are secret by their place: the string under a key like "password", the value of a header like
//     Authorization, user info and credentials in a URL (suspect.go finds out fast that there are none; scan.go,
//     assign.go and urls.go find where they are).
//
// Objects, numbers and JSON Schemas are left alone: a schema with a property called password is a catalogue, not a secret.
package evidence
