package relay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// call is a tools/call with these params.
func call(params string) string {
	return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":` + params + `}`
}

// TestRefused: no spelling of a forbidden call reaches the server, and none of them disturbs what is allowed. Only "add" is.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]string{
		"plain":                 askDrop,
		"escaped name":          call(`{"name":"dr\u006fp"}`),
		"escaped keys":          `{"jsonrpc":"2.0","id":5,"m\u0065thod":"tools\/call","p\u0061rams":{"n\u0061me":"drop"}}`,
		"name twice, last":      call(`{"name":"add","name":"drop"}`),
		"name twice, first":     call(`{"name":"drop","name":"add"}`),
		"name twice, equal":     call(`{"name":"add","name":"add"}`),
		"Name beside name":      call(`{"name":"add","Name":"drop"}`),
		"NAME alone":            call(`{"NAME":"drop"}`),
		"params twice":          `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add"},"params":{"name":"drop"}}`,
		"param\u017f beside":    `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add"},"param` + "\u017f" + `":{"name":"drop"}}`,
		"method twice":          `{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/call","params":{"name":"drop"}}`,
		"method twice, first":   `{"jsonrpc":"2.0","id":5,"method":"tools/call","method":"ping","params":{"name":"drop"}}`,
		"Method beside":         `{"jsonrpc":"2.0","id":5,"method":"ping","METHOD":"tools/call","params":{"name":"drop"}}`,
		"method in capitals":    `{"jsonrpc":"2.0","id":5,"method":"Tools/Call","params":{"name":"drop"}}`,
		"method with space":     `{"jsonrpc":"2.0","id":5,"method":" tools/call ","params":{"name":"drop"}}`,
		"method in an array":    `{"jsonrpc":"2.0","id":5,"method":["tools/call"],"params":{"name":"drop"}}`,
		"name in an array":      call(`{"name":["drop"]}`),
		"name a number":         call(`{"name":5}`),
		"name null":             call(`{"name":null}`),
		"name with space":       call(`{"name":"add "}`),
		"name empty":            call(`{"name":""}`),
		"name in other case":    call(`{"name":"Add"}`),
		"half a surrogate":      call(`{"name":"\ud800"}`),
		"no name":               call(`{}`),
		"no params":             `{"jsonrpc":"2.0","id":5,"method":"tools/call"}`,
		"params an array":       call(`["drop"]`),
		"params a string":       call(`"drop"`),
		"notification":          `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"drop"}}`,
		"id null":               `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"drop"}}`,
		"no jsonrpc":            `{"id":5,"method":"tools/call","params":{"name":"drop"}}`,
		"with a result too":     `{"jsonrpc":"2.0","id":5,"result":{},"method":"tools/call","params":{"name":"drop"}}`,
		"trailing comma":        `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"drop",},}`,
		"comment":               `{"jsonrpc":"2.0",/**/"id":5,"method":"tools/call","params":{"name":"drop"}}`,
		"single quotes":         `{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'drop'}}`,
		"two on a line":         initDone + askDrop,
		"behind text":           "ok: " + askDrop,
		"byte order mark":       "\ufeff" + askDrop,
		"NUL before":            "\x00" + askDrop,
		"CR inside":             `{"a":` + "\r" + askDrop + "\r" + `}`,
		"CR between":            initDone + "\r" + askDrop,
		"invalid UTF-8":         call("{\"name\":\"add\",\"arguments\":{\"a\":\"\xc0\xa2,\"}}"),
		"batch of one":          "[" + askDrop + "]",
		"batch in a batch":      "[[" + askDrop + "]]",
		"deep, unfinished":      strings.Repeat("[", 5000) + askDrop,
		"no end":                askDrop[:len(askDrop)-1],
		"too large to look at":  call(`{"name":"add","arguments":{"a":"` + strings.Repeat("x", 20_000) + `"}}`),
		"too large, and hidden": strings.Repeat(" ", 20_000) + askDrop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, relay.Config{Allow: only("add"), MaxFrame: 10_000})
			w := r.stream(t.Context())
			say(t, w.agent, frame)
			say(t, w.agent, askAdd)
			if got := hear(t, w.server); got != askAdd {
				t.Errorf("the server got %.200q", got)
			}
			w.agent.CloseWrite()
			silent(t, w.server)
			w.server.Close()
			answers, _ := io.ReadAll(w.agent)
			if err := w.wait(t); err != nil {
				t.Error(err)
			}
			for line := range bytes.Lines(answers) {
				if !json.Valid(line) || !bytes.Contains(line, []byte(`"code":-32602`)) {
					t.Errorf("the agent was answered %s", line)
				}
			}
			events := r.events()
			denied, calls := of(events, trace.KindMCPPolicyDenied), of(events, trace.KindMCPRequest)
			if len(denied) == 0 || denied[0].Frame == nil || denied[0].Frame.Direction != trace.ClientToServer || len(calls) != 1 {
				t.Fatalf("recorded: %d refused and %d requests", len(denied), len(calls))
			}
			if got := string(denied[0].Frame.Bytes); denied[0].Frame.Dropped == 0 && got != frame+"\n" {
				t.Errorf("recorded: %.200q", got)
			}
			if c := r.Connections()[0]; c.Denied == 0 || c.Calls != 1 {
				t.Errorf("counted: %+v", c)
			}
		})
	}
}

// TestAllowed: what is no forbidden call passes, byte for byte, also where it looks like one.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		askAdd, askInit, initDone, askList,
		call(`{"name":"add","arguments":{"name":"drop","method":"tools/call","params":{"name":"drop"}},"_meta":{"name":"drop"}}`),
		call(`{ "name" : "\u0061dd" , "arguments":{"a":"\ud83d\ude00 é ` + "\u2028" + `"}}`),
		`{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"drop"}}`,
		`{"jsonrpc":"2.0","id":5,"result":{"name":"drop"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"ping"}`,
		`"tools/call"`, `5`, ``, `  `, "[]",
		"[" + askAdd + "," + initDone + "]",
	} {
		r := newRig(t, relay.Config{Allow: only("add")})
		w := r.stream(t.Context())
		say(t, w.agent, frame)
		if got := hear(t, w.server); got != frame {
			t.Errorf("%s: the server got %s", frame, got)
		}
		w.agent.CloseWrite()
		silent(t, w.server)
		w.server.Close()
		silent(t, w.agent)
		w.wait(t)
		if denied := of(r.events(), trace.KindMCPPolicyDenied); len(denied) > 0 {
			t.Errorf("%s was refused", frame)
		}
	}
}

// TestUnknownTool: the answer to a refused call is that of a server which has no such tool, with the caller's id.
func TestUnknownTool(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{Allow: func(string) bool { return false }})
	w := r.stream(t.Context())
	for _, tc := range []struct{ ask, want string }{
		{askDrop, sayDrop},
		{`{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{"name":"a\"b"}}`, `{"jsonrpc":"2.0","id":1.50,"error":{"code":-32602,"message":"Unknown tool: a\"b"}}`},
		{`[` + askDrop + `,{"jsonrpc":"2.0","method":"tools/call","params":{"name":"b"}}]`, "[" + sayDrop + "]"},
	} {
		say(t, w.agent, tc.ask)
		if got := hear(t, w.agent); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	w.agent.CloseWrite()
	silent(t, w.server)
	w.server.Close()
	w.wait(t)
}

// TestBatch: of a batch with a forbidden call the rest goes on, and the call is answered.
func TestBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{Allow: only("add")})
	w := r.stream(t.Context())
	say(t, w.agent, "[ "+askAdd+" , "+askDrop+", "+initDone+" ]")
	if got, want := hear(t, w.agent), "["+sayDrop+"]"; got != want {
		t.Errorf("the agent got %s", got)
	}
	if got, want := hear(t, w.server), "["+askAdd+","+initDone+"]"; got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}
	say(t, w.server, "["+sayAdd+"]")
	hear(t, w.agent)
	w.server.Close()
	w.wait(t)
	var got []string
	events := r.events()
	for _, ev := range events {
		got = append(got, fmt.Sprint(ev.Kind, " ", ev.Method, ev.RPCID, " ", ev.Frame != nil))
	}
	want := []string{"transport.connected  false",
		"mcp.policy_denied  true", `mcp.policy_denied tools/call"x" false`,
		"mcp.request  true", "mcp.request tools/call3 false", "mcp.notification notifications/initialized false",
		"mcp.response  true", "mcp.response 3 false", "transport.disconnected  false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestFilteredList: answers to tools/list, and nothing else, lose the tools that are not allowed; every other byte stays. The list is recorded as the
// server sent it and as the agent got it.
func TestFilteredList(t *testing.T) {
	t.Parallel()
	ask := func(id, method string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}` }
	for _, tc := range []struct{ name, ask, answer, want string }{
		{"page", askList, sayList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","inputSchema":{}},{"name":"sub","inputSchema":{}}],"nextCursor":"p2"}}`},
		{"nothing to cut", askList, `{ "jsonrpc":"2.0","id":2, "result":{"tools":[ {"name":"sub"} , {"name":"\u0061dd"} ]}}`, ""},
		{"all cut", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[ {"name":"x"} , {"name":"y"} ],"a":[1]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[  ],"a":[1]}}`},
		{"first and last", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x"}, {"name":"add"}, {"name":"y"}]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add"}]}}`},
		{"empty", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`, ""},
		{"no names", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{},5,null,{"name":5},{"name":"add"}]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add"}]}}`},
		{"name twice", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","Name":"x"}]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`},
		{"tools twice", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x"}],"tools":[{"name":"y"},{"name":"add"}]}}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[],"tools":[{"name":"add"}]}}`},
		{"id of another type", askList, `{"jsonrpc":"2.0","id":"2","result":{"tools":[{"name":"x"}]}}`, `{"jsonrpc":"2.0","id":"2","result":{"tools":[]}}`},
		{"to nothing", askAdd, `{"jsonrpc":"2.0","id":77,"result":{"tools":[{"name":"x"}]}}`, `{"jsonrpc":"2.0","id":77,"result":{"tools":[]}}`},
		{"another method", ask("2", "custom/list"), `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x"}]}}`, ""},
		{"a result with tools inside", askAdd, `{"jsonrpc":"2.0","id":3,"result":{"structuredContent":{"tools":[{"name":"x"}]}}}`, ""},
		{"an error", askList, `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"","data":{"tools":[{"name":"x"}]}}}`, ""},
		{"list_changed", askList, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, ""},
		{"broken", askList, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x"`, ""},
		{"batch", "[" + ask("1", "tools/list") + "," + ask("2", "custom/list") + "]", `[{"id":2,"jsonrpc":"2.0","result":{"tools":[{"name":"x"}],"y":[{"id":1,"jsonrpc":"2.0","result":{"tools":[{"name":"x"}]}}]}}, {"id":1,"jsonrpc":"2.0","result":{"tools":[{"name":"x"}]}}]`,
			`[{"id":2,"jsonrpc":"2.0","result":{"tools":[{"name":"x"}],"y":[{"id":1,"jsonrpc":"2.0","result":{"tools":[{"name":"x"}]}}]}}, {"id":1,"jsonrpc":"2.0","result":{"tools":[]}}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, relay.Config{Allow: only("add", "sub")})
			w := r.stream(t.Context())
			say(t, w.agent, tc.ask)
			hear(t, w.server)
			say(t, w.server, tc.answer+"\r")
			want := tc.want
			if want == "" {
				want = tc.answer
			}
			if got := hear(t, w.agent); got != want+"\r" {
				t.Errorf("the agent got %s\nwant %s", got, want)
			}
			w.server.Close()
			w.wait(t)
			events := r.events()
			filtered := of(events, trace.KindMCPFiltered)
			if (tc.want != "") != (len(filtered) == 1) {
				t.Fatalf("%d filtered answers were recorded", len(filtered))
			}
			if len(filtered) == 1 && string(filtered[0].Frame.Bytes) != want+"\r\n" {
				t.Errorf("recorded: %s", filtered[0].Frame.Bytes)
			}
			if got := bytesOf(events, trace.ServerToClient); string(got) != tc.answer+"\r\n" {
				t.Errorf("recorded of the server: %s", got)
			}
			checkKept(t, events)
		})
	}
}

// TestListChanged: a server that gains tools in mid-turn gains none for the agent.
func TestListChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, relay.Config{Allow: only("add")})
	w := r.stream(t.Context())
	for _, tools := range []string{`{"name":"add"}`, `{"name":"add"},{"name":"drop"}`} {
		say(t, w.server, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		hear(t, w.agent)
		for _, cursor := range []string{"", `,"nextCursor":"2"`} {
			say(t, w.agent, askList)
			hear(t, w.server)
			say(t, w.server, `{"jsonrpc":"2.0","id":2,"result":{"tools":[`+tools+`]`+cursor+`}}`)
			if got, want := hear(t, w.agent), `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add"}]`+cursor+`}}`; got != want {
				t.Errorf("the agent got %s", got)
			}
		}
	}
	say(t, w.agent, askDrop)
	if got := hear(t, w.agent); got != sayDrop {
		t.Errorf("a call by a guessed name: %s", got)
	}
	w.agent.CloseWrite()
	silent(t, w.server)
	w.server.Close()
	w.wait(t)
}

// readings are ways in which a server may read a frame of a stream: each gives the tools that it would call.
var readings = map[string]func(frame []byte) []string{
	"Go, by encoding/json": func(frame []byte) []string { return goCalls(frame) },
	"lines end at CR too": func(frame []byte) (tools []string) {
		for _, line := range bytes.FieldsFunc(frame, func(r rune) bool { return r == '\r' }) {
			tools = append(tools, goCalls(line)...)
		}
		return tools
	},
	"the first of two members": func(frame []byte) []string { return firstCalls(frame) },
	"the first value on a line": func(frame []byte) (tools []string) {
		for d := json.NewDecoder(bytes.NewReader(frame)); ; {
			var raw json.RawMessage
			if d.Decode(&raw) != nil {
				return tools
			}
			tools = append(tools, goCalls(raw)...)
		}
	},
}

type wireCall struct {
	Method string
	Params struct{ Name string }
}

func goCalls(b []byte) (tools []string) {
	var many []json.RawMessage
	if json.Unmarshal(b, &many) == nil {
		for _, m := range many {
			tools = append(tools, goCalls(m)...)
		}
		return tools
	}
	var c wireCall
	if json.Unmarshal(b, &c) == nil && c.Method == "tools/call" {
		tools = append(tools, c.Params.Name)
	}
	return tools
}

// firstCalls reads objects so that the first of equal members counts.
func firstCalls(b []byte) (tools []string) {
	var many []json.RawMessage
	if json.Unmarshal(b, &many) == nil {
		for _, m := range many {
			tools = append(tools, firstCalls(m)...)
		}
		return tools
	}
	top := firstMembers(b)
	var method, name string
	if json.Unmarshal(top["method"], &method) == nil && method == "tools/call" {
		if json.Unmarshal(firstMembers(top["params"])["name"], &name) == nil {
			tools = append(tools, name)
		}
	}
	return tools
}

func firstMembers(b []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return out
	}
	for d.More() {
		key, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return out
		}
		if k := key.(string); out[k] == nil {
			out[k] = v
		}
	}
	return out
}

// FuzzFilter: what the relay forwards of any frame is the frame itself or, of a batch, a smaller one, and in no reading of it is there a forbidden call. A frame that is
// refused had none that was allowed and beyond doubt.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{askAdd, askDrop, askInit, initDone, "[" + askAdd + "," + askDrop + "]", call(`{"name":"add","name":"drop"}`), call(`{"name":"add","NAME":"drop"}`),
		`{"a":` + "\r" + askDrop + "\r}", initDone + askDrop, `{"method":"tools/call","Method":"ping","params":{"name":"drop"}}`, `[[` + askDrop + `]]`} {
		f.Add([]byte(s))
	}
	check := relay.Judge(only("add"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		frame = bytes.ReplaceAll(frame, []byte("\n"), nil)
		got := check(bytes.Clone(frame))
		for name, read := range readings {
			for _, tool := range read(got) {
				if tool != "add" {
					t.Errorf("%s: %q calls %q", name, got, tool)
				}
			}
		}
		switch {
		case bytes.Equal(got, frame):
		case got == nil:
			var c wireCall
			if json.Valid(frame) && utf8.Valid(frame) && !bytes.ContainsAny(frame, "\\\r") && json.Unmarshal(frame, &c) == nil && !strings.Contains(strings.ToLower(string(frame)), "tools/call") &&
				strings.Count(strings.ToLower(string(frame)), "method") <= 1 && (c.Method != "" || !strings.Contains(strings.ToLower(string(frame)), "method")) {
				t.Errorf("%q was refused", frame)
			}
		case len(got) > len(frame) || frame[bytes.IndexAny(frame, "[")] != '[':
			t.Errorf("%q became %q", frame, got)
		}
	})
}
