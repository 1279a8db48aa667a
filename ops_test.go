package m3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

func TestOpComplete(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{modernEra, legacyEra} {
		t.Run(protocol, func(t *testing.T) {
			transports(t, protocol, func(t *testing.T, server m3.Server) {
				c := openOps(t, server, &m3.DirectOptions{Protocol: protocol})
				got, err := c.Complete(t.Context(), m3.PromptRef("greet"), "name", "Ad", nil)
				if err != nil || !slices.Equal(got.Values, []string{"ref/prompt:name=Ad"}) || got.Total == nil || *got.Total != 7 || !got.HasMore {
					t.Errorf("completion %+v, %v", got, err)
				}
				got, err = c.Complete(t.Context(), m3.ResourceRef("test://{city}"), "city", "P", &m3.CompleteOptions{Context: map[string]string{"country": "India"}})
				if err != nil || !slices.Equal(got.Values, []string{"ref/resource:city=P", "India"}) {
					t.Errorf("completion with a context %+v, %v", got, err)
				}
				if _, err := c.Complete(t.Context(), m3.CompletionRef{}, "a", "", nil); !errors.Is(err, m3.ErrValidation) {
					t.Errorf("a completion of nothing: %v", err)
				}
			})
		})
	}
}

func TestOpLogLevels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, protocol string
		level, call    m3.LogLevel
		want           []string
	}{
		{"new, none", modernEra, "", "", nil},
		{"new, for all", modernEra, m3.LogWarning, "", []string{"warning"}},
		{"new, for a call", modernEra, "", m3.LogDebug, []string{"debug", "warning"}},
		{"new, a call's own", modernEra, m3.LogEmergency, m3.LogWarning, []string{"warning"}},
		{"old, for all", legacyEra, m3.LogWarning, "", []string{"warning"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			transports(t, tc.protocol, func(t *testing.T, server m3.Server) {
				var mu sync.Mutex
				var got []string
				c := openOps(t, server, &m3.DirectOptions{Protocol: tc.protocol, LogLevel: tc.level, Log: func(m m3.LogMessage) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, m.Level)
				}})
				if _, err := c.CallTool(t.Context(), "log", nil, &m3.CallOptions{LogLevel: tc.call}); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !slices.Equal(got, tc.want) {
					t.Errorf("log messages %v, want %v", got, tc.want)
				}
				if codes := codesSeen(c); len(codes) > 0 {
					t.Errorf("findings %v", c.Findings())
				}
			})
		})
	}
}

func TestOpSetLoggingLevel(t *testing.T) {
	t.Parallel()
	c := openOps(t, sdkPipe(), &m3.DirectOptions{Protocol: legacyEra})
	if err := c.SetLoggingLevel(t.Context(), m3.LogError, nil); err != nil {
		t.Error(err)
	}
	if err := c.SetLoggingLevel(t.Context(), "loud", nil); !errors.Is(err, m3.ErrValidation) || !strings.Contains(err.Error(), "debug, info") {
		t.Errorf("an unknown level: %v", err)
	}
	if _, err := opsKit(t).Direct(t.Context(), sdkPipe(), &m3.DirectOptions{LogLevel: "loud"}); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("an unknown level of a client: %v", err)
	}
	refusing := bytesServer(func(m opsLine) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no logging"}}`, m.ID)}
	})
	var pe *m3.ProtocolError
	if _, err := opsKit(t).Direct(t.Context(), refusing, &m3.DirectOptions{Protocol: legacyEra, LogLevel: m3.LogInfo}); !errors.As(err, &pe) {
		t.Errorf("a server that refuses the level of the client: %v", err)
	}
}

// TestOpLacking: what the negotiated version does not have is refused before anything is sent.
func TestOpLacking(t *testing.T) {
	t.Parallel()
	ops := map[string]func(ctx context.Context, c *m3.Client) error{
		"ping":               func(ctx context.Context, c *m3.Client) error { return c.Ping(ctx, nil) },
		"subscribe":          func(ctx context.Context, c *m3.Client) error { return c.SubscribeResource(ctx, "test://doc", nil) },
		"unsubscribe":        func(ctx context.Context, c *m3.Client) error { return c.UnsubscribeResource(ctx, "test://doc", nil) },
		"logging level":      func(ctx context.Context, c *m3.Client) error { return c.SetLoggingLevel(ctx, m3.LogInfo, nil) },
		"roots list changed": func(ctx context.Context, c *m3.Client) error { return c.SendRootsListChanged(ctx) },
		"progress": func(ctx context.Context, c *m3.Client) error {
			return c.SendProgress(ctx, `"t"`, m3.Progress{Progress: 1})
		},
		"initialized": func(ctx context.Context, c *m3.Client) error {
			return c.Notify(ctx, "notifications/initialized", nil, nil)
		},
		"listen": func(ctx context.Context, c *m3.Client) error { _, err := c.Listen(ctx, nil); return err },
		"log level of a call": func(ctx context.Context, c *m3.Client) error {
			_, err := c.CallTool(ctx, "log", nil, &m3.CallOptions{LogLevel: m3.LogInfo})
			return err
		},
		"context of a completion": func(ctx context.Context, c *m3.Client) error {
			_, err := c.Complete(ctx, m3.PromptRef("p"), "a", "b", &m3.CompleteOptions{Context: map[string]string{"x": "y"}})
			return err
		},
		"message in progress": func(ctx context.Context, c *m3.Client) error {
			return c.SendProgress(ctx, "1", m3.Progress{Progress: 1, Message: "half"})
		},
		"a server's notification": func(ctx context.Context, c *m3.Client) error {
			return c.Notify(ctx, "notifications/tools/list_changed", nil, nil)
		},
	}
	for protocol, lacking := range map[string][]string{
		modernEra:    {"ping", "subscribe", "unsubscribe", "logging level", "roots list changed", "progress", "initialized", "a server's notification"},
		legacyEra:    {"listen", "log level of a call", "a server's notification"},
		"2024-11-05": {"listen", "log level of a call", "context of a completion", "message in progress", "a server's notification"},
	} {
		for _, name := range lacking {
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				c := openOps(t, bytesServer(func(opsLine) []string { return nil }), &m3.DirectOptions{Protocol: protocol})
				before, err := c.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				var unsupported *m3.UnsupportedError
				if err := ops[name](t.Context(), c); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), protocol) {
					t.Errorf("%v, want an UnsupportedError that names %s", err, protocol)
				}
				after, err := c.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				if b, a := before.RawMessages().Len(), after.RawMessages().Len(); a != b {
					t.Errorf("%d messages were sent", a-b)
				}
			})
		}
	}
}

func TestOpSubscribeResource(t *testing.T) {
	t.Parallel()
	transports(t, legacyEra, func(t *testing.T, server m3.Server) {
		updated := make(chan string, 10)
		c := openOps(t, server, &m3.DirectOptions{Protocol: legacyEra, Notification: func(method string, params trace.JSON) {
			if method == "notifications/resources/updated" {
				updated <- string(params)
			}
		}})
		if err := c.SubscribeResource(t.Context(), "test://doc", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "touch", nil, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-updated:
			if !strings.Contains(got, "test://doc") {
				t.Errorf("updated %s", got)
			}
		case <-soon(t).Done():
			t.Fatal("no update came")
		}
		if err := c.UnsubscribeResource(t.Context(), "test://doc", nil); err != nil {
			t.Fatal(err)
		}
		if err := c.SubscribeResource(t.Context(), "", nil); !errors.Is(err, m3.ErrValidation) {
			t.Errorf("an empty URI: %v", err)
		}
	})
}

func TestOpRootsHandler(t *testing.T) {
	t.Parallel()
	uri := "file:///one"
	var mu sync.Mutex
	c := openOps(t, sdkPipe(), &m3.DirectOptions{Protocol: legacyEra, ListRoots: func(context.Context) ([]m3.Root, error) {
		mu.Lock()
		defer mu.Unlock()
		return []m3.Root{{URI: uri}}, nil
	}})
	ask := func() string {
		res, err := c.CallTool(t.Context(), "roots", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res.Text()
	}
	first := ask()
	mu.Lock()
	uri = "file:///two"
	mu.Unlock()
	if err := c.SendRootsListChanged(t.Context()); err != nil {
		t.Error(err)
	}
	if second := ask(); first != "file:///one" || second != "file:///two" {
		t.Errorf("roots %s, then %s", first, second)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if init := sentLines(t, c, "initialize"); len(init) != 1 || !strings.Contains(init[0], `"roots":{"listChanged":true}`) {
		t.Errorf("declared %s", init)
	}
	if list := sentLines(t, c, "notifications/roots/list_changed"); len(list) != 1 {
		t.Errorf("notifications %v", list)
	}
	fixed := openOps(t, sdkPipe(), &m3.DirectOptions{Protocol: legacyEra, Roots: []m3.Root{}})
	if err := fixed.SendRootsListChanged(t.Context()); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("an undeclared change of roots: %v", err)
	}
	failing := openOps(t, sdkPipe(), &m3.DirectOptions{Protocol: legacyEra, ListRoots: func(context.Context) ([]m3.Root, error) { panic("no") }})
	if res, err := failing.CallTool(t.Context(), "roots", nil, nil); err == nil || !strings.Contains(err.Error(), "the roots handler failed") || strings.Contains(err.Error(), "panic") {
		t.Errorf("a handler that panics: %+v, %v", res, err)
	}
}

// TestOpSendProgress: a sampling handler tells the server how far it is, under the server's token with its JSON type.
func TestOpSendProgress(t *testing.T) {
	t.Parallel()
	for _, token := range []string{`"up-1"`, `17`} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			var asker opsLine
			var client *m3.Client
			ready := make(chan struct{})
			server := bytesServer(func(m opsLine) []string {
				switch {
				case m.Method == "tools/call":
					asker = m
					return []string{`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"_meta":{"progressToken":` + token + `},"maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}}`}
				case m.Method == "" && string(m.ID) == `"s"`:
					return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, asker.ID)}
				}
				return nil
			})
			client = openOps(t, server, &m3.DirectOptions{Protocol: legacyEra, Sampling: func(ctx context.Context, r *m3.SamplingRequest) (*m3.SamplingResult, error) {
				<-ready
				total := 2.0
				if err := client.SendProgress(ctx, r.ProgressToken(), m3.Progress{Progress: 0.5, Total: &total, Message: "half"}); err != nil {
					return nil, err
				}
				return &m3.SamplingResult{Text: "hello"}, nil
			}})
			close(ready)
			if _, err := client.CallTool(t.Context(), "x", nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"half","progress":0.5,"progressToken":` + token + `,"total":2}}`
			if got := sentLines(t, client, "notifications/progress"); len(got) != 1 || got[0] != want {
				t.Errorf("sent %v, want %s", got, want)
			}
		})
	}
}

func TestOpNotify(t *testing.T) {
	t.Parallel()
	c := openOps(t, bytesServer(func(opsLine) []string { return nil }), &m3.DirectOptions{Protocol: modernEra})
	if err := c.Notify(t.Context(), "example.test/ping", m3.Args{"n": json.Number("9007199254740993")}, &m3.NotifyOptions{Meta: map[string]any{"a": 1}}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []any{[]int{1}, json.RawMessage(`{`), m3.Args{"_meta": 1}, func() {}} {
		if err := c.Notify(t.Context(), "example.test/ping", bad, nil); !errors.Is(err, m3.ErrValidation) {
			t.Errorf("params %T: %v", bad, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","method":"example.test/ping","params":{"n":9007199254740993,"_meta":{"a":1}}}`
	if got := sentLines(t, c, "example.test/ping"); len(got) != 1 || got[0] != want {
		t.Errorf("sent %v, want %s", got, want)
	}
	if err := c.Notify(t.Context(), "x", nil, nil); !errors.Is(err, m3.ErrClientClosed) {
		t.Errorf("on a closed client: %v", err)
	}
}

func TestOpMetaPassthrough(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{modernEra, legacyEra} {
		transports(t, protocol, func(t *testing.T, server m3.Server) {
			c := openOps(t, server, &m3.DirectOptions{Protocol: protocol})
			res, err := c.CallTool(t.Context(), "meta", nil, &m3.CallOptions{Meta: map[string]any{"example.test/trace": "abc"}})
			if err != nil || res.Text() != "abc" {
				t.Errorf("the server saw %+v, %v", res, err)
			}
		})
	}
}

// emptyCursorPages answers tools/list with two pages whose first cursor is empty, and begins again without a cursor.
func emptyCursorPages(cursors *[]string) m3.Server {
	return bytesServer(func(m opsLine) []string {
		var p struct{ Cursor *string }
		if err := json.Unmarshal(m.Params, &p); err != nil && m.Params != nil {
			return nil
		}
		tool := func(name, rest string) []string {
			return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":%q,"inputSchema":{"type":"object"}}]%s}}`, m.ID, name, rest)}
		}
		if p.Cursor == nil {
			*cursors = append(*cursors, "none")
			return tool("first", `,"nextCursor":""`)
		}
		*cursors = append(*cursors, fmt.Sprintf("%q", *p.Cursor))
		return tool("second", "")
	})
}

func TestOpEmptyCursor(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]struct {
		tools   int
		cursors []string
		codes   []string
	}{
		modernEra:    {2, []string{"none", `""`}, []string{}},
		legacyEra:    {1, []string{"none"}, []string{"empty-cursor"}},
		"2024-11-05": {1, []string{"none"}, []string{"empty-cursor"}},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var cursors []string
			c := openOps(t, emptyCursorPages(&cursors), &m3.DirectOptions{Protocol: protocol})
			tools, err := c.ListAllTools(t.Context(), nil)
			if err != nil || len(tools) != want.tools || !slices.Equal(cursors, want.cursors) || !slices.Equal(codesSeen(c), want.codes) {
				t.Errorf("%d tools, cursors %v, findings %v, %v; want %+v", len(tools), cursors, codesSeen(c), err, want)
			}
			empty := ""
			page, err := c.ListTools(t.Context(), &m3.ListOptions{Cursor: &empty})
			if err != nil || page.Items[0].Name != "second" { // asked by hand, it is sent in every version
				t.Errorf("by hand %+v, %v", page, err)
			}
		})
	}
}

func TestOpAllowClaimed(t *testing.T) {
	t.Parallel()
	answer := `{"resultType":"task","task":{"taskId":"t1","status":"working"}}`
	server := bytesServer(func(m opsLine) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer)}
	})
	c := openOps(t, server, &m3.DirectOptions{Protocol: modernEra, Extensions: map[string]any{"io.modelcontextprotocol/tasks": nil}})
	res, err := c.CallTool(t.Context(), "slow", nil, &m3.CallOptions{AllowClaimed: true})
	if err != nil || res.ResultType != "task" || string(res.Raw) != answer {
		t.Errorf("claimed %+v, %v", res, err)
	}
	if codes := codesSeen(c); len(codes) > 0 {
		t.Errorf("findings about a claimed result: %v", codes)
	}
	var unsupported *m3.UnsupportedError
	if _, err := c.CallTool(t.Context(), "slow", nil, nil); !errors.As(err, &unsupported) || string(unsupported.Raw) != answer {
		t.Errorf("not claimed: %v", err)
	}
	if codes := codesSeen(c); !slices.Equal(codes, []string{"result-type-unknown"}) {
		t.Errorf("findings %v", codes)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if call := sentLines(t, c, "tools/call"); !strings.Contains(call[0], `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("declared %s", call[0])
	}
	if _, err := opsKit(t).Direct(t.Context(), server, &m3.DirectOptions{Extensions: map[string]any{"x/y": 3}}); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("settings that are no object: %v", err)
	}
}
