// Package elicitation shows how to test servers that ask for input while they work: with plans, by hand, and in every protocol that has it.
package elicitation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3/gosdk"
)

// The server under test is one of the official Go SDK. It asks by returning what it wants to know; the call comes again with the answers.
var shipping = gosdk.Server("shipping", newServer)

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shipping", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&mcp.Tool{Name: "book_shipment", InputSchema: object}, bookShipment)
	s.AddTool(&mcp.Tool{Name: "book_order", InputSchema: object}, bookOrder)
	s.AddTool(&mcp.Tool{Name: "ask_forever", InputSchema: object}, askForever)
	s.AddTool(&mcp.Tool{Name: "describe", InputSchema: object}, describe)
	s.AddPrompt(&mcp.Prompt{Name: "checkout"}, checkout)
	s.AddResource(&mcp.Resource{URI: "shipping://label", Name: "label"}, label)
	return s
}

var (
	address = &mcp.ElicitParams{Mode: "form", Message: "Where should we deliver?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}
	note = &mcp.ElicitParams{Mode: "form", Message: "A note for the driver?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"note":{"type":"string"}}}`)}
	payment = &mcp.ElicitParams{Mode: "url", Message: "Continue to checkout", URL: "https://example.test/pay/123"}
)

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func ask(state string, requests mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

// bookShipment asks once.
func bookShipment(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, ok := r.Params.InputResponses["address"].(*mcp.ElicitResult)
	if !ok {
		return ask("", mcp.InputRequestMap{"address": address}), nil
	}
	if answer.Action != "accept" {
		return text("not booked: %s %v", answer.Action, answer.Meta["reason"]), nil
	}
	return text("booked to %v", answer.Content["city"]), nil
}

// bookOrder asks in two rounds, and for a note in between when the order is a gift. What it knows so far travels in the state.
func bookOrder(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Gift bool }
	if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
		return nil, err
	}
	switch state := r.Params.RequestState; {
	case state == "":
		return ask("address", mcp.InputRequestMap{"address": address}), nil
	case state == "address" && args.Gift:
		return ask("note", mcp.InputRequestMap{"note": note}), nil
	case state == "address" || state == "note":
		return ask("confirm", mcp.InputRequestMap{"checkout": payment, "terms": &mcp.ElicitParams{Mode: "form", Message: "Accept the terms?", RequestedSchema: json.RawMessage(`{"type":"object"}`)}}), nil
	}
	return text("ordered with %d answers in the last round", len(r.Params.InputResponses)), nil
}

func askForever(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return ask("again", mcp.InputRequestMap{"address": address}), nil
}

// describe asks for a completion and for the roots before it asks the user.
func describe(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	switch r.Params.RequestState {
	case "":
		return ask("known", mcp.InputRequestMap{
			"slogan": &mcp.CreateMessageParams{MaxTokens: 20, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "A slogan, please."}}}},
			"roots":  &mcp.ListRootsParams{},
		}), nil
	case "known":
		slogan := r.Params.InputResponses["slogan"].(*mcp.CreateMessageWithToolsResult)
		roots := r.Params.InputResponses["roots"].(*mcp.ListRootsResult)
		said := fmt.Sprintf("%s in %s", slogan.Content[0].(*mcp.TextContent).Text, roots.Roots[0].URI)
		return ask(said, mcp.InputRequestMap{"address": address}), nil
	}
	return text("%s", r.Params.RequestState), nil
}

func checkout(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	answer, ok := r.Params.InputResponses["checkout"].(*mcp.ElicitResult)
	if !ok {
		return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"checkout": payment}, RequestState: "pay"}, nil
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "checkout: " + answer.Action}}}}, nil
}

func label(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	answer, ok := r.Params.InputResponses["address"].(*mcp.ElicitResult)
	if !ok {
		return &mcp.ReadResourceResult{InputRequests: mcp.InputRequestMap{"address": address}, RequestState: "label"}, nil
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: fmt.Sprint("to ", answer.Content["city"])}}}, nil
}
