package probe

import (
	"context"
	"fmt"
	"strings"

	"github.com/m3-go/m3/trace"
)

// feature is the run of a probe that a capability allows.
func feature(capability, method, params string, judge func(*reply) verdict) func(ctx context.Context, b *bench) verdict {
	return func(ctx context.Context, b *bench) verdict {
		if !b.has(capability) {
			return skip("the server declares no %s", capability)
		}
		r, _ := b.ask(ctx, method, params)
		return judge(r)
	}
}

func featureProbes() []*Probe {
	const none = "m3-test://no/such/resource"
	return []*Probe{
		{Name: "resource-unknown", About: "a resource that does not exist is an error", Clause: "server/resources: error handling", Severity: trace.SeverityError,
			run: feature("resources", "resources/read", `{"uri":"`+none+`"}`, (*reply).refused)},
		{Name: "resource-unknown-code", About: "the error for a missing resource is -32002, from 2026-07-28 on -32602", Clause: "server/resources: error handling", Severity: trace.SeverityWarning,
			run: func(ctx context.Context, b *bench) verdict {
				code := int64(-32002)
				if b.modern {
					code = -32602
				}
				return feature("resources", "resources/read", `{"uri":"`+none+`"}`, func(r *reply) verdict { return r.refusedWith(code) })(ctx, b)
			}},
		{Name: "resource-uri-missing", About: "resources/read without a URI is refused", Clause: "schema: ReadResourceRequest", Severity: trace.SeverityError,
			run: feature("resources", "resources/read", `{}`, (*reply).refused)},
		{Name: "resource-traversal", About: "a file of the machine that the server does not offer cannot be read as a resource", Clause: "server/resources, security: validate all URIs", Severity: trace.SeverityError,
			run: feature("resources", "resources/read", `{"uri":"file:///../../../../../../etc/passwd"}`, func(r *reply) verdict {
				if m := r.result(); m != nil && strings.Contains(string(m.Result), "root:") {
					return fired("file:///../../etc/passwd was read")
				}
				return r.answered()
			})},
		{Name: "prompt-unknown", About: "a prompt that does not exist is an error", Clause: "server/prompts: error handling", Severity: trace.SeverityError,
			run: feature("prompts", "prompts/get", `{"name":"m3-no-such-prompt"}`, (*reply).refused)},
		{Name: "prompt-unknown-code", About: "the error for a missing prompt is -32602", Clause: "server/prompts: error handling", Severity: trace.SeverityWarning,
			run: feature("prompts", "prompts/get", `{"name":"m3-no-such-prompt"}`, func(r *reply) verdict { return r.refusedWith(-32602) })},
		{Name: "prompt-arguments-missing", About: "a prompt without its required arguments is refused", Clause: "server/prompts: error handling", Severity: trace.SeverityWarning,
			run: runPromptMissing},
		{Name: "completion-unknown", About: "completion for a prompt that does not exist is refused, or has no values", Clause: "server/utilities/completion: error handling", Severity: trace.SeverityWarning,
			run: feature("completions", "completion/complete", `{"ref":{"type":"ref/prompt","name":"m3-no-such-prompt"},"argument":{"name":"a","value":"b"}}`, func(r *reply) verdict {
				if m := r.result(); m != nil && strings.Contains(strings.ReplaceAll(string(m.Result), " ", ""), `"values":[]`) {
					return ok
				}
				return r.refused()
			})},
		{Name: "completion-ref-type", About: "completion for a reference of an unknown type is refused", Clause: "server/utilities/completion: error handling", Severity: trace.SeverityWarning,
			run: feature("completions", "completion/complete", `{"ref":{"type":"ref/m3"},"argument":{"name":"a","value":"b"}}`, (*reply).refused)},
		{Name: "log-level-unknown", About: "a log level that does not exist is refused", Clause: "server/utilities/logging: error handling", Severity: trace.SeverityWarning, scope: legacyOnly,
			run: feature("logging", "logging/setLevel", `{"level":"m3-loud"}`, (*reply).refused)},
		{Name: "subscribe-unknown", About: "a subscription to a missing resource is answered", Clause: "server/resources: subscriptions", Severity: trace.SeverityWarning, scope: legacyOnly,
			run: func(ctx context.Context, b *bench) verdict {
				if !b.sub("resources", "subscribe") {
					return skip("the server declares no subscriptions")
				}
				r, _ := b.ask(ctx, "resources/subscribe", `{"uri":"`+none+`"}`)
				v := r.answered()
				b.ask(ctx, "resources/unsubscribe", `{"uri":"`+none+`"}`)
				return v
			}},
	}
}

func runPromptMissing(ctx context.Context, b *bench) verdict {
	for _, p := range b.prompts {
		for _, a := range p.Arguments {
			if !a.Required {
				continue
			}
			r, _ := b.ask(ctx, "prompts/get", fmt.Sprintf(`{"name":%s,"arguments":{}}`, quoted(p.Name)))
			if v := r.refused(); v.state == Fired {
				return fired("prompt %s without %s: %s", p.Name, a.Name, v.message)
			}
			return ok
		}
	}
	return skip("no prompt has a required argument")
}
