package mcp

import "context"

// OpenStream opens the optional stream on which an HTTP server of the legacy eras sends what no request of ours is about, unless it is open.
// Elsewhere there is nothing to open. It returns when the server has answered, at the latest after a quarter of a second.
func (s *Session) OpenStream(ctx context.Context) {
	if t, ok := s.link.transport.(streamOpener); ok && !s.Modern() {
		t.OpenStreamNow(ctx)
	}
}
