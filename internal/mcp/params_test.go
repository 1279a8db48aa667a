package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/trace"
)

const testMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}`

func modernMeta() *meta { return newMeta(Version20260728, &Capabilities{Sampling: true}, "c", "1") }

func TestAppendParams(t *testing.T) {
	t.Parallel()
	modern, old := modernMeta(), &meta{}
	for _, tc := range []struct {
		name   string
		meta   *meta
		params any
		token  trace.RPCID
		own    map[string]any
		want   string
	}{
		{"legacy, nothing", old, nil, "", nil, ``},
		{"legacy, empty", old, json.RawMessage(`{}`), "", nil, `{}`},
		{"legacy, token", old, nil, "7", nil, `{"_meta":{"progressToken":7}}`},
		{"legacy, own meta", old, map[string]any{"a": "<&>"}, "", map[string]any{"k": 1, "b": "x"}, `{"a":"<&>","_meta":{"b":"x","k":1}}`},
		{"legacy, raw as it is", old, json.RawMessage(`{ "a" : 1.00, "a":12345678901234567890 }`), "", nil, `{ "a" : 1.00, "a":12345678901234567890 }`},
		{"modern, nothing", modern, nil, "", nil, `{` + testMeta + `}}`},
		{"modern, empty", modern, json.RawMessage(" {\n} "), "", nil, ` {` + testMeta + `}}`},
		{"modern, token", modern, struct {
			Cursor string `json:"cursor"`
		}{""}, "3", nil, `{"cursor":"",` + testMeta + `,"progressToken":3}}`},
		{"modern, ends in braces", modern, json.RawMessage(`{"a":{"b":{}} }`), "", nil, `{"a":{"b":{}},` + testMeta + `}}`},
		{"modern, target", modern, &Target{Name: "t\"", Arguments: trace.JSON("{\"x\":\n1e2}")}, "", nil, `{"name":"t\"","arguments":{"x": 1e2},` + testMeta + `}}`},
		{"modern, lie", modern, nil, "5", map[string]any{metaProtocol: "1900-01-01", "progressToken": "mine"},
			`{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},` +
				`"io.modelcontextprotocol/protocolVersion":"1900-01-01","progressToken":"mine"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.meta.appendParams(nil, tc.params, tc.token, tc.own)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if len(got) > 0 && !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestAppendParamsRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		params any
		own    map[string]any
		want   string
	}{
		{"array", json.RawMessage(`[1]`), nil, "must be a JSON object"},
		{"null", json.RawMessage(`null`), nil, "must be a JSON object"},
		{"broken", json.RawMessage(`{"a":`), nil, "not valid JSON"},
		{"meta", json.RawMessage(`{"_meta":{}}`), nil, "put yours into Meta"},
		{"channel", map[string]any{"c": make(chan int)}, nil, "unsupported type"},
		{"channel in meta", nil, map[string]any{"c": make(chan int)}, "_meta: c: "},
		{"broken arguments", &Target{Name: "t", Arguments: trace.JSON(`{`)}, nil, "arguments: not valid JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := modernMeta().appendParams(nil, tc.params, "", tc.own); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	if _, err := Encode(json.RawMessage(`x`)); !errors.Is(err, errNotJSON) {
		t.Errorf("Encode of no JSON: %v", err)
	}
}

// A params value that mentions _meta deeper down is none of our business.
func TestAppendParamsNestedMeta(t *testing.T) {
	t.Parallel()
	got, err := (&meta{}).appendParams(nil, json.RawMessage(`{"a":{"_meta":1},"b":"\"_meta\""}`), "", nil)
	if err != nil || string(got) != `{"a":{"_meta":1},"b":"\"_meta\""}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTargetContinues(t *testing.T) {
	t.Parallel()
	got, err := (&Target{URI: "test://a", InputResponses: trace.JSON(`{"k":{}}`), RequestState: trace.JSON(`""`)}).AppendParams(nil)
	if want := `{"uri":"test://a","inputResponses":{"k":{}},"requestState":""}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestEncodeNil(t *testing.T) {
	t.Parallel()
	if b, err := Encode(nil); b != nil || err != nil {
		t.Errorf("Encode(nil) = %s, %v", b, err)
	}
}

func TestParamsAreCheap(t *testing.T) {
	m, target := modernMeta(), &Target{Name: "echo", Arguments: trace.JSON(`{"text":"hello"}`)}
	buf := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		if _, err := m.appendParams(buf, target, "1", nil); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	all := &Capabilities{Sampling: true, RootsListChanged: true, ElicitForm: true, ElicitURL: true}
	for version, want := range map[string]string{
		Version20241105: `{"roots":{"listChanged":true},"sampling":{}}`,
		Version20250326: `{"roots":{"listChanged":true},"sampling":{}}`,
		Version20250618: `{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}`,
		Version20251125: `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}}`,
		Version20260728: `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`,
	} {
		if got := string(all.append(nil, version)); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
	if got := string((&Capabilities{ElicitURL: true}).append(nil, Version20250618)); got != `{}` {
		t.Errorf("URL mode declared to a version without it: %s", got)
	}
}

func BenchmarkParams(b *testing.B) {
	m, target := modernMeta(), &Target{Name: "echo", Arguments: trace.JSON(`{"text":"hello"}`)}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.appendParams(buf, target, "", nil); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParams holds what is spliced against encoding/json: the caller's members survive byte by byte, and _meta is the session's.
func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"a":1,"a":[2.50],"b":{"_meta":{}}}`), "token")
	f.Add([]byte("{\n}"), "")
	f.Add([]byte(`{"_meta":1}`), "x")
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, "token") })
	m := modernMeta()
	f.Fuzz(func(t *testing.T, params []byte, own string) {
		got, err := m.appendParams(nil, json.RawMessage(params), "1", map[string]any{"own": own})
		if err != nil {
			if len(got) != 0 {
				t.Errorf("an error left %q behind", got)
			}
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(params, &before) != nil || json.Unmarshal(got, &after) != nil || strings.ContainsAny(string(got), "\n\r") {
			t.Fatalf("%q became %q", params, got)
		}
		if after["_meta"] == nil {
			t.Errorf("no _meta in %q", got)
		}
		for k, v := range before {
			if want := strings.NewReplacer("\n", " ", "\r", " ").Replace(string(v)); k != "_meta" && string(after[k]) != want {
				t.Errorf("%q became %q in %q", want, after[k], k)
			}
		}
	})
}
