package wire

import (
	"context"
	"net/http"
	"time"
)

// streamBound is how long OpenStreamNow waits for an answer: some servers send the headers of an event stream with its first event.
const streamBound = 250 * time.Millisecond

// OpenStreamNow is [HTTP.OpenStream], but it returns when the server has answered, so that nothing is lost that the server sends from then
// on. It waits at most a quarter of a second, and not at all when the stream was opened before.
func (t *HTTP) OpenStreamNow(ctx context.Context) {
	t.mu.Lock()
	skip := t.streaming || t.protocol >= modernProtocol
	t.streaming = true
	t.mu.Unlock()
	x := &exchange{method: http.MethodGet}
	if skip || t.open(x, false) != nil {
		return
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_ = t.perform(t.life, x) // returns with the stream's headers; how it goes on is told to the handler
	}()
	bound, cancel := context.WithTimeout(ctx, streamBound)
	defer cancel()
	select {
	case <-answered:
	case <-bound.Done():
	}
}
