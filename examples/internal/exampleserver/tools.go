package exampleserver

import (
	"context"
	"fmt"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addTools adds the tools that keep nothing.
func addTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns the text."}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two integers."}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "quote", Description: "Prices a parcel by its weight."}, quote)
}

type echoInput struct {
	Text string `json:"text" jsonschema:"what to return"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text(in.Text), nil, nil
}

type addInput struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

// Sum is the structured result of add.
type Sum struct {
	Sum int64 `json:"sum"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, Sum, error) {
	return nil, Sum{in.A + in.B}, nil
}

type quoteInput struct {
	WeightKg float64 `json:"weight_kg" jsonschema:"above 0, at most 100"`
	Country  string  `json:"country,omitempty" jsonschema:"ISO code; default IN"`
}

// Quote is the structured result of quote.
type Quote struct {
	Price    float64 `json:"price"`
	Currency string  `json:"currency"`
	Days     int     `json:"days"`
}

func quote(_ context.Context, _ *mcp.CallToolRequest, in quoteInput) (*mcp.CallToolResult, Quote, error) {
	if in.WeightKg <= 0 || in.WeightKg > 100 {
		return nil, Quote{}, fmt.Errorf("weight_kg is %v: it must be above 0 and at most 100", in.WeightKg)
	}
	q := Quote{Price: 4, Currency: "EUR", Days: 2}
	if in.Country != "" && in.Country != "IN" {
		q.Price, q.Days = 9, 6
	}
	q.Price = math.Round((q.Price+1.5*in.WeightKg)*100) / 100
	return text(fmt.Sprintf("%.2f %s in %d days", q.Price, q.Currency, q.Days)), q, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
