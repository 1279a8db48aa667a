package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/internal/shim"
	"github.com/m3-go/m3/trace"
)

func listen(t *testing.T) *relay.Listener {
	t.Helper()
	l, err := relay.Listen("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// shimmed is a shim that an agent started: this test binary.
type shimmed struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	agent  *relay.Agent
	hello  relay.Hello
	stderr strings.Builder
}

func startShim(t *testing.T, l *relay.Listener, env ...string) *shimmed {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &shimmed{cmd: exec.Command(exe)}
	s.cmd.Env = append(env, l.Env()...)
	s.cmd.Stderr = &s.stderr
	s.in, _ = s.cmd.StdinPipe()
	out, _ := s.cmd.StdoutPipe()
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if s.agent, s.hello, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.agent.Close() })
	return s
}

func (s *shimmed) line(t *testing.T) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v; stderr: %s", line, err, s.stderr.String())
	}
	return strings.TrimSuffix(line, "\n")
}

// exit waits for the shim's end and returns its code.
func (s *shimmed) exit(t *testing.T) int {
	t.Helper()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// TestShim: an agent talks to its server through the shim and the relay; ends and exit codes come through.
func TestShim(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 3} {
		r, l := newRig(t, relay.Config{}), listen(t)
		s := startShim(t, l, "SECRET=hidden", "PATH=/bin")
		server, far := pair(t)
		done := make(chan error, 1)
		go func() { done <- r.Stream(t.Context(), s.agent, far) }()
		say(t, s.in, askInit)
		if got := hear(t, server); got != askInit {
			t.Errorf("the server got %s", got)
		}
		big := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 16<<20) + `"}`
		go io.WriteString(server, big+"\n")
		if got := s.line(t); got != big {
			t.Errorf("the agent got %d bytes, want %d", len(got), len(big))
		}
		s.in.Close()
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the agent's end came as %v", err)
		}
		io.WriteString(server, "last words\n")
		server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.agent.Exit(code); err != nil {
			t.Error(err)
		}
		if got := s.line(t); got != "last words" {
			t.Errorf("got %q", got)
		}
		if got := s.exit(t); got != code || s.stderr.Len() > 0 {
			t.Errorf("exit code %d, want %d; stderr %q", got, code, s.stderr.String())
		}
		<-s.agent.Gone()
		dir, _ := os.Getwd()
		if s.hello.PID != s.cmd.Process.Pid || s.hello.Cwd != dir || s.hello.Token != "" || !slices.Equal(s.hello.Env[:2], []string{"SECRET", "PATH"}) || strings.Contains(strings.Join(s.hello.Env, " "), "hidden") {
			t.Errorf("hello: %+v", s.hello)
		}
	}
}

// TestShimKilled: what a killed shim had passed on is on the tape; the server hears of the end, and so does the kit.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	r, l := newRig(t, relay.Config{}), listen(t)
	s := startShim(t, l)
	server, far := pair(t)
	done := make(chan error, 1)
	go func() { done <- r.Stream(t.Context(), s.agent, far) }()
	for range 100 {
		say(t, s.in, askAdd)
		hear(t, server)
	}
	s.cmd.Process.Kill()
	<-s.agent.Gone()
	if _, err := io.ReadAll(server); err != nil {
		t.Errorf("the server's input ended with %v", err)
	}
	if err := <-done; err != nil { // although the server goes on: it has no agent any more
		t.Error(err)
	}
	if n := len(of(r.events(), trace.KindMCPRequest)); n != 100 {
		t.Errorf("%d requests were recorded, want 100", n)
	}
}

// TestShimSignals: the kit hears of signals to the shim, and its exit code is the shim's; without one the shim ends by itself.
func TestShimSignals(t *testing.T) {
	t.Parallel()
	l := listen(t)
	for _, answer := range []bool{true, false} {
		s := startShim(t, l)
		s.cmd.Process.Signal(syscall.SIGTERM)
		if got := <-s.agent.Signals(); got != syscall.SIGTERM {
			t.Errorf("got %v", got)
		}
		want := 143
		if answer {
			want = 9
			s.agent.Exit(want)
			s.agent.Close()
		}
		if got := s.exit(t); got != want {
			t.Errorf("exit code %d, want %d", got, want)
		}
	}
}

// TestShimAlone: a shim whose test is gone says so, or exits with 1.
func TestShimAlone(t *testing.T) {
	t.Parallel()
	exe, _ := os.Executable()
	cmd := exec.Command(exe)
	cmd.Env = []string{shim.RoleEnv + "=" + shim.RolePump, shim.PumpEnv + "=/nonexistent/s"}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "cannot reach the test") {
		t.Errorf("%q, %v", out, err)
	}
	l := listen(t)
	s := startShim(t, l)
	s.agent.UnixConn.Close()
	relay.Abandon(s.agent) // as the end of the test process does
	if got := s.exit(t); got != 1 {
		t.Errorf("exit code %d, want 1", got)
	}
}

// TestSocketDirectory: listeners share a directory, which goes with the last of them; one that somebody removed is made again.
func TestSocketDirectory(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "sd-") // a short one
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	open := func() *relay.Listener {
		l, err := relay.Listen(base, "")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := open(), open()
	dir := filepath.Dir(first.Path())
	if filepath.Dir(second.Path()) != dir || first.Path() == second.Path() {
		t.Errorf("%s and %s", first.Path(), second.Path())
	}
	first.Close()
	if _, err := os.Stat(second.Path()); err != nil {
		t.Errorf("the second went with the first: %v", err)
	}
	os.RemoveAll(dir)
	third := open()
	second.Close()
	if _, err := os.Stat(third.Path()); err != nil {
		t.Errorf("the third went with the second: %v", err)
	}
	third.Close()
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestListener: nobody comes in without the token, and nobody holds up who has it.
func TestListener(t *testing.T) {
	t.Parallel()
	l := listen(t)
	info, err := os.Stat(l.Path())
	dir, derr := os.Stat(filepath.Dir(l.Path()))
	if err != nil || derr != nil || info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
		t.Errorf("the socket is %v in %v", info.Mode(), dir.Mode())
	}
	dial := func(text string) net.Conn {
		c, err := net.Dial("unix", l.Path())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, text)
		return c
	}
	token := strings.TrimPrefix(l.Env()[2], shim.TokenEnv+"=")
	dial("")         // says nothing
	dial(`{"token"`) // never ends its line
	for _, bad := range []string{"\n", "hello\n", `{"token":"x","id":"i","pid":1}` + "\n", `{"token":"` + token + `","pid":1}` + "\n", strings.Repeat("x", shim.MaxHello+1)} {
		if n, err := dial(bad).Read(make([]byte, 1)); err == nil {
			t.Errorf("%.40q was let in, and heard %d bytes", bad, n)
		}
	}
	dial(`{"token":"` + token + `","id":"half","pid":1}` + "\n") // one connection of two
	s := startShim(t, l)
	say(t, s.in, "x")
	if got := hear(t, s.agent); got != "x" {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.Close()
	if _, _, err := l.Accept(t.Context()); !errors.Is(err, relay.ErrClosed) {
		t.Error(err)
	}
	if _, err := os.Stat(l.Path()); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := relay.Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 100)), ""); err == nil {
		t.Error("a directory that is not there was taken")
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	os.Mkdir(long, 0o700)
	if _, err := relay.Listen(long, ""); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a path that is too long: %v", err)
	}
}

// TestBytesWithHello: what comes in one piece with the hello is not lost.
func TestBytesWithHello(t *testing.T) {
	t.Parallel()
	l := listen(t)
	token := strings.TrimPrefix(l.Env()[2], shim.TokenEnv+"=")
	for _, control := range []bool{true, false} {
		h, _ := json.Marshal(relay.Hello{Token: token, ID: "i", PID: 1, Control: control})
		c, err := net.Dial("unix", l.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		text := string(h) + "\n"
		if !control {
			text += "first\nsecond\n"
		}
		io.WriteString(c, text)
	}
	a, _, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Abandon(a)
	for _, want := range []string{"first", "second"} {
		if got := hear(t, a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSelfCheck: an executable that prints when it starts, or is none of ours, is found out, with the remedy in the message.
func TestSelfCheck(t *testing.T) {
	t.Parallel()
	exe, _ := os.Executable()
	if err := relay.SelfCheck(t.Context(), exe); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct{ name, exe, want string }{
		{"prints before", script("before", "echo loaded 5 plugins\nexec "+exe), `prints "loaded 5 plugins\n" to stdout`},
		{"prints without a line end", script("bare", "printf ready\nexec "+exe), `prints "ready" to stdout`},
		{"prints after", script("after", exe+"\necho bye"), `prints "bye\n" to stdout`},
		{"fails", script("fails", "echo no licence >&2; exit 3"), `exit status 3; its stderr ends with "no licence"`},
		{"is another program", "/bin/cat", "no program that has m3 in it"},
		{"is not there", filepath.Join(dir, "missing"), "no such file"},
	} {
		err := relay.SelfCheck(t.Context(), tc.exe)
		var bad *relay.ShimError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "M3_SHIM") || bad.Executable != tc.exe {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := relay.SelfCheck(ctx, script("hangs", "exec sleep 60")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hangs: %v", err)
	}
}

// TestPrintingInit builds a program with a package whose init prints, as a user's may.
func TestPrintingInit(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "printing")
	if out, err := exec.Command("go", "build", "-o", bin, "./testdata/printing").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err := relay.SelfCheck(t.Context(), bin)
	var bad *relay.ShimError
	if !errors.As(err, &bad) || bad.Printed != "registered 3 codecs\n" {
		t.Errorf("got %v", err)
	}
}

// FuzzHello: no line makes the reader of hellos panic, and what it takes is what the shim can say.
func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"token":"t","id":"i","pid":1,"cwd":"/","env":["A"]}`))
	f.Add([]byte(`{"token":"t","id":"i","control":true,"pid":1}` + "\n"))
	f.Add([]byte(`{"token":"t","id":"i","pid":1}{}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		h, err := shim.ParseHello(line)
		if err != nil {
			return
		}
		if h.Token == "" || h.ID == "" || h.PID <= 0 || !json.Valid(line) {
			t.Errorf("%q was taken for %+v", line, h)
		}
		b, _ := json.Marshal(h)
		if again, err := shim.ParseHello(b); err != nil || again.Token != h.Token || again.PID != h.PID || len(again.Env) != len(h.Env) {
			t.Errorf("%q: %+v, again %+v, %v", line, h, again, err)
		}
	})
}
