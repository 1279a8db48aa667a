// Package shim turns the current executable into one of m3's own helpers: a test binary, or m3 itself, is started again with
// one environment variable set, and becomes the helper before any of its own code runs.
//
//	test process ──(start of the first server)──► itself again, M3_INTERNAL_ROLE=reaper
//	     │                                              │
//	     └── pipe: mark, group 4711, forget 4711 …──────┘   when the pipe ends, the test process is gone,
//	                                                        and so is everything it left, within 3 s
//
// The second role is the pump: what an agent starts as its server. It connects to the test process, which owns the real one ([Pump]).
//
// m3 test has a reaper, too: it guards the process group of go test, which gets SIGINT and 7 s before it is killed.
//
// It is a leaf: only the standard library, so that the hook is initialized early and costs nothing where it is not wanted.
// The package also holds what the reaper and internal/proc share: the process table, the marks, and the tree of what a
// process may leave behind.
package shim

import (
	"fmt"
	"os"
	"syscall"
)

// RoleEnv is the environment variable that asks for a role. It is set by m3 alone, and never for a server or an agent.
const RoleEnv = "M3_INTERNAL_ROLE"

// RoleReaper is the role that ends what a test process leaves behind: see [Reap].
const RoleReaper = "reaper"

// init is one of the two places in m3 with an effect at start: without the variable it does nothing, with it the process
// never reaches main.
func init() {
	if role := os.Getenv(RoleEnv); role != "" {
		syscall.Exit(play(role)) // not os.Exit, which under the race detector waits for a second, and writes coverage data
	}
}

// play runs one role to its end and returns the exit code.
func play(role string) int {
	switch role {
	case RoleReaper:
		return Reap(os.Stdin, os.NewFile(readyFD, "ready"))
	case RolePump:
		return Pump(os.Stdin, os.Stdout, os.Stderr)
	default:
		fmt.Fprintf(os.Stderr, "m3: this executable has no role %q; unset %s, it is m3's own\n", role, RoleEnv)
		return 2
	}
}
