package conformance

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/trace"
)

var loadOnce = sync.OnceValues(Load)

// schemas are the official ones; without them the test is skipped.
func schemas(t *testing.T) *Schemas {
	t.Helper()
	s, err := loadOnce()
	if errors.Is(err, ErrMissing) && os.Getenv("M3_REQUIRE_SHARED") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// talk is a conversation, one message a line: > is m3's, < the server's. A line that begins with H is over HTTP, with its headers
// first: "H> A: b|C: d {…}".
type talk string

func (s talk) play(c *Checker) {
	for line := range strings.Lines(string(s)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ev := &trace.Event{Kind: trace.KindMCPRequest, Server: "s", ConnectionID: "c1", Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"}}
		f := &trace.Frame{Framing: trace.FramingLine, Direction: trace.ClientToServer}
		rest, http := strings.CutPrefix(line, "H")
		if strings.HasPrefix(rest, "<") {
			f.Direction = trace.ServerToClient
		}
		rest = strings.TrimSpace(rest[1:])
		if http {
			f.Framing, f.HTTP = trace.FramingBody, &trace.HTTPInfo{Method: "POST"}
			i := strings.Index(rest, "{")
			for _, h := range strings.Split(strings.TrimSpace(rest[:i]), "|") {
				if name, value, ok := strings.Cut(h, ": "); ok {
					f.HTTP.Header = append(f.HTTP.Header, trace.HTTPHeader{Name: name, Value: value})
				}
			}
			f.Bytes = []byte(rest[i:])
		} else {
			f.Bytes = []byte(rest + "\n")
		}
		ev.Frame = f
		c.Event("x", ev)
	}
}

const (
	initOld = `
		> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}
		< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
		> {"jsonrpc":"2.0","method":"notifications/initialized"}
	`
	meta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"m3","version":"1"}}`
	initNew = `
		> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}
		< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}}
	`
	common  = `Accept: application/json, text/event-stream|Content-Type: application/json`
	headers = common + `|Mcp-Protocol-Version: 2026-07-28|Mcp-Method: `
	httpNew = `
		H> ` + headers + `server/discover {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}
		H< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}}
	`
	callNew = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t ✓","arguments":{"a":"x"},` + meta + `}}`
)

// TestRules: each rule has a message that breaks it; without the fault the same conversation is clean.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		talk talk
		want string // a part of the one problem; empty: there is none
	}{
		"old, clean":           {initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`, ""},
		"old, no name":         {initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`, "missing property 'name'"},
		"old, wrong arguments": {initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":[]}}`, "arguments"},
		"old, too early": {`> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}
			< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
			> {"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "before notifications/initialized"},
		"id twice":             {initOld + `> {"jsonrpc":"2.0","id":1,"method":"ping"}`, "was used before, by initialize"},
		"id null":              {initOld + `> {"jsonrpc":"2.0","id":null,"method":"ping"}`, "neither a string nor an integer"},
		"id with a fraction":   {initOld + `> {"jsonrpc":"2.0","id":2.5,"method":"ping"}`, "integer"},
		"no jsonrpc":           {initOld + `> {"id":2,"method":"ping"}`, "jsonrpc"},
		"batch":                {initOld + `> [{"jsonrpc":"2.0","id":2,"method":"ping"}]`, "batch"},
		"no JSON":              {initOld + `> {"jsonrpc"`, "no JSON"},
		"member twice":         {initOld + `> {"jsonrpc":"2.0","id":2,"method":"ping","params":{"_meta":{"a":1,"a":2}}}`, `"a" stands twice`},
		"token in use":         {initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"progressToken":1}}}` + "\n" + `> {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`, "progress token 1 belongs"},
		"token free again":     {initOld + `> {"jsonrpc":"2.0","id":2,"method":"ping","params":{"_meta":{"progressToken":1}}}` + "\n" + `< {"jsonrpc":"2.0","id":2,"result":{}}` + "\n" + `> {"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":{"progressToken":1}}}`, ""},
		"cancels":              {initOld + `> {"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n" + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, ""},
		"cancels a stranger":   {initOld + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}`, "never made"},
		"cancels initialize":   {initOld + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "cancels initialize"},
		"a server's notice":    {initOld + `> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, "clients do not send"},
		"an extension's":       {initOld + `> {"jsonrpc":"2.0","method":"example.test/x","params":{}}`, ""},
		"answers":              {initOld + `< {"jsonrpc":"2.0","id":"s","method":"ping"}` + "\n" + `> {"jsonrpc":"2.0","id":"s","result":{}}`, ""},
		"answers nobody":       {initOld + `> {"jsonrpc":"2.0","id":"s","result":{}}`, "never made or is answered"},
		"answers undeclared":   {initOld + `< {"jsonrpc":"2.0","id":"s","method":"roots/list"}` + "\n" + `> {"jsonrpc":"2.0","id":"s","result":{"roots":[]}}`, "not declared"},
		"answers badly":        {talk(strings.Replace(initOld, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)) + `< {"jsonrpc":"2.0","id":"s","method":"roots/list"}` + "\n" + `> {"jsonrpc":"2.0","id":"s","result":{"roots":7}}`, "roots"},
		"error without a code": {initOld + `< {"jsonrpc":"2.0","id":"s","method":"ping"}` + "\n" + `> {"jsonrpc":"2.0","id":"s","error":{"message":"no"}}`, "code"},
		"modern method in old": {initOld + `> {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{}}}`, ""}, // no definition there: supported by Supports' own tests

		"new, clean":             {initNew + `> ` + callNew, ""},
		"new, no _meta":          {initNew + `> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`, "_meta"},
		"new, another version":   {talk(initNew + `> ` + strings.Replace(callNew, "2026-07-28", "2025-11-25", 1)), "names the protocol version"},
		"new, nameless client":   {talk(initNew + `> ` + strings.Replace(callNew, `,"io.modelcontextprotocol/clientInfo":{"name":"m3","version":"1"}`, "", 1)), "does not name the client"},
		"new, answers":           {initNew + `< {"jsonrpc":"2.0","id":"s","method":"ping"}` + "\n" + `> {"jsonrpc":"2.0","id":"s","result":{}}`, "sends no answers"},
		"new, progress":          {initNew + `> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, "clients do not send"},
		"new, log level":         {talk(initNew + `> ` + strings.Replace(callNew, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"loud",`, 1)), "logLevel"},
		"http, clean":            {httpNew + `H> ` + headers + `tools/call|Mcp-Name: =?base64?dCDinJM=?=|Mcp-Param-A: x ` + callNew, ""},
		"http, no name":          {httpNew + `H> ` + headers + `tools/call ` + callNew, "Mcp-Name"},
		"http, another method":   {httpNew + `H> ` + headers + `tools/list|Mcp-Name: =?base64?dCDinJM=?= ` + callNew, "Mcp-Method"},
		"http, a session":        {httpNew + `H> ` + headers + `tools/call|Mcp-Name: =?base64?dCDinJM=?=|Mcp-Session-Id: 1 ` + callNew, "Mcp-Session-Id"},
		"http, a strange param":  {httpNew + `H> ` + headers + `tools/call|Mcp-Name: =?base64?dCDinJM=?=|Mcp-Param-A: y ` + callNew, "mirrors no argument"},
		"http, no Accept":        {httpNew + `H> Content-Type: application/json|Mcp-Protocol-Version: 2026-07-28|Mcp-Method: tools/call|Mcp-Name: =?base64?dCDinJM=?= ` + callNew, "Accept"},
		"http, no Content-Type":  {httpNew + `H> Accept: application/json, text/event-stream|Mcp-Protocol-Version: 2026-07-28|Mcp-Method: tools/call|Mcp-Name: =?base64?dCDinJM=?= ` + callNew, "Content-Type"},
		"http, cancels":          {httpNew + `H> ` + headers + `notifications/cancelled {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "by closing its exchange"},
		"old http, clean":        {oldHTTP("7", "2025-11-25"), ""},
		"old http, session lost": {oldHTTP("8", "2025-11-25"), "Mcp-Session-Id"},
		"old http, version lost": {oldHTTP("7", "2025-06-18"), "MCP-Protocol-Version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(schemas(t), false)
			tc.talk.play(c)
			ps := c.Problems()
			switch {
			case tc.want == "" && len(ps) > 0:
				t.Errorf("%v", ps)
			case tc.want != "" && !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.Text, tc.want) }):
				t.Errorf("%v, want a problem with %q", ps, tc.want)
			}
			if len(c.Uses()) == 0 {
				t.Error("nothing was checked")
			}
		})
	}
}

func oldHTTP(session, version string) talk {
	return talk(`H> ` + common + ` {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}
		H< Mcp-Session-Id: 7 {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
		H> ` + common + `|Mcp-Session-Id: 7|Mcp-Protocol-Version: 2025-11-25 {"jsonrpc":"2.0","method":"notifications/initialized"}
		H> ` + common + `|Mcp-Session-Id: ` + session + `|Mcp-Protocol-Version: ` + version + ` {"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
}

// TestServerRules: what servers send is checked too, when it is asked for.
func TestServerRules(t *testing.T) {
	t.Parallel()
	list := initNew + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t",` + meta + `}}` + "\n"
	for name, tc := range map[string]struct {
		talk talk
		want string
	}{
		"clean":               {talk(list + `< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}`), ""},
		"no content":          {talk(list + `< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`), "content"},
		"no type":             {talk(list + `< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}`), "resultType"},
		"asks for nothing":    {talk(list + `< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required"}}`), "neither inputRequests"},
		"an extension's type": {talk(list + `< {"jsonrpc":"2.0","id":2,"result":{"resultType":"task"}}`), ""},
		"a request":           {talk(list + `< {"jsonrpc":"2.0","id":9,"method":"ping"}`), "sends no requests"},
		"neither":             {talk(list + `< {"jsonrpc":"2.0","id":2}`), "neither a result nor an error"},
		"a bad notification":  {talk(list + `< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":1}}`), "level"},
		"no JSON":             {talk(list + `< nonsense`), "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(schemas(t), true)
			tc.talk.play(c)
			ps := c.Problems()
			if tc.want == "" && len(ps) > 0 || tc.want != "" && !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.Text, tc.want) }) {
				t.Errorf("%v, want %q", ps, tc.want)
			}
		})
	}
}

// TestMutants: each used definition refuses mutants of its first message; one that refuses nothing is a problem.
func TestMutants(t *testing.T) {
	t.Parallel()
	c := New(schemas(t), false)
	talk(initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}`).play(c)
	for _, u := range c.Uses() {
		if u.Caught < 2 || u.Caught > u.Mutants {
			t.Errorf("%+v", u)
		}
	}
	loose, err := compile("2025-11-25", []byte(`{"$defs":{"CallToolRequest":{"properties":{"method":{"const":"tools/call"}}},"JSONRPCRequest":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c = New(&Schemas{versions: map[string]*version{"2025-11-25": loose}}, false)
	talk(initOld + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`).play(c)
	if ps := c.Problems(); len(ps) < 2 || !strings.Contains(ps[0].Text, "accepts a mutant") {
		t.Errorf("%v", ps)
	}
}

// suite is a *testing.M of ours.
type suite func() int

func (s suite) Run() int { return s() }

// TestRun: a message that is wrong fails the package, unless it is excused; without schemas a line says that nothing was checked.
func TestRun(t *testing.T) {
	schemas(t)
	record := func(body string) suite {
		return func() int {
			tape := evidence.NewTape("x", discard{}, nil, nil)
			for _, b := range []string{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}`, body} {
				tape.Record(&trace.Event{Kind: trace.KindMCPRequest, Server: "s", Source: trace.Source{Source: "mcp"},
					Frame: &trace.Frame{Direction: trace.ClientToServer, Framing: trace.FramingLine, Bytes: []byte(b + "\n")}})
			}
			return 0
		}
	}
	good, bad := record(`{"jsonrpc":"2.0","id":2,"method":"ping"}`), record(`{"jsonrpc":"2.0","id":2,"method":"ping","params":7}`)
	for _, tc := range []struct {
		m       suite
		excuses []Excuse
		code    int
		says    string
	}{
		{good, nil, 0, "2 messages by"},
		{bad, nil, 1, "params"},
		{bad, []Excuse{{Contains: `"params":7`, Why: "on purpose"}}, 0, "0 problems"},
		{func() int { return 3 }, nil, 3, "0 messages"},
	} {
		var out bytes.Buffer
		if code := run(tc.m, &out, tc.excuses); code != tc.code || !strings.Contains(out.String(), tc.says) {
			t.Errorf("code %d, want %d; printed %s", code, tc.code, &out)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("go.mod", []byte("module x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("M3_REQUIRE_SHARED", "")
	var out bytes.Buffer
	if code := run(bad, &out, nil); code != 0 || !strings.Contains(out.String(), "not checked") {
		t.Errorf("without schemas: code %d, printed %s", code, &out)
	}
	t.Setenv("M3_REQUIRE_SHARED", "1")
	if code := run(good, &out, nil); code != 1 {
		t.Errorf("without schemas that are required: code %d", code)
	}
	if _, err := LoadDir(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}

type discard struct{}

func (discard) AppendEvent(int64, trace.Kind, []byte) error { return nil }
func (discard) PutBlob(string, []byte) error                { return nil }

// TestChild: what a process sends that the tests start is checked too.
func TestChild(t *testing.T) {
	s := schemas(t)
	followed, err := follow(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer followed.remove()
	record := func(body string) {
		evidence.NewTape("x", discard{}, nil, nil).Record(&trace.Event{Kind: trace.KindMCPRequest, Server: "s", Source: trace.Source{Source: "mcp"},
			Frame: &trace.Frame{Direction: trace.ClientToServer, Framing: trace.FramingLine, Bytes: []byte(body + "\n")}})
	}
	var out bytes.Buffer
	if code := followed.report(&out, nil); code != 0 || out.Len() != 0 {
		t.Errorf("without a child: code %d, printed %s", code, &out)
	}
	Child() // this process plays one
	defer func() { evidence.Watch(func(*evidence.Tape, *trace.Event) {})() }()
	record(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}`)
	if code := followed.report(&out, nil); code != 0 || !strings.Contains(out.String(), "1 child") {
		t.Errorf("code %d, printed %s", code, &out)
	}
	record(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	if code := followed.report(&out, nil); code != 1 || !strings.Contains(out.String(), "clientInfo") {
		t.Errorf("code %d, printed %s", code, &out)
	}
	if code := followed.report(&out, []Excuse{{Contains: "clientInfo", Why: "on purpose"}}); code != 0 {
		t.Errorf("excused: code %d", code)
	}
}
