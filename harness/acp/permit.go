package acp

import (
	"context"

	"github.com/m3-go/m3/harness"
)

// permits are the open questions of a turn: when the turn is cancelled, each is answered as cancelled.
type permits struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// permission answers session/request_permission by the test's policy.
func (s *session) permission(ctx context.Context, params raw) (any, *rpcError) {
	p := params.obj()
	update := p["toolCall"].obj()
	ctx, release := s.bound(ctx)
	defer release()
	r := s.permissionRequest(update, params)
	answer := harness.Cancelled
	if ctx.Err() == nil {
		answer = s.host.Permission(ctx, r)
	}
	if ctx.Err() != nil { // the turn is being cancelled, or the agent withdrew its question
		answer = harness.Cancelled
	}
	return s.outcomeFor(answer, p["options"], r), nil
}

// permissionRequest is the question as the policy understands it.
func (s *session) permissionRequest(update object, params raw) *harness.PermissionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := update["toolCallId"].str()
	c := &toolCall{Call: Call{ID: id}}
	if s.turn != nil && s.turn.calls[id] != nil {
		c = s.turn.calls[id]
	}
	if !c.ended { // what the question says of the call is news like any other, but its status is the question's
		was := c.status
		c.merge(update)
		c.status = was
		if s.turn != nil && s.turn.calls[id] != nil {
			if len(update["rawInput"].obj()) > 0 && !c.told { // it is whole: the agent asks about it
				s.turn.request(c)
			}
			s.turn.tell(c)
		}
	}
	named := s.named(c)
	r := &harness.PermissionRequest{Kind: c.activity(), Title: c.Title, CallID: id, Raw: params.json()}
	if r.Title == "" {
		r.Title = c.name()
	}
	if named.Server != "" {
		r.Kind, r.Server, r.Tool = "tool", named.Server, named.Tool
	}
	return r
}

// outcomeFor chooses among the options by their kind; "always" is never chosen, and no option of the right kind means cancelled.
func (s *session) outcomeFor(answer harness.PermissionAnswer, options raw, r *harness.PermissionRequest) any {
	kind := map[harness.PermissionAnswer]string{harness.Allow: "allow_once", harness.Deny: "reject_once"}[answer]
	if kind != "" {
		for _, o := range options.list() {
			if o.at("kind").str() == kind && o.obj()["optionId"] != nil {
				return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.obj()["optionId"]}}
			}
		}
		s.host.Event(&harness.Notice{Code: "permission_no_option", Message: "the agent offers no option of kind " + kind + ": answered cancelled", Data: r.Raw})
	}
	return map[string]any{"outcome": map[string]string{"outcome": "cancelled"}}
}

// bound is ctx, ended by the end of the turn as well.
func (s *session) bound(ctx context.Context) (context.Context, func()) {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	if t == nil || t.permit.ctx == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(t.permit.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
