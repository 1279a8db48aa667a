package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/proc/proctest"
)

// TestCell is what the test process of a cell runs. By itself it is the cell of the plain server that is closed.
func TestCell(t *testing.T) {
	c, ok := proctest.Current()
	if !ok {
		c = proctest.Cell{Kind: proctest.Plain, Ending: proctest.Close, Tag: newTag()}
	}
	spec := kind(t, c.Kind, c.Tag)
	var ladder *proc.Ladder
	if os.Getenv("M3_PROCTEST_GORUN") != "" {
		spec.Path = "go"
		spec.Args = append([]string{"run", "./proctest/server"}, spec.Args...)
		ladder = patient
	}
	p, err := proc.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	ready := make([]byte, len(proctest.Ready))
	if _, err := p.Stdout().Read(ready); err != nil || string(ready) != proctest.Ready {
		t.Fatalf("first line %q, %v; stderr: %s", ready, err, p.StderrTail())
	}
	c.Happen(t, func() {
		e := p.End(ladder)
		fmt.Printf("ended: %s, %d survivors\n", e.Step, len(e.Survivors))
	})
}

// TestTable runs every server kind against every ending of a real test binary: this one.
func TestTable(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 6) // they mostly wait, so more than -parallel allows
	for _, k := range proctest.Kinds() {
		for _, e := range proctest.Endings() {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(fmt.Sprintf("%s/%s", k, e), func(t *testing.T) {
					c := proctest.Cell{Kind: k, Ending: e, Tag: newTag()}
					args := []string{"-test.run=^TestCell$", "-test.v"}
					if e == proctest.Timeout {
						args = append(args, "-test.timeout=2s")
					}
					cmd := exec.Command(exe, args...)
					cmd.Env = c.Environ(os.Environ())
					c.Run(t, cmd)
				})
			})
		}
	}
	wg.Wait()
}

// TestGoTest runs cells through go test itself, which has a say of its own: a child that holds its output turns a passing
// package into a failure.
func TestGoTest(t *testing.T) {
	t.Parallel()
	for _, c := range []proctest.Cell{
		{Kind: proctest.Plain, Ending: proctest.Close},
		{Kind: proctest.Holder, Ending: proctest.Close},
		{Kind: proctest.Setsid, Ending: proctest.Panic},
		{Kind: proctest.Stubborn, Ending: proctest.Timeout},
		{Kind: proctest.Holder, Ending: proctest.Kill},
		{Kind: proctest.Background, Ending: proctest.OSExit},
		{Kind: proctest.Setsid, Ending: proctest.KillGroup}, // go test, too
	} {
		t.Run(fmt.Sprintf("%s/%s", c.Kind, c.Ending), func(t *testing.T) {
			c.Tag = newTag()
			out := c.Run(t, goTest(c))
			if passed := strings.Contains(out, "\nok "); passed != c.Ending.Passes() {
				t.Errorf("go test's verdict is wrong for this ending:\n%s", out)
			}
		})
	}
}

// TestGoRun has a wrapper between us and the server: go run, which builds it and waits for it.
func TestGoRun(t *testing.T) {
	t.Parallel()
	for _, e := range []proctest.Ending{proctest.Close, proctest.Kill} {
		t.Run(string(e), func(t *testing.T) {
			c := proctest.Cell{Kind: proctest.Setsid, Ending: e, Tag: newTag()}
			cmd := goTest(c)
			cmd.Env = append(cmd.Env, "M3_PROCTEST_GORUN=1")
			out := c.Run(t, cmd)
			// The go command may leave a process of its own for a moment, so that there are two.
			step, found := strings.CutPrefix(out[max(strings.Index(out, "ended: "), 0):], "ended: eof, ")
			if e == proctest.Close && (!found || strings.HasPrefix(step, "0 ")) {
				t.Errorf("it did not end by EOF with a survivor\n%s", out)
			}
		})
	}
}

// goTest returns the command that runs the cell in this package.
func goTest(c proctest.Cell) *exec.Cmd {
	args := []string{"test", "-count=1", "-vet=off", "-v", "-run=^TestCell$"}
	if c.Ending == proctest.Timeout {
		args = append(args, "-timeout=2s")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = c.Environ(os.Environ())
	return cmd
}
