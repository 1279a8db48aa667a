package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// killedTest holds a call open and goes on talking, as a chatty test does.
const killedTest = `package recorded

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"
)

func TestHolds(t *testing.T) {
	server := m3.StdioServer{Name: "slow", Command: os.Getenv("SLOW_SERVER"), Env: map[string]string{"` + asSlow + `": "1"}}
	client := m3test.Direct(t, server, nil)
	fmt.Println("ready", os.Getpid(), os.Getppid())
	for {
		if _, err := client.CallTool(t.Context(), "sleep", nil, nil); err != nil {
			t.Error(err)
			fmt.Println("the call has ended")
			time.Sleep(100 * time.Millisecond)
			fmt.Println("and this line must not end the process")
			return
		}
	}
}
`

// interruptedTest has a test that failed by itself and hangs, one that fails because it is interrupted and hangs, and one that only hangs.
const interruptedTest = `package recorded

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

func server() m3.Server {
	return m3.StdioServer{Name: "slow", Command: os.Getenv("SLOW_SERVER"), Env: map[string]string{"` + asSlow + `": "1"}}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, server(), nil)
	expect.That(t, m3test.Finish(t, client)).ToolCall("never")
	time.Sleep(time.Hour)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, server(), nil)
	time.AfterFunc(time.Second, func() { fmt.Println("ready", os.Getpid(), os.Getppid()) })
	if _, err := client.CallTool(t.Context(), "sleep", nil, nil); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Hour)
}

func TestHangs(t *testing.T) {
	t.Parallel()
	m3test.Direct(t, server(), nil)
	time.Sleep(time.Hour)
}
`

// TestFailedWhenStopped: what had failed when the run was stopped is told with its trace, and SIGTERM as that.
func TestFailedWhenStopped(t *testing.T) {
	t.Parallel()
	cmd, out, _ := startRecorded(t, interruptedTest, "-parallel", "8")
	sc := bufio.NewScanner(out)
	waitForReady(t, sc)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for sc.Scan() {
		said.WriteString(sc.Text() + "\n")
	}
	_ = cmd.Wait() // its code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	_, failed, _ := strings.Cut(said.String(), "\nFailed:\n")
	for _, want := range []string{`FAIL recorded\.TestFailed \(.*s\)\n.*never(.*\n)*?  trace: m3 show `, `FAIL recorded\.TestInterrupted .*\n.*interrupted by SIGTERM(.*\n)*?  trace: m3 show `,
		"stopped by SIGTERM", "0 of 3 tests passed, 2 failed, 1 interrupted"} {
		if !regexp.MustCompile(want).MatchString(failed) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
	if !strings.Contains(said.String(), "STOP recorded.TestHangs (") || strings.Contains(failed, "TestHangs") {
		t.Errorf("TestHangs was interrupted:\n%s", said.String())
	}
}

// startRecorded starts m3 test -v in a module with a test file that uses m3.
func startRecorded(t *testing.T, test string, flags ...string) (cmd *exec.Cmd, out io.Reader, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "recorded")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := recordedModule(root, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(test), 0o644); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(exe, append([]string{"test", ".", "--", "-v"}, flags...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asM3+"=1", "GOFLAGS=", "SLOW_SERVER="+exe)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, pipe, dir
}

// waitForReady reads up to the line that says that a test is where it should be, and returns the ids of its process and of go test's.
func waitForReady(t *testing.T, sc *bufio.Scanner) (pids []int) {
	t.Helper()
	for sc.Scan() {
		said := strings.Fields(sc.Text())
		if len(said) != 3 || said[0] != "ready" {
			continue
		}
		for _, s := range said[1:] {
			pid, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
	t.Fatal("the test did not come up")
	return nil
}

// TestKilled: nothing is left after SIGKILL of m3, and the evidence has its end.
func TestKilled(t *testing.T) {
	t.Parallel()
	cmd, out, dir := startRecorded(t, killedTest)
	pids := waitForReady(t, bufio.NewScanner(out))
	began := time.Now()
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	for _, pid := range pids {
		waitGoneWithin(t, pid, 10*time.Second)
	}
	t.Logf("everything was gone after %v", time.Since(began))
	st, err := sqlite.Open(filepath.Join(dir, ".m3", "executions.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	runs, err := st.Runs(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Status != store.RunInterrupted || runs[0].Finished != nil {
		t.Errorf("a run whose m3 test was killed is %+v (%v), want interrupted, without an end", runs, err)
	}
	execs, err := st.Executions(t.Context(), nil)
	if err != nil || len(execs) != 1 || execs[0].Outcome != trace.OutcomeCancelled || execs[0].EventCount < 4 {
		t.Fatalf("executions %+v, %v", execs, err)
	}
	tr, err := st.Trace(t.Context(), execs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	view, err := tr.View()
	if err != nil || view.Processes().Len() != 1 {
		t.Fatalf("%d processes, %v", view.Processes().Len(), err)
	}
	pid, ok := view.Processes().At(0).PID.Get()
	if !ok {
		t.Fatal("the server's process is not known")
	}
	waitGone(t, pid)
}
