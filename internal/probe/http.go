package probe

import (
	"context"
	"net/http"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clausePost   = "basic/transports: streamable HTTP, sending messages"
	clauseGet    = "basic/transports: streamable HTTP, listening for messages"
	clauseOrigin = "basic/transports: streamable HTTP, security warning"
)

// shaped is the run of a probe that sends a proper request with headers or a method of its own, and judges the answer.
func shaped(method string, header http.Header, judge func(b *bench, r *reply, id string) verdict) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		raw, err := b.conn(ctx)
		if err != nil {
			return fired("%v", err)
		}
		id, frame := raw.Request(b.lists(), "")
		f := &m3.RawFrame{Body: frame, Method: method, Header: header}
		if method == http.MethodGet || method == http.MethodDelete {
			f.Body = nil
		}
		return judge(b, b.poke(ctx, raw, f, id), id)
	}
}

func servedIt(_ *bench, r *reply, id string) verdict { return r.served(id) }
func refusedIt(_ *bench, r *reply, _ string) verdict { return r.refused() }

// status judges by the HTTP status alone.
func status(allowed func(s int) bool) func(b *bench, r *reply, id string) verdict {
	return func(_ *bench, r *reply, _ string) verdict {
		switch {
		case r.status == 0:
			return fired("no answer: %s", r.saw())
		case !allowed(r.status):
			return fired("HTTP %d: %s", r.status, r.saw())
		}
		return ok
	}
}

func clientError(s int) bool { return s/100 == 4 }

func httpProbes() []*Probe {
	h := func(name string, values ...string) http.Header { return http.Header{name: values} }
	return []*Probe{
		{Name: "content-type-charset", About: "Content-Type: application/json; charset=utf-8 is taken", Clause: clausePost, Severity: trace.SeverityError, Case: "E01", scope: httpOnly,
			run: shaped("", h("Content-Type", "application/json; charset=utf-8"), servedIt)},
		{Name: "content-type-case", About: "Content-Type: Application/JSON is taken: media types know no case", Clause: "RFC 9110, 8.3.1: media types", Severity: trace.SeverityWarning, Case: "E01", scope: httpOnly,
			run: shaped("", h("Content-Type", "Application/JSON"), servedIt)},
		{Name: "content-type-wrong", About: "Content-Type: text/plain is refused", Clause: clausePost + "; browsers send it across origins", Severity: trace.SeverityWarning, scope: httpOnly,
			run: shaped("", h("Content-Type", "text/plain"), refusedIt)},
		{Name: "accept-wildcard", About: "Accept: */* is taken", Clause: "RFC 9110, 12.5.1: Accept", Severity: trace.SeverityNote, Case: "E07", scope: httpOnly,
			run: shaped("", h("Accept", "*/*"), servedIt)},
		{Name: "accept-order", About: "Accept with text/event-stream first, and with q values, is taken", Clause: clausePost, Severity: trace.SeverityError, Case: "E08", scope: httpOnly,
			run: shaped("", h("Accept", "text/event-stream;q=0.9, application/json;q=0.8"), servedIt)},
		{Name: "accept-none", About: "a request without Accept is served or refused with a client error", Clause: clausePost, Severity: trace.SeverityWarning, scope: httpOnly,
			run: shaped("", h("Accept"), func(_ *bench, r *reply, _ string) verdict { return r.answered() })},
		{Name: "origin-foreign", About: "a request with a foreign Origin is refused: else every web page can use the server", Clause: clauseOrigin + ": servers must validate Origin", Severity: trace.SeverityError, Case: "H11", scope: httpOnly,
			run: shaped("", h("Origin", "http://evil.example"), refusedIt)},
		{Name: "host-foreign", About: "a server on loopback refuses a foreign Host", Clause: clauseOrigin + ": DNS rebinding", Severity: trace.SeverityWarning, Case: "H11", scope: httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				if !b.loopback {
					return skip("the server is not on loopback")
				}
				return shaped("", h("Host", "evil.example"), refusedIt)(ctx, b)
			}},
		{Name: "empty-body", About: "a POST without a body is a client error", Clause: clausePost, Severity: trace.SeverityWarning, scope: httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				return status(clientError)(b, b.send(ctx, "", ""), "")
			}},
		{Name: "bad-json-status", About: "broken JSON is HTTP 400", Clause: clausePost, Severity: trace.SeverityError, scope: httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				return status(clientError)(b, b.send(ctx, `{"jsonrpc":`, ""), "")
			}},
		{Name: "notification-status", About: "a notification is answered with 202 and no body", Clause: clausePost + ": 202 Accepted", Severity: trace.SeverityWarning, Case: "E04", scope: httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				r := b.send(ctx, `{"jsonrpc":"2.0","method":"notifications/x-m3"}`, "")
				if r.status >= 400 {
					return fired("HTTP %d for a notification: %s", r.status, r.saw())
				}
				return status(func(s int) bool { return s == http.StatusAccepted })(b, r, "")
			}},
		{Name: "get", About: "GET opens an event stream, or is 405", Clause: clauseGet, Severity: trace.SeverityWarning, Case: "E13", scope: httpOnly,
			run: shaped("GET", nil, judgeGet)},
		{Name: "get-without-accept", About: "GET without Accept is a client error or an event stream", Clause: clauseGet, Severity: trace.SeverityWarning, scope: httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				raw, err := b.own(ctx)
				if err != nil {
					return fired("%v", err)
				}
				r := b.poke(ctx, raw, &m3.RawFrame{Method: "GET", Header: h("Accept")}, "")
				return status(func(s int) bool { return s/100 == 4 || s == 200 && isStream(r) })(b, r, "")
			}},
		{Name: "put", About: "PUT is a client error (405)", Clause: "RFC 9110, 15.5.6: method not allowed", Severity: trace.SeverityWarning, scope: httpOnly,
			run: shaped("PUT", nil, status(clientError))},
		{Name: "patch", About: "PATCH is a client error (405)", Clause: "RFC 9110, 15.5.6: method not allowed", Severity: trace.SeverityWarning, scope: httpOnly,
			run: shaped("PATCH", nil, status(clientError))},
		{Name: "answer-type", About: "an answer is application/json or text/event-stream", Clause: clausePost, Severity: trace.SeverityError, scope: httpOnly,
			run: shaped("", nil, func(_ *bench, r *reply, id string) verdict {
				media := r.header("Content-Type")
				if r.answer(id) != nil && !isStream(r) && !hasPrefixFold(media, "application/json") {
					return fired("Content-Type is %q", media)
				}
				return r.served(id)
			})},
	}
}

func isStream(r *reply) bool { return hasPrefixFold(r.header("Content-Type"), "text/event-stream") }

// judgeGet takes a stream that was opened, a refusal, or the session that the server wants first.
func judgeGet(b *bench, r *reply, _ string) verdict {
	switch {
	case r.status == http.StatusMethodNotAllowed, !b.modern && r.status == 200 && isStream(r):
		return ok
	case !b.modern && r.status == http.StatusConflict: // one stream a session
		return ok
	case r.status == 0:
		return fired("no answer: %s", r.saw())
	}
	return fired("HTTP %d instead of 405 or an event stream", r.status)
}

func sessionProbes() []*Probe {
	const clauseSession = "basic/transports: streamable HTTP, session management"
	return []*Probe{
		{Name: "protocol-header-unknown", About: "an unknown MCP-Protocol-Version is HTTP 400", Clause: "basic/transports: protocol version header", Severity: trace.SeverityWarning, scope: legacyOnly | httpOnly,
			run: func(ctx context.Context, b *bench) verdict {
				if b.version < "2025-06-18" {
					return skip("%s has no such header", b.version)
				}
				return shaped("", http.Header{"Mcp-Protocol-Version": {"1999-01-01"}}, status(func(s int) bool { return s == 400 }))(ctx, b)
			}},
		{Name: "protocol-header-missing", About: "a request without MCP-Protocol-Version is served: the session is known", Clause: "basic/transports: protocol version header", Severity: trace.SeverityWarning, scope: legacyOnly | httpOnly,
			run: shaped("", http.Header{"Mcp-Protocol-Version": nil}, servedIt)},
		{Name: "session-id-text", About: "the session id is visible ASCII", Clause: clauseSession, Severity: trace.SeverityError, scope: legacyOnly | httpOnly,
			run: inSession(func(_ context.Context, b *bench) verdict {
				for _, c := range []byte(b.session) {
					if c < 0x21 || c > 0x7e {
						return fired("the session id holds the byte 0x%02x", c)
					}
				}
				return ok
			})},
		{Name: "session-unknown", About: "an unknown session id is HTTP 404, so that clients begin anew", Clause: clauseSession, Severity: trace.SeverityWarning, Case: "E11", scope: legacyOnly | httpOnly,
			run: inSession(shaped("", http.Header{"Mcp-Session-Id": {"m3-no-such-session"}}, status(func(s int) bool { return s == 404 })))},
		{Name: "session-unknown-served", About: "a request under an unknown session id is not served", Clause: clauseSession, Severity: trace.SeverityError, Case: "E10", scope: legacyOnly | httpOnly,
			run: inSession(shaped("", http.Header{"Mcp-Session-Id": {"m3-no-such-session"}}, status(clientError)))},
		{Name: "session-missing", About: "a request without the session id is HTTP 400", Clause: clauseSession, Severity: trace.SeverityWarning, scope: legacyOnly | httpOnly,
			run: inSession(shaped("", http.Header{"Mcp-Session-Id": nil}, status(func(s int) bool { return s == 400 })))},
		{Name: "delete-unknown", About: "DELETE of an unknown session is a client error", Clause: clauseSession, Severity: trace.SeverityWarning, Case: "E11", scope: legacyOnly | httpOnly,
			run: inSession(shaped("DELETE", http.Header{"Mcp-Session-Id": {"m3-no-such-session"}}, status(clientError)))},
		{Name: "delete-ends", About: "after DELETE the session is gone: HTTP 404", Clause: clauseSession, Severity: trace.SeverityWarning, scope: legacyOnly | httpOnly,
			run: inSession(runDelete)},
	}
}

// inSession runs a probe when the server has sessions.
func inSession(run func(ctx context.Context, b *bench) verdict) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		if b.session == "" {
			return skip("the server gives no session id")
		}
		return run(ctx, b)
	}
}

func runDelete(ctx context.Context, b *bench) verdict {
	raw, err := b.own(ctx)
	if err == nil {
		err = b.greet(ctx, raw)
	}
	if err != nil {
		return fired("%v", err)
	}
	raw.Take()
	if r := b.poke(ctx, raw, &m3.RawFrame{Method: "DELETE"}, ""); r.status == http.StatusMethodNotAllowed {
		return skip("the server does not let clients end sessions (405)")
	} else if r.status/100 != 2 {
		return fired("DELETE of the own session is HTTP %d", r.status)
	}
	id, frame := raw.Request(b.lists(), "")
	r := b.poke(ctx, raw, &m3.RawFrame{Body: frame}, id)
	return status(func(s int) bool { return s == 404 })(b, r, id)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
