package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// calls is the server's own log.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) add(s string) { c.mu.Lock(); c.list = append(c.list, s); c.mu.Unlock() }

func (c *calls) all() []string { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.list) }

// sdkServer is a server of the official SDK with five tools, two to a page, that logs every call that arrives.
func sdkServer(log *calls) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "calc", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	for _, name := range []string{"add", "a_b", "drop", "sub", "wipe"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil, nil
		})
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				b, _ := json.Marshal(req.GetParams())
				log.add(string(b))
			}
			return next(ctx, method, req)
		}
	})
	return s
}

// TestSDK: a server of the official SDK behind the relay, over stdio and HTTP, in every protocol version: the agent sees what is allowed and nothing else, its calls
// of other tools fail as with an unknown tool, and the server's own log shows none of them.
func TestSDK(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		for _, way := range []string{"stdio", "http"} {
			for _, allow := range []string{"add sub", "", "all"} {
				t.Run(version+"/"+way+"/"+allow, func(t *testing.T) {
					t.Parallel()
					sdkCase(t, version, way, allow)
				})
			}
		}
	}
}

func sdkCase(t *testing.T, version, way, allow string) {
	var log calls
	cfg := relay.Config{Allow: only(strings.Fields(allow)...)}
	want := strings.Fields(allow)
	if allow == "all" {
		cfg.Allow, want = nil, []string{"a_b", "add", "drop", "sub", "wipe"}
	}
	r := newRig(t, cfg)
	server := agentsServer(t, r, sdkServer(&log), way, version)
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	client, err := kit.Direct(t.Context(), server, &m3.DirectOptions{Protocol: version})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ListAllTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range list {
		got = append(got, tool.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the agent sees %v, want %v", got, want)
	}
	<-r.Listed()
	for _, tool := range []string{"add", "drop", "sub", "wipe", "a_b", "guessed"} {
		res, err := client.CallTool(t.Context(), tool, m3.Args{}, nil)
		var pe *m3.ProtocolError
		switch {
		case slices.Contains(want, tool):
			if err != nil || res.IsError {
				t.Errorf("%s: %v", tool, err)
			}
		case !errors.As(err, &pe) || !strings.Contains(strings.ToLower(pe.Error()), "unknown tool") || !strings.Contains(pe.Error(), "-32602"):
			t.Errorf("%s: %v", tool, err)
		}
	}
	client.Close()
	r.Close()
	for _, line := range log.all() {
		if allow != "all" && (strings.Contains(line, "drop") || strings.Contains(line, "wipe") || strings.Contains(line, "guessed") || strings.Contains(line, "a_b")) {
			t.Errorf("the server got %s", line)
		}
	}
	if n := len(log.all()); allow != "all" && n != len(want) {
		t.Errorf("the server got %d calls, want %d", n, len(want))
	}
	events := r.events()
	if denied := len(of(events, trace.KindMCPPolicyDenied)); allow != "all" && denied != 6-len(want) {
		t.Errorf("%d calls were recorded as refused", denied)
	}
	if begun := of(events, trace.KindMCPInitialized); len(begun) != 1 || !strings.Contains(string(begun[0].Payload), version) || !strings.Contains(string(begun[0].Payload), `"calc"`) {
		t.Errorf("initialized: %v", begun)
	}
	if c := r.Connections(); len(c) != 1 || c[0].Protocol != version || c[0].Client != "m3" || c[0].Calls != len(want) && allow != "all" {
		t.Errorf("connections: %+v", c)
	}
}

// agentsServer is the server as m3's own client, in the part of an agent, reaches it.
func agentsServer(t *testing.T, r *rig, s *mcp.Server, way, version string) m3.Server {
	if way == "http" {
		up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: version >= "2026-07-28"}))
		t.Cleanup(up.Close)
		target, _ := url.Parse(up.URL)
		front := httptest.NewServer(r.Handler(target, nil, nil))
		t.Cleanup(front.Close)
		return m3.HTTPServer{URL: front.URL, Transport: m3.StreamableHTTP}
	}
	return m3.PipeServer{Name: "calc", Serve: func(ctx context.Context, agent io.ReadWriteCloser) error {
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx, &mcp.IOTransport{Reader: far, Writer: far})
			far.Close()
		}()
		err := r.Stream(ctx, agent, near)
		near.Close()
		cancel()
		<-done
		return err
	}}
}
