// Package realtest runs m3 against real servers that other people ship, at pinned versions (servers/). Each check is run
// twice: against the server, where it must hold, and against the same server with one planted defect (tamper/), where it must fail.
//
// The tests need the servers: .ci/real-tools installs them and sets M3_REAL_TOOLS. Without it they are skipped, which
// M3_REQUIRE_REAL=1 turns into a failure.
package realtest
