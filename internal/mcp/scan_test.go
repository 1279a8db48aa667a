package mcp

import (
	"encoding/json"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
	"github.com/m3-go/m3/trace"
)

func TestResultType(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ result, want string }{
		{`{}`, "complete"},
		{`{"content":[]}`, "complete"},
		{`{"resultType":"input_required"}`, "input_required"},
		{` { "a" : [ { "resultType" : "x" } , "}\"]" ] , "resultType" : "complete" } `, "complete"},
		{`{"a":{"resultType":"input_required"}}`, "complete"},
		{`{"a":"\"resultType\":\"input_required\""}`, "complete"},
		{`{"resultType":"complete","resultType":"input_required"}`, "input_required"},
		{`{"resultType":"inp\u0075t_required"}`, "input_required"},
		{`{"a":"\\","resultType":"task"}`, "task"},
		{`{"resultType":5}`, "5"},
		{`{"resultType":null}`, "null"},
		{`null`, "complete"},
		{`{"resultType"`, "complete"},
		{``, "complete"},
	} {
		if got := ResultType(trace.JSON(tc.result)); got != tc.want {
			t.Errorf("ResultType(%s) = %q, want %q", tc.result, got, tc.want)
		}
	}
}

func TestResultTypeMakesLittleGarbage(t *testing.T) {
	result := trace.JSON(`{"content":[{"type":"text","text":"hello"}],"structuredContent":{"a":[1,2,3]},"resultType":"complete"}`)
	if n := testing.AllocsPerRun(100, func() { ResultType(result) }); n > 1 {
		t.Errorf("%v allocations a call", n)
	}
}

// FuzzMember holds the scanner against encoding/json: what that takes for an object must scan to the same members.
func FuzzMember(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"c":"}"}],"resultType":"x\\\"y"}`), "resultType")
	f.Add([]byte(`{"a":{"b":[]},"":null}`), "")
	f.Add([]byte(`{"a"`), "a")
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, "result") })
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		got := member(obj, name)
		var want map[string]json.RawMessage
		if json.Unmarshal(obj, &want) != nil || want == nil {
			return // only that it ends, and does not panic
		}
		v, ok := want[name]
		if !ok {
			return // encoding/json replaces broken UTF-8 in keys; the scanner leaves it
		}
		if string(got) != string(v) {
			t.Errorf("member(%q, %q) = %q, want %q", obj, name, got, v)
		}
	})
}
