package mcp

import "context"

// OpenStream opens the optional stream on which an HTTP server of the legacy eras sends what no request of ours is about, unless it is open.
// Elsewhere there is nothing to open. It returns when the server has answered, at the latest after a quarter of a second.
func (s *Session) OpenStream(ctx context.Context) {
	if t, ok := s.link.transport.(streamOpener); ok && !s.Modern() {
		t.OpenStreamNow(ctx)
	}
}

// OpenStreamAgain asks an HTTP server of a legacy era once more for the stream that it refused, and reports whether it is open now.
func (s *Session) OpenStreamAgain(ctx context.Context) bool {
	t, ok := s.link.transport.(interface {
		OpenStreamAgain(context.Context) bool
	})
	return ok && !s.Modern() && t.OpenStreamAgain(ctx)
}
