package proc

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGuardEndsGently: when the process is gone, a guarded group gets one SIGINT and time to finish, and what ignores it is killed; a group
// that was forgotten is left alone.
func TestGuardEndsGently(t *testing.T) {
	t.Parallel()
	r := &reaper{}
	if _, err := r.open(); err != nil {
		t.Fatal(err)
	}
	g := &Guard{r: r}
	polite, politeSays := shell(t, `trap 'sleep 1; echo finished; exit 0' INT; echo ready; while :; do sleep 0.05; done`)
	stubborn, _ := shell(t, `trap '' INT; echo ready; while :; do sleep 0.05; done`)
	forgotten, _ := shell(t, `echo ready; while :; do sleep 0.05; done`)
	for _, cmd := range []*exec.Cmd{polite, stubborn, forgotten} {
		if err := g.Watch(t.Context(), cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	g.Forget(forgotten.Process.Pid)
	began := time.Now()
	r.notes.Close() // as the end of this process would
	if line, err := politeSays.ReadString('\n'); strings.TrimSpace(line) != "finished" {
		t.Errorf("the group that finishes said %q, %v", line, err)
	}
	if err := polite.Wait(); err != nil {
		t.Errorf("the group that finishes ended with %v", err)
	}
	if got := exitOf(stubborn.Process.Wait()).String(); got != "SIGKILL" {
		t.Errorf("the group that ignores SIGINT ended with %s", got)
	}
	if took := time.Since(began); took < 5*time.Second || took > 10*time.Second {
		t.Errorf("it took %v, want about 7 s", took)
	}
	r.proc.Wait()
	if err := forgotten.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the forgotten group: %v", err)
	}
	forgotten.Process.Kill()
	forgotten.Wait()
}

// shell starts a script in a group of its own and waits until it says that it is ready.
func shell(t *testing.T, script string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); strings.TrimSpace(line) != "ready" {
		t.Fatalf("first line %q, %v", line, err)
	}
	return cmd, said
}
