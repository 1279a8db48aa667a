package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clauseParse    = "JSON-RPC 2.0, 5.1: -32700 parse error"
	clauseInvalid  = "JSON-RPC 2.0, 5.1: -32600 invalid request"
	clauseRequests = "basic: requests"
	clauseBatch    = "basic/transports: messages are individual (batches only in 2025-03-26)"
	clauseMeta     = "basic: _meta"
)

// bend makes the text of a proper request and lets the probe change it.
func (b *bench) bend(ctx context.Context, change func(frame string) string) (*reply, string) {
	raw, err := b.conn(ctx)
	if err != nil {
		return &reply{err: err}, ""
	}
	id, frame := raw.Request(b.lists(), "")
	return b.poke(ctx, raw, &m3.RawFrame{Body: []byte(change(string(frame)))}, id), id
}

func envelopeProbes() []*Probe {
	return []*Probe{
		{Name: "bad-json", About: "broken JSON is answered with error -32700", Clause: clauseParse, Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, `{"jsonrpc":"2.0","id":1,"method":"tools/list"`, "").refused()
			}},
		{Name: "not-an-object", About: "a JSON text that is no object is answered with error -32600", Clause: clauseInvalid, Severity: trace.SeverityWarning, Case: "A05",
			run: func(ctx context.Context, b *bench) verdict { return b.send(ctx, `42`, "").refused() }},
		{Name: "empty-batch", About: "an empty array is refused", Clause: clauseInvalid, Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict { return b.send(ctx, `[]`, "").refused() }},
		{Name: "batch", About: "a batch is refused where the version has none, and served in 2025-03-26", Clause: clauseBatch, Severity: trace.SeverityWarning,
			run: runBatch},
		{Name: "missing-jsonrpc", About: "a request without jsonrpc is refused", Clause: clauseInvalid, Severity: trace.SeverityWarning, Case: "B08",
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.bend(ctx, func(f string) string { return strings.Replace(f, `"jsonrpc":"2.0",`, "", 1) })
				return r.refused()
			}},
		{Name: "wrong-jsonrpc", About: "a request with jsonrpc 1.0 is refused", Clause: clauseInvalid, Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.bend(ctx, func(f string) string { return strings.Replace(f, `"jsonrpc":"2.0"`, `"jsonrpc":"1.0"`, 1) })
				return r.refused()
			}},
		{Name: "missing-method", About: "a message with an id and nothing else is refused", Clause: clauseInvalid, Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, `{"jsonrpc":"2.0","id":"no-method"}`, `"no-method"`).refused()
			}},
		{Name: "method-not-text", About: "a method that is no string is refused", Clause: clauseInvalid, Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, `{"jsonrpc":"2.0","id":"bad-method","method":5}`, `"bad-method"`).refused()
			}},
		{Name: "unknown-method", About: "an unknown method is an error", Clause: "JSON-RPC 2.0, 5.1: -32601 method not found", Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.ask(ctx, "m3/no-such-method", "")
				return r.refused()
			}},
		{Name: "unknown-method-code", About: "the error for an unknown method is -32601", Clause: "JSON-RPC 2.0, 5.1: -32601 method not found", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.ask(ctx, "m3/no-such-method", "")
				return r.refusedWith(-32601)
			}},
		{Name: "params-array", About: "params by position are refused, not met with silence", Clause: clauseRequests + ": params is an object", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":"by-position","method":%q,"params":[1,2]}`, b.lists()), `"by-position"`).answered()
			}},
		{Name: "params-null", About: "params null is refused or taken as none, not met with silence", Clause: clauseRequests, Severity: trace.SeverityWarning, Case: "B13",
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":"null-params","method":%q,"params":null}`, b.lists()), `"null-params"`).answered()
			}},
		{Name: "params-omitted", About: "a list without params is served", Clause: clauseRequests + ": params is optional", Severity: trace.SeverityError, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.ask(ctx, b.lists(), "")
				return r.served(id)
			}},
		{Name: "params-empty", About: "a list with empty params is served", Clause: clauseRequests, Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.ask(ctx, b.lists(), "{}")
				return r.served(id)
			}},
		{Name: "unknown-param", About: "a member of params that the server does not know is ignored", Clause: "schema: params are open objects", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.ask(ctx, b.lists(), `{"x-m3-unknown":{"a":[1]}}`)
				return r.served(id)
			}},
		{Name: "unknown-meta", About: "an unknown member of _meta is ignored", Clause: clauseMeta, Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.bend(ctx, func(f string) string {
					if b.modern {
						return strings.Replace(f, `"_meta":{`, `"_meta":{"example.test/m3":[null,1],`, 1)
					}
					return strings.TrimSuffix(f, "}") + `,"params":{"_meta":{"example.test/m3":[null,1]}}}`
				})
				return r.served(id)
			}},
		{Name: "unknown-envelope-member", About: "a request with an unknown member beside method and params is answered", Clause: "schema: JSONRPCRequest is an open object", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.bend(ctx, func(f string) string { return `{"x-m3":true,` + f[1:] })
				return r.served(id)
			}},
		{Name: "escaped-members", About: "JSON escapes in member names and values mean what they mean", Clause: "RFC 8259, 7: strings", Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.bend(ctx, func(f string) string { return escapeMethod(f, b.lists()) })
				return r.served(id)
			}},
		{Name: "white-space", About: "white space between the tokens of a message does not matter", Clause: "RFC 8259, 2: grammar", Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.bend(ctx, func(f string) string { return " \t" + strings.Replace(f, `,"method":`, " ,\t\"method\" : ", 1) + "  " })
				return r.served(id)
			}},
		{Name: "invalid-utf8", About: "a message that is no UTF-8 is answered, not met with silence", Clause: "basic/transports: messages are UTF-8", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				return b.send(ctx, "{\"jsonrpc\":\"2.0\",\"id\":\"utf8\",\"method\":\"m3/\xff\xfe\"}", `"utf8"`).answered()
			}},
		{Name: "deep-nesting", About: "params nested 5,000 deep are answered", Clause: "robustness (basic: requests must be answered)", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				deep := strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)
				r, _ := b.ask(ctx, "m3/no-such-method", `{"deep":`+deep+`}`)
				return r.answered()
			}},
		{Name: "huge-message", About: "a request of 1 MiB is answered", Clause: "robustness (basic: requests must be answered)", Severity: trace.SeverityError, Case: "A10",
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.ask(ctx, "m3/no-such-method", `{"text":"`+strings.Repeat("m3 ", 1<<20/3)+`"}`)
				return r.answered()
			}},
	}
}

// escapeMethod writes the method's name and value with escapes that mean the same.
func escapeMethod(frame, method string) string {
	first := fmt.Sprintf(`\u%04x`, method[0])
	return strings.Replace(frame, `"method":"`+method+`"`, `"\u006dethod":"`+first+strings.ReplaceAll(method[1:], "/", `\/`)+`"`, 1)
}

func runBatch(ctx context.Context, b *bench) verdict {
	raw, err := b.conn(ctx)
	if err != nil {
		return fired("%v", err)
	}
	first, one := raw.Request(b.lists(), "")
	second, two := raw.Request(b.lists(), "")
	r := b.poke(ctx, raw, &m3.RawFrame{Body: []byte("[" + string(one) + "," + string(two) + "]")}, "")
	got := 0
	for _, m := range r.messages {
		for _, part := range append(m.Batch, trace.JSON(m.Body)) {
			var a struct {
				ID     json.RawMessage `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if json.Unmarshal(part, &a) == nil && a.Result != nil && (string(a.ID) == first || string(a.ID) == second) {
				got++
			}
		}
	}
	switch {
	case b.version == "2025-03-26" && got < 2:
		return fired("2025-03-26 servers must take batches: %s", r.saw())
	case b.version == "2025-03-26":
		return ok
	case got > 0:
		return fired("%d parts of the batch were carried out, and %s has no batches", got, b.version)
	}
	return r.refused()
}
