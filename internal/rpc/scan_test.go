package rpc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// show is a message in short.
func show(m *message) string {
	var b strings.Builder
	for _, p := range []struct {
		name  string
		value []byte
	}{{"v", m.jsonrpc}, {"id", m.id}, {"method", m.method}, {"params", m.params}, {"result", m.result}, {"error", m.errorObj}} {
		if p.value != nil {
			fmt.Fprintf(&b, "%s=%s ", p.name, p.value)
		}
	}
	if m.twice != "" {
		b.WriteString("twice=" + m.twice)
	}
	return strings.TrimSpace(b.String())
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"b":"}"}]}}`, `v="2.0" id=1 result={"a":[1,{"b":"}"}]}`},
		{" { \"id\" : \"a\\\"b\" ,\t\"method\":\"m\", \"params\" : { } } ", `id="a\"b" method="m" params={ }`},
		{`{"\u0069d":1.5e3,"ID":2,"error":null}`, `id=1.5e3 error=null`},
		{`{"id":1,"id":2}`, `id=2 twice=id`},
		{`{}`, ``},
		{`[{"id":1},{"id":2}]`, `[id=1|id=2]`},
		{`[]`, ``},
		{`[1, "a"]`, `[|]`},
		{`"x"`, ``},
		{`{"a":"` + strings.Repeat("é", 50) + `\\","id":3}`, `id=3`},
		{``, `it ends too early, after 0 bytes`},
		{`{"id":1`, `it ends too early, after 7 bytes`},
		{`{"id":1,}`, `a member's name is missing at byte 8`},
		{`{"id" 1}`, `a colon is missing at byte 6`},
		{`{"id":1 "a":2}`, `a comma or the end of the object is missing at byte 8`},
		{`{"a":[1 2]}`, `a comma or the end of an object or array is missing at byte 8`},
		{`{"a":[1}`, `a comma or the end of an object or array is missing at byte 7`},
		{`{"a":"x` + "\x01" + `"}`, `a control character in a string at byte 7`},
		{`{"a":"\x"}`, `a bad escape at byte 7`},
		{`{"a":"\u12g4"}`, `a bad \u escape at byte 10`},
		{`{"a":01}`, `a comma or the end of the object is missing at byte 6`},
		{`{"a":1.}`, `a bad number at byte 7`},
		{`{"a":-}`, `no JSON value at byte 6`},
		{`{"a":nul}`, `no JSON value at byte 8`},
		{`{} {}`, `something follows the value at byte 3`},
		{`info: x`, `no JSON value at byte 0`},
	} {
		var r reader
		one, batch, err := r.read([]byte(c.text), false)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case batch != nil:
			var parts []string
			for i := range batch {
				parts = append(parts, show(&batch[i]))
			}
			got = "[" + strings.Join(parts, "|") + "]"
		default:
			got = show(one)
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// Nesting costs a bit a level, and no stack.
func TestReadDeep(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	var r reader
	text := `{"id":1,"result":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	one, _, err := r.read([]byte(text), false)
	if err != nil || string(one.id) != "1" || one.deep != n+1 {
		t.Errorf("%v, %d levels", err, one.deep)
	}
	if _, _, err := r.read([]byte(strings.Repeat(`{"a":[`, n)), false); err == nil || !err.incomplete {
		t.Error(err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, same, other string }{
		{"1", "1", `"1"`},
		{`"1"`, `"1"`, "1"},
		{"1.0", "1", `"1"`},
		{"1e2", "100", `"100"`},
		{"-0", "0", `"0"`},
		{`"\u0031"`, `"1"`, "1"},
		{`"a"`, `"a"`, ""},
		{"1.5", "1.5", ""},
		{"true", "true", ""},
		{"1e999999999", "1e999999999", ""},
		{"123456789012345678901234567890", "123456789012345678901234567890", `"123456789012345678901234567890"`},
	} {
		if got := sameValue([]byte(c.id)); string(got) != c.same {
			t.Errorf("same(%s) = %s", c.id, got)
		}
		if got := otherType([]byte(c.id)); string(got) != c.other {
			t.Errorf("other(%s) = %s", c.id, got)
		}
	}
}

func TestFragmentOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, tail, want string }{
		{`{"jsonrpc":"2.0","id":3,"result":{"con`, "", "true 3"},
		{`{"result":{"id":5,"a`, "", "true "},
		{`{"result":{"a":"bbbb`, `bb"},"jsonrpc":"2.0","id":"x"}` + "\r\n", `true "x"`},
		{`{"result":{"a":"bbbb`, `bb"},"id":7,"jsonrpc":"2.0"}`, "true 7"},
		{`{"result":{"a":"bbbb`, `bb","id":7}]}}`, "true "},
		{`{"id":3,"method":"x","par`, "", "false "},
		{`{"id":12`, "", "false "},
		{`{"result":1,"id":12`, "", "true "},
		{`hello`, "", "false "},
		{`{"id":3,"error":tru}`, "", "true 3"},
	} {
		f := fragmentOf([]byte(c.text), []byte(c.tail))
		if got := fmt.Sprintf("%v %s", f.answer, f.id); got != c.want {
			t.Errorf("%s…%s: %s, want %s", c.text, c.tail, got, c.want)
		}
	}
}

// The scanner and encoding/json must agree on what is JSON, and on the members of an envelope.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"result":{"a":[1,-2.5e+3,null,true,"\u00e4\n"]}}`, `[{"id":1},[]]`, `{"a":"` + "\n" + `"}`, `{"\u0069d":1}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	wiretest.Seed(f, func(sent []byte) { f.Add(sent) })
	f.Fuzz(func(t *testing.T, b []byte) {
		var r reader
		one, batch, err := r.read(b, false)
		_ = fragmentOf(b, b)
		if valid := json.Valid(b); valid != (err == nil) {
			if r.s.deep > 9999 || err == nil && r.s.deep > 9999 {
				t.Skip("encoding/json has a limit on depth")
			}
			t.Fatalf("valid %v, error %v: %q", valid, err, b)
		}
		if err != nil || batch != nil || !one.object {
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil {
			return
		}
		for name, got := range map[string][]byte{"jsonrpc": one.jsonrpc, "id": one.id, "method": one.method, "params": one.params, "result": one.result, "error": one.errorObj} {
			if w, ok := want[name]; ok != (got != nil) || string(w) != string(got) {
				t.Fatalf("%s: %q, want %q", name, got, w)
			}
		}
	})
}

func TestFindingsTable(t *testing.T) {
	t.Parallel()
	seen := map[Code]bool{}
	for _, k := range Findings {
		if seen[k.Code] || k.Code == "" || k.Severity == "" || k.Meaning == "" {
			t.Errorf("%+v", k)
		}
		seen[k.Code] = true
	}
}
