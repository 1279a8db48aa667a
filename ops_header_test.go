package m3_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
)

// headerServer is a server of 2026-07-28 over HTTP that keeps the headers of each call. Its tools are those of the schemas, by name; list can change
// them.
type headerServer struct {
	mu      sync.Mutex
	schemas map[string]string
	calls   []http.Header
	lists   int
	refuse  int // how many calls are refused with a header mismatch
}

func (h *headerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, _ := io.ReadAll(r.Body)
	var m opsLine
	if json.Unmarshal(b, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case "server/discover":
		io.WriteString(w, shakeHands(m)[0])
	case "tools/list":
		h.lists++
		var tools []string
		for name, schema := range h.schemas {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, name, schema))
		}
		slices.Sort(tools)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[%s]}}`, m.ID, strings.Join(tools, ","))
	default:
		h.calls = append(h.calls, r.Header.Clone())
		if h.refuse > 0 {
			h.refuse--
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"header mismatch"}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
}

const mirrored = `{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"},
	"dry":{"type":["boolean","null"],"x-mcp-header":"Dry"},"where":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}},
	"x-mcp-header":{"type":"string"}}}`

func TestOpParamHeaders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, args string
		want       map[string]string
	}{
		{"all", `{"region":"us-west1","limit":42,"dry":true,"where":{"zone":"b"}}`, map[string]string{"Region": "us-west1", "Limit": "42", "Dry": "true", "Zone": "b"}},
		{"none", `{}`, map[string]string{}},
		{"no arguments", ``, map[string]string{}},
		{"null and absent", `{"region":null,"dry":false}`, map[string]string{"Dry": "false"}},
		{"not ASCII", `{"region":"Hello, 世界"}`, map[string]string{"Region": "=?base64?SGVsbG8sIOS4lueVjA==?="}},
		{"edge spaces", `{"region":" padded "}`, map[string]string{"Region": "=?base64?IHBhZGRlZCA=?="}},
		{"line break", `{"region":"line1\nline2"}`, map[string]string{"Region": "=?base64?bGluZTEKbGluZTI=?="}},
		{"looks encoded", `{"region":"=?base64?literal?="}`, map[string]string{"Region": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}},
		{"whole number with a fraction", `{"limit":42.0}`, map[string]string{"Limit": "42"}},
		{"whole number with an exponent", `{"limit":-4.2e1}`, map[string]string{"Limit": "-42"}},
		{"big exponent", `{"limit":1e999999999}`, map[string]string{"Limit": "1e999999999"}},
		{"exact", `{"limit":9007199254740993}`, map[string]string{"Limit": "9007199254740993"}},
		{"an object where text belongs", `{"region":{"a":1},"where":"x"}`, map[string]string{}},
		{"escaped name", `{"regi\u006fn":"eu"}`, map[string]string{"Region": "eu"}},
		{"said twice", `{"region":"a","region":"b"}`, map[string]string{"Region": "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := &headerServer{schemas: map[string]string{"sql": mirrored}}
			c := openOps(t, m3.HandlerServer{Name: "h", Handler: h}, &m3.DirectOptions{Protocol: modernEra})
			var args any
			if tc.args != "" {
				args = json.RawMessage(tc.args)
			}
			var wg sync.WaitGroup
			for range 8 { // many at once want one list
				wg.Go(func() {
					if _, err := c.CallTool(t.Context(), "sql", args, nil); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			got := map[string]string{}
			for name, v := range h.calls[0] {
				if rest, ok := strings.CutPrefix(name, "Mcp-Param-"); ok {
					got[rest] = v[0]
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("headers %v, want %v", got, tc.want)
			}
			if h.calls[0].Get("Mcp-Method") != "tools/call" || h.calls[0].Get("Mcp-Name") != "sql" || h.calls[0].Get("Mcp-Protocol-Version") != modernEra {
				t.Errorf("headers %v", h.calls[0])
			}
			if h.lists != 1 {
				t.Errorf("the tools were listed %d times", h.lists)
			}
			if codes := codesSeen(c); len(codes) > 0 {
				t.Errorf("findings %v", c.Findings())
			}
		})
	}
}

// TestOpBadParamHeaders: a tool whose annotations break a rule is named and marked; its neighbours work.
func TestOpBadParamHeaders(t *testing.T) {
	t.Parallel()
	prop := func(s string) string { return `{"type":"object","properties":{"a":` + s + `}}` }
	for name, tc := range map[string]struct{ schema, why string }{
		"empty":            {prop(`{"type":"string","x-mcp-header":""}`), "no name"},
		"not text":         {prop(`{"type":"string","x-mcp-header":1}`), "no name"},
		"not a token":      {prop(`{"type":"string","x-mcp-header":"A B"}`), "cannot stand"},
		"a line break":     {prop(`{"type":"string","x-mcp-header":"A\r\nB"}`), "cannot stand"},
		"a number":         {prop(`{"type":"number","x-mcp-header":"A"}`), "no string, integer or boolean"},
		"an object":        {prop(`{"type":"object","x-mcp-header":"A"}`), "no string, integer or boolean"},
		"no type":          {prop(`{"x-mcp-header":"A"}`), "no string, integer or boolean"},
		"twice":            {`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, "another property"},
		"the root":         {`{"type":"string","x-mcp-header":"A"}`, "through properties"},
		"in items":         {prop(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`), "through properties"},
		"in anyOf":         {prop(`{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`), "through properties"},
		"in $defs":         {`{"$defs":{"d":{"type":"string","x-mcp-header":"A"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`, "through properties"},
		"below then":       {`{"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, "through properties"},
		"below additional": {`{"additionalProperties":{"type":"string","x-mcp-header":"A"}}`, "through properties"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &headerServer{schemas: map[string]string{"bad": tc.schema, "good": `{"type":"object","default":{"x-mcp-header":""}}`}}
			c := openOps(t, m3.HandlerServer{Name: "h", Handler: h}, &m3.DirectOptions{Protocol: modernEra})
			tools, err := c.ListAllTools(t.Context(), nil)
			if err != nil || len(tools) != 2 || !strings.Contains(tools[0].Malformed, tc.why) || tools[1].Malformed != "" {
				t.Errorf("tools %+v, %v", tools, err)
			}
			if _, err := c.ListAllTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			codes := slices.DeleteFunc(codesSeen(c), func(code string) bool { return strings.HasPrefix(code, "schema-") }) // the cut-down schemas have faults of their own
			if !slices.Equal(codes, []string{"bad-param-header"}) {
				t.Errorf("findings %v", c.Findings())
			}
		})
	}
	// A stream has no headers: there the annotations mean nothing.
	c := openOps(t, bytesServer(func(m opsLine) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"x","inputSchema":%s}]}}`, m.ID, prop(`{"x-mcp-header":""}`))}
	}), &m3.DirectOptions{Protocol: modernEra})
	if tools, err := c.ListAllTools(t.Context(), nil); err != nil || tools[0].Malformed != "" || len(codesSeen(c)) != 0 {
		t.Errorf("over a stream %+v, %v", tools, err)
	}
}

// TestOpHeaderMismatch: a server whose tools have changed refuses the headers, and m3 lists the tools and calls once more; not when that would change
// nothing.
func TestOpHeaderMismatch(t *testing.T) {
	t.Parallel()
	h := &headerServer{schemas: map[string]string{"sql": `{"type":"object"}`}}
	c := openOps(t, m3.HandlerServer{Name: "h", Handler: h}, &m3.DirectOptions{Protocol: modernEra})
	if _, err := c.ListAllTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.schemas["sql"], h.refuse = mirrored, 1
	h.mu.Unlock()
	args := m3.Args{"region": "eu"}
	if _, err := c.CallTool(t.Context(), "sql", args, nil); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	if len(h.calls) != 2 || h.calls[0].Get("Mcp-Param-Region") != "" || h.calls[1].Get("Mcp-Param-Region") != "eu" {
		t.Errorf("calls %v", h.calls)
	}
	h.refuse = 1
	h.mu.Unlock()
	if _, err := c.CallTool(t.Context(), "sql", args, nil); err == nil {
		t.Error("a refusal for another reason was taken for an answer")
	}
	if n := len(h.calls); n != 3 {
		t.Errorf("%d calls, want 3: the same headers again would be refused again", n)
	}
}

// TestOpOwnHeaders: a test may send other headers than m3 would, or none.
func TestOpOwnHeaders(t *testing.T) {
	t.Parallel()
	h := &headerServer{schemas: map[string]string{"sql": mirrored}}
	c := openOps(t, m3.HandlerServer{Name: "h", Handler: h}, &m3.DirectOptions{Protocol: modernEra})
	_, err := c.CallTool(t.Context(), "sql", m3.Args{"region": "eu", "limit": 1}, &m3.CallOptions{Header: http.Header{"mcp-param-region": {"us"}, "Mcp-Param-Limit": nil, "X-Own": {"1"}}})
	if err != nil {
		t.Fatal(err)
	}
	got := h.calls[0]
	if _, limit := got["Mcp-Param-Limit"]; got.Get("Mcp-Param-Region") != "us" || limit || got.Get("X-Own") != "1" {
		t.Errorf("headers %v", got)
	}
	sdk := openOps(t, sdkHTTP(modernEra), &m3.DirectOptions{Protocol: modernEra})
	if res, err := sdk.CallTool(t.Context(), "sql", m3.Args{"region": "eu ✓"}, nil); err != nil || res.Text() != "ran" {
		t.Errorf("the official SDK, which checks the headers: %+v, %v", res, err)
	}
	if _, err := sdk.CallTool(t.Context(), "sql", m3.Args{"region": "eu"}, &m3.CallOptions{Header: http.Header{"Mcp-Param-Region": {"us"}}}); err == nil {
		t.Error("the official SDK took headers that do not match")
	}
}
