package m3_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// A server that exits at once is one clear error, with its exit code and its last words.
func TestServerThatExitsAtOnce(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", legacy5, newest} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			_, err := newKit(t, m3.Config{}).Direct(t.Context(), fixture(t, "exits"), &m3.DirectOptions{Protocol: protocol})
			e := wantError[*m3.TransportError](t, err, "transport_error", "no configuration found")
			if !strings.Contains(err.Error(), "exited with code 3") || e.Details["exit_code"] != 3 || e.Details["phase"] != "initialization" || !strings.Contains(e.Stderr, "no configuration found") {
				t.Errorf("%v, details %v", err, e.Details)
			}
		})
	}
}

// A banner on stdout is a finding, and the session lives.
func TestServerWithABanner(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), fixture(t, "banner"), nil)
	if r, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil || r.Text() != "echo" {
		t.Fatalf("%v, %v", r, err)
	}
	if !hasFinding(client, "stdout-noise") {
		t.Errorf("findings %v", client.Findings())
	}
	view := finish(t, client)
	if view.Findings().Len() == 0 || view.Completeness() != trace.Complete {
		t.Errorf("%d findings, %s", view.Findings().Len(), view.Completeness())
	}
}

// A mebibyte on stderr before the first answer blocks nothing, and all of it is evidence.
func TestServerThatFloodsStderr(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	lines := 0
	kit := newKit(t, m3.Config{StderrLine: func(server, line string) {
		mu.Lock()
		defer mu.Unlock()
		if server == "flood" && len(line) == 1023 {
			lines++
		}
	}})
	client := connect(t, kit, fixture(t, "flood"), nil)
	if _, err := client.CallTool(t.Context(), "die", nil, nil); err == nil || len(err.Error()) > 20<<10 || !strings.Contains(err.Error(), "out of stock") {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	view := finish(t, client)
	kept := 0
	for _, m := range view.RawMessages().All() {
		if m.Verdict == "stderr" && m.SizeBytes == 1024 {
			kept++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if kept != 1024 || lines != 1024 {
		t.Errorf("%d lines were kept, %d told, want 1024", kept, lines)
	}
}

// A server that dies during a call fails that call with its exit code and last words, and the execution has failed.
func TestServerThatDiesMidCall(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), fixture(t, "plain"), nil)
	waiting := during(func() error { return second(client.CallTool(t.Context(), "silent", nil, nil)) })
	awaitCalls(t, client, 1)
	_, err := client.CallTool(t.Context(), "die", nil, nil)
	e := wantError[*m3.TransportError](t, err, "transport_error", "panic: out of stock")
	if !strings.Contains(err.Error(), "exited with code 7") || e.Details["exit_code"] != 7 || e.Details["phase"] != "call" {
		t.Errorf("%v, details %v", err, e.Details)
	}
	wantError[*m3.TransportError](t, <-waiting, "transport_error", "call silent")
	_, err = client.CallTool(t.Context(), "after", nil, nil)
	wantError[*m3.TransportError](t, err, "transport_error", "exited with code 7")
	view := finish(t, client)
	if view.Outcome() != trace.OutcomeFailed || view.Completeness() != trace.Complete {
		t.Errorf("%s, %s", view.Outcome(), view.Completeness())
	}
	p := view.Processes().At(view.Processes().Len() - 1)
	if p.ExitCode.Value != 7 || p.Ended != "exited" || !strings.Contains(p.Stderr.Value, "out of stock") {
		t.Errorf("%+v", p)
	}
}

// awaitCalls waits until the trace has n tool calls.
func awaitCalls(t *testing.T, c *m3.Client, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		v, err := c.Snapshot()
		if err == nil && v.ToolCalls().Len() >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the calls never began: %v", err)
		}
	}
}

// A server that never answers runs into the start deadline, or the caller's, and the error says which; it is never a deadline alone. Nothing is left.
func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	_, err := kit.Direct(t.Context(), fixture(t, "mute"), &m3.DirectOptions{Protocol: legacy5, StartTimeout: 150 * time.Millisecond})
	e := wantError[*m3.TimeoutError](t, err, "timeout", "did not finish the handshake within 150ms")
	if !strings.Contains(err.Error(), "initialize") || e.Details["timeout_seconds"] != 0.15 || strings.Contains(err.Error(), "exited") || strings.Contains(err.Error(), "killed") {
		t.Errorf("%v, details %v", err, e.Details)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err = kit.Direct(ctx, fixture(t, "mute"), old())
	e = wantError[*m3.TimeoutError](t, err, "timeout", "the caller's deadline passed")
	if strings.Contains(err.Error(), "30s") || e.Details["timeout_seconds"] != nil {
		t.Errorf("%v, details %v", err, e.Details)
	}
	cancelled, stop := context.WithCancel(t.Context())
	time.AfterFunc(150*time.Millisecond, stop)
	_, err = kit.Direct(cancelled, fixture(t, "mute"), nil)
	wantError[*m3.CancelledError](t, err, "cancelled", "connect to mute")
	all, err := kit.Store().Executions(t.Context(), nil)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d executions, %v", len(all), err)
	}
	for i, want := range []trace.Outcome{trace.OutcomeTimedOut, trace.OutcomeTimedOut, trace.OutcomeCancelled} {
		if all[i].Outcome != want {
			t.Errorf("execution %d is %s, want %s", i, all[i].Outcome, want)
		}
	}
}

// A handshake of garbage is a protocol error; m3 ended the process, so how it ended is not told.
func TestServerThatAnswersGarbage(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{legacy5, newest, ""} {
		_, err := newKit(t, m3.Config{}).Direct(t.Context(), fixture(t, "garbage"), &m3.DirectOptions{Protocol: protocol})
		if err == nil {
			t.Fatalf("%q: connected", protocol)
		}
		e := wantError[*m3.ProtocolError](t, err, "protocol_error", "connect to garbage")
		if strings.Contains(err.Error(), "exited with code") || e.Details["exit_code"] != nil {
			t.Errorf("%v, details %v", err, e.Details)
		}
	}
}

// An answer over the frame cap fails its call, and no other.
func TestFrameCap(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]m3.Server{"stdio": fixture(t, "plain"), "pipe": on(map[string]func(*peer, *message){"big": func(p *peer, m *message) { fixtureTool(p, m) }}).server()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, newKit(t, m3.Config{}), server, &m3.DirectOptions{MaxFrame: 64 << 10})
			_, err := client.CallTool(t.Context(), "big", nil, &m3.CallOptions{Timeout: 20 * time.Second})
			var timeout *m3.TimeoutError
			var coded interface{ Code() string }
			if errors.As(err, &timeout) || !errors.As(err, &coded) || !strings.Contains(err.Error(), "call big") {
				t.Errorf("%T: %v", err, err)
			}
			if r, err := client.CallTool(t.Context(), "small", nil, nil); err != nil || r.Text() != "small" {
				t.Errorf("the next call: %v, %v", r, err)
			}
			view := finish(t, client)
			dropped := int64(0)
			for _, m := range view.RawMessages().All() {
				dropped += m.Dropped
			}
			if dropped < 100<<10 {
				t.Errorf("%d bytes were counted as dropped", dropped)
			}
		})
	}
}

// A server in this process that panics, or fails, ends its connection and not the tests; a call that fails with it says why.
func TestPipeServerThatFails(t *testing.T) {
	t.Parallel()
	fails := func(how func()) m3.PipeServer {
		p := on(map[string]func(*peer, *message){"fail": func(*peer, *message) { how() }})
		return m3.PipeServer{Name: "failing", Serve: func(_ context.Context, stream io.ReadWriteCloser) error { return p.serve(stream, stream) }}
	}
	client := connect(t, newKit(t, m3.Config{}), fails(func() { panic("out of stock") }), old())
	_, err := client.CallTool(t.Context(), "fail", nil, nil)
	e := wantError[*m3.TransportError](t, err, "transport_error", "the server panicked: out of stock")
	if !strings.Contains(e.Stderr, "process_test.go") {
		t.Errorf("no stack in %q", e.Stderr)
	}
	view := finish(t, client)
	told := 0
	for _, m := range view.RawMessages().All() {
		if m.Verdict == "stderr" && m.ConnectionID == "c1" {
			told++
		}
	}
	if told < 5 || view.Outcome() != trace.OutcomeFailed {
		t.Errorf("%d lines, %s", told, view.Outcome())
	}
	broken := m3.PipeServer{Name: "broken", Serve: func(context.Context, io.ReadWriteCloser) error { return errors.New("no database") }}
	_, err = newKit(t, m3.Config{}).Direct(t.Context(), broken, old())
	wantError[*m3.TransportError](t, err, "transport_error", "no database")
	// Goexit runs the deferred calls and nothing else of the goroutine.
	_, err = newKit(t, m3.Config{}).Direct(t.Context(), m3.PipeServer{Name: "gone", Serve: func(context.Context, io.ReadWriteCloser) error { runtime.Goexit(); return nil }}, old())
	wantError[*m3.TransportError](t, err, "transport_error", "connect to gone")
}

// A Serve that does not return when its stream ends is given its context's end, and a finding when that does not help either.
func TestPipeServerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	for name, wait := range map[string]func(context.Context){"context": func(ctx context.Context) { <-ctx.Done() }, "never": func(context.Context) { <-release }} {
		p := silent()
		client := connect(t, newKit(t, m3.Config{}), m3.PipeServer{Name: name, Serve: func(ctx context.Context, stream io.ReadWriteCloser) error {
			_ = p.serve(stream, stream)
			wait(ctx)
			return nil
		}}, old())
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if found := hasFinding(client, "serve-did-not-return"); found != (name == "never") {
			t.Errorf("%s: findings %v", name, client.Findings())
		}
	}
	close(release)
}

// The process is gone when Close returns.
func TestProcessEndsWithItsClient(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), fixture(t, "plain"), nil)
	view := finish(t, client)
	p := view.Processes().At(0)
	if p.Ended != "eof" || p.ExitCode.Value != 0 || len(p.Survivors) != 0 {
		t.Errorf("%+v", p)
	}
	if proc, err := os.FindProcess(p.PID.Value); err == nil && proc.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d still runs", p.PID.Value)
	}
}
