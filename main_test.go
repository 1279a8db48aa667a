package m3_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/internal/leaktest"
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
	if os.Getenv(floodVariable) != "" {
		serveFlood()
		return
	}
	if os.Getenv(fakeAgentEnv) != "" {
		os.Exit(playFakeAgent())
	}
	if acpagent.Active() {
		os.Exit(acpagent.Main())
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
	// Every message that m3 sends in these tests is checked against the official schemas.
	run := func() int {
		return conformance.Run(m,
			conformance.Excuse{Contains: `mirrors no argument: "us"`, Why: "TestOpOwnHeaders lies in a header on purpose"},
			conformance.Excuse{Contains: `"arguments":[1]`, Why: "a json.RawMessage goes out as it is: the test insists"},
			conformance.Excuse{Contains: `"arguments":null`, Why: "a json.RawMessage goes out as it is: the test insists"},
			conformance.Excuse{Contains: `"motto":"no object at all"`, Why: "RawInputResponses go out as they are: the test insists"},
			conformance.Excuse{Contains: `"type":"audio","n":1e400`, Why: "a sampling handler's own content goes out as it is: the test insists"},
			conformance.Excuse{Contains: `"id":"r1","result":{"roots":[]}`, Why: "a wild server asks before it has answered initialize: no version is agreed on yet"},
		)
	}
	return leaktest.Run(os.Stderr, run, &leaktest.Config{Goroutines: []string{"m3-go/m3"}, But: []string{"m3_test.TestMain(", "/internal/proc.(*reaper)"}, Processes: true,
		Descriptors: 12}) // the reaper's pipe, the poller, the runtime's own
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
