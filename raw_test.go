package m3_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// strictReply answers one frame as the specification says; empty for what is not answered.
func strictReply(frame []byte) string {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version string `json:"protocolVersion"`
		} `json:"params"`
	}
	switch err := json.Unmarshal(frame, &m); {
	case err != nil && !json.Valid(frame):
		return `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`
	case err != nil:
		return `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`
	case m.ID == nil:
		return ""
	case m.Method == "ping":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case m.Method == "initialize":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"strict","version":"1"}}}`, m.ID, m.Params.Version)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
}

var strictPipe = m3.PipeServer{Name: "strict", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if strings.Contains(string(line), `"leave"`) {
			return nil
		}
		if reply := strictReply(line); reply != "" {
			if _, err := io.WriteString(stream, reply+"\n"); err != nil {
				return err
			}
		}
	}
}}

var strictHTTP = m3.HandlerServer{Name: "strict", Path: "/mcp", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		w.WriteHeader(http.StatusNotAcceptable)
		return
	case r.Host == "evil.example":
		w.WriteHeader(http.StatusForbidden)
		return
	}
	reply := strictReply(body)
	if reply == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(reply, `"id":null`) {
		w.WriteHeader(http.StatusBadRequest)
	}
	io.WriteString(w, reply)
})}

func openRaw(t *testing.T, kit *m3.Kit, s m3.Server) *m3.Raw {
	t.Helper()
	raw, err := kit.Raw(t.Context(), s, &m3.DirectOptions{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Hostile frames get their error, the server lives, and the tape holds every byte without blaming the server.
func TestRawFrames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, frame string
		code        int64
	}{
		{"bad JSON", `{"jsonrpc":"2.0","id":1,`, -32700},
		{"scalar", `42`, -32600},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600},
		{"before initialize", `{"jsonrpc":"2.0","id":"early","method":"tools/list"}`, -32601},
		{"huge", `{"jsonrpc":"2.0","id":2,"method":"` + strings.Repeat("x", 3<<20) + `"}`, -32601},
		{"fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"x"}`, -32601},
	} {
		for _, server := range []m3.Server{strictPipe, strictHTTP} {
			t.Run(fmt.Sprintf("%s/%T", tc.name, server), func(t *testing.T) {
				t.Parallel()
				raw := openRaw(t, newKit(t, m3.Config{}), server)
				if err := raw.Send(t.Context(), []byte(tc.frame)); err != nil {
					t.Fatal(err)
				}
				if _, err := raw.ExpectError(t.Context(), tc.code); err != nil {
					t.Error(err)
				}
				if err := raw.Alive(t.Context()); err != nil {
					t.Error(err)
				}
				if err := raw.Close(); err != nil {
					t.Error(err)
				}
				checkRawTape(t, raw, tc.frame)
			})
		}
	}
}

func checkRawTape(t *testing.T, raw *m3.Raw, frame string) {
	t.Helper()
	if f := raw.Findings(); len(f) > 0 {
		t.Errorf("findings against a good server: %+v", f)
	}
	view, err := raw.View()
	if err != nil {
		t.Fatal(err)
	}
	if view.Completeness() != trace.Complete || view.Outcome() != trace.OutcomeCompleted {
		t.Errorf("%s %s: %v", view.Completeness(), view.Outcome(), view.Limitations())
	}
	found := false
	for _, m := range view.RawMessages().All() {
		if text, ok := m.Preview.Get(); ok && strings.HasPrefix(frame, strings.TrimSpace(text)[:min(len(strings.TrimSpace(text)), len(frame))]) && m.Direction == trace.ClientToServer {
			found = true
		}
	}
	if !found && len(frame) < 1000 {
		t.Error("the frame is not on the tape")
	}
}

func TestRawHTTP(t *testing.T) {
	t.Parallel()
	raw := openRaw(t, newKit(t, m3.Config{}), strictHTTP)
	_, ping := raw.Request("ping", "")
	for _, tc := range []struct {
		frame  m3.RawFrame
		status int
	}{
		{m3.RawFrame{Method: "GET"}, 405},
		{m3.RawFrame{Method: "PUT", Body: ping}, 405},
		{m3.RawFrame{Body: ping, Header: http.Header{"Accept": nil}}, 406},
		{m3.RawFrame{Body: ping, Header: http.Header{"Host": {"evil.example"}}}, 403},
		{m3.RawFrame{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)}, 202},
		{m3.RawFrame{Body: nil}, 400},
	} {
		if err := raw.SendFrame(t.Context(), &tc.frame); err != nil {
			t.Fatalf("%+v: %v", tc.frame, err)
		}
		if m, err := raw.ExpectStatus(t.Context(), tc.status); err != nil {
			t.Errorf("%+v: %v (%v)", tc.frame, err, m)
		}
	}
	if err := raw.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	var pe *m3.ProtocolError
	if err := raw.Send(t.Context(), ping); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExpectStatus(t.Context(), 500); !errors.As(err, &pe) {
		t.Errorf("another status is %v", err)
	}
	if err := raw.Close(); err != nil {
		t.Error(err)
	}
	if f := raw.Findings(); len(f) > 0 {
		t.Errorf("findings: %+v", f)
	}
}

// Beside a session: neither side takes the other's answers, and ids never collide.
func TestRawBesideSession(t *testing.T) {
	t.Parallel()
	for _, server := range []m3.Server{strictPipe, strictHTTP} {
		t.Run(server.ServerName(), func(t *testing.T) {
			t.Parallel()
			client, err := newKit(t, m3.Config{}).Direct(t.Context(), server, &m3.DirectOptions{Protocol: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			raw := client.Raw()
			if raw != client.Raw() {
				t.Error("two raws of one client")
			}
			for i := range 20 {
				if err := raw.Send(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"s%d","method":"ping"}`, i)); err != nil {
					t.Fatal(err)
				}
				if err := raw.Send(t.Context(), []byte(`{"broken`)); err != nil {
					t.Fatal(err)
				}
				if err := client.Ping(t.Context(), nil); err != nil {
					t.Error(err)
				}
				if _, err := raw.ExpectResult(t.Context(), fmt.Sprintf(`"s%d"`, i)); err != nil {
					t.Error(err)
				}
				if _, err := raw.Expect(t.Context(), "a parse error", func(m *m3.RawMessage) bool { c, _ := m.Code(); return c == -32700 }); err != nil {
					t.Error(err)
				}
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			if f := client.Findings(); len(f) > 0 {
				t.Errorf("findings: %+v", f)
			}
		})
	}
}

func TestRawStream(t *testing.T) {
	t.Parallel()
	raw := openRaw(t, newKit(t, m3.Config{}), strictPipe)
	for _, part := range []string{`{"jsonrpc":"2.0",`, `"id":7,"method":"ping"}`, "\n" + `{"jsonrpc":"2.0","id":8,"method":"ping"}` + "\n"} {
		if err := raw.SendFrame(t.Context(), &m3.RawFrame{Body: []byte(part), Exact: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"7", "8"} {
		if _, err := raw.ExpectResult(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if err := raw.ExpectSilence(t.Context(), 0); err != nil {
		t.Error(err)
	}
	res, err := raw.Handshake(t.Context(), "2025-06-18")
	if err != nil || !strings.Contains(string(res.Result), "2025-06-18") {
		t.Fatal(res, err)
	}
	if err := raw.Send(t.Context(), []byte(`"leave"`)); err != nil {
		t.Fatal(err)
	}
	if err := raw.ExpectClosed(t.Context()); err != nil {
		t.Error(err)
	}
	var te *m3.TransportError
	if err := raw.Alive(t.Context()); !errors.As(err, &te) {
		t.Errorf("a dead server is %v", err)
	}
	if err := raw.Close(); err != nil {
		t.Error(err)
	}
	if err := raw.Send(t.Context(), nil); !errors.Is(err, m3.ErrClientClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestRawExpectTimesOut(t *testing.T) {
	t.Parallel()
	raw, err := newKit(t, m3.Config{}).Raw(t.Context(), strictPipe, &m3.DirectOptions{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var te *m3.TimeoutError
	if _, err := raw.ExpectAnswer(t.Context(), "1"); !errors.As(err, &te) || !strings.Contains(err.Error(), "nothing came") {
		t.Errorf("%v", err)
	}
	if err := raw.Send(t.Context(), []byte(`5`)); err != nil {
		t.Fatal(err)
	}
	var pe *m3.ProtocolError
	if err := raw.ExpectSilence(t.Context(), time.Second); !errors.As(err, &pe) || !strings.Contains(err.Error(), "-32600") {
		t.Errorf("%v", err)
	}
	if _, err := newKit(t, m3.Config{}).Raw(t.Context(), nil, nil); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("a nil server is %v", err)
	}
}

// The server's own faults are findings beside raw bytes as ever; and what it sends before any were sent is judged as always.
func TestRawKeepsFindings(t *testing.T) {
	t.Parallel()
	server := m3.PipeServer{Name: "sloppy", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
		if _, err := io.WriteString(stream, "listening\n"+`{"jsonrpc":"2.0","id":77,"result":{}}`+"\n"); err != nil {
			return err
		}
		lines := bufio.NewReader(stream)
		if _, err := lines.ReadBytes('\n'); err != nil {
			return nil
		}
		if _, err := io.WriteString(stream, `{"id":"a","result":{}}`+"\n"+`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`+"\n"); err != nil {
			return err
		}
		line, err := lines.ReadBytes('\n')
		if err == nil && strings.Contains(string(line), `"id":"roots"`) {
			_, err = io.WriteString(stream, `{"jsonrpc":"2.0","method":"notifications/thanks"}`+"\n")
		}
		return err
	}}
	raw := openRaw(t, newKit(t, m3.Config{}), server)
	if _, err := raw.ExpectResult(t.Context(), "77"); err != nil {
		t.Fatal(err)
	}
	if err := raw.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":"a","method":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExpectResult(t.Context(), `"a"`); err != nil {
		t.Error(err)
	}
	if m, err := raw.Expect(t.Context(), "a request", func(m *m3.RawMessage) bool { return m.Method == "roots/list" }); err != nil || string(m.ID) != `"roots"` {
		t.Errorf("%v %v", m, err)
	}
	if err := raw.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":"roots","result":{"roots":[]}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Expect(t.Context(), "thanks", func(m *m3.RawMessage) bool { return m.Method == "notifications/thanks" }); err != nil {
		t.Error(err)
	}
	if err := raw.Close(); err != nil {
		t.Error(err)
	}
	codes := map[string]int{}
	for _, f := range raw.Findings() {
		codes[f.Code]++
	}
	if codes["stdout-noise"] != 1 || codes["unknown-id"] != 1 || codes["missing-jsonrpc"] != 1 || len(codes) != 3 {
		t.Errorf("findings: %v", codes)
	}
}

// What nobody takes is dropped, the oldest first, and counted.
func TestRawInboxIsBounded(t *testing.T) {
	t.Parallel()
	const many = 5000
	server := m3.PipeServer{Name: "flood", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
		for i := range many {
			if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","method":"notifications/n","params":{"i":%d}}`+"\n", i); err != nil {
				return err
			}
		}
		return nil
	}}
	raw := openRaw(t, newKit(t, m3.Config{}), server)
	if err := raw.ExpectClosed(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages, lost := raw.Take()
	if len(messages)+lost != many || lost == 0 || !strings.Contains(string(messages[len(messages)-1].Body), fmt.Sprint(many-1)) {
		t.Errorf("%d messages, %d lost", len(messages), lost)
	}
}
