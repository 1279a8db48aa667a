package conformance_test

//lint:file-ignore SA1019 What a later version deprecates is what these tests are about.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// features is a server of the official SDK with something behind every method.
func features() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "features", Version: "1"}, &sdk.ServerOptions{
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{"x"}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	tool := func(name, schema string, run func(ctx context.Context, r *sdk.CallToolRequest) error) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(schema)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, run(ctx, r)
		})
	}
	tool("echo", `{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Where"}}}`, func(context.Context, *sdk.CallToolRequest) error { return nil })
	tool("slow", `{"type":"object"}`, func(ctx context.Context, _ *sdk.CallToolRequest) error {
		<-ctx.Done()
		return ctx.Err()
	})
	tool("ask", `{"type":"object"}`, func(ctx context.Context, r *sdk.CallToolRequest) error {
		_, err := r.Session.ListRoots(ctx, nil)
		params := &sdk.CreateMessageParams{MaxTokens: 5, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}}
		params.SetProgressToken("up")
		_, err2 := r.Session.CreateMessage(ctx, params)
		return errors.Join(err, err2, r.Session.Ping(ctx, nil))
	})
	s.AddResource(&sdk.Resource{URI: "test://doc", Name: "doc"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://doc", Text: "hi"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}}, nil
	})
	return s
}

// drive calls every operation that the version has.
func drive(t *testing.T, kit *m3.Kit, server m3.Server, protocol string) {
	ctx := t.Context()
	var c *m3.Client
	ready := make(chan struct{})
	c, err := kit.Direct(ctx, server, &m3.DirectOptions{Protocol: protocol, LogLevel: m3.LogDebug, Extensions: map[string]any{"example.test/x": nil},
		ListRoots: func(context.Context) ([]m3.Root, error) { return []m3.Root{{URI: "file:///w", Name: "w"}}, nil },
		Sampling: func(ctx context.Context, r *m3.SamplingRequest) (*m3.SamplingResult, error) {
			<-ready
			return &m3.SamplingResult{Text: "hello"}, c.SendProgress(ctx, r.ProgressToken(), m3.Progress{Progress: 1})
		}})
	if err != nil {
		t.Fatalf("%s: %v", protocol, err)
	}
	close(ready)
	defer c.Close()
	opts := &m3.CallOptions{Progress: func(m3.Progress) {}, Meta: map[string]any{"example.test/trace": "1"}}
	_, err1 := c.ListAllTools(ctx, nil)
	_, err2 := c.ListAllResources(ctx, nil)
	_, err3 := c.ListAllResourceTemplates(ctx, nil)
	_, err4 := c.ListAllPrompts(ctx, nil)
	_, err5 := c.CallTool(ctx, "echo", m3.Args{"where": "hé"}, opts)
	_, err6 := c.ReadResource(ctx, "test://doc", opts)
	_, err7 := c.GetPrompt(ctx, "greet", map[string]string{"a": "b"}, opts)
	_, err8 := c.Complete(ctx, m3.PromptRef("greet"), "a", "b", nil)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
		t.Fatalf("%s: %v", protocol, err)
	}
	var timeout *m3.TimeoutError
	if _, err := c.CallTool(ctx, "slow", nil, &m3.CallOptions{Timeout: 50 * time.Millisecond}); !errors.As(err, &timeout) {
		t.Errorf("%s: a call that takes for ever: %v", protocol, err)
	}
	if mcp.Modern(protocol) {
		driveModern(t, c)
	} else {
		driveLegacy(t, c)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func driveModern(t *testing.T, c *m3.Client) {
	sub, err := c.Listen(t.Context(), &m3.ListenOptions{ToolsListChanged: true, ResourceSubscriptions: []string{"test://doc"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

func driveLegacy(t *testing.T, c *m3.Client) {
	ctx := t.Context()
	res, err := c.CallTool(ctx, "ask", nil, nil)
	if err != nil || res.IsError {
		t.Errorf("ask: %+v, %v", res, err)
	}
	if err := errors.Join(c.Ping(ctx, nil), c.SubscribeResource(ctx, "test://doc", nil), c.UnsubscribeResource(ctx, "test://doc", nil), c.SendRootsListChanged(ctx)); err != nil {
		t.Error(err)
	}
}

// TestEveryOperation: in every version, over both kinds of transport, everything that a client may send is sent, and is as the schema wants it.
func TestEveryOperation(t *testing.T) {
	s, err := conformance.Load()
	if errors.Is(err, conformance.ErrMissing) && os.Getenv("M3_REQUIRE_SHARED") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := conformance.New(s, false)
	stop := evidence.Watch(func(owner *evidence.Tape, ev *trace.Event) { c.Event(owner, ev) })
	defer stop()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	for _, protocol := range mcp.Versions {
		drive(t, kit, gosdk.Server("pipe", features), protocol)
		one := features()
		drive(t, kit, m3.HandlerServer{Name: "http", Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one },
			&sdk.StreamableHTTPOptions{Stateless: mcp.Modern(protocol)})}, protocol)
	}
	for _, p := range c.Problems() {
		t.Error(p)
	}
	for _, protocol := range mcp.Versions {
		for _, def := range s.ClientDefinitions(protocol) {
			sent := slices.ContainsFunc(c.Uses(), func(u conformance.Use) bool {
				return u.Protocol == protocol && u.Definition == def && u.Direction == trace.ClientToServer
			})
			if !sent && !strings.Contains(def, "Task") {
				t.Errorf("%s: no %s was sent", protocol, def)
			}
		}
	}
	if err := conformance.Section("client", c.ClientTable(), os.Getenv("M3_UPDATE") == "1"); err != nil {
		t.Error(err)
	}
}
