package mcp

import (
	"context"
)

// Notice is one notification to the server.
type Notice struct {
	Method string
	// Params follow the rules of [Op].
	Params any
	// Meta is put into _meta. Notifications have none of the session's own members.
	Meta map[string]any
}

// Send sends a notification. The error is a *[ParamsError] when nothing was sent, else the transport's.
func (s *Session) Send(ctx context.Context, n *Notice) error {
	b, err := (&meta{}).appendParams(nil, n.Params, "", n.Meta)
	if err != nil {
		return &ParamsError{n.Method, err}
	}
	return s.link.conn.Notify(ctx, n.Method, orNil(b))
}
