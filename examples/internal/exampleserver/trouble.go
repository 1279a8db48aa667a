package exampleserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addTrouble adds the tools that misbehave, each in its own way.
func addTrouble(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Always fails, with the message."}, fail)
	s.AddTool(&mcp.Tool{Name: "bad_output", Description: "Breaks its own output schema.",
		InputSchema:  json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}`),
	}, badOutput)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Takes a number of steps, with progress, until it is done or cancelled."}, slow)
}

type failInput struct {
	Message string `json:"message,omitempty"`
}

func fail(_ context.Context, _ *mcp.CallToolRequest, in failInput) (*mcp.CallToolResult, any, error) {
	if in.Message == "" {
		in.Message = "it failed, as asked"
	}
	return nil, nil, errors.New(in.Message)
}

// badOutput says that its price is a number, and answers with a text. The SDK checks typed tools only, so this one is not.
func badOutput(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: `{"price":"four"}`}},
		StructuredContent: json.RawMessage(`{"price":"four"}`),
	}, nil
}

type slowInput struct {
	Steps  int `json:"steps"`
	StepMs int `json:"step_ms"`
}

func slow(ctx context.Context, req *mcp.CallToolRequest, in slowInput) (*mcp.CallToolResult, any, error) {
	token := req.Params.GetProgressToken()
	for step := range in.Steps {
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("cancelled after %d of %d steps", step, in.Steps)
		case <-time.After(time.Duration(in.StepMs) * time.Millisecond):
		}
		if token == nil {
			continue
		}
		progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(step + 1), Total: float64(in.Steps), Message: fmt.Sprintf("step %d of %d", step+1, in.Steps)}
		if err := req.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, nil, err
		}
	}
	return text(fmt.Sprintf("%d steps", in.Steps)), nil, nil
}
