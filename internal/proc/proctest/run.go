package proctest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// gone is how long after its test process something may be left.
	gone = 3 * time.Second
	// held is how long after its end the output of the test process may stay open.
	held = time.Second
)

// Run runs cmd, which is or runs the cell's test process, in a process group of its own, and makes its ending happen where that comes from outside. It
// fails the test when something is left 3 s after the end, when somebody still holds its output, or when the verdict is not
// the ending's. It returns the output.
func (c Cell) Run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	t.Cleanup(func() { EndLeft(c.Tag) })
	out := start(t, cmd)
	if err := c.Ending.strike(func() int { return out.pid(t) }); err != nil {
		t.Errorf("%s: %v", c.Ending, err)
	}
	err := cmd.Wait()
	ended := time.Now()
	if passed := err == nil; passed != c.Ending.Passes() {
		t.Errorf("test process ended with %v\n%s", err, out)
	}
	select {
	case <-out.eof:
	case <-time.After(held):
		t.Errorf("its output is still held open %v after its end, by one of\n%s", held, list(Left(c.Tag)))
	}
	for left := Left(c.Tag); len(left) > 0; left = Left(c.Tag) {
		if time.Since(ended) > gone {
			t.Errorf("left %v after the end of the test process:\n%s\noutput:\n%s", gone, list(left), out)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !strings.Contains(out.String(), started) {
		t.Errorf("the test process never had its server\n%s", out)
	}
	return out.String()
}

// output collects what a command writes, through pipes that somebody else may hold open.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer
	line chan struct{} // closed when the line with the pid is there
	once sync.Once
	eof  chan struct{} // closed when stdout and stderr have ended
}

func start(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.Stdout, cmd.Stderr = w, w
	cmd.ExtraFiles = []*os.File{w} // one that the test process does not know of, as a shell may leave it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out := &output{line: make(chan struct{}), eof: make(chan struct{})}
	go func() {
		defer close(out.eof)
		io.Copy(out, r)
	}()
	return out
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if _, after, ok := strings.Cut(o.b.String(), started); ok && strings.Contains(after, "\n") {
		o.once.Do(func() { close(o.line) })
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// pid waits for the test process to have its server, and returns its pid.
func (o *output) pid(t *testing.T) int {
	t.Helper()
	select {
	case <-o.line:
	case <-o.eof:
		t.Fatalf("it ended before it had its server\n%s", o)
	case <-time.After(lifetime):
		t.Fatalf("it never had its server\n%s", o)
	}
	_, after, _ := strings.Cut(o.String(), started)
	line, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("no pid in %q", line)
	}
	return pid
}

// Leftover is a living process that carries a tag.
type Leftover struct {
	PID     int
	Command string
}

func list(left []Leftover) string {
	var b strings.Builder
	for _, l := range left {
		fmt.Fprintf(&b, "\t%d %s\n", l.PID, l.Command)
	}
	return b.String()
}

// EndLeft kills what Left finds, after a test in which something stays.
func EndLeft(tag string) {
	for _, l := range Left(tag) {
		syscall.Kill(l.PID, syscall.SIGKILL)
	}
}
