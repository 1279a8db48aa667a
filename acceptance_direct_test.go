package m3_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// The tests of this file show promises of docs/acceptance.md that no example shows.

// scripted is a server of the initialize era whose tools end in every way in which a call can end.
var scripted = m3.PipeServer{Name: "scripted", Serve: serveScripted}

func serveScripted(_ context.Context, stream io.ReadWriteCloser) error {
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name    string `json:"name"`
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		answer := ""
		switch {
		case m.ID == nil || m.Params.Name == "silent":
			continue
		case m.Params.Name == "leave":
			return nil
		case m.Method == "initialize":
			answer = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}`, m.Params.Version)
		case m.Params.Name == "refuse":
			answer = `"error":{"code":-32000,"message":"not today"}`
		case m.Params.Name == "garble":
			answer = `"result":"no object"`
		case m.Method == "tools/call":
			answer = fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}],"isError":%t}`, m.Params.Name, m.Params.Name == "fail")
		default:
			answer = `"error":{"code":-32601,"message":"no such method"}`
		}
		if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func newKit(t *testing.T, cfg m3.Config) *m3.Kit {
	t.Helper()
	kit, err := m3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kit.Close(); err != nil {
			t.Error(err)
		}
	})
	return kit
}

func connect(t *testing.T, kit *m3.Kit, server m3.Server, opts *m3.DirectOptions) *m3.Client {
	t.Helper()
	client, err := kit.Direct(t.Context(), server, opts)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// C16: a definition, and a kit, open nothing. A secret is asked for, and a server started, when a client connects.
func TestDefinitionsOpenNothing(t *testing.T) {
	t.Parallel()
	var served, asked atomic.Int64
	pipe := m3.PipeServer{Name: "pipe", Serve: func(ctx context.Context, stream io.ReadWriteCloser) error {
		served.Add(1)
		return serveScripted(ctx, stream)
	}}
	stdio := m3.StdioServer{Command: "/no/such/server", Secrets: map[string]m3.SecretRef{
		"SHOP_KEY": {Name: "vault", Lookup: func(context.Context) (string, error) { asked.Add(1); return "long enough", nil }},
	}}
	kit := newKit(t, m3.Config{})
	if pipe.ServerName() != "pipe" || stdio.ServerName() != "server" {
		t.Errorf("names %q and %q", pipe.ServerName(), stdio.ServerName())
	}
	if served.Load() != 0 || asked.Load() != 0 {
		t.Fatalf("before any client: served %d times, asked for the secret %d times", served.Load(), asked.Load())
	}
	connect(t, kit, pipe, &m3.DirectOptions{Protocol: "2025-11-25"})
	var transport *m3.TransportError
	if _, err := kit.Direct(t.Context(), stdio, nil); !errors.As(err, &transport) || !strings.Contains(err.Error(), "/no/such/server") {
		t.Errorf("connecting to a program that is not there: %v", err)
	}
	if served.Load() != 1 || asked.Load() != 1 {
		t.Errorf("after one client each: served %d times, asked for the secret %d times", served.Load(), asked.Load())
	}
}

// C23: a tool's failure is a result; whatever else goes wrong is an error of a type of its own, which errors.As finds.
func TestFailuresHaveTheirOwnTypes(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		tool string
		ctx  context.Context
		args any
		opts *m3.CallOptions
		code string // empty: no error
		is   error
	}{
		{tool: "fail"},
		{tool: "refuse", code: "protocol_error"},
		{tool: "garble", code: "protocol_error"},
		{tool: "leave", code: "transport_error"},
		{tool: "silent", opts: &m3.CallOptions{Timeout: 20 * time.Millisecond}, code: "timeout", is: context.DeadlineExceeded},
		{tool: "silent", ctx: cancelled, code: "cancelled", is: context.Canceled},
		{tool: "echo", args: json.RawMessage("{"), code: "invalid_argument", is: m3.ErrValidation},
	} {
		t.Run(tc.tool+" "+tc.code, func(t *testing.T) {
			t.Parallel()
			client := connect(t, newKit(t, m3.Config{}), scripted, &m3.DirectOptions{Protocol: "2025-11-25"})
			ctx := t.Context()
			if tc.ctx != nil {
				ctx = tc.ctx
			}
			r, err := client.CallTool(ctx, tc.tool, tc.args, tc.opts)
			if tc.code == "" {
				if err != nil || !r.IsError {
					t.Errorf("a tool's failure: %+v, %v", r, err)
				}
				return
			}
			var coded interface{ Code() string }
			if !errors.As(fmt.Errorf("wrapped: %w", err), &coded) || coded.Code() != tc.code {
				t.Fatalf("%T with code %v: %v, want %s", err, coded, err, tc.code)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
			if strings.TrimPrefix(err.Error(), "m3: ") == context.DeadlineExceeded.Error() || !strings.Contains(err.Error(), tc.tool) {
				t.Errorf("the error does not say what it is about: %v", err)
			}
		})
	}
}

// L62: the version is chosen by the kit's configuration, or by a client's options, which win.
func TestProtocolOfKitAndClient(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{Protocol: "2025-03-26"})
	for _, tc := range []struct {
		opts *m3.DirectOptions
		want string
	}{
		{nil, "2025-03-26"},
		{&m3.DirectOptions{Protocol: "2024-11-05"}, "2024-11-05"},
	} {
		if got := connect(t, kit, scripted, tc.opts).Initialization().ProtocolVersion; got != tc.want {
			t.Errorf("protocol %s, want %s", got, tc.want)
		}
	}
	var unsupported *m3.UnsupportedError
	if _, err := m3.New(m3.Config{Protocol: "2023-01-01"}); !errors.As(err, &unsupported) {
		t.Errorf("a kit with an unknown protocol: %v", err)
	}
}

// C46: an execution that failed, ran out of time or was cancelled keeps what was seen of it, and has no answer that nobody gave.
func TestUnfinishedExecutionsKeepTheirEvidence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		end     func(t *testing.T, kit *m3.Kit, client *m3.Client)
		outcome trace.Outcome
		status  trace.ToolCallStatus // of the call that was not answered
	}{
		{"failed", func(t *testing.T, _ *m3.Kit, c *m3.Client) {
			if _, err := c.CallTool(t.Context(), "leave", nil, nil); err == nil {
				t.Error("a server that left has answered")
			}
		}, trace.OutcomeFailed, trace.ToolTransportError},
		{"timed out", func(t *testing.T, kit *m3.Kit, c *m3.Client) {
			stopDuring(t, kit, c, trace.OutcomeTimedOut)
		}, trace.OutcomeTimedOut, trace.ToolTimedOut},
		{"cancelled", func(t *testing.T, kit *m3.Kit, c *m3.Client) {
			stopDuring(t, kit, c, trace.OutcomeCancelled)
		}, trace.OutcomeCancelled, trace.ToolCancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kit := newKit(t, m3.Config{})
			client := connect(t, kit, scripted, &m3.DirectOptions{Protocol: "2025-11-25"})
			if _, err := client.CallTool(t.Context(), "before", nil, nil); err != nil {
				t.Fatal(err)
			}
			tc.end(t, kit, client)
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			view, err := client.View()
			if err != nil {
				t.Fatal(err)
			}
			calls := view.ToolCalls()
			if view.Outcome() != tc.outcome || calls.Len() != 2 || calls.At(0).ToolStatus != trace.ToolSuccess {
				t.Fatalf("outcome %s with %d calls", view.Outcome(), calls.Len())
			}
			if last := calls.At(1); last.ToolStatus != tc.status || last.Result.OK() {
				t.Errorf("the call that was not answered reads %s, want %s; result %s", last.ToolStatus, tc.status, last.Result.State)
			}
		})
	}
}

// stopDuring ends the kit from outside while a call waits for its answer.
func stopDuring(t *testing.T, kit *m3.Kit, c *m3.Client, outcome trace.Outcome) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "silent", nil, nil)
		done <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if v, err := c.Snapshot(); err == nil && v.ToolCalls().Len() == 2 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the call never began: %v", err)
		}
	}
	if err := kit.Stop(t.Context(), outcome, "the test says so"); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the test says so") {
		t.Errorf("the call ended with %v", err)
	}
}

// A connect that fails is an execution too: its trace tells what was seen (C46).
func TestFailedConnectLeavesATrace(t *testing.T) {
	t.Parallel()
	var id trace.ExecutionID
	kit := newKit(t, m3.Config{OnExecution: func(x trace.ExecutionID) { id = x }})
	_, err := kit.Direct(t.Context(), m3.StdioServer{Name: "broken", Command: "sh", Args: []string{"-c", "echo no config >&2; exit 3"}}, nil)
	var transport *m3.TransportError
	if !errors.As(err, &transport) || !strings.Contains(err.Error(), "no config") {
		t.Fatalf("connect: %v", err)
	}
	tr, err := kit.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	view, err := tr.View()
	if err != nil {
		t.Fatal(err)
	}
	if view.Outcome() != trace.OutcomeFailed || view.Processes().Len() == 0 {
		t.Fatalf("outcome %s, %d processes", view.Outcome(), view.Processes().Len())
	}
	if code, ok := view.Processes().At(0).ExitCode.Get(); !ok || code != 3 {
		t.Errorf("exit code %d, observed %v", code, ok)
	}
	info, err := kit.Store().Execution(t.Context(), id)
	if err != nil || info.Outcome != trace.OutcomeFailed || info.Finished == nil {
		t.Errorf("stored as %+v, %v", info, err)
	}
}

// C58: the events of a trace are there for whoever wants to read them, and whatever is done to what a view returned, it and every later view
// stay as they are.
func TestViewIsImmutable(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), scripted, &m3.DirectOptions{Protocol: "2025-11-25"})
	const args = `{"text":"as it was"}`
	if _, err := client.CallTool(t.Context(), "echo", json.RawMessage(args), nil); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := client.FinalTrace()
	if err != nil {
		t.Fatal(err)
	}
	view, err := tr.View()
	if err != nil {
		t.Fatal(err)
	}
	clear(view.ToolCalls().At(0).Arguments.Value)
	frames := 0
	for _, ev := range tr.Events() {
		if ev.Frame != nil {
			clear(ev.Frame.Bytes)
			frames++
		}
	}
	again, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []trace.View{view, again} {
		if got := v.ToolCalls().At(0).Arguments.Value; string(got) != args {
			t.Errorf("the arguments are now %q", got)
		}
	}
	if frames != 5 { // initialize and its answer, initialized, the call and its answer
		t.Errorf("%d frames", frames)
	}
}
