package proc

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// TestReaperBroken has an executable that does not become the reaper.
func TestReaperBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, text string }{
		{"ends at once", "exit 5", "m3's reaper, this executable started again"}, // seen by the first write or by the wait
		{"talks and ends", "echo hello >&3; cat", "did not come up"},
		{"hangs", "exec sleep 60", "did not come up (SIGKILL)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), "exe")
			if err := os.WriteFile(exe, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			r := &reaper{exe: exe}
			_, err := r.open()
			if err == nil {
				err = r.watch(ctx, os.Getpid(), 0)
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %q", err, c.text)
			}
			if r.proc != nil || r.notes != nil || r.ready != nil {
				t.Error("something of it is still there")
			}
		})
	}
}

// TestReaperKilled kills the reaper. The next one learns what the first one knew.
func TestReaperKilled(t *testing.T) {
	t.Parallel()
	r := &reaper{}
	first, firstDone := sleeper(t)
	second, secondDone := sleeper(t)
	watch(t, r, first)
	r.proc.Kill()
	r.proc.Wait()
	watch(t, r, second)
	if r.starts != 2 {
		t.Errorf("%d starts, want 2", r.starts)
	}
	r.notes.Close() // as the end of this process would
	for _, done := range []<-chan string{firstDone, secondDone} {
		if got := <-done; got != "SIGTERM" {
			t.Errorf("a process ended with %s, want SIGTERM", got)
		}
	}
	r.proc.Wait()
}

// TestReaperForgets does not end what it was told to forget, nor what has a number that was used again. Signals do not
// reach it.
func TestReaperForgets(t *testing.T) {
	t.Parallel()
	r := &reaper{}
	forgotten, forgottenDone := sleeper(t)
	reused, reusedDone := sleeper(t)
	watch(t, r, forgotten)
	r.forget(forgotten)
	if err := r.watch(t.Context(), reused, 1); err != nil { // nothing that lives now began so early
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		r.proc.Signal(sig)
	}
	r.notes.Close()
	if got := exitOf(r.proc.Wait()); got != (Exit{}) {
		t.Errorf("the reaper ended with %v; it ignores SIGINT, SIGTERM and SIGHUP", got)
	}
	for _, pid := range []int{forgotten, reused} {
		if _, alive := shim.Find(pid); !alive {
			t.Errorf("%d was ended", pid)
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-forgottenDone
	<-reusedDone
}

func watch(t *testing.T, r *reaper, pid int) {
	t.Helper()
	p, ok := shim.Find(pid)
	if !ok {
		t.Fatalf("%d is gone", pid)
	}
	if _, err := r.open(); err != nil {
		t.Fatal(err)
	}
	if err := r.watch(t.Context(), pid, p.Start); err != nil {
		t.Fatal(err)
	}
}

// sleeper starts a process in a group of its own and returns how it ended.
func sleeper(t *testing.T) (pid int, ended <-chan string) {
	t.Helper()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	c := make(chan string, 1)
	go func() { c <- exitOf(p.Wait()).String() }()
	t.Cleanup(func() { p.Kill() })
	return p.Pid, c
}

func TestExitText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Exit{
		"exit code 3": {Code: 3}, "SIGKILL": {Code: -1, Signal: "SIGKILL"}, "exit code not known": {Code: -1},
	} {
		if got := e.String(); got != want {
			t.Errorf("%#v is %q, want %q", e, got, want)
		}
	}
	if got := signalName(syscall.Signal(42)); got != "signal 42" {
		t.Errorf("signal 42 is %q", got)
	}
}

func TestLadderDefaults(t *testing.T) {
	t.Parallel()
	var none *Ladder
	if got, want := none.defaults(), (Ladder{500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}); got != want {
		t.Errorf("defaults are %v, want %v", got, want)
	}
	if got := (&Ladder{Term: 1}).defaults(); got != (Ladder{500 * time.Millisecond, 1, 2 * time.Second}) {
		t.Errorf("one field set: %v", got)
	}
}
