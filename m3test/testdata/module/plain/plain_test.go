package plain

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
)

// call makes one acknowledged call.
func call(t *testing.T) *m3.Client {
	t.Helper()
	client := m3test.Direct(t, Server, nil)
	if _, err := client.CallTool(t.Context(), "ok", nil, nil); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestPass(t *testing.T) {
	expect.That(t, m3test.Finish(t, call(t))).ToolCall("ok", expect.Succeeded())
}

func TestFail(t *testing.T) {
	expect.That(t, m3test.Finish(t, call(t))).ToolCall("missing")
}

func TestSkip(t *testing.T) {
	call(t)
	t.Skip("not today")
}

// TestEnvironment shows that nothing that a test starts inherits m3's settings.
func TestEnvironment(t *testing.T) {
	call(t)
	if testing.Short() {
		return
	}
	out, err := exec.Command("env").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"M3_RESULTS_DB", "M3_RUN_ID", "M3_SUITE"} {
		if _, ok := os.LookupEnv(name); ok || strings.Contains(string(out), name) {
			t.Errorf("%s is inherited", name)
		}
	}
}

func TestConnectFails(t *testing.T) {
	m3test.Direct(t, m3.StdioServer{Name: "dead", Command: "false"}, nil)
}

// TestHang waits for what never comes.
func TestHang(t *testing.T) {
	client := call(t)
	_, err := client.CallTool(t.Context(), "hang", nil, &m3.CallOptions{Timeout: 1 << 40})
	var timeout *m3.TimeoutError
	fmt.Printf("hang ended: timeout %v: %v\n", errors.As(err, &timeout), err)
}

// TestKill dies as nobody can prepare for.
func TestKill(t *testing.T) {
	client := call(t)
	fmt.Printf("acknowledged %s\n", client.ExecutionID())
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestInterrupt says when it may be interrupted, and then hangs.
func TestInterrupt(t *testing.T) {
	client := call(t)
	fmt.Printf("interruptible %d\n", os.Getpid())
	_, err := client.CallTool(t.Context(), "hang", nil, &m3.CallOptions{Timeout: 1 << 40})
	t.Errorf("the call ended: %v", err)
}
