package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness"
)

func TestParseFrame(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]frame{
		"": {kind: frameBlank}, "  \r\n": {kind: frameBlank},
		`{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":1.50}}`: {kind: frameRequest, id: raw(`0`), method: "m", params: raw(`{"a":1.50}`)},
		`{"jsonrpc":"2.0","id":"","method":"m"}`:                    {kind: frameRequest, id: raw(`""`), method: "m"},
		`{"jsonrpc":"2.0","method":"m"}`:                            {kind: frameNotification, method: "m"},
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:                  {kind: frameOdd, reason: "invalid_id"},
		`{"jsonrpc":"2.0","id":{},"method":"m"}`:                    {kind: frameOdd, reason: "invalid_id"},
		`{"jsonrpc":"2.0","id":1,"method":7}`:                       {kind: frameOdd, reason: "method_not_a_name"},
		`{"jsonrpc":"2.0","id":1,"result":null}`:                    {kind: frameResponse, id: raw(`1`), result: raw(`null`)},
		`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`:         {kind: frameResponse, id: raw(`1`), result: raw(`{}`)},
		`{"jsonrpc":"2.0","id":1}`:                                  {kind: frameOdd, reason: "neither_result_nor_error"},
		`{"jsonrpc":"2.0","ID":1,"Method":"m"}`:                     {kind: frameOdd, reason: "neither_method_nor_id"},
		`{"jsonrpc":"2.0","result":1}`:                              {kind: frameOdd, reason: "neither_method_nor_id"},
		`{"id":1,"method":"m"}`:                                     {kind: frameOdd, reason: "not_json_rpc"},
		`[]`:                                                        {kind: frameOdd, reason: "batch"},
		`"x"`:                                                       {kind: frameOdd, reason: "not_an_object"},
		`{`:                                                         {kind: frameOdd, reason: "not_json"},
	} {
		f := parseFrame([]byte(line))
		if f.kind != want.kind || f.reason != want.reason || f.method != want.method || !bytes.Equal(f.id, want.id) || !bytes.Equal(f.params, want.params) || !bytes.Equal(f.result, want.result) {
			t.Errorf("%s: %+v, want %+v", line, f, want)
		}
	}
	if f := parseFrame([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":[1]}}`)); f.err == nil || f.err.Code != -32000 || f.err.Message != "m" || string(f.err.Data) != "[1]" {
		t.Errorf("%+v", f.err)
	}
	if f := parseFrame([]byte(`{"jsonrpc":"2.0","id":1,"error":"no"}`)); f.err == nil || !strings.Contains(f.err.Message, `malformed error "no"`) {
		t.Errorf("%+v", f.err)
	}
}

func TestReadLine(t *testing.T) {
	t.Parallel()
	r := bufio.NewReaderSize(strings.NewReader("a\n"+strings.Repeat("b", 100)+"\n\nend"), 16)
	var got []int
	for {
		line, err := readLine(r, 101)
		if err != nil {
			break
		}
		got = append(got, len(line))
	}
	if !slices.Equal(got, []int{2, 101, 1, 3}) {
		t.Errorf("lines %v", got)
	}
	if line, err := readLine(bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 1000)), 16), 50); !errors.Is(err, errLineTooLong) || len(line) != 50 {
		t.Errorf("%d bytes, %v", len(line), err)
	}
}

// FuzzFrame holds that nothing an agent sends panics, and that ids and params keep their bytes.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","error":{"code":1.5,"message":3}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"a","content":[{"type":"content"}],"rawOutput":[1]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		line, _ := readLine(bufio.NewReaderSize(bytes.NewReader(b), 16), 1<<16)
		fr := parseFrame(line)
		if fr.kind == frameOdd && fr.reason == "" {
			t.Fatal("odd without a reason")
		}
		for _, part := range []raw{fr.id, fr.params, fr.result} {
			if part != nil && (!json.Valid(part) || !bytes.Contains(line, part)) {
				t.Fatalf("%q is not of %q", part, line)
			}
		}
		c := &toolCall{}
		c.merge(fr.params.at("update").obj())
		_, _ = c.event(), c.result()
		_ = optionValues(fr.params)
	})
}

func TestNaming(t *testing.T) {
	t.Parallel()
	all := &harness.Tools{All: true}
	some := &harness.Tools{Allowed: map[string][]string{"a": {"b_c", "x.y"}, "a_b": {"d"}}}
	joined, claude := NamesJoined("", "_"), NamesJoined("mcp__", "__")
	for _, tc := range []struct {
		naming Naming
		call   Call
		tools  *harness.Tools
		want   Named
	}{
		{joined, Call{Title: "a_x"}, all, Named{Server: "a", Tool: "x"}},
		{joined, Call{Title: "a_b_c"}, all, Named{}},
		{joined, Call{Title: "a_b_c"}, some, Named{Server: "a", Tool: "b_c"}},
		{joined, Call{Title: "a_b_d"}, some, Named{Server: "a_b", Tool: "d"}},
		{joined, Call{Title: "a_x_y"}, some, Named{Server: "a", Tool: "x.y"}},
		{joined, Call{Title: "bash"}, all, Named{Builtin: true}},
		{joined, Call{Title: "a_"}, all, Named{Builtin: true}},
		{claude, Call{Name: "mcp__a__x", Title: "Nice title"}, all, Named{Server: "a", Tool: "x"}},
		{claude, Call{Name: "mcp__other__x"}, all, Named{Builtin: true}},
		{claude, Call{Name: "a__x"}, all, Named{Builtin: true}},
		{NamesInInput, Call{Input: []byte(`{"server":"a","tool":"x","arguments":{"n":1}}`)}, all, Named{Server: "a", Tool: "x", Arguments: []byte(`{"n":1}`)}},
		{NamesInInput, Call{Input: []byte(`{"command":"ls"}`)}, all, Named{Builtin: true}},
	} {
		got := tc.naming(&tc.call, []string{"a", "a_b"}, tc.tools)
		if got.Server != tc.want.Server || got.Tool != tc.want.Tool || got.Builtin != tc.want.Builtin || string(got.Arguments) != string(tc.want.Arguments) {
			t.Errorf("%+v: %+v, want %+v", tc.call, got, tc.want)
		}
	}
}
