package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	clauseModernMeta = "2026-07-28, basic: request _meta"
	clauseHeaders    = "2026-07-28, basic/transports: request headers (-32020)"
	metaVersion      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
)

func modernProbes() []*Probe {
	probes := []*Probe{
		{Name: "discover", About: "server/discover is served, with every member that its result must have", Clause: "2026-07-28, server/discover", Severity: trace.SeverityError, scope: modernOnly,
			run: wantMembers("server/discover", "supportedVersions", "capabilities", "resultType", "ttlMs", "cacheScope")},
		{Name: "list-members", About: "the result of a list has resultType, ttlMs and cacheScope", Clause: "2026-07-28, schema: ListToolsResult", Severity: trace.SeverityError, scope: modernOnly,
			run: func(ctx context.Context, b *bench) verdict {
				return wantMembers(b.lists(), "resultType", "ttlMs", "cacheScope")(ctx, b)
			}},
		{Name: "unsupported-version", About: "a version that the server does not speak is error -32022 with the supported ones", Clause: "2026-07-28, basic/lifecycle: UnsupportedProtocolVersionError", Severity: trace.SeverityError, scope: modernOnly,
			run: runUnsupported},
		{Name: "missing-meta", About: "a request without _meta is refused with -32602", Clause: clauseModernMeta, Severity: trace.SeverityWarning, scope: modernOnly,
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.bend(ctx, func(f string) string { return f[:strings.Index(f, `,"params"`)] + "}" })
				return r.refused()
			}},
		{Name: "missing-capabilities", About: "a request whose _meta lacks clientCapabilities is refused with -32602", Clause: clauseModernMeta, Severity: trace.SeverityError, scope: modernOnly, Case: "C14",
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.bend(ctx, func(f string) string {
					return strings.Replace(f, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1)
				})
				return r.refusedWith(-32602)
			}},
		{Name: "missing-client-info", About: "a request whose _meta lacks clientInfo is served: it only should be there", Clause: clauseModernMeta, Severity: trace.SeverityError, scope: modernOnly, Case: "C14",
			run: func(ctx context.Context, b *bench) verdict {
				r, id := b.bend(ctx, func(f string) string {
					from := strings.Index(f, `"io.modelcontextprotocol/clientInfo"`)
					to := strings.Index(f, `"io.modelcontextprotocol/clientCapabilities"`)
					return f[:from] + f[to:]
				})
				return r.served(id)
			}},
		{Name: "removed-initialize", About: "initialize, which is gone in 2026-07-28, is refused, or served in an older version: not met with silence", Clause: "2026-07-28, basic/lifecycle: era detection", Severity: trace.SeverityWarning, scope: modernOnly,
			run: first(`{"jsonrpc":"2.0","id":"old","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m3","version":"1"}}}`, `"old"`, (*reply).answered)},
		{Name: "header-method-mismatch", About: "a header Mcp-Method that names another method than the body is refused with 400 and -32020", Clause: clauseHeaders, Severity: trace.SeverityError, scope: modernOnly | httpOnly,
			run: withHeader("Mcp-Method", "tools/call", -32020)},
		{Name: "header-version-mismatch", About: "a header MCP-Protocol-Version that is not the body's is refused with 400 and -32020", Clause: clauseHeaders, Severity: trace.SeverityError, scope: modernOnly | httpOnly,
			run: withHeader("Mcp-Protocol-Version", "2025-11-25", 0)},
		{Name: "header-method-missing", About: "a request without the header Mcp-Method is refused", Clause: clauseHeaders, Severity: trace.SeverityError, scope: modernOnly | httpOnly,
			run: withHeader("Mcp-Method", "", 0)},
		{Name: "header-name-mismatch", About: "a header Mcp-Name that names another tool than the body is refused with 400 and -32020", Clause: clauseHeaders, Severity: trace.SeverityError, scope: modernOnly | httpOnly, Case: "E35",
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.callUnknown(ctx, `m3-no-such-tool`, "m3-another-tool")
				return r.refusedWith(-32020)
			}},
		{Name: "header-name-base64", About: "a header Mcp-Name in base64 form names what it encodes", Clause: clauseHeaders + ", encoding of values", Severity: trace.SeverityError, scope: modernOnly | httpOnly, Case: "E37",
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.callUnknown(ctx, `m3-天気`, wire.HeaderValue("m3-天気"))
				if m := r.any(); m != nil {
					if code, _ := m.Code(); code == -32020 {
						return fired("the base64 form is taken for another name: %s", m)
					}
				}
				return r.refused()
			}},
	}
	for _, method := range []string{"ping", "logging/setLevel", "resources/subscribe"} {
		probes = append(probes, &Probe{Name: "removed-" + strings.ToLower(strings.ReplaceAll(method, "/", "-")), About: method + " is gone in 2026-07-28: -32601", Clause: "2026-07-28, changelog: removed methods",
			Severity: trace.SeverityWarning, scope: modernOnly, run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.ask(ctx, method, "")
				return r.refusedWith(-32601)
			}})
	}
	return probes
}

// wantMembers is the run of a probe that wants a result to have members.
func wantMembers(method string, names ...string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		r, id := b.ask(ctx, method, "")
		if v := r.served(id); v.state != Clean {
			return v
		}
		var result map[string]json.RawMessage
		if err := r.answer(id).Result.Decode(&result); err != nil {
			return fired("the result is no object: %s", r.answer(id))
		}
		var missing []string
		for _, n := range names {
			if result[n] == nil {
				missing = append(missing, n)
			}
		}
		if missing != nil {
			return fired("the result of %s lacks %s", method, strings.Join(missing, ", "))
		}
		return ok
	}
}

func runUnsupported(ctx context.Context, b *bench) verdict {
	raw, err := b.conn(ctx)
	if err != nil {
		return fired("%v", err)
	}
	id, frame := raw.Request(b.lists(), "")
	body := strings.Replace(string(frame), metaVersion, `"io.modelcontextprotocol/protocolVersion":"1900-01-01"`, 1)
	f := &m3.RawFrame{Body: []byte(body)}
	if b.http {
		f.Header = http.Header{"Mcp-Protocol-Version": {"1900-01-01"}}
	}
	r := b.poke(ctx, raw, f, id)
	if v := r.refusedWith(-32022); v.state != Clean {
		return v
	}
	data, _ := r.any().Error.Data.Get()
	var named struct {
		Supported []string `json:"supported"`
	}
	if data.Decode(&named) != nil || len(named.Supported) == 0 {
		return fired("the error names no supported versions: %s", r.any())
	}
	return ok
}

// withHeader is the run of a probe that sends a proper request with one wrong header; an empty value leaves it out. code 0 is any.
func withHeader(name, value string, code int64) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		raw, err := b.conn(ctx)
		if err != nil {
			return fired("%v", err)
		}
		var values []string
		if value != "" {
			values = []string{value}
		}
		id, frame := raw.Request(b.lists(), "")
		r := b.poke(ctx, raw, &m3.RawFrame{Body: frame, Header: http.Header{name: values}}, id)
		if code != 0 {
			return r.refusedWith(code)
		}
		return r.refused()
	}
}

// callUnknown calls a tool that does not exist, with a header of the probe's own.
func (b *bench) callUnknown(ctx context.Context, name, header string) (*reply, string) {
	raw, err := b.conn(ctx)
	if err != nil {
		return &reply{err: err}, ""
	}
	params, _ := json.Marshal(map[string]any{"name": name, "arguments": map[string]any{}}) // text: cannot fail
	id, frame := raw.Request("tools/call", string(params))
	return b.poke(ctx, raw, &m3.RawFrame{Body: frame, Header: http.Header{"Mcp-Name": {header}}}, id), id
}
