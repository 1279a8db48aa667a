package exampleserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// catalog is the text resource, and logo the binary one: the smallest GIF there is.
const catalog = "parcel\npallet\nletter\n"

var logo = []byte("GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x0a\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;")

// items is what the template shop://items/{id} finds.
var items = map[string]string{"parcel": "up to 30 kg", "pallet": "up to 500 kg", "letter": "up to 100 g"}

func addResources(s *mcp.Server) {
	s.AddResource(&mcp.Resource{URI: "shop://catalog", Name: "catalog", Description: "What can be ordered.", MIMEType: "text/plain"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: catalog}), nil
		})
	s.AddResource(&mcp.Resource{URI: "shop://logo", Name: "logo", Description: "A picture.", MIMEType: "image/gif"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "image/gif", Blob: logo}), nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "shop://items/{id}", Name: "item", Description: "One item of the catalog.", MIMEType: "text/plain"}, item)
}

func item(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id := strings.TrimPrefix(req.Params.URI, "shop://items/")
	about, ok := items[id]
	if !ok {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: id + ": " + about}), nil
}

func contents(c *mcp.ResourceContents) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}

func addPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "confirm_order", Title: "Confirm an order", Description: "Asks to confirm an order to its customer.",
		Arguments: []*mcp.PromptArgument{{Name: "order_id", Description: "of create_order", Required: true}, {Name: "tone", Description: "default friendly"}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			tone := req.Params.Arguments["tone"]
			if tone == "" {
				tone = "friendly"
			}
			return &mcp.GetPromptResult{Description: "Confirm an order", Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Confirm order %s in a %s tone.", req.Params.Arguments["order_id"], tone)}},
			}}, nil
		})
}
