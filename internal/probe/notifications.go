package probe

import (
	"context"
	"fmt"
	"strings"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	clauseNotify   = "JSON-RPC 2.0, 4.1: a notification is not answered"
	clauseCancel   = "basic/utilities/cancellation: invalid cancellations are ignored"
	clauseProgress = "basic/utilities/progress: tokens come from the request"
)

// notify is the run of a probe that sends something that is never answered.
func notify(frame string) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict { return b.send(ctx, frame, "").unanswered() }
}

func notificationProbes() []*Probe {
	return []*Probe{
		{Name: "unknown-notification", About: "an unknown notification is ignored", Clause: clauseNotify, Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","method":"notifications/x-m3-unknown","params":{"a":1}}`)},
		{Name: "request-as-notification", About: "a request without an id is not answered", Clause: clauseNotify, Severity: trace.SeverityError,
			run: func(ctx context.Context, b *bench) verdict {
				r, _ := b.bend(ctx, func(f string) string {
					before, after, _ := strings.Cut(f, `"id":`)
					_, after, _ = strings.Cut(after, ",")
					return before + after
				})
				return r.unanswered()
			}},
		{Name: "stray-result", About: "a result for a request that the server never made is ignored", Clause: "JSON-RPC 2.0, 5: responses are not answered", Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","id":"m3-nobody-asked","result":{"roots":[]}}`)},
		{Name: "stray-error", About: "an error for a request that the server never made is ignored", Clause: "JSON-RPC 2.0, 5: responses are not answered", Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","id":99999,"error":{"code":-32000,"message":"m3"}}`)},
		{Name: "cancel-unknown", About: "the cancellation of an unknown request is ignored", Clause: clauseCancel, Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m3-no-such-request","reason":"probe"}}`)},
		{Name: "cancel-malformed", About: "a cancellation without a request id is ignored", Clause: clauseCancel, Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":[]}}}`)},
		{Name: "cancel-running", About: "a request that is cancelled at once does not hurt the server", Clause: "basic/utilities/cancellation", Severity: trace.SeverityError, Case: "H05", scope: stdioOnly,
			run: func(ctx context.Context, b *bench) verdict {
				raw, err := b.conn(ctx)
				if err != nil {
					return fired("%v", err)
				}
				id, frame := raw.Request(b.lists(), "")
				body := fmt.Sprintf("%s\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, frame, id)
				if r := b.poke(ctx, raw, &m3.RawFrame{Body: []byte(body)}, ""); !r.alive {
					return fired("the server is gone after it: %s", firstLine(r.err))
				}
				return ok
			}},
		{Name: "progress-unknown", About: "progress under an unknown token is ignored", Clause: clauseProgress, Severity: trace.SeverityError,
			run: notify(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"m3-no-such-token","progress":1}}`)},
		{Name: "roots-changed-undeclared", About: "a change of roots that the client never declared is ignored", Clause: "client/roots", Severity: trace.SeverityError, scope: legacyOnly,
			run: notify(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)},
		{Name: "progress-token-types", About: "a string and a number are progress tokens, and no progress comes under another one", Clause: clauseProgress, Severity: trace.SeverityError, Case: "D17",
			run: runTokens},
	}
}

func runTokens(ctx context.Context, b *bench) verdict {
	for _, token := range []string{`"m3-token"`, `77`} {
		r, id := b.bend(ctx, func(f string) string {
			if b.modern {
				return strings.Replace(f, `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)
			}
			return strings.TrimSuffix(f, "}") + `,"params":{"_meta":{"progressToken":` + token + `}}}`
		})
		if v := r.served(id); v.state != Clean {
			return v
		}
		for _, m := range r.own {
			if m.Method == "notifications/progress" && !strings.Contains(string(m.Params), token) {
				return fired("progress came under a token that nobody gave: %s", m)
			}
		}
	}
	return ok
}
