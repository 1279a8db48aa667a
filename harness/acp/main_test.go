package acp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/internal/leaktest"
)

// calcVariable makes this test binary an MCP server, garbageVariable an agent that is none.
const (
	calcVariable    = "ACPTEST_CALC"
	garbageVariable = "ACPTEST_GARBAGE"
)

func TestMain(m *testing.M) {
	switch {
	case acpagent.Active():
		os.Exit(acpagent.Main())
	case os.Getenv(calcVariable) != "":
		if err := calc().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(garbageVariable) != "":
		os.Exit(garbage(os.Getenv(garbageVariable)))
	}
	os.Exit(leaktest.Run(os.Stderr, m.Run, &leaktest.Config{Goroutines: []string{"harness/acp."}, Processes: true, Descriptors: 12}))
}

// addInput is what add and the others take.
type addInput struct {
	A    float64 `json:"a,omitempty"`
	B    float64 `json:"b,omitempty"`
	Text string  `json:"text,omitempty"`
}

// calc is a server with a tool of each kind.
func calc() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "calc", Version: "1"}, nil)
	text := func(t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "add"}, func(_ context.Context, r *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, any, error) {
		id := ""
		if v, joined := r.Params.Meta[acpagent.JoinKey]; joined {
			id = fmt.Sprint(" ", v)
		}
		return text(fmt.Sprint(in.A+in.B) + id), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, any, error) {
		return text(in.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, addInput) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("failed on purpose")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ addInput) (*mcp.CallToolResult, any, error) {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(30 * time.Second):
			return text("slow"), nil, nil
		}
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(_ context.Context, r *mcp.CallToolRequest, _ addInput) (*mcp.CallToolResult, any, error) {
		answer, answered := r.Params.InputResponses["who"].(*mcp.ElicitResult)
		if !answered {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Mode: "form", Message: "What is your name?",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}}}, nil, nil
		}
		return text(fmt.Sprint(answer.Action, " ", answer.Content["name"])), nil, nil
	})
	return s
}
