package conformance

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

// The environment that tells processes which tests start, if they call Child, where the schemas are and where problems go. A test that gives its
// processes an environment of their own must hand these on.
const (
	EnvSchemas = "M3_WIRE_SCHEMAS"
	EnvLog     = "M3_WIRE_LOG"
)

// Child checks what this process sends, when it was started by tests that [Run] runs. It never prints: problems go to the tests.
func Child() {
	dir, log := os.Getenv(EnvSchemas), os.Getenv(EnvLog)
	if dir == "" || log == "" {
		return
	}
	s, err := LoadDir(dir)
	if err != nil {
		appendLine(log, "a child process cannot load the schemas: "+err.Error())
		return
	}
	c := New(s, false)
	var mu sync.Mutex
	told := 0
	evidence.Watch(func(owner *evidence.Tape, ev *trace.Event) {
		c.Event(owner, ev)
		mu.Lock()
		defer mu.Unlock()
		ps := c.Problems()
		for ; told < len(ps); told++ {
			appendLine(log, strings.ReplaceAll(ps[told].String(), "\n", " "))
		}
	})
	appendLine(log, started)
}

// started is the line with which a child begins, so that the tests know that it was watched.
const started = "started"

// appendLine adds a line at once: the process may end at any moment.
func appendLine(path, line string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// children are the processes that the tests start.
type children struct{ dir string }

// follow prepares the environment for them.
func follow(schemas string) (*children, error) {
	dir, err := os.MkdirTemp("", "m3-wire-")
	if err != nil {
		return nil, err
	}
	os.Setenv(EnvSchemas, schemas)
	os.Setenv(EnvLog, filepath.Join(dir, "log"))
	return &children{dir}, nil
}

func (c *children) remove() { os.RemoveAll(c.dir) }

// report prints what the children found.
func (c *children) report(w io.Writer, excuses []Excuse) (code int) {
	f, err := os.Open(filepath.Join(c.dir, "log"))
	if err != nil { // none was started
		return 0
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := lines.Text(); {
		case line == started:
			n++
		case !excused(Problem{Message: line}, excuses):
			fmt.Fprintf(w, "wire conformance: in a child process: %s\n", line)
			code = 1
		}
	}
	fmt.Fprintf(w, "wire conformance: %d child processes\n", n)
	return code
}
