package gotest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// signalModule lays testdata/signals out once.
var signalModule = sync.OnceValues(func() (string, error) {
	ar, err := txtar.ParseFile("testdata/signals/module.txtar")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "gotest")
	if err != nil {
		return "", err
	}
	return dir, txtar.Write(ar, dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := signalModule(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// started is a go test that runs, with the test process's id once a test is ready.
type started struct {
	*Process
	signals chan os.Signal
	ready   chan int
	mu      sync.Mutex
	result  Result
	output  strings.Builder
	stderr  strings.Builder
}

func startSignals(t *testing.T, test string, grace time.Duration) *started {
	t.Helper()
	dir, err := signalModule()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{signals: make(chan os.Signal, 4), ready: make(chan int, 1)}
	args, err := ParseArgs(nil, []string{"-run", "^" + test + "$", "."})
	if err != nil {
		t.Fatal(err)
	}
	s.Process, err = Start(&Config{Dir: dir, Env: append(os.Environ(), "GOFLAGS="), Args: args.Command(), Grace: grace,
		Signals: s.signals, Event: s.event, Stderr: func(l []byte) { s.mu.Lock(); s.stderr.Write(l); s.mu.Unlock() }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *started) event(ev *Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Add(ev)
	s.output.WriteString(ev.Output)
	if rest, ok := strings.CutPrefix(ev.Output, "ready "); ok {
		pid, _ := strconv.Atoi(strings.TrimSpace(rest))
		s.ready <- pid
	}
}

// waitReady returns the test process's id.
func (s *started) waitReady(t *testing.T) int {
	t.Helper()
	select {
	case pid := <-s.ready:
		return pid
	case <-time.After(2 * time.Minute):
		t.Fatalf("the test is not ready: %s", s.stderr.String())
		return 0
	}
}

// gone also takes a zombie for gone: where nobody reaps orphans, one stays of each process whose parent was killed with it.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(out), "Z")
}

func TestSignals(t *testing.T) {
	t.Parallel()
	type want struct {
		code   int
		killed bool
		output string
	}
	run := func(t *testing.T, test string, grace time.Duration, sigs []os.Signal, w want) {
		s := startSignals(t, test, grace)
		pid := s.waitReady(t)
		for _, sig := range sigs {
			s.signals <- sig
		}
		ex := s.Wait(t.Context())
		if ex.Code != w.code || ex.Killed != w.killed || ex.Signal != sigs[0] {
			t.Errorf("exit %+v, want %+v\n%s\n%s", ex, w, s.output.String(), s.stderr.String())
		}
		if !strings.Contains(s.output.String(), w.output) {
			t.Errorf("output %q, want %q in it", s.output.String(), w.output)
		}
		if !gone(pid) || !gone(s.PID()) {
			t.Errorf("something of the group is left")
		}
	}
	for _, tc := range []struct {
		name, test string
		grace      time.Duration
		sigs       []os.Signal
		want       want
	}{
		{"interrupt", "TestPlain", time.Minute, []os.Signal{syscall.SIGINT}, want{130, false, "signal: interrupt"}},
		{"interrupt waits for the test", "TestFinalizes", time.Minute, []os.Signal{syscall.SIGINT}, want{130, false, "finalized after interrupt"}},
		{"terminate waits for the test", "TestFinalizes", time.Minute, []os.Signal{syscall.SIGTERM}, want{143, false, "finalized after terminated"}},
		{"quit dumps the stacks", "TestPlain", time.Minute, []os.Signal{syscall.SIGQUIT}, want{131, false, "SIGQUIT: quit"}},
		{"second signal kills", "TestIgnores", time.Minute, []os.Signal{syscall.SIGINT, syscall.SIGINT}, want{130, true, ""}},
		{"grace ends", "TestIgnores", 200 * time.Millisecond, []os.Signal{syscall.SIGINT}, want{130, true, ""}},
	} {
		t.Run(tc.name, func(t *testing.T) { t.Parallel(); run(t, tc.test, tc.grace, tc.sigs, tc.want) })
	}
}

func TestContextEndsTheRun(t *testing.T) {
	t.Parallel()
	s := startSignals(t, "TestPlain", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	pid := s.waitReady(t)
	cancel()
	if ex := s.Wait(ctx); ex.Code != 130 || !gone(pid) {
		t.Errorf("exit %+v, test process gone %v", ex, gone(pid))
	}
}

func TestGoKilled(t *testing.T) {
	t.Parallel()
	s := startSignals(t, "TestIgnores", 200*time.Millisecond)
	pid := s.waitReady(t)
	syscall.Kill(s.PID(), syscall.SIGKILL)
	ex := s.Wait(t.Context())
	if ex.Code != 137 || ex.GoSignal != "killed" || ex.Signal != nil || !gone(pid) {
		t.Errorf("exit %+v, test process gone %v", ex, gone(pid))
	}
}

func TestLeftoverChildDoesNotHoldTheRun(t *testing.T) {
	t.Parallel()
	s := startSignals(t, "TestLeavesAChild", time.Minute)
	s.waitReady(t)
	if ex := s.Wait(t.Context()); ex.Code != 0 {
		t.Errorf("exit %+v: %s", ex, s.output.String())
	}
	syscall.Kill(-s.PID(), syscall.SIGKILL) // the sleep is the test's own, in go test's group
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, m := range loadModules(t) {
		want, ok := map[string]int{"pass": 0, "fail": 1, "buildfail": 1, "skips": 0, "goroutinepanic": 1, "silentexit": 0}[m.name]
		if !ok {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			args, err := ParseArgs(nil, m.args)
			if err != nil {
				t.Fatal(err)
			}
			var r Result
			p, err := Start(&Config{Dir: m.write(t), Env: append(os.Environ(), "GOFLAGS=-trimpath"), Args: args.Command(),
				Event: func(ev *Event) { r.Add(ev) }})
			if err != nil {
				t.Fatal(err)
			}
			if ex := p.Wait(t.Context()); ex.Code != want || len(r.Packages) == 0 {
				t.Errorf("exit %+v with %d packages, want %d", ex, len(r.Packages), want)
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"no go":  {Config{Go: "no-such-go"}, "not in PATH"},
		"no dir": {Config{Dir: filepath.Join(t.TempDir(), "nowhere")}, "no such file"},
	} {
		p, err := Start(&tc.cfg)
		if p != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
