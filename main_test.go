package m3_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/internal/wiretest"
)

// What the tests find in their own environment. A server must not, unless a definition names it.
const (
	ambientName  = "M3_ROOT_AMBIENT"
	ambientValue = "ambient-value"
	secretName   = "M3_ROOT_SECRET"
	secretValue  = "hush-7f3a9c51"
)

// TestMain is a server when the environment says so (see fixture). Else it runs the tests, and fails when they leave a goroutine, a process or
// a file descriptor behind.
func TestMain(m *testing.M) {
	if kind := os.Getenv(fixtureEnv); kind != "" {
		os.Exit(playFixture(kind))
	}
	if rules, ok := os.LookupEnv(rulesVariable); ok {
		wiretest.Serve(rules)
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	undo, err := ownEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer undo()
	before := descriptors()
	// Every message that m3 sends in these tests is checked against the official schemas.
	if code := conformance.Run(m,
		conformance.Excuse{Contains: `mirrors no argument: "us"`, Why: "TestOpOwnHeaders lies in a header on purpose"},
		conformance.Excuse{Contains: `"arguments":[1]`, Why: "a json.RawMessage goes out as it is: the test insists"},
		conformance.Excuse{Contains: `"arguments":null`, Why: "a json.RawMessage goes out as it is: the test insists"},
		conformance.Excuse{Contains: `"motto":"no object at all"`, Why: "RawInputResponses go out as they are: the test insists"},
		conformance.Excuse{Contains: `"type":"audio","n":1e400`, Why: "a sampling handler's own content goes out as it is: the test insists"},
		conformance.Excuse{Contains: `"id":"r1","result":{"roots":[]}`, Why: "a wild server asks before it has answered initialize: no version is agreed on yet"},
	); code != 0 {
		return code
	}
	left := ""
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) { // what has just been closed needs a moment to end
		if left = leftovers(before); left == "" {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "the tests left behind:\n"+left)
			return 1
		}
	}
}

// ownEnvironment sets what the tests look for in servers, and gives Build a cache of its own: what is built from temporary files is not worth keeping.
func ownEnvironment() (undo func(), err error) {
	dir, err := os.MkdirTemp("", "m3-root-cache-")
	if err != nil {
		return nil, err
	}
	if os.Getenv("GOCACHE") == "" { // go's own must stay where it is
		if cache, err := os.UserCacheDir(); err == nil {
			os.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
		}
	}
	os.Setenv("XDG_CACHE_HOME", dir)
	os.Setenv(ambientName, ambientValue)
	os.Setenv(secretName, secretValue)
	os.Setenv("M3_ROOT_SHORT", "tiny")
	os.Setenv("M3_ROOT_EMPTY", "")
	return func() { os.RemoveAll(dir) }, nil
}

// leftovers names what is still there of what the tests started.
func leftovers(before int) string {
	var left strings.Builder
	buf := make([]byte, 4<<20)
	for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if bytes.Contains(g, []byte("m3-go/m3")) && !bytes.Contains(g, []byte("m3_test.TestMain(")) && !bytes.Contains(g, []byte("/internal/proc.(*reaper)")) {
			left.Write(append(g, "\n\n"...))
		}
	}
	for _, pid := range children() {
		fmt.Fprintf(&left, "process %s\n", pid)
	}
	if now := descriptors(); now > before+12 { // the reaper's pipe, the poller, the runtime's own
		fmt.Fprintf(&left, "%d file descriptors, %d before\n", now, before)
	}
	return left.String()
}

// children are the processes that this one started and that still run, without the reaper, which has a session of its own. Only Linux can tell.
func children() []string {
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, rest, _ := strings.Cut(string(b), " (")
		_, rest, _ = strings.Cut(rest[strings.LastIndexByte(rest, ')'):], ") ")
		f := strings.Fields(rest) // state, parent, group, session
		if len(f) > 3 && f[1] == strconv.Itoa(os.Getpid()) && f[3] != pid {
			found = append(found, pid+" "+rest[:1])
		}
	}
	return found
}

// descriptors counts the open files of this process; 0 where it cannot be told.
func descriptors() int {
	files, _ := filepath.Glob("/proc/self/fd/*")
	return len(files)
}
