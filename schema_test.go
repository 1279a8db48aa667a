package m3_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// shop is a peer with tools that have schemas: every page is a tools array, a call's result is what results says.
type shop struct {
	*peer
	mu      sync.Mutex
	page    string
	results map[string]string
}

func newShop(page string, results map[string]string) *shop {
	s := &shop{page: page, results: results}
	s.peer = &peer{handle: func(p *peer, m *message) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r, ok := s.results[m.tool()]; {
		case m.Method == "tools/list":
			p.result(m, "%s", s.page)
		case m.Method == "tools/call" && ok:
			p.result(m, "%s", r)
		default:
			return false
		}
		return true
	}}
	return s
}

// change gives the server another list of tools.
func (s *shop) change(page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = page
}

func (s *shop) lists() int { return len(s.got("tools/list")) }

func (s *shop) calls() int { return len(s.got("tools/call")) }

const (
	integerN = `{"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}]}`
	textN    = `{"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"n":{"type":"string"}}}}]}`
)

func validating() *m3.DirectOptions {
	return &m3.DirectOptions{Protocol: legacy5, ValidateSchemas: true}
}

// The catalogue is listed once and kept. Before anything is called wrong, or a tool unknown, it is listed once more, and the fresh list decides
// (decision 9).
func TestCatalogueIsKept(t *testing.T) {
	t.Parallel()
	s := newShop(integerN, nil)
	client := connect(t, newKit(t, m3.Config{}), s.server(), validating())
	call := func(tool string, args any) error { return second(client.CallTool(t.Context(), tool, args, nil)) }
	step := func(what string, err error, bad bool, lists, calls int) {
		t.Helper()
		if (err != nil) != bad || s.lists() != lists || s.calls() != calls {
			t.Fatalf("%s: %v; %d lists, want %d; %d calls, want %d", what, err, s.lists(), lists, s.calls(), calls)
		}
	}
	step("connected", nil, false, 0, 0)
	for i := range 3 {
		step("good", call("add", m3.Args{"n": i}), false, 1, i+1)
	}
	err := call("add", m3.Args{"n": "x"})
	step("mismatch", err, true, 2, 3)
	e := wantError[*m3.ValidationError](t, err, "invalid_argument", "/n: is string, want integer")
	if e.Details["kind"] != "invalid_arguments" || e.Details["tool"] != "add" || !errors.Is(err, m3.ErrValidation) {
		t.Errorf("details %v", e.Details)
	}
	step("unknown tool", call("other", m3.Args{"n": "x"}), false, 3, 4)
	s.change(textN)
	step("judged by the fresh list", call("add", m3.Args{"n": "x"}), false, 4, 5)
	step("and kept", call("add", m3.Args{"n": "y"}), false, 4, 6)
	s.change(integerN)
	s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if err := client.Ping(t.Context(), nil); err != nil { // its answer comes after the notification
		t.Fatal(err)
	}
	step("list_changed", call("add", m3.Args{"n": "y"}), true, 5, 6)
	view := finish(t, client)
	own := 0
	for _, x := range view.Protocol().All() {
		if x.Method.Value == "tools/list" {
			own++
			if !x.Own {
				t.Error("a list of m3's own is not marked so")
			}
		}
	}
	if own != 5 || view.ToolCalls().Len() != 6 {
		t.Errorf("%d lists and %d calls in the view", own, view.ToolCalls().Len())
	}
}

// ttlMs is honoured: 0 lists every time, an hour is kept, and a number without end is no number of the past.
func TestCatalogueTTL(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[string]int{"0": 3, "-5": 3, "3600000": 1, "1e300": 1, "null": 1, `"soon"`: 1} {
		t.Run(ttl, func(t *testing.T) {
			t.Parallel()
			s := newShop(strings.Replace(integerN, `{"tools"`, `{"ttlMs":`+ttl+`,"tools"`, 1), nil)
			client := connect(t, newKit(t, m3.Config{}), s.server(), validating())
			for i := range 3 {
				if _, err := client.CallTool(t.Context(), "add", m3.Args{"n": i}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if s.lists() != want {
				t.Errorf("%d lists, want %d", s.lists(), want)
			}
		})
	}
}

// Calls that begin together share one list.
func TestCatalogueIsListedOnceForAll(t *testing.T) {
	t.Parallel()
	s := newShop(integerN, nil)
	client := connect(t, newKit(t, m3.Config{}), s.server(), validating())
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if _, err := client.CallTool(t.Context(), "add", m3.Args{"n": i}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.lists() != 1 || s.calls() != 64 {
		t.Errorf("%d lists, %d calls", s.lists(), s.calls())
	}
}

// A list that cannot be had fails the call with the list's own error; nothing is sent unchecked.
func TestCatalogueThatCannotBeListed(t *testing.T) {
	t.Parallel()
	p := &peer{}
	client := connect(t, newKit(t, m3.Config{}), p.server(), validating())
	_, err := client.CallTool(t.Context(), "add", nil, nil)
	e := wantError[*m3.ProtocolError](t, err, "protocol_error", "list the tools for ValidateSchemas: tools/list")
	if code, _ := e.RPCCode(); code != -32601 || len(p.got("tools/call")) != 0 {
		t.Errorf("code %d, %d calls", code, len(p.got("tools/call")))
	}
}

// Each schema is read in its own dialect and for itself: one that is broken, or refers elsewhere, leaves the other tools usable. Nothing is
// ever fetched. Messages tell places and kinds, not values.
func TestSchemas(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	remote := loopback(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	type check struct {
		name, schema, args string
		kind, say          string // empty: accepted
	}
	const bad = "invalid_arguments"
	var checks []check
	add := func(name, schema, args, kind, say string) {
		checks = append(checks, check{fmt.Sprintf("%s-%d", name, len(checks)), schema, args, kind, say})
	}
	add("no schema", `null`, `{"a":1}`, "", "")
	add("anything", `true`, `{"a":1}`, "", "")
	add("nothing", `false`, `{"a":1}`, bad, "/")
	seven := `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/n"},"b":{"items":[{"type":"string"}]}},"definitions":{"n":{"type":"integer"}}}`
	add("draft-07", seven, `{"a":2,"b":["x",1]}`, "", "")
	add("draft-07", seven, `{"a":"s3cretvalue"}`, bad, "/a: is string, want integer")
	add("draft-07", seven, `{"b":[1]}`, bad, "/b/0: is number, want string")
	twenty := `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"$ref":"#/$defs/n"},"b":{"prefixItems":[{"type":"string"}]}},"$defs":{"n":{"type":"integer"}}}`
	add("2020-12", twenty, `{"a":2,"b":["x",1]}`, "", "")
	add("2020-12", twenty, `{"a":2.5}`, bad, "/a: is number, want integer")
	add("2020-12 is the default", strings.Replace(twenty, `"$schema":"https://json-schema.org/draft/2020-12/schema",`, "", 1), `{"b":[1]}`, bad, "/b/0")
	add("enum", `{"properties":{"a":{"enum":["s3cretchoice"]}}}`, `{"a":"s3cretvalue"}`, bad, "/a: enum")
	add("pattern", `{"properties":{"a":{"pattern":"^s3cret$"}}}`, `{"a":"s3cretvalue"}`, bad, "/a: pattern")
	add("required", `{"required":["a","b"]}`, `{"a":1}`, bad, "missing b")
	add("no arguments", `{"required":["a"]}`, ``, bad, "missing a")
	add("many", `{"additionalProperties":{"type":"null"}}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`, bad, "and 2 more")
	add("exact numbers", `{"properties":{"a":{"maximum":9223372036854775808}}}`, `{"a":9223372036854775809}`, bad, "/a: maximum")
	add("far numbers", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1e400}`, "", "")
	add("too far numbers", `{"properties":{"a":{"minimum":3}}}`, `{"a":1e2000000}`, bad, "cannot be checked")
	add("broken", `{"type":"strin"}`, `{}`, "invalid_schema", "not a valid schema")
	add("no object", `[]`, `{}`, "invalid_schema", "not a valid schema")
	add("lookaround", `{"properties":{"a":{"pattern":"^(?=x)"}}}`, `{"a":"x"}`, "invalid_schema", "no lookaround")
	add("dangling", `{"properties":{"a":{"$ref":"#/$defs/none"}}}`, `{"a":1}`, "invalid_schema", "/$defs/none")
	add("endless", `{"$ref":"#"}`, `{}`, bad, "refers to itself")
	add("dialect that nobody knows", `{"$schema":"http://example.invalid/dialect"}`, `{}`, "invalid_schema", "never fetches")
	for _, ref := range []string{remote.URL + "/schema.json", "file:///etc/hostname", "other.json", "/etc/hostname"} {
		add("remote", fmt.Sprintf(`{"properties":{"a":{"$ref":%q}}}`, ref), `{"a":1}`, "invalid_schema", "never fetches")
	}
	add("remote base", fmt.Sprintf(`{"$id":"%s/s","properties":{"a":{"$ref":"other"}}}`, remote.URL), `{"a":1}`, "invalid_schema", "never fetches")
	var tools []string
	for _, c := range checks {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, c.name, c.schema))
	}
	s := newShop(`{"tools":[`+strings.Join(tools, ",")+`,{"name":7}]}`, nil)
	client := connect(t, newKit(t, m3.Config{}), s.server(), validating())
	sent := 0
	for _, c := range checks {
		_, err := client.CallTool(t.Context(), c.name, rawOrNil(c.args), nil)
		if c.kind == "" {
			if sent++; err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		e := wantError[*m3.ValidationError](t, err, "invalid_argument", c.say)
		if e.Details["kind"] != c.kind || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "m3:/") {
			t.Errorf("%s: %v, details %v", c.name, err, e.Details)
		}
	}
	if s.calls() != sent || fetched.Load() != 0 {
		t.Errorf("%d calls were sent, want %d; %d documents were fetched", s.calls(), sent, fetched.Load())
	}
}

func rawOrNil(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// A result is checked after it came, and comes with the error. A tool's own failure is never checked.
func TestResultsAgainstSchemas(t *testing.T) {
	t.Parallel()
	const out = `"outputSchema":{"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}`
	s := newShop(`{"tools":[{"name":"fits",`+out+`},{"name":"differs",`+out+`},{"name":"lacks",`+out+`},{"name":"fails",`+out+`},
		{"name":"broken","outputSchema":{"type":5}},{"name":"free"}]}`, map[string]string{
		"fits": `{"content":[],"structuredContent":{"price":1}}`, "differs": `{"content":[],"structuredContent":{"price":"s3cretvalue"}}`,
		"lacks": `{"content":[]}`, "fails": `{"content":[],"isError":true}`,
		"broken": `{"content":[],"structuredContent":{}}`, "free": `{"content":[],"structuredContent":[1]}`,
	})
	s.page = strings.ReplaceAll(s.page, "\n", "")
	client := connect(t, newKit(t, m3.Config{}), s.server(), validating())
	for tool, want := range map[string][2]string{
		"fits": {}, "fails": {}, "free": {}, "differs": {"invalid_result", "/price: is string, want number"}, "lacks": {"invalid_result", "no structured content"},
		"broken": {"invalid_schema", "output schema cannot be used"},
	} {
		r, err := client.CallTool(t.Context(), tool, nil, nil)
		if r == nil || r.Raw == nil {
			t.Fatalf("%s: no result beside %v", tool, err)
		}
		if want[0] == "" {
			if err != nil {
				t.Errorf("%s: %v", tool, err)
			}
			continue
		}
		e := wantError[*m3.ValidationError](t, err, "invalid_argument", want[1])
		if e.Details["kind"] != want[0] || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, details %v", tool, err, e.Details)
		}
	}
	if status := finish(t, client).ToolCalls().At(0).ToolStatus; status == trace.ToolProtocolError {
		t.Error("what m3 found is told as the server's error")
	}
}

// Without the option nothing is listed and nothing checked.
func TestNoValidationUnlessAsked(t *testing.T) {
	t.Parallel()
	s := newShop(integerN, nil)
	client := connect(t, newKit(t, m3.Config{}), s.server(), old())
	if _, err := client.CallTool(t.Context(), "add", m3.Args{"n": "x"}, nil); err != nil || s.lists() != 0 {
		t.Errorf("%v, %d lists", err, s.lists())
	}
}
