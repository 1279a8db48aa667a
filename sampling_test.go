package m3_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// asking makes a peer whose tool "ask" sends a request of its own and answers the call with what came back.
func asking(method, params string) *peer {
	return on(map[string]func(*peer, *message){"ask": func(p *peer, m *message) {
		call := *m
		go func() {
			got := p.ask(`"s-1"`, method, params)
			p.result(&call, `{"content":[],"structuredContent":{"result":%s,"error":%s}}`, orNull(got.Result), orNull(got.Error))
		}()
	}})
}

func orNull(b []byte) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

const sampleParams = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"AA=="}]}],"systemPrompt":"be brief","maxTokens":9,"temperature":1e400}`

// The server's requests are answered while a call of ours waits for its own answer.
func TestRequestsOfTheServerAreAnswered(t *testing.T) {
	t.Parallel()
	hidden := errors.New("the model said hidden things")
	handler := func(f func() (*m3.SamplingResult, error)) *m3.DirectOptions {
		o := old()
		o.Sampling = func(_ context.Context, r *m3.SamplingRequest) (*m3.SamplingResult, error) {
			if len(r.Messages) != 2 || r.Messages[0].Content[0].Text != "hi" || len(r.Messages[1].Content) != 2 || r.SystemPrompt != "be brief" || r.MaxTokens != 9 || !strings.Contains(string(r.Raw), "1e400") {
				return nil, fmt.Errorf("the request reads %+v", r)
			}
			return f()
		}
		return o
	}
	roots := func(r []m3.Root) *m3.DirectOptions { o := old(); o.Roots = r; return o }
	for _, tc := range []struct {
		name, method, params string
		opts                 *m3.DirectOptions
		want                 string // in what the server was answered
	}{
		{"sampling", "sampling/createMessage", sampleParams, handler(func() (*m3.SamplingResult, error) { return &m3.SamplingResult{Text: "hello"}, nil }),
			`{"content":{"text":"hello","type":"text"},"model":"m3","role":"assistant","stopReason":"endTurn"}`},
		{"sampling with content", "sampling/createMessage", sampleParams, handler(func() (*m3.SamplingResult, error) {
			return &m3.SamplingResult{Model: "x", Role: "user", StopReason: "maxTokens", Content: trace.JSON(`{"type":"audio","n":1e400}`)}, nil
		}), `{"content":{"type":"audio","n":1e400},"model":"x","role":"user","stopReason":"maxTokens"}`},
		{"handler that fails", "sampling/createMessage", sampleParams, handler(func() (*m3.SamplingResult, error) { return nil, hidden }), `"code":-32603,"message":"the sampling handler failed: *errors.errorString"`},
		{"handler that panics", "sampling/createMessage", sampleParams, handler(func() (*m3.SamplingResult, error) { panic(hidden) }), `"the sampling handler panicked"`},
		{"handler that gives nothing", "sampling/createMessage", sampleParams, handler(func() (*m3.SamplingResult, error) { return nil, nil }), `"the sampling handler returned no result"`},
		{"params of another shape", "sampling/createMessage", `{"messages":7}`, handler(func() (*m3.SamplingResult, error) { return nil, nil }), `"code":-32602`},
		{"roots", "roots/list", `{}`, roots([]m3.Root{{URI: "file:///w", Name: "w"}, {URI: "file:///x"}}), `{"roots":[{"uri":"file:///w","name":"w"},{"uri":"file:///x"}]}`},
		{"no roots", "roots/list", `{}`, roots([]m3.Root{}), `{"roots":[]}`},
		{"ping", "ping", `{}`, old(), `"result":{}`},
		{"sampling undeclared", "sampling/createMessage", sampleParams, old(), `"code":-32601`},
		{"roots undeclared", "roots/list", `{}`, old(), `"code":-32601`},
		{"no such request", "shop/restock", `{}`, old(), `"code":-32601`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := asking(tc.method, tc.params)
			client := connect(t, newKit(t, m3.Config{}), p.server(), tc.opts)
			r, err := client.CallTool(t.Context(), "ask", nil, nil)
			if err != nil || !strings.Contains(string(r.StructuredContent), tc.want) || strings.Contains(string(r.StructuredContent), "hidden") {
				t.Fatalf("%+v, %v", r, err)
			}
			declared := string(p.got("initialize")[0].Params)
			if (tc.opts.Sampling != nil) != strings.Contains(declared, `"sampling":{}`) || (tc.opts.Roots != nil) != strings.Contains(declared, `"roots":{}`) {
				t.Errorf("declared %s", declared)
			}
			undeclared := strings.HasSuffix(tc.name, "undeclared")
			if found := hasFinding(client, "undeclared-capability"); found != undeclared {
				t.Errorf("findings %v", client.Findings())
			}
			view := finish(t, client)
			if failed := strings.HasPrefix(tc.name, "handler that") || strings.HasPrefix(tc.name, "params"); failed != (view.Diagnostics().Len() == 1) {
				t.Errorf("%d diagnostics", view.Diagnostics().Len())
			}
		})
	}
}

func hasFinding(c *m3.Client, code string) bool {
	for _, f := range c.Findings() {
		if f.Code == code {
			return true
		}
	}
	return false
}
