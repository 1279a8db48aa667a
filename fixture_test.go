package m3_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
)

// fixtureEnv makes the test binary the server that it names.
const fixtureEnv = "M3_ROOT_FIXTURE"

// fixture describes a server that this test binary plays.
func fixture(t testing.TB, kind string) m3.StdioServer {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return m3.StdioServer{Name: kind, Command: exe, Env: map[string]string{fixtureEnv: kind, "GORACE": "atexit_sleep_ms=0"}}
}

// playFixture is the server's main. It returns the exit code.
func playFixture(kind string) int {
	p := &peer{handle: fixtureTool}
	switch kind {
	case "plain":
	case "legacy": // answers the probe cleanly: it knows no server/discover
		p.versions = []string{legacy5}
	case "dies-of-probe":
		p.handle = func(p *peer, m *message) bool {
			if m.Method == "server/discover" {
				os.Exit(4)
			}
			return fixtureTool(p, m)
		}
	case "exits":
		fmt.Fprintln(os.Stderr, "no configuration found")
		return 3
	case "banner":
		fmt.Println("Welcome to the server, v1.0")
	case "flood":
		os.Stderr.WriteString(strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024))
	case "deaf": // reads the handshake, and then nothing more
		p.handle = func(_ *peer, m *message) bool {
			if m.Method == "notifications/initialized" {
				time.Sleep(time.Hour)
			}
			return false
		}
	case "mute":
		p.handle = func(*peer, *message) bool { return true }
	case "garbage":
		p.handle = func(p *peer, m *message) bool {
			p.say(`{"jsonrpc":"2.0","id":%s,"result":{"a":`, m.ID)
			return true
		}
	case "agent":
		p = agentPeer()
	default:
		fmt.Fprintln(os.Stderr, "no fixture is called", kind)
		return 1
	}
	_ = p.serve(os.Stdin, os.Stdout) // the end of stdin
	return 0
}

// fixtureTool plays the tools of the fixtures.
func fixtureTool(p *peer, m *message) bool {
	switch m.tool() {
	case "process":
		dir, _ := os.Getwd() // empty shows
		b, _ := json.Marshal(map[string]any{"env": os.Environ(), "args": os.Args[1:], "dir": dir})
		p.result(m, `{"resultType":"complete","content":[],"structuredContent":%s}`, b)
	case "die":
		fmt.Fprintln(os.Stderr, "panic: out of stock")
		time.Sleep(10 * time.Millisecond) // the line is on its way
		os.Exit(7)
	case "big":
		p.result(m, `{"resultType":"complete","content":[{"type":"text","text":%q}]}`, strings.Repeat("b", 200<<10))
	case "silent":
	default:
		return false
	}
	return true
}

// process is what the fixtures' tool of that name tells of the server's process.
type process struct {
	Env  []string `json:"env"`
	Args []string `json:"args"`
	Dir  string   `json:"dir"`
}

// names are the variables of the process, with their values.
func (p *process) vars() map[string]string {
	vars := map[string]string{}
	for _, kv := range p.Env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	return vars
}

// describeProcess asks a fixture for its process.
func describeProcess(t *testing.T, c *m3.Client) *process {
	t.Helper()
	r, err := c.CallTool(t.Context(), "process", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var p process
	if err := r.Decode(&p); err != nil {
		t.Fatal(err)
	}
	return &p
}
