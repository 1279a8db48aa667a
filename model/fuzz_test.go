package model

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
)

// FuzzScript: no text makes the reader panic, and what it accepts is the same after a way through JSON.
func FuzzScript(f *testing.F) {
	if b, err := os.ReadFile("testdata/golden/script.json"); err == nil {
		f.Add(b)
	}
	for _, s := range []string{`[]`, `[{"say":"x","when":{"text":["a"],"only":[]},"times":"forever"}]`, `[{"calls":[{"raw":"a","args_text":"{"}],"usage":"none"}]`, `[{"fault":{"status":429,"retry_after":"1ms"}}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		script, err := ParseScript(b)
		if err != nil {
			return
		}
		one, err := json.Marshal(script)
		if err != nil {
			t.Fatalf("%v of %s", err, b)
		}
		again, err := ParseScript(one)
		if err != nil {
			t.Fatalf("%v of %s of %s", err, one, b)
		}
		if two, err := json.Marshal(again); err != nil || string(one) != string(two) {
			t.Fatalf("%v: %s and %s", err, one, two)
		}
	})
}

// FuzzRequest: no body makes a reader of requests, the recogniser of roles, the finder of tools or an answer panic.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","tool_calls":[{"function":{"name":"a"}}]},{"role":"tool","content":"r"}],"tools":[{"type":"function","function":{"name":"calc_add"}}],"tool_choice":{"function":{"name":"calc_add"}},"stop":["x"]}`,
		`{"instructions":"i","input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"mcp__calc","tools":["add"]}]},{"type":"function_call","name":"a"},{"type":"function_call_output","output":[{"type":"input_text","text":"r"}]}],"text":{"format":{"schema":{"properties":{"risk_level":{"enum":["low"]},"outcome":{"anyOf":[{"type":["string","null"]}]}}}}}}`,
		`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"r"}]}]}],"tools":[{"name":"mcp__calc__add","input_schema":{"type":"object"}}],"max_tokens":1,"tool_choice":{"name":"classify_result"}}`,
		`{"input":"hello"}`, `{}`, `[`, ``,
	} {
		f.Add([]byte(s), "calc", "add")
	}
	f.Fuzz(func(t *testing.T, b []byte, server, tool string) {
		for _, d := range dialects {
			req, err := d.parse(b)
			if err != nil {
				continue
			}
			names := &namer{servers: []string{server, "calc_v2"}}
			if found, err := names.find(server+":"+tool, req.tools); err == nil && found.name == "" {
				t.Error("a tool without a name was found")
			}
			_ = Text(tool).and(OffersOnly()).unmet(req, names)
			role := roleOf(req, http.Header{})
			side := sideStep(role, req)
			a := answerOf(&side, "x", req, make([]offered, len(side.calls)), func(int) string { return "id" })
			g := gather(a)
			d.frames(a, func(fr frame) bool { g.add(fr); return true })
			g.got.complete = true
			one, err1 := encode(d.whole(a))
			two, err2 := encode(d.whole(&g.got))
			if err1 != nil || err2 != nil || string(one) != string(two) {
				t.Errorf("%v %v: %s and %s", err1, err2, one, two)
			}
		}
	})
}
