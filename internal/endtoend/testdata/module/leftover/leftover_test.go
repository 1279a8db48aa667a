// Package leftover ends in every way in which a test process can end, with a server that does not want to.
package leftover

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/endtoend/rawserver"
	"github.com/m3-go/m3/m3test"
)

func TestMain(m *testing.M) {
	if base, ok := rawserver.Asked(); ok {
		serve(base)
	}
	m3test.Main(m, nil)
}

// serve never ends by itself: neither its input's end nor a signal that can be ignored does it.
func serve(base string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	s, err := rawserver.Stdio(base)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pending := make(chan struct{})
	s.Tools = map[string]rawserver.Tool{
		"ok": func(s *rawserver.Server, c *rawserver.Call) { s.Text(c.ID, "ok") },
		"hang": func(s *rawserver.Server, c *rawserver.Call) {
			fmt.Fprintln(os.Stderr, "hanging")
			if err := os.WriteFile(base+".pending", nil, 0o600); err != nil {
				panic(err)
			}
			close(pending)
		},
	}
	_ = s.Serve()
	for { // not select {}: the runtime ends a program in which nothing can happen any more
		time.Sleep(time.Hour)
	}
}

// open makes one call that is answered and one that is pending.
func open(t *testing.T) *m3.Client {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(os.Getenv("LOGS"), t.Name())
	client := m3test.Direct(t, m3.StdioServer{Name: "stubborn", Command: exe, Env: map[string]string{rawserver.Role: base}, Inherit: []string{"LEFTOVER"}},
		&m3.DirectOptions{Protocol: "2025-11-25"})
	if _, err := client.CallTool(t.Context(), "ok", nil, nil); err != nil {
		t.Fatal(err)
	}
	go client.CallTool(context.Background(), "hang", nil, &m3.CallOptions{Timeout: time.Hour}) // how it ends is in the evidence
	for {
		if _, err := os.Stat(base + ".pending"); err == nil {
			return client
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestClose(t *testing.T) {
	if err := open(t).Close(); err != nil {
		t.Error(err)
	}
}

func TestCleanup(t *testing.T) { open(t) }

func TestFail(t *testing.T) {
	open(t)
	t.Fatal("failed on purpose")
}

func TestPanic(t *testing.T) {
	open(t)
	go panic("on purpose")
	select {}
}

func TestExit(t *testing.T) {
	open(t)
	os.Exit(3)
}

func TestTimeout(t *testing.T) {
	open(t)
	select {}
}

func TestKill(t *testing.T) {
	open(t)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestInterrupt(t *testing.T) {
	open(t)
	fmt.Printf("interruptible %d\n", os.Getpid())
	select {}
}
