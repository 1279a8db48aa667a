package m3

import (
	"context"
	"fmt"
	"time"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// CompletionRef says what an argument belongs to: a prompt or a resource template, exactly one of the two. See [PromptRef] and [ResourceRef].
type CompletionRef struct {
	Prompt      string // the name of a prompt
	ResourceURI string // the URI, or URI template, of a resource
}

// PromptRef refers to a prompt by its name.
func PromptRef(name string) CompletionRef { return CompletionRef{Prompt: name} }

// ResourceRef refers to a resource or a resource template by its URI.
func ResourceRef(uri string) CompletionRef { return CompletionRef{ResourceURI: uri} }

// CompleteOptions configure one completion. Nil means all defaults.
type CompleteOptions struct {
	// Context holds the arguments that are known already. Protocol 2025-06-18 introduced it; before, it is an *UnsupportedError.
	Context map[string]string
	// Timeout bounds the operation. 0: the client's.
	Timeout time.Duration
	// Meta goes out as _meta.
	Meta map[string]any
}

// CompletionResult is what a server proposes for an argument.
type CompletionResult struct {
	Values []string
	// Total is how many values there are in all; nil when the server did not say.
	Total   *int64
	HasMore bool
	Raw     trace.JSON // the whole result
}

// Complete asks for values of an argument that begin as value does.
func (c *Client) Complete(ctx context.Context, ref CompletionRef, argument, value string, opts *CompleteOptions) (*CompletionResult, error) {
	if opts == nil {
		opts = &CompleteOptions{}
	}
	if (ref.Prompt == "") == (ref.ResourceURI == "") {
		return nil, validationf("Complete: name a prompt or a resource, one of the two (m3.PromptRef, m3.ResourceRef)")
	}
	operation := "complete " + argument
	params := map[string]any{"ref": ref.wire(), "argument": map[string]string{"name": argument, "value": value}}
	if opts.Context != nil {
		if c.session.Protocol() < mcp.Version20250618 {
			return nil, c.lacks(operation, "a context of completions")
		}
		params["context"] = map[string]any{"arguments": opts.Context}
	}
	res, err := c.call(ctx, operation, &mcp.Op{Method: "completion/complete", Params: params, Meta: opts.Meta}, opts.Timeout)
	if err != nil {
		return nil, err
	}
	if err := complete(operation, res.Result); err != nil {
		return nil, err
	}
	return decodeCompletion(operation, res.Result)
}

func (r CompletionRef) wire() map[string]string {
	if r.Prompt != "" {
		return map[string]string{"type": "ref/prompt", "name": r.Prompt}
	}
	return map[string]string{"type": "ref/resource", "uri": r.ResourceURI}
}

func decodeCompletion(operation string, raw trace.JSON) (*CompletionResult, error) {
	var wire struct {
		Completion *struct {
			Values  []string `json:"values"`
			Total   *int64   `json:"total"`
			HasMore bool     `json:"hasMore"`
		} `json:"completion"`
	}
	if err := decodeResult(operation, raw, &wire); err != nil {
		return nil, err
	}
	if wire.Completion == nil {
		return nil, malformed(operation, "result", fmt.Errorf("it has no completion"))
	}
	return &CompletionResult{Values: wire.Completion.Values, Total: wire.Completion.Total, HasMore: wire.Completion.HasMore, Raw: raw}, nil
}

// lacks is the error about a feature that the negotiated version does not have. Nothing was sent.
func (c *Client) lacks(operation, feature string) *UnsupportedError {
	return &UnsupportedError{Message: fmt.Sprintf("%s: protocol %s has no %s", operation, c.session.Protocol(), feature),
		Details: map[string]any{"operation": operation, "feature": feature}}
}
