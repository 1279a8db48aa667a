// Package m3test is the glue between m3 and go test. Importing it is enough:
//
//	func TestQuote(t *testing.T) {
//		client := m3test.Direct(t, shipping, nil) // closed by t.Cleanup
//		…
//		view := m3test.Finish(t, client) // closes, finalizes, returns the view
//		expect.That(t, view).ToolCall("quote", expect.Succeeded())
//	}
//
// # Suites
//
// A recorded test belongs to a suite. The nearest name wins: that of the test's [NewKit], which its subtests inherit; that of the package's
// [Main]; else the package's path in the module.
//
// # Recording
//
// Nothing is kept beyond the test, and nothing is written, unless somebody asks for it:
//
//	M3_RESULTS_DB=.m3/executions.sqlite go test ./...     every package; relative to the module's root
//	go test ./pkg -m3.db=.m3/executions.sqlite            one package that imports m3test
//	m3 test ./...                                         the same, and a report
//
// The test process writes a spool beside the database (see store/spool); m3 show, m3 test and sqlite.Open read it into the database. The
// settings are taken out of the environment when the process starts, so that servers and nested runs of go test do not inherit them.
//
// A test attempt is recorded when it first asks for a kit, and again when it ends. Attributes in go test's output tie the two together: m3.run,
// m3.suite, m3.test, and m3.execution for each execution. With go test -artifacts, the trace and the raw frames of a failed test's executions are
// put into t.ArtifactDir().
//
// # How executions end
//
// With their test: what a test leaves open is closed by its clean-up. A short time before the deadline of go test -timeout they are ended
// with the outcome timed_out, so that their evidence is kept before go test kills the process. At SIGINT and SIGTERM they are
// cancelled, kept, and the signal is raised again.
package m3test
