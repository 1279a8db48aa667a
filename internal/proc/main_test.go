package proc_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/proc/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main()
	os.Exit(m.Run())
}

// newTag returns a text that no process has in its arguments.
func newTag() string { return "tag" + strings.ToLower(rand.Text()) }

// kind returns the spec of a server kind, played by this test binary.
func kind(t *testing.T, k proctest.Kind, tag string) *proc.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &proc.Spec{Path: exe, Args: proctest.Command(k, tag), Env: append(os.Environ(), proctest.NoRaceSleep)}
}

// startReady starts a process and waits for its first line.
func startReady(t *testing.T, s *proc.Spec) *proc.Process {
	t.Helper()
	p, err := proc.Start(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.End(nil) })
	p.Stdout().SetReadDeadline(time.Now().Add(30 * time.Second))
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != proctest.Ready {
		t.Fatalf("first line %q, %v; stderr: %s", line, err, p.StderrTail())
	}
	p.Stdout().SetReadDeadline(time.Time{})
	return p
}
