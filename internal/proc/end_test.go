package proc_test

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/proc/proctest"
)

// patient is for what ends by itself in a moment, however busy the machine is.
var patient = &proc.Ladder{EOF: 20 * time.Second}

func TestEnd(t *testing.T) {
	t.Parallel()
	quick := &proc.Ladder{EOF: 100 * time.Millisecond, Term: 100 * time.Millisecond}
	leaderGoes := &proc.Ladder{EOF: time.Second} // enough for the leader on a busy machine; all of it is waited here
	for _, c := range []struct {
		kind      proctest.Kind
		ladder    *proc.Ladder
		step, own string
		exit      proc.Exit
		survivors int
	}{
		{proctest.Plain, patient, proc.StepEOF, proc.StepEOF, proc.Exit{}, 0},
		{proctest.Deaf, quick, proc.StepSigterm, proc.StepSigterm, proc.Exit{Code: -1, Signal: "SIGTERM"}, 0},
		{proctest.Stubborn, quick, proc.StepSigkill, proc.StepSigkill, proc.Exit{Code: -1, Signal: "SIGKILL"}, 0},
		{proctest.Background, leaderGoes, proc.StepSigterm, proc.StepEOF, proc.Exit{}, 1},
		{proctest.Setsid, patient, proc.StepEOF, proc.StepEOF, proc.Exit{}, 1},
		{proctest.Holder, patient, proc.StepEOF, proc.StepEOF, proc.Exit{}, 1},
		{proctest.Hidden, quick, proc.StepSigkill, proc.StepSigkill, proc.Exit{Code: -1, Signal: "SIGKILL"}, 1},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			tag := newTag()
			p := startReady(t, kind(t, c.kind, tag))
			left := pids(proctest.Left(tag), p.PID())
			got := p.End(c.ladder)
			want := proc.Ended{Step: c.step, Own: c.own, Exit: c.exit}
			if c.survivors > 0 {
				want.Survivors = left
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got.Survivors) != c.survivors {
				t.Errorf("Ended (-want +got), %d survivors wanted:\n%s", c.survivors, diff)
			}
			if l := proctest.Left(tag); len(l) > 0 {
				t.Errorf("left: %v", l)
			}
			select {
			case <-p.Exited():
			default:
				t.Error("not exited after End")
			}
		})
	}
}

func pids(left []proctest.Leftover, but int) []int {
	var ids []int
	for _, l := range left {
		if l.PID != but {
			ids = append(ids, l.PID)
		}
	}
	return ids
}

// TestEndOften calls End from several goroutines and again later.
func TestEndOften(t *testing.T) {
	t.Parallel()
	p := startReady(t, kind(t, proctest.Setsid, newTag()))
	var all [4]proc.Ended
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = p.End(patient) })
	}
	wg.Wait()
	for _, got := range append(all[:], p.End(&proc.Ladder{EOF: time.Hour})) {
		if diff := cmp.Diff(all[0], got); diff != "" || got.Step != proc.StepEOF {
			t.Errorf("(-first +other)\n%s", diff)
		}
	}
}

// TestEndedByItself has processes that are gone before End.
func TestEndedByItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, tail string
		exit               proc.Exit
	}{
		{"code", "echo going >&2; exit 3", "going\n", proc.Exit{Code: 3}},
		{"clean", "exit 0", "", proc.Exit{}},
		{"signal", "kill -SEGV $$", "", proc.Exit{Code: -1, Signal: "SIGSEGV"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := sh(t, c.script, nil)
			waitExited(t, p)
			exit, ok := p.Exit()
			if !ok || exit != c.exit || p.StderrTail() != c.tail {
				t.Errorf("Exit() = %v, %v, stderr %q; want %v, %q", exit, ok, p.StderrTail(), c.exit, c.tail)
			}
			if got, want := p.End(nil), (proc.Ended{Step: proc.StepExited, Own: proc.StepExited, Exit: c.exit}); !cmp.Equal(got, want) {
				t.Errorf("End() = %+v, want %+v", got, want)
			}
		})
	}
}

// TestHeldOpen has a descendant that keeps stderr and stdout open when the process is gone. Nothing may wait for it.
func TestHeldOpen(t *testing.T) {
	t.Parallel()
	tag := newTag()
	p := startReady(t, kind(t, proctest.Holder, tag))
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	waitExited(t, p)
	if d := time.Since(began); d < 50*time.Millisecond || d > 2*time.Second {
		t.Errorf("Exited after %v: it is not given up after 100 ms", d)
	}
	if len(proctest.Left(tag)) == 0 {
		t.Error("the holder is gone already: this test tests nothing")
	}
	e := p.End(nil)
	if e.Step != proc.StepExited || len(e.Survivors) != 1 {
		t.Errorf("End() = %+v, want the one survivor", e)
	}
	if b, err := io.ReadAll(p.Stdout()); err != nil || len(b) > 0 {
		t.Errorf("stdout after End: %q, %v; want its end", b, err)
	}
}

// TestGhost has a descendant that nothing connects with us any more but the pipes, which it holds. Linux shows who that is.
// Elsewhere it is reported as somebody; nobody waits for it, and a reader of stdout is released.
func TestGhost(t *testing.T) {
	t.Parallel()
	tag := newTag()
	t.Cleanup(func() { proctest.EndLeft(tag) })
	p := startReady(t, kind(t, proctest.Ghost, tag))
	read := make(chan error, 1)
	go func() {
		_, err := p.Stdout().Read(make([]byte, 1))
		read <- err
	}()
	ghosts := pids(proctest.Left(tag), p.PID())
	want := proc.Ended{Step: proc.StepEOF, Own: proc.StepEOF, Survivors: ghosts}
	if runtime.GOOS != "linux" {
		want.Survivors, want.Held = nil, true
	}
	if diff := cmp.Diff(want, p.End(patient)); diff != "" || len(ghosts) != 1 {
		t.Errorf("ghosts %v, End() (-want +got)\n%s", ghosts, diff)
	}
	select {
	case err := <-read:
		if want := io.EOF; err != want && !errors.Is(err, os.ErrClosed) {
			t.Errorf("read of stdout: %v, want %v", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Error("a read of stdout hangs")
	}
	if left := proctest.Left(tag); len(left) > 0 && runtime.GOOS == "linux" {
		t.Errorf("left: %v", left)
	}
}

// TestBlockedWriter ends a process that does not read, while a write to it is stuck.
func TestBlockedWriter(t *testing.T) {
	t.Parallel()
	p := sh(t, "trap '' TERM; while :; do sleep 1; done", nil)
	wrote := make(chan error, 1)
	go func() {
		_, err := p.Stdin().Write(make([]byte, 4<<20))
		wrote <- err
	}()
	e := p.End(&proc.Ladder{EOF: 50 * time.Millisecond, Term: 50 * time.Millisecond})
	if e.Step != proc.StepSigkill {
		t.Errorf("End() = %+v, want %s", e, proc.StepSigkill)
	}
	if err := <-wrote; err == nil {
		t.Error("4 MiB were written to a process that reads nothing")
	}
}

// TestDeadlines are what the wire relies on for writes to a process that does not read.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	p := sh(t, "exec sleep 60", nil)
	p.Stdin().SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := p.Stdin().Write(make([]byte, 4<<20)); !os.IsTimeout(err) {
		t.Errorf("write: %v, want a timeout", err)
	}
	p.Stdout().SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := p.Stdout().Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Errorf("read: %v, want a timeout", err)
	}
	if e := p.End(&proc.Ladder{EOF: time.Millisecond}); e.Step != proc.StepSigterm {
		t.Errorf("End() = %+v, want %s", e, proc.StepSigterm)
	}
}

// TestAnswerAfterEOF reads what a process writes only once its stdin has ended.
func TestAnswerAfterEOF(t *testing.T) {
	t.Parallel()
	p := sh(t, "cat >/dev/null; head -c 50000 /dev/zero", nil)
	p.End(patient)
	if b, err := io.ReadAll(p.Stdout()); err != nil || len(b) != 50000 {
		t.Errorf("read %d bytes, %v; want all 50000", len(b), err)
	}
}

// sh starts a shell script.
func sh(t *testing.T, script string, stderr func([]byte, proc.LineEnd)) *proc.Process {
	t.Helper()
	p, err := proc.Start(t.Context(), &proc.Spec{Path: "sh", Args: []string{"-c", script}, Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End(&proc.Ladder{EOF: time.Millisecond, Term: time.Millisecond})
		p.Stdout().Close()
	})
	return p
}

func waitExited(t *testing.T, p *proc.Process) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(20 * time.Second):
		t.Fatalf("it did not exit; stderr: %s", strings.TrimSpace(p.StderrTail()))
	}
}
