package lifecycle

import (
	"errors"
	"syscall"
	"testing"

	"github.com/m3-go/m3/m3test"
)

// The client owns the server's process: when Close returns, it is gone, and the trace says how it went.
func TestProcessIsGone(t *testing.T) {
	t.Parallel()
	client := m3test.Direct(t, shop, nil)
	open, err := client.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if open.Processes().Len() == 0 {
		t.Fatal("the open client has no process")
	}
	pid, ok := open.Processes().At(0).PID.Get()
	if !ok || syscall.Kill(pid, 0) != nil {
		t.Fatalf("process %d does not run", pid)
	}

	view := m3test.Finish(t, client)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	for _, p := range view.Processes().All() {
		// A server that behaves exits when its stdin ends, by itself.
		if code, ok := p.ExitCode.Get(); !ok || code != 0 || p.Ended != "eof" {
			t.Errorf("process %d ended by %q with code %d, observed %v", p.PID.Value, p.Ended, code, ok)
		}
	}
}
