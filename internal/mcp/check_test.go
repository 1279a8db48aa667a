package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/trace"
)

func TestCheckResult(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, result string
		want           []string // pointer and message
	}{
		{"tools/list", `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, nil},
		{"tools/list", `{"tools":[]}`, nil},
		{"tools/list", `{"tools":null}`, []string{"/tools is null, not an array"}},
		{"tools/list", `{"tools":{"name":"a"}}`, []string{"/tools is an object, not an array"}},
		{"tools/list", `{}`, []string{"/tools is missing"}},
		{"tools/list", `{"tools":[7,{"inputSchema":{}},{"name":""},{"name":5,"description":[]}],"nextCursor":3}`, []string{
			"/nextCursor is a number, not a string", "/tools/0 is a number, not an object", "/tools/1/name is missing", "/tools/2/name is empty",
			"/tools/3/name is a number, not a string", "/tools/3/description is an array, not a string"}},
		{"tools/list", `{"tools":[{"name":"a","inputSchema":"x"}]}`, []string{"/tools/0/inputSchema is a string, not an object"}},
		{"tools/list", `{"\u0074ools":[{"n\u0061me":"a"}]}`, nil},
		{"tools/call", `{"content":[{"type":"text","text":"ok"}],"isError":false}`, nil},
		{"tools/call", `{"structuredContent":{"a":1}}`, nil},
		{"tools/call", `{"content":"ok"}`, []string{"/content is a string, not an array"}},
		{"tools/call", `{"content":["ok",{"text":"x"},{"type":"text","text":{}}],"isError":"no"}`, []string{
			"/isError is a string, not true or false", "/content/0 is a string, not an object", "/content/1/type is missing", "/content/2/text is an object, not a string"}},
		{"tools/call", `{"resultType":"input_required","content":5}`, nil},
		{"resources/list", `{"resources":[{"name":"x"}]}`, []string{"/resources/0/uri is missing"}},
		{"resources/templates/list", `{"resourceTemplates":true}`, []string{"/resourceTemplates is true, not an array"}},
		{"resources/read", `{"contents":[{"uri":"a:b","text":"x"},null]}`, []string{"/contents/1 is null, not an object"}},
		{"prompts/list", `{"prompts":[{"name":"p","arguments":{}}]}`, []string{"/prompts/0/arguments is an object, not an array"}},
		{"prompts/get", `{"messages":[{"role":"user","content":[]}]}`, []string{"/messages/0/content is an array, not an object"}},
		{"ping", `{"tools":5}`, nil},
		{"tools/list", `5`, nil},
	} {
		var got []string
		for _, d := range CheckResult(tc.method, trace.JSON(tc.result)) {
			got = append(got, d.Pointer+" "+d.Message)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %s:\n got %q\nwant %q", tc.method, tc.result, got, tc.want)
		}
	}
}

func TestCheckResultBounded(t *testing.T) {
	t.Parallel()
	found := CheckResult("tools/list", trace.JSON(`{"tools":[`+strings.Repeat("1,", 5000)+`1]}`))
	if len(found) != maxDefects {
		t.Errorf("%d defects", len(found))
	}
	if text := defectsText("tools/list", found); len(text) > 1000 || !strings.Contains(text, "at least 95 more") {
		t.Error(text)
	}
}

// A malformed result is one finding, about its frame; the result is returned as it is.
func TestResultMalformed(t *testing.T) {
	t.Parallel()
	for _, version := range []string{Version20251125, Version20260728} {
		r := newRig(t)
		cfg := r.config(talk(func(m *message, say func(string, ...any)) {
			switch m.Method {
			case "initialize", "server/discover":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"supportedVersions":[%q],"capabilities":{},"resultType":"complete","cacheScope":"public","ttlMs":1,%s}}`, m.ID, version, version, serverInfo)
			case "tools/list":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[null,{"name":"a"},{}]}}`, m.ID)
			case "tools/call":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
			}
		}))
		cfg.Protocol = version
		s := r.connect(cfg)
		res, err := s.Do(t.Context(), &Op{Method: "tools/list"})
		if err != nil {
			t.Fatal(err)
		}
		f := r.finding("result-malformed")
		if f.Sequence != res.Received || f.RPCID != res.ID || f.Severity != trace.SeverityError || f.Clause != "server/tools" {
			t.Errorf("%+v, the answer is event %d", f, res.Received)
		}
		for _, want := range []string{"tools/list", "/tools/0 is null, not an object", "/tools/2/name is missing"} {
			if !strings.Contains(f.Message, want) {
				t.Errorf("%q lacks %q", f.Message, want)
			}
		}
		if _, err := s.Do(t.Context(), &Op{Method: "tools/call", Params: &Target{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		r.finding("result-malformed") // still one
	}
}

func FuzzCheckResult(f *testing.F) {
	for _, seed := range []string{`{"tools":[{"name":"a"}]}`, `{"content":[{`, `{"content":[1,,]}`, `[`, `{"tools":[]`, `{"tools":["\`} {
		f.Add("tools/list", seed)
		f.Add("tools/call", seed)
	}
	wiretest.Seed(f, func(sent []byte) { f.Add("tools/call", string(sent)) })
	f.Fuzz(func(t *testing.T, method, result string) {
		for _, d := range CheckResult(method, trace.JSON(result)) {
			if d.Pointer == "" || d.Message == "" {
				t.Errorf("%+v", d)
			}
		}
	})
}

func BenchmarkCheckResult(b *testing.B) {
	small := trace.JSON(`{"content":[{"type":"text","text":"hello, this is the answer of a tool"}],"isError":false}`)
	large := trace.JSON(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, strings.Repeat(`a line of "text" `, 60000)))
	for name, result := range map[string]trace.JSON{"small": small, "1MB": large} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(result)))
			for b.Loop() {
				if CheckResult("tools/call", result) != nil {
					b.Fatal("defects")
				}
			}
		})
	}
}
