package m3test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/judging"
)

// go test may answer from its cache instead of running a test again. A recorded run must never be one of those answers, and an
// answer from before recording was asked for must not stand in for a recorded run.
//
// Measured with go 1.26 (cmd/go/internal/test): go reads what the test process looked at while its tests ran from a log that it
// asks for with -test.testlogfile, and caches nothing without that log. Environment variables in it count by name, with the value that the
// go command itself sees; so asking for a variable that is no longer in the environment works.

// testLogFlag asks for the log.
const testLogFlag = "test.testlogfile"

// consultEnvironment makes go's cache tell runs apart by what they record.
func consultEnvironment() {
	for _, name := range []string{envDatabase, envRunID, envSuite, judging.EnvLimit} {
		os.Getenv(name) // gone since init: only the asking counts
	}
	if !testsBegan() { // nothing is logged yet: the first kit is made in TestMain
		dropTestLog()
	}
}

// testsBegan reports whether the log was begun, if go wants one.
func testsBegan() bool {
	path := testLog(os.Args)
	if path == "" {
		return true
	}
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func testLog(args []string) string {
	for _, arg := range args {
		if path, ok := strings.CutPrefix(arg, "-"+testLogFlag+"="); ok {
			return path
		}
	}
	return ""
}

// dropTestLog sees to it that there is no log, before the tests begin.
func dropTestLog() {
	os.Args = slices.DeleteFunc(slices.Clone(os.Args), func(arg string) bool { return strings.HasPrefix(arg, "-"+testLogFlag+"=") })
	if f := flag.Lookup(testLogFlag); f != nil { // it was parsed already
		_ = f.Value.Set("")
	}
}
