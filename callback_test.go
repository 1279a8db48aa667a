package m3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// chatty sends a log message before it answers.
func chatty() *peer {
	return on(map[string]func(*peer, *message){"log": func(p *peer, m *message) {
		p.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
		p.result(m, `{"content":[]}`)
	}})
}

// A callback may close the client, call another tool, be slow or panic: the answer is read all the same, nobody waits for ever, and the server is not blamed.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		log   func(t *testing.T, c *m3.Client)
		call  string // what the call's error says; empty: it succeeds
		close string
	}{
		{"is seen before the call returns", func(*testing.T, *m3.Client) {}, "", ""},
		{"closes the client", func(t *testing.T, c *m3.Client) { c.Close() }, "any", ""},
		{"calls another tool", func(t *testing.T, c *m3.Client) {
			if _, err := c.CallTool(t.Context(), "other", nil, nil); err != nil {
				t.Errorf("a call from the callback: %v", err)
			}
		}, "", ""},
		{"is slow", func(t *testing.T, _ *m3.Client) { <-t.Context().Done() }, "", ""},
		{"panics", func(*testing.T, *m3.Client) { panic("in the callback") }, "", "callback panicked: in the callback"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var client *m3.Client
			seen := make(chan struct{}, 1)
			kit := newKit(t, m3.Config{})
			opts := old()
			opts.Log = func(m m3.LogMessage) {
				if string(m.Data) != `"working"` {
					t.Errorf("log data %s", m.Data)
				}
				seen <- struct{}{}
				tc.log(t, client)
			}
			var err error
			if client, err = kit.Direct(t.Context(), chatty().server(), opts); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = client.CallTool(t.Context(), "log", nil, &m3.CallOptions{Timeout: 20 * time.Second})
			if (err != nil) != (tc.call != "") && tc.call != "any" {
				t.Errorf("the call: %v", err)
			}
			select {
			case <-seen:
			default:
				t.Error("the call returned before the callback was called")
			}
			err = client.Close()
			if got := ""; err != nil {
				got = err.Error()
				if tc.close == "" || !strings.Contains(got, tc.close) {
					t.Errorf("Close: %v", err)
				}
			} else if tc.close != "" {
				t.Errorf("Close says nothing of the callback's panic")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A server that stops reading its input is a timeout like any other, and it is named (W-A14).
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	client := connect(t, newKit(t, m3.Config{}), fixture(t, "deaf"), old())
	_, err := client.CallTool(t.Context(), "big", m3.Args{"data": strings.Repeat("x", 1<<20)}, &m3.CallOptions{Timeout: 500 * time.Millisecond})
	wantError[*m3.TimeoutError](t, err, "timeout", "the server did not read its input")
	if strings.Contains(err.Error(), "context deadline exceeded") {
		t.Errorf("the error shows Go's own words: %v", err)
	}
	_, err = client.CallTool(t.Context(), "next", nil, nil)
	wantError[*m3.TransportError](t, err, "transport_error", "an earlier message was taken only in part")
	view := finish(t, client)
	if s := view.ToolCalls().At(0).ToolStatus; s != trace.ToolTimedOut {
		t.Errorf("the call reads %s", s)
	}
}

// A secret in the name of a case is taken out of it, wherever the name is kept.
func TestCaseIsRedacted(t *testing.T) {
	t.Setenv("M3_TEST_CASE_SECRET", "hunter2hunter2")
	server := fixture(t, "plain")
	server.Secrets = map[string]m3.SecretRef{"TOKEN": m3.EnvSecret("M3_TEST_CASE_SECRET")}
	kit := newKit(t, m3.Config{})
	client := connect(t, kit, server, &m3.DirectOptions{Protocol: legacy5, Case: "with hunter2hunter2 in it"})
	info, err := kit.Store().Execution(t.Context(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(info.Case+string(info.Spec), "hunter2") || !strings.Contains(info.Case, "[REDACTED]") {
		t.Errorf("case %q, spec %s", info.Case, info.Spec)
	}
}
