package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/gotest"
	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
)

const signalGoMod = "module example.test/signals\n\ngo 1.25\n"

// signalTest has a test that ends, and one that waits until its process is told to end.
const signalTest = `package signals

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestDone(t *testing.T) {}

func TestWaits(t *testing.T) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	fmt.Println("ready", os.Getpid())
	<-ch
	if os.Getenv("STUBBORN") != "" {
		fmt.Println("stubborn")
		time.Sleep(time.Hour)
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Println("finalized")
	signal.Reset()
	syscall.Kill(os.Getpid(), syscall.SIGINT)
	select {}
}
`

// m3Process is a real m3 test over a fresh module.
type m3Process struct {
	cmd  *exec.Cmd
	dir  string
	out  *bufio.Reader
	seen bytes.Buffer
}

func startM3(t *testing.T, env ...string) *m3Process {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": signalGoMod, "signals_test.go": signalTest} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &m3Process{cmd: exec.Command(exe, "test", ".", "--", "-v"), dir: dir}
	p.cmd.Dir = dir
	p.cmd.Env = append(append(os.Environ(), asM3+"=1", "GOFLAGS="), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(io.TeeReader(out, &p.seen))
	return p
}

// until reads m3's stdout up to a line that begins with prefix, and returns the rest of that line.
func (p *m3Process) until(t *testing.T, prefix string) string {
	t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
		if err != nil {
			t.Fatalf("no line %q in:\n%s", prefix, p.seen.String())
		}
	}
}

// wait reads the rest and returns the exit code.
func (p *m3Process) wait(t *testing.T) int {
	t.Helper()
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		t.Fatal(err)
	}
	var ee *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func TestSignals(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, code int, sig syscall.Signal, stubborn bool) {
		var env []string
		if stubborn {
			env = append(env, "STUBBORN=1")
		}
		p := startM3(t, env...)
		pid, err := strconv.Atoi(p.until(t, "ready "))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if stubborn {
			p.until(t, "stubborn")
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.wait(t); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
		if !strings.Contains(p.seen.String(), "note: stopped by "+gotest.SignalName(sig)) {
			t.Errorf("the end is not told:\n%s", p.seen.String())
		}
		if !stubborn && !strings.Contains(p.seen.String(), "finalized") {
			t.Errorf("the test process was not given its time:\n%s", p.seen.String())
		}
		waitGone(t, pid)
		p.checkStored(t)
	}
	for _, tc := range []struct {
		name     string
		code     int
		sig      syscall.Signal
		stubborn bool
	}{
		{"interrupt", 130, syscall.SIGINT, false},
		{"terminate", 143, syscall.SIGTERM, false},
		{"second interrupt kills", 130, syscall.SIGINT, true},
	} {
		t.Run(tc.name, func(t *testing.T) { t.Parallel(); run(t, tc.code, tc.sig, tc.stubborn) })
	}
}

// waitGone waits until no process of that id runs; a zombie that nobody reaps does not run.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	waitGoneWithin(t, pid, 3*time.Second)
}

func waitGoneWithin(t *testing.T, pid int, d time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		if err != nil || strings.HasPrefix(string(out), "Z") {
			return
		}
	}
	t.Errorf("the test process %d is left", pid)
}

// checkStored looks at what an interrupted run left: everything that was there until then.
func (p *m3Process) checkStored(t *testing.T) {
	t.Helper()
	st, err := sqlite.Open(filepath.Join(p.dir, ".m3", "executions.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	runs, err := st.Runs(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Status != store.RunInterrupted || runs[0].Owner != "m3 test" {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	items, err := st.Items(t.Context(), runs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	actions := map[string]string{}
	for _, it := range items {
		actions[it.Test] = it.Action
	}
	if actions["TestDone"] != "pass" || actions["TestWaits"] != "" || len(items) != 3 {
		t.Errorf("items %+v", items)
	}
	b, err := os.ReadFile(report.Path(p.dir, runs[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	var f report.Feedback
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Failures) != 1 || f.Failures[0].Kind != "not_run" || f.Summary.TestOutcomeCounts[store.TestInterrupted] != 1 || len(f.Limitations) != 1 {
		t.Errorf("failures %v, outcomes %v, limitations %v", f.Failures, f.Summary.TestOutcomeCounts, f.Limitations)
	}
}
