// Package endtoend holds the promises of m3 that only the whole of it can keep, with real processes, real files and the real
// command line:
//
//   - redaction: of twelve planted secrets none is in any byte that is written anywhere, at any time
//   - raw bytes: the evidence is what the server itself says that it wrote and read
//   - kill: whatever a test was told has happened is still there after its process was killed, after each of its writes
//   - leftover: however a test process ends, nothing of it is left
//
// It has tests only. testdata/module is what they run: a module of its own, copied beside a go.mod that points here, so that
// it is built and run as somebody else's would be.
package endtoend
