// Package gotest runs go test -json for m3 test and understands what it says: packages, tests, subtests and the iterations
// of -count, their output and attributes, build failures, and every way in which a test process can end without saying so.
//
// The seam is small: [ParseArgs] makes a command line, [Start] runs it in a process group of its own, [Scan] reads events
// without losing a byte, and a [Result] adds them up. cmd/m3 puts them together.
package gotest
