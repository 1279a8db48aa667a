package m3_test

//lint:file-ignore SA1019 What a later version deprecates is what these tests are about.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/trace"
)

const (
	modernEra = "2026-07-28"
	legacyEra = "2025-11-25"
)

// opsKit is a kit of the test's own.
func opsKit(t *testing.T) *m3.Kit {
	t.Helper()
	kit, err := m3.New(m3.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kit.Close() })
	return kit
}

// openOps opens a client that the test closes at its end.
func openOps(t *testing.T, server m3.Server, opts *m3.DirectOptions) *m3.Client {
	t.Helper()
	c, err := opsKit(t).Direct(t.Context(), server, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sdkFeatures is a server of the official SDK with everything that the operations need.
func sdkFeatures() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "features", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			values := []string{r.Params.Ref.Type + ":" + r.Params.Argument.Name + "=" + r.Params.Argument.Value}
			if r.Params.Context != nil {
				values = append(values, r.Params.Context.Arguments["country"])
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: 7, HasMore: true}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	object := json.RawMessage(`{"type":"object"}`)
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	s.AddResource(&mcp.Resource{URI: "test://doc", Name: "doc"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://doc", Text: "hi"}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "log", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, level := range []mcp.LoggingLevel{"debug", "warning"} {
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: "said at " + level}); err != nil {
				return nil, err
			}
		}
		return text("ok"), nil
	})
	s.AddTool(&mcp.Tool{Name: "touch", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("ok"), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://doc"})
	})
	s.AddTool(&mcp.Tool{Name: "grow", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(&mcp.Tool{Name: "grown", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("grown"), nil })
		return text("ok"), nil
	})
	s.AddTool(&mcp.Tool{Name: "roots", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, err
		}
		return text("%s", roots.Roots[0].URI), nil
	})
	s.AddTool(&mcp.Tool{Name: "meta", InputSchema: object}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%v", r.Params.Meta["example.test/trace"]), nil
	})
	s.AddTool(&mcp.Tool{Name: "sql", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("ran"), nil })
	return s
}

// sdkPipe and sdkHTTP serve it in memory, and over HTTP in the shape that the version wants.
func sdkPipe() m3.Server { return gosdk.Server("features", sdkFeatures) }

func sdkHTTP(protocol string) m3.Server {
	s := sdkFeatures()
	return m3.HandlerServer{Name: "features", Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: protocol == modernEra})}
}

// transports runs a test over both.
func transports(t *testing.T, protocol string, run func(t *testing.T, server m3.Server)) {
	t.Run("pipe", func(t *testing.T) { t.Parallel(); run(t, sdkPipe()) })
	t.Run("http", func(t *testing.T) { t.Parallel(); run(t, sdkHTTP(protocol)) })
}

// opsLine is a message that a byte server receives.
type opsLine struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// bytesServer is a server that answers each message with the lines that answer returns. The handshake is done for it.
func bytesServer(answer func(m opsLine) []string) m3.Server {
	return m3.PipeServer{Name: "bytes", Serve: func(_ context.Context, rw io.ReadWriteCloser) error {
		in := bufio.NewScanner(rw)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var m opsLine
			if err := json.Unmarshal(in.Bytes(), &m); err != nil {
				return err
			}
			out := shakeHands(m)
			if out == nil {
				out = answer(m)
			}
			for _, s := range out {
				if _, err := io.WriteString(rw, s+"\n"); err != nil {
					return err
				}
			}
		}
		return in.Err()
	}}
}

func shakeHands(m opsLine) []string {
	switch m.Method {
	case "server/discover":
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}}`, m.ID)}
	case "initialize":
		var p struct{ ProtocolVersion string }
		if json.Unmarshal(m.Params, &p) != nil {
			return nil
		}
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"bytes","version":"1"}}}`, m.ID, p.ProtocolVersion)}
	case "notifications/initialized":
		return []string{}
	}
	return nil
}

// sentLines lists what m3 sent of a method, as it stood on the wire. The client must be closed.
func sentLines(t *testing.T, c *m3.Client, method string) []string {
	t.Helper()
	view, err := c.View()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range view.RawMessages().All() {
		if m.Direction != trace.ClientToServer || m.Method != method || m.EvidenceRef == nil {
			continue
		}
		list = append(list, strings.TrimSpace(m.Preview.Value))
	}
	return list
}

func codesSeen(c *m3.Client) []string {
	codes := []string{}
	for _, f := range c.Findings() {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return codes
}

// soon gives a test's wait an end.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
