package m3_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
)

// sdkSSE is an official server over the transport of 2024-11-05.
func sdkSSE() http.Handler {
	type in struct {
		Text string `json:"text"`
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, p in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: p.Text}}}, nil, nil
	})
	return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return srv }, nil)
}

// A server that only has HTTP+SSE is found by itself or by name, in every version of the initialize era.
func TestLegacySSE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		transport m3.HTTPTransport
		protocol  string
	}{{m3.AnyHTTP, ""}, {m3.AnyHTTP, "2025-11-25"}, {m3.LegacySSE, ""}, {m3.LegacySSE, "2024-11-05"}} {
		t.Run(string(c.transport)+c.protocol, func(t *testing.T) {
			t.Parallel()
			client := connect(t, newKit(t, m3.Config{}), m3.HandlerServer{Handler: sdkSSE(), Transport: c.transport}, &m3.DirectOptions{Protocol: c.protocol})
			res, err := client.CallTool(t.Context(), "echo", map[string]any{"text": "hi"}, nil)
			if err != nil || res.Text() != "hi" {
				t.Fatalf("%v, %v", res, err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			view, err := client.View()
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for _, e := range view.Transports().All() {
				last = e.Transport
			}
			if last != "sse" {
				t.Errorf("the trace says that the transport was %q", last)
			}
			if f := client.Findings(); len(f) > 0 {
				t.Errorf("findings about a server that did nothing wrong: %+v", f)
			}
		})
	}
}

// An exact transport is not left, and W-E34: when both fail, both failures are told.
func TestTransportsFail(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	_, err := kit.Direct(t.Context(), m3.HandlerServer{Handler: sdkSSE(), Transport: m3.StreamableHTTP}, nil)
	if err == nil || strings.Contains(err.Error(), "event stream") {
		t.Errorf("streamable HTTP alone: %v", err)
	}
	teapot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	_, err = kit.Direct(t.Context(), m3.HandlerServer{Handler: teapot}, &m3.DirectOptions{Protocol: "2025-11-25"})
	var transport *m3.TransportError
	if !errors.As(err, &transport) {
		t.Fatalf("%T: %v", err, err)
	}
	for _, want := range []string{"initialize over streamable HTTP: the server answered with HTTP 418", "GET was answered with HTTP 418"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	var unsupported *m3.UnsupportedError
	if _, err := kit.Direct(t.Context(), m3.HandlerServer{Handler: teapot, Transport: m3.LegacySSE}, &m3.DirectOptions{Protocol: "2026-07-28"}); !errors.As(err, &unsupported) {
		t.Error(err)
	}
	if _, err := kit.Direct(t.Context(), m3.HandlerServer{Handler: teapot, Transport: "carrier pigeon"}, nil); !errors.Is(err, m3.ErrValidation) {
		t.Error(err)
	}
}
