package m3_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/trace"
)

// TestBridge: an agent that reaches servers over stdio only works with servers over HTTP; its tools are restricted, and a server that dies is to blame.
func TestBridge(t *testing.T) {
	t.Parallel()
	stdio := func(c *harness.Capabilities) { c.HTTPServers = false }
	for kind, server := range agentServers(t) {
		if kind != "http" && kind != "handler" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			res, err := runFake(t, &fakeDriver{change: stdio}, "call calc:echo {\"a\":1}\ncall calc:other\ntools calc", &m3.RunOptions{Server: server(), Tools: m3.OnlyTools("calc:echo")})
			if err != nil {
				t.Fatal(err)
			}
			checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
			if n := res.View().Summary(); res.Text() != "echo" || n.ToolCallCount != 1 || n.PolicyDeniedCalls != 1 {
				t.Errorf("%q, %d calls, %d refused", res.Text(), n.ToolCallCount, n.PolicyDeniedCalls)
			}
			if codes := diagnostics(res); !strings.Contains(strings.Join(codes, " "), "server_bridged") {
				t.Errorf("nothing says that it was bridged: %v", codes)
			}
			if l := res.View().Limitations(); len(l) != 0 {
				t.Errorf("limitations %v", l)
			}
		})
	}
	t.Run("dies", func(t *testing.T) {
		t.Parallel()
		inner := peerHandler()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), `"die"`) {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(srv.Close)
		res, err := runFake(t, &fakeDriver{change: stdio}, "call calc:die", &m3.RunOptions{Server: m3.HTTPServer{Name: "calc", URL: srv.URL}})
		if res == nil {
			t.Fatal(err)
		}
		checkEnd(t, res, err, trace.OutcomeFailed, harness.BlameServer, "server_died")
	})
}

// TestBridgeSDK: servers of the official SDK over HTTP, in both eras and over HTTP+SSE, with an agent over stdio whose questions are answered.
func TestBridgeSDK(t *testing.T) {
	t.Parallel()
	build := func(*http.Request) *mcp.Server { return askingSDK() }
	for name, server := range map[string]m3.HandlerServer{
		"streamable": {Name: "calc", Handler: mcp.NewStreamableHTTPHandler(build, nil)},
		"json":       {Name: "calc", Handler: mcp.NewStreamableHTTPHandler(build, &mcp.StreamableHTTPOptions{JSONResponse: true})},
		"sse":        {Name: "calc", Handler: mcp.NewSSEHandler(build, nil), Transport: m3.LegacySSE},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := acpagent.Config("", &acpagent.Script{Turns: [][]acpagent.Step{{
				{Call: &acpagent.Call{Server: "calc", Tool: "book", Arguments: json.RawMessage(`{}`)}}, {Say: "{{result}}"}}}})
			cfg.NoHTTP = true
			agents, err := agentKit(t).Agents([]m3.Selection{{Harness: acp.New(cfg)}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			o := &m3.RunOptions{Server: server}
			if name != "sse" {
				o.Elicitation = elicit.Form("address", elicit.Message("Where to?")).Accept(elicit.Content{"city": "Pune"})
			}
			res, err := agents[0].Run(t.Context(), "go", o)
			if res == nil {
				t.Fatal(err)
			}
			checkEnd(t, res, err, trace.OutcomeCompleted, "", "")
			if name != "sse" && res.Text() != "accept Pune" || wireCalls(res.View()) == 0 {
				t.Errorf("%q, %d calls", res.Text(), wireCalls(res.View()))
			}
		})
	}
}
