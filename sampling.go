package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Root is a root that is offered to the server.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// SamplingRequest is a server's request for a completion.
type SamplingRequest struct {
	Messages     []SamplingMessage `json:"messages"`
	SystemPrompt string            `json:"systemPrompt"`
	MaxTokens    int64             `json:"maxTokens"`
	// Raw is the whole of the request's params.
	Raw trace.JSON `json:"-"`
}

// SamplingMessage is one message of a sampling request. Its content is one block or, since 2025-11-25, several.
type SamplingMessage struct {
	Role    string
	Content []Content
}

// UnmarshalJSON accepts one block or an array of blocks.
func (m *SamplingMessage) UnmarshalJSON(b []byte) error {
	var raw struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := unmarshal(b, &raw); err != nil {
		return err
	}
	m.Role = raw.Role
	blocks := []json.RawMessage{raw.Content}
	if len(raw.Content) > 0 && raw.Content[0] == '[' {
		if err := json.Unmarshal(raw.Content, &blocks); err != nil {
			return err
		}
	}
	for _, block := range blocks {
		if len(block) == 0 {
			continue
		}
		c, err := decodeBlock(block)
		if err != nil {
			return err
		}
		m.Content = append(m.Content, c)
	}
	return nil
}

// SamplingResult is the completion.
type SamplingResult struct {
	Model      string
	Role       string // empty: assistant
	Text       string // the content, unless Content is set
	Content    trace.JSON
	StopReason string // empty: endTurn
}

// MarshalJSON writes the result as the protocol wants it.
func (r *SamplingResult) MarshalJSON() ([]byte, error) {
	content := any(r.Content)
	if r.Content == nil {
		content = map[string]string{"type": "text", "text": r.Text}
	}
	return json.Marshal(map[string]any{"model": orElse(r.Model, "m3"), "role": orElse(r.Role, "assistant"), "content": content, "stopReason": orElse(r.StopReason, "endTurn")})
}

// sample asks the test's sampling handler. A panic in it is an answer to the server, not the end of the tests.
func sample(ctx context.Context, f func(context.Context, *SamplingRequest) (*SamplingResult, error), params trace.JSON) (result *SamplingResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, errSamplingPanic
		}
	}()
	r := &SamplingRequest{Raw: params}
	if err := params.Decode(r); err != nil {
		return nil, errSamplingParams
	}
	result, err = f(ctx, r)
	if err == nil && result == nil {
		err = errSamplingNothing
	}
	return result, err
}

// What can go wrong around a sampling handler.
var (
	errSamplingPanic   = errors.New("the sampling handler panicked")
	errSamplingNothing = errors.New("the sampling handler returned no result")
	errSamplingParams  = errors.New("the params of sampling/createMessage do not have the shape that the protocol defines")
)

// samplingError is the answer to the server. A handler's own text may hold anything: only its type is told.
func samplingError(err error) *rpc.ErrorObject {
	switch err {
	case errSamplingParams:
		return &rpc.ErrorObject{Code: trace.JSON("-32602"), Message: err.Error()}
	case errSamplingPanic, errSamplingNothing, errScriptOver:
		return &rpc.ErrorObject{Code: trace.JSON("-32603"), Message: err.Error()}
	default:
		return &rpc.ErrorObject{Code: trace.JSON("-32603"), Message: fmt.Sprintf("the sampling handler failed: %T", err)}
	}
}
