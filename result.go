package m3

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/trace"
)

// Content is one content block.
type Content = trace.Content

// ToolCallResult is what a tool answered. A tool's own failure is a result too.
type ToolCallResult struct {
	Content []Content
	// StructuredContent is the structured result as it stood on the wire; nil when there was none.
	StructuredContent trace.JSON
	// IsError says that the tool reported failure.
	IsError bool
	// ResultType is the type of a result that an extension claims (see CallOptions.AllowClaimed); empty for every other.
	ResultType string
	// InputRequired is what the server wants first, when CallOptions.AllowInputRequired is set and the server does; the rest is empty then, but for
	// Raw, Sequence and Execution. Nil for every other result.
	InputRequired *InputRequiredResult
	// Raw is the whole result as it stood on the wire.
	Raw trace.JSON
	// Sequence is the event of the request in the client's trace; of a call with several attempts, that of the last.
	Sequence int64
	// Execution is the client's.
	Execution trace.ExecutionID
}

// Text joins the text blocks with newlines.
func (r *ToolCallResult) Text() string { return trace.JoinText(r.Content) }

// Decode puts the structured content into v, with exact numbers where v asks for any. Without structured content, a result whose text
// is JSON is not guessed at: it is a *ValidationError.
func (r *ToolCallResult) Decode(v any) error {
	if r.StructuredContent == nil {
		return validationf("the result has no structured content (its text is in Text)")
	}
	if err := r.StructuredContent.Decode(v); err != nil {
		return validationf("the structured content does not fit into %T: %v", v, err)
	}
	return nil
}

// ResourceReadResult is the contents of a resource.
type ResourceReadResult struct {
	Contents []ResourceContents `json:"contents"`
	// InputRequired is as in [ToolCallResult].
	InputRequired *InputRequiredResult `json:"-"`
	Raw           trace.JSON           `json:"-"`
}

// ResourceContents is one part of a resource: text or binary.
type ResourceContents struct {
	URI      string     `json:"uri"`
	MIMEType string     `json:"mimeType"`
	Text     *string    `json:"text"`
	Blob     []byte     `json:"blob"` // decoded from base64
	Meta     trace.JSON `json:"_meta"`
}

// UnmarshalJSON reads a part by the exact names of its members.
func (c *ResourceContents) UnmarshalJSON(b []byte) error {
	type plain ResourceContents
	return unmarshal(b, (*plain)(c))
}

// Text joins the text of the contents with newlines.
func (r *ResourceReadResult) Text() string {
	var b bytes.Buffer
	for _, c := range r.Contents {
		if c.Text == nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(*c.Text)
	}
	return b.String()
}

// PromptResult is a rendered prompt.
type PromptResult struct {
	Description string          `json:"description"`
	Messages    []PromptMessage `json:"messages"`
	// InputRequired is as in [ToolCallResult].
	InputRequired *InputRequiredResult `json:"-"`
	Raw           trace.JSON           `json:"-"`
}

// PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// UnmarshalJSON reads a message, keeping the block's own bytes.
func (m *PromptMessage) UnmarshalJSON(b []byte) error {
	var raw struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := unmarshal(b, &raw); err != nil {
		return err
	}
	m.Role = raw.Role
	if len(raw.Content) == 0 {
		return nil
	}
	var err error
	m.Content, err = decodeBlock(raw.Content)
	return err
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T
	// NextCursor asks for the next page; nil on the last.
	NextCursor *string
	Raw        trace.JSON
}

// ToolInfo describes a tool. The schemas are as they stood on the wire.
type ToolInfo struct {
	Name         string     `json:"name"`
	Title        string     `json:"title"`
	Description  string     `json:"description"`
	InputSchema  trace.JSON `json:"inputSchema"`
	OutputSchema trace.JSON `json:"outputSchema"` // nil when the tool states none
	Annotations  trace.JSON `json:"annotations"`
	Raw          trace.JSON `json:"-"`
	// Malformed says what is wrong with an item that could not be read as a tool, or whose x-mcp-header annotations forbid its use over HTTP
	// (2026-07-28); the other items stay usable.
	Malformed string `json:"-"`
}

// ResourceInfo describes a resource.
type ResourceInfo struct {
	URI         string     `json:"uri"`
	Name        string     `json:"name"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	MIMEType    string     `json:"mimeType"`
	Size        *int64     `json:"size"`
	Raw         trace.JSON `json:"-"`
	Malformed   string     `json:"-"`
}

// ResourceTemplateInfo describes a family of resources.
type ResourceTemplateInfo struct {
	URITemplate string     `json:"uriTemplate"`
	Name        string     `json:"name"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	MIMEType    string     `json:"mimeType"`
	Raw         trace.JSON `json:"-"`
	Malformed   string     `json:"-"`
}

// PromptInfo describes a prompt.
type PromptInfo struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Arguments   []PromptArgument `json:"arguments"`
	Raw         trace.JSON       `json:"-"`
	Malformed   string           `json:"-"`
}

// PromptArgument describes an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// setRaw keeps the item's bytes and, when it could not be read, why.
func (t *ToolInfo) setRaw(raw trace.JSON, malformed string)     { t.Raw, t.Malformed = raw, malformed }
func (r *ResourceInfo) setRaw(raw trace.JSON, malformed string) { r.Raw, r.Malformed = raw, malformed }
func (r *ResourceTemplateInfo) setRaw(raw trace.JSON, malformed string) {
	r.Raw, r.Malformed = raw, malformed
}
func (p *PromptInfo) setRaw(raw trace.JSON, malformed string) { p.Raw, p.Malformed = raw, malformed }

func (t *ToolInfo) identity() (id, what string)             { return t.Name, "name" }
func (r *ResourceInfo) identity() (id, what string)         { return r.URI, "uri" }
func (r *ResourceTemplateInfo) identity() (id, what string) { return r.URITemplate, "uriTemplate" }
func (p *PromptInfo) identity() (id, what string)           { return p.Name, "name" }

// Initialization is what a server said of itself in the handshake.
type Initialization struct {
	ProtocolVersion string // negotiated
	ServerName      string
	ServerVersion   string
	Instructions    string
	Capabilities    trace.JSON
	Raw             trace.JSON // the whole result of initialize or server/discover
}

// Progress is one progress notification.
type Progress struct {
	Progress float64
	Total    *float64
	Message  string
}

// LogMessage is one log notification of the server.
type LogMessage struct {
	Level  string     `json:"level"`
	Logger string     `json:"logger"`
	Data   trace.JSON `json:"data"`
}

// complete refuses a result that is not final. One that asks for input is refused where it cannot be answered: in an operation, or a version, that has no
// such results.
func complete(operation string, result trace.JSON) error {
	switch kind := mcp.ResultType(result); kind {
	case "complete":
		return nil
	case "input_required":
		return &UnsupportedError{Message: operation + ": the server answered input_required: it wants input before it goes on, which this operation or protocol version does not have", Raw: result,
			Details: map[string]any{"operation": operation, "feature": "input_required"}}
	default:
		return &UnsupportedError{Message: fmt.Sprintf("%s: the server answered with the result type %q, which no protocol version or extension in use defines", operation, kind), Raw: result,
			Details: map[string]any{"operation": operation, "feature": "resultType"}}
	}
}

func decodeToolResult(operation string, raw trace.JSON) (*ToolCallResult, error) {
	wire, err := decodeParts(raw)
	if err != nil {
		return nil, malformed(operation, "result", err)
	}
	r := &ToolCallResult{StructuredContent: wire.structured, IsError: wire.isError, Raw: raw}
	if len(wire.content) > 0 {
		r.Content = make([]Content, len(wire.content))
	}
	for i, b := range wire.content {
		if r.Content[i], err = decodeBlock(b); err != nil {
			return nil, malformed(operation, fmt.Sprintf("content block %d", i), err)
		}
	}
	return r, nil
}

func decodeBlock(b json.RawMessage) (Content, error) {
	if len(b) >= largeText {
		if c, ok := scanBlock(b); ok {
			return c, nil
		}
	}
	var c struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := unmarshal(b, &c); err != nil {
		return Content{}, err
	}
	return Content{Type: c.Type, Text: c.Text, Raw: trace.JSON(b)}, nil
}

func decodeResult(operation string, raw trace.JSON, v any) error {
	if err := unmarshal(raw, v); err != nil {
		return malformed(operation, "result", err)
	}
	return nil
}

// malformed is an answer that is valid JSON-RPC but not what the method's result must be.
func malformed(operation, what string, err error) *ProtocolError {
	return &ProtocolError{Message: fmt.Sprintf("%s: the server's %s does not have the shape that the protocol defines: %v", operation, what, err), Err: err,
		Details: map[string]any{"operation": operation, "phase": "call", "error_kind": "malformed"}}
}

type item interface {
	// identity is what the item is asked for by, and what that is called.
	identity() (id, what string)
	setRaw(raw trace.JSON, malformed string)
}

// decodePage reads the items one by one, so that a bad one does not hide the others.
func decodePage[T any](method, member string, raw trace.JSON) (*Page[T], error) {
	var wire map[string]json.RawMessage
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, malformed(method, "result", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(wire[member], &items); err != nil || items == nil { // null is no array either
		return nil, malformed(method, "result", fmt.Errorf("member %q is not an array", member))
	}
	p := &Page[T]{Raw: raw, Items: make([]T, len(items))}
	if c := wire["nextCursor"]; c != nil && string(c) != "null" {
		if err := json.Unmarshal(c, &p.NextCursor); err != nil {
			return nil, malformed(method, "nextCursor", err)
		}
	}
	for i, b := range items {
		wrong := ""
		if err := unmarshal(b, &p.Items[i]); err != nil {
			wrong = err.Error()
		} else if id, what := any(&p.Items[i]).(item).identity(); id == "" {
			wrong = "it has no " + what
		}
		any(&p.Items[i]).(item).setRaw(trace.JSON(b), wrong)
	}
	return p, nil
}
