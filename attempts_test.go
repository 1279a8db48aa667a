package m3_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// pausing is a server of 2026-07-28 over HTTP whose tool asks once, and which keeps the headers of each attempt.
type pausing struct {
	mu    sync.Mutex
	calls []http.Header
}

func (h *pausing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, _ := io.ReadAll(r.Body)
	var m opsLine
	if json.Unmarshal(b, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	result := `{"resultType":"complete","content":[]}`
	switch m.Method {
	case "server/discover":
		io.WriteString(w, shakeHands(m)[0])
		return
	case "tools/list":
		result = `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"sql","inputSchema":` + mirrored + `}]}`
	default:
		if h.calls = append(h.calls, r.Header.Clone()); len(h.calls) == 1 {
			result = `{"resultType":"input_required","requestState":"s","inputRequests":{"address":` + addressForm + `}}`
		}
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// Every attempt has the headers that its arguments want, and the caller's own.
func TestEveryAttemptHasItsHeaders(t *testing.T) {
	t.Parallel()
	h := &pausing{}
	c := openOps(t, m3.HandlerServer{Name: "h", Handler: h}, &m3.DirectOptions{Protocol: modernEra})
	if _, err := c.CallTool(t.Context(), "sql", m3.Args{"region": "eu", "limit": 4}, &m3.CallOptions{Elicitation: toPune, Header: http.Header{"X-Mine": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	if len(h.calls) != 2 {
		t.Fatalf("%d attempts", len(h.calls))
	}
	for i, got := range h.calls {
		if got.Get("Mcp-Param-Region") != "eu" || got.Get("Mcp-Param-Limit") != "4" || got.Get("Mcp-Name") != "sql" || got.Get("X-Mine") != "1" {
			t.Errorf("attempt %d: %v", i, got)
		}
	}
}

// Every attempt has a progress token, and its progress is told; the result of the last is validated; a claimed result is taken there too.
func TestEveryAttemptIsACall(t *testing.T) {
	t.Parallel()
	last := `{"resultType":"complete","content":[],"structuredContent":{"n":1}}`
	var tokens []string
	p := &peer{handle: func(p *peer, m *message) bool {
		switch m.Method {
		case "tools/list":
			p.result(m, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"book","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]}`)
		case "tools/call":
			in := m.asked()
			tokens = append(tokens, string(in.Meta["progressToken"]))
			p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, in.Meta["progressToken"], len(tokens))
			if in.Responses == nil {
				p.result(m, `{"resultType":"input_required","requestState":"s","inputRequests":{"address":%s}}`, addressForm)
			} else {
				p.result(m, "%s", last)
			}
		default:
			return false
		}
		return true
	}}
	client := modern(t, p, &m3.DirectOptions{ValidateSchemas: true})
	var told []float64
	opts := &m3.CallOptions{Elicitation: toPune, Progress: func(p m3.Progress) { told = append(told, p.Progress) }, AllowClaimed: true}
	if r, err := client.CallTool(t.Context(), "book", nil, opts); err != nil || string(r.StructuredContent) != `{"n":1}` {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(tokens) != 2 || tokens[0] == tokens[1] || tokens[0] == "" || fmt.Sprint(told) != "[1 2]" {
		t.Errorf("tokens %v, progress %v", tokens, told)
	}
	last = `{"resultType":"complete","content":[],"structuredContent":{"n":"x"}}`
	_, err := client.CallTool(t.Context(), "book", nil, opts)
	if e := wantError[*m3.ValidationError](t, err, "invalid_argument", "/n"); e.Details["kind"] != "invalid_result" {
		t.Errorf("%v", e.Details)
	}
	last = `{"resultType":"task","task":{"taskId":"1"}}`
	if r, err := client.CallTool(t.Context(), "book", nil, opts); err != nil || r.ResultType != "task" {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = client.CallTool(t.Context(), "book", nil, &m3.CallOptions{Elicitation: toPune})
	wantError[*m3.UnsupportedError](t, err, "unsupported", `"task"`)
}

// A server of the official SDK asks over HTTP during its calls: there the exchange tells which call a request is about, so one plan serves many at once.
func TestManyPlannedCallsOverHTTP(t *testing.T) {
	t.Parallel()
	build := func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Where to?", RequestedSchema: json.RawMessage(citySchema)})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(got.Action, got.Content["city"])}}}, nil
		})
		return s
	}
	for _, protocol := range []string{legacy5, legacy4} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			handler := mcp.NewStreamableHTTPHandler(build, nil)
			client := connect(t, newKit(t, m3.Config{}), m3.HandlerServer{Name: "sdk", Handler: handler}, declaring(protocol))
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					city := fmt.Sprintf("city-%d", i/2)
					r, err := client.CallTool(t.Context(), "book", m3.Args{"n": i}, &m3.CallOptions{Elicitation: elicit.Form("address").Accept(elicit.Content{"city": city})})
					if err != nil || r.Text() != "accept"+city {
						t.Errorf("%d: %v, %v", i, r, err)
					}
				})
			}
			all.Wait()
			view := finish(t, client)
			of := map[string]bool{}
			for _, e := range view.Elicitations().All() {
				of[e.LogicalOperationID] = true
				call, ok := view.Entry(e.LogicalOperationID)
				if !ok || !strings.Contains(call.(*trace.ToolCallEntry).Result.Value.Text(), strings.Trim(string(e.Content.Value), `{}"`)[7:]) || e.RoundIndex != 1 || len(e.Limitations) > 0 {
					t.Errorf("%+v", e)
				}
			}
			if len(of) != 16 {
				t.Errorf("elicitations of %d calls", len(of))
			}
		})
	}
}
