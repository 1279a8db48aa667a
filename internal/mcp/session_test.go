package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// echoing answers every request with its own params.
func echoing(m *message, say func(string, ...any)) {
	if m.ID != nil && m.Method != "" {
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","params":%s}}`, m.ID, orNull(m.Params))
	}
}

func orNull(b json.RawMessage) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

// What a test gives as raw JSON reaches the server as it is.
func TestArgumentsAreExact(t *testing.T) {
	t.Parallel()
	const args = `{ "n":12345678901234567890.10, "n":1e400,"s":"<&>\u2028" }`
	r := newRig(t)
	s := r.connect(r.config(modernServer(echoing)))
	resp, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "echo", Arguments: trace.JSON(args)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(member(member(resp.Result, "params"), "arguments")); got != args {
		t.Errorf("the server got %s, want %s", got, args)
	}
}

func TestMetaByEra(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(legacyServer(speaks(Version20250618), echoing)))
	resp, err := s.Do(t.Context(), &Op{Method: "tools/list"})
	if err != nil || resp.Result.String() != `{"resultType":"complete","params":null}` {
		t.Errorf("legacy: %s, %v", resp.Result, err)
	}

	r = newRig(t)
	cfg := r.config(modernServer(echoing))
	cfg.Capabilities.ElicitForm = true
	s = r.connect(cfg)
	resp, err = s.Do(t.Context(), &Op{Method: "tools/list", Meta: map[string]any{"io.modelcontextprotocol/logLevel": "info"}})
	want := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/logLevel":"info"}}`
	if err != nil || string(member(resp.Result, "params")) != want {
		t.Errorf("modern: %s, %v", resp.Result, err)
	}
}

func TestParamsErrorSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.connect(r.config(modernServer(echoing)))
	before := len(r.sent())
	for _, op := range []*Op{
		{Method: "tools/call", Params: json.RawMessage(`{`)},
		{Method: "tools/call", Progress: func(Progress) {}, Meta: map[string]any{"progressToken": make(chan int)}},
	} {
		_, err := s.Do(t.Context(), op)
		var pe *ParamsError
		var call *rpc.CallError
		if !errors.As(err, &pe) || pe.Method != "tools/call" || errors.As(err, &call) {
			t.Errorf("error %T: %v", err, err)
		}
	}
	if n := len(r.sent()); n != before {
		t.Errorf("%d messages were sent", n-before)
	}
}

func TestResultTypeFindings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, method, result, want string }{
		{"complete", "tools/list", `{"resultType":"complete","tools":[]}`, ""},
		{"missing", "tools/list", `{}`, "result-type-missing"},
		{"unknown", "tools/call", `{"resultType":"weird"}`, "result-type-unknown"},
		{"input", "tools/call", `{"resultType":"input_required","requestState":"x"}`, ""},
		{"input without anything", "tools/call", `{"resultType":"input_required"}`, "input-required-empty"},
		{"input for a list", "tools/list", `{"resultType":"input_required","requestState":"x"}`, "input-required-misplaced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.connect(r.config(modernServer(func(m *message, say func(string, ...any)) {
				say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, tc.result)
			})))
			var params any
			if tc.method == "tools/call" {
				params = &Target{Name: "t"}
			}
			resp, err := s.Do(t.Context(), &Op{Method: tc.method, Params: params})
			if err != nil || resp.Result.String() != tc.result {
				t.Fatalf("%+v, %v", resp, err)
			}
			if tc.want == "" {
				r.noFindings()
			} else if f := r.finding(tc.want); f.Sequence != resp.Received || f.RPCID != resp.ID {
				t.Errorf("%+v", f)
			}
		})
	}
}

// On streams a cancellation is a notification in both eras.
func TestCancelOnStream(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(func(*message, func(string, ...any))) server{
		"modern": modernServer,
		"legacy": func(fn func(*message, func(string, ...any))) server { return legacyServer(speaks(Version20250618), fn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			told := make(chan string, 1)
			s := r.connect(r.config(serve(func(m *message, _ func(string, ...any)) {
				if m.Method == "tools/call" {
					cancel()
				} else if m.Method == "notifications/cancelled" {
					told <- string(member(m.Params, "requestId"))
				}
			})))
			_, err := s.Do(ctx, &Op{Method: "tools/call", Params: &Target{Name: "t"}})
			var call *rpc.CallError
			if !errors.As(err, &call) || call.Kind != rpc.KindCancelled {
				t.Fatalf("error %v", err)
			}
			if id := <-told; id != string(call.ID) {
				t.Errorf("cancelled %s, want %s", id, call.ID)
			}
		})
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(legacyServer(speaks(Version20250618), nil))
	cfg.Capabilities.RootsListChanged = true
	s := r.connect(cfg)
	if err := s.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Notify(t.Context(), "x", json.RawMessage(`[]`)); err == nil {
		t.Error("an array was taken for params")
	}
	if d := cmp.Diff([]string{"server/discover", "initialize", "notifications/initialized", "notifications/roots/list_changed"}, r.sent()); d != "" {
		t.Error(d)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	started := make(chan struct{})
	s := r.connect(r.config(modernServer(func(m *message, _ func(string, ...any)) {
		if m.Method == "tools/call" {
			close(started)
		}
	})))
	go func() {
		<-started
		_ = s.Close()
	}()
	_, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "t"}})
	var call *rpc.CallError
	if !errors.As(err, &call) {
		t.Errorf("error %v", err)
	}
	<-s.Done()
	if s.Err() != nil {
		t.Errorf("Err after Close: %v", s.Err())
	}
}
