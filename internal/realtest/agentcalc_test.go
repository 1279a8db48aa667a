package realtest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// calcVariable makes the test binary an MCP server on stdio that an agent starts: "calc", or a way to be broken.
const calcVariable = "M3_REALTEST_CALC"

// calc is the server that the agents are given. It keeps what it was asked for.
type calc struct {
	*mcp.Server
	mu    sync.Mutex
	calls []string
	// cancelled gets a word when the tool slow was cancelled.
	cancelled chan struct{}
	started   chan struct{}
}

type calcArgs struct {
	A int `json:"a"`
	B int `json:"b"`
}

type noArgs struct{}

func newCalc() *calc {
	c := &calc{cancelled: make(chan struct{}, 16), started: make(chan struct{}, 16)}
	c.Server = mcp.NewServer(&mcp.Implementation{Name: "calc", Version: "0.1.0"}, nil)
	calcTool(c, "add", func(_ context.Context, in calcArgs) (string, error) {
		b, _ := json.Marshal(in.A + in.B)
		return string(b), nil
	})
	calcTool(c, "get.sum", func(_ context.Context, in calcArgs) (string, error) {
		b, _ := json.Marshal(in.A + in.B)
		return "dotted " + string(b), nil
	})
	calcTool(c, "get_sum_of", func(_ context.Context, in calcArgs) (string, error) {
		b, _ := json.Marshal(in.A + in.B)
		return "plain " + string(b), nil
	})
	calcTool(c, "fail", func(context.Context, noArgs) (string, error) { return "", errors.New("deliberate tool error") })
	calcTool(c, "empty", func(context.Context, noArgs) (string, error) { return "", nil })
	calcTool(c, "echo", func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	calcTool(c, "big", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		return strings.Repeat("0123456789abcde\n", in.N/16), nil
	})
	calcTool(c, "slow", func(ctx context.Context, in struct {
		MS int `json:"ms"`
	}) (string, error) {
		c.started <- struct{}{}
		select {
		case <-ctx.Done():
			c.cancelled <- struct{}{}
			return "", ctx.Err()
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
			return "slept", nil
		}
	})
	calcTool(c, "die", func(context.Context, noArgs) (string, error) { os.Exit(3); return "", nil })
	calcTool(c, "env", func(context.Context, noArgs) (string, error) {
		dir, _ := os.Getwd()
		return strings.Join(os.Environ(), "\n") + "\ncwd=" + dir, nil
	})
	mcp.AddTool(c.Server, &mcp.Tool{Name: "picture", Description: "A picture"}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		c.note("picture")
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a dot"}, &mcp.ImageContent{MIMEType: "image/png", Data: onePixel}}}, nil, nil
	})
	return c
}

func calcTool[In any](c *calc, name string, do func(ctx context.Context, in In) (string, error)) {
	mcp.AddTool(c.Server, &mcp.Tool{Name: name, Description: name}, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		c.note(name)
		text, err := do(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		if text == "" {
			return &mcp.CallToolResult{Content: []mcp.Content{}}, nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

func (c *calc) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, name)
}

// log is what reached the server.
func (c *calc) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.calls...)
}

// serve offers the server over HTTP.
func (c *calc) serve(t testing.TB) string {
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return c.Server }, nil))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// playCalc is the server on stdio.
func playCalc(how string) int {
	switch how {
	case "dead":
		os.Stderr.WriteString("the server does not start\n")
		return 3
	case "future": // of a version that no agent speaks
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		for dec := json.NewDecoder(os.Stdin); dec.Decode(&m) == nil; m.ID = nil {
			if m.ID != nil {
				os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}}` + "\n")
			}
		}
		return 0
	}
	if err := newCalc().Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, context.Canceled) {
		return 1
	}
	return 0
}

// onePixel is a PNG with one pixel.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")
