package m3_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// The text of an error is bounded, whatever the server says; the error's value is whole.
func TestRemoteErrorIsBounded(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 3<<20)
	client := connect(t, newKit(t, m3.Config{}), on(map[string]func(*peer, *message){
		"huge":  func(p *peer, m *message) { p.fail(m, "-32000", huge) },
		"empty": func(p *peer, m *message) { p.say(`{"jsonrpc":"2.0","id":%s,"error":{}}`, m.ID) },
	}).server(), nil)
	_, err := client.CallTool(t.Context(), "huge", nil, nil)
	e := wantError[*m3.ProtocolError](t, err, "protocol_error", "3145728 bytes in all")
	if len(err.Error()) > 1200 || e.RPC.Message != huge {
		t.Errorf("a text of %d bytes, a message of %d", len(err.Error()), len(e.RPC.Message))
	}
	_, err = client.CallTool(t.Context(), "empty", nil, nil)
	wantError[*m3.ProtocolError](t, err, "protocol_error", "the server answered with an error object without code and message")
}

// Arguments that look like secrets reach the process, and nothing that is kept.
func TestArgumentsAreRedacted(t *testing.T) {
	t.Parallel()
	server := fixture(t, "plain")
	server.Args = append(server.Args, "--token", "hunter2", "-v")
	kit := newKit(t, m3.Config{})
	client := connect(t, kit, server, nil)
	view := finish(t, client)
	info, err := kit.Store().Execution(t.Context(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	transports, err := json.Marshal(view.Transports().At(0))
	if err != nil {
		t.Fatal(err)
	}
	for what, kept := range map[string]string{"specification": info.Spec.String(), "transport": string(transports)} {
		if strings.Contains(kept, "hunter2") || !strings.Contains(kept, `"--token","[REDACTED]","-v"`) {
			t.Errorf("%s: %s", what, kept)
		}
	}
}

// The process entry says when its stderr is only the end.
func TestStderrTailIsTruncated(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]trace.State{"flood": trace.Truncated, "plain": trace.Observed} {
		view := finish(t, connect(t, newKit(t, m3.Config{}), fixture(t, kind), nil))
		for _, p := range view.Processes().All() {
			if p.ExitCode.State == trace.NotEmitted && p.Signal.State == trace.NotEmitted {
				continue // its start
			}
			if p.Stderr.State != want || len(p.Stderr.Value) > 64<<10 {
				t.Errorf("%s: %s, %d bytes", kind, p.Stderr.State, len(p.Stderr.Value))
			}
		}
	}
}

// A refused connection is one error, told once, and says nothing about the server's wire.
func TestUnreachableIsNoFinding(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://127.0.0.1:1/mcp", "http://10.0.0.1:1/mcp"} {
		var id trace.ExecutionID
		kit := newKit(t, m3.Config{OnExecution: func(x trace.ExecutionID) { id = x }})
		_, err := kit.Direct(t.Context(), m3.HTTPServer{Name: "gone", URL: url}, nil)
		if err == nil || strings.Contains(err.Error(), "before that") || strings.Count(err.Error(), "m3:") != 1 {
			t.Errorf("%s: %v", url, err)
		}
		tr, err := kit.Trace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		view, err := tr.View()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range view.Findings().All() {
			t.Errorf("%s: finding %s: %s", url, f.Code, f.Message)
		}
	}
}
