package m3

import (
	"context"

	"github.com/m3-go/m3/harness"
)

// PermissionRequest is an agent's question whether it may do something. Kind is "tool" for a tool of a server, else the agent's own word.
type PermissionRequest = harness.PermissionRequest

// PermissionPolicy answers what an agent asks before it does something. The zero value allows the selected tools of the servers, and denies everything
// else. A plan for elicitation never answers such a question.
type PermissionPolicy struct {
	word   string
	decide func(ctx context.Context, r *PermissionRequest) bool
}

// The policies.
var (
	// AllowAll allows everything that the agent asks for. A tool that is not selected stays out of reach.
	AllowAll = PermissionPolicy{word: "allow_all"}
	// DenyAll denies everything, the tools of the servers included.
	DenyAll = PermissionPolicy{word: "deny_all"}
)

// DecidePermission asks f. It may be called from several goroutines; the end of ctx is a refusal.
func DecidePermission(f func(ctx context.Context, r *PermissionRequest) bool) PermissionPolicy {
	return PermissionPolicy{word: "function", decide: f}
}

// String is the stored word of the policy: allow_tools, allow_all, deny_all, function.
func (p PermissionPolicy) String() string { return orElse(p.word, "allow_tools") }

// allowed answers one request.
func (p PermissionPolicy) allowed(ctx context.Context, r *PermissionRequest, tools *harness.Tools) bool {
	switch {
	case p.decide != nil:
		return p.decide(ctx, r)
	case p.word == AllowAll.word:
		return true
	case p.word == DenyAll.word:
		return false
	}
	return r.Kind == "tool" && allows(tools, r.Server, r.Tool)
}

// check: a policy that refuses needs an agent that asks.
func (p PermissionPolicy) check(a *Agent, can *harness.Capabilities) error {
	if can.Permissions || p.word == "" || p.word == AllowAll.word {
		return nil
	}
	return &UnsupportedError{Message: a.name + " does not ask for permission, so a policy cannot refuse it anything: leave Permissions out, and select tools instead",
		Details: map[string]any{"feature": "permissions", "harness": a.kind}}
}
