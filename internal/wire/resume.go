package wire

import (
	"net/http"
	"time"
)

const (
	defaultRetry = 500 * time.Millisecond // until the server names its own
	maxRetry     = 30 * time.Second
	maxTries     = 3 // GETs in a row that bring nothing
)

// OpenStream opens the optional stream for what the server sends without being asked, in the background. It is for the versions before
// 2026-07-28; later, and when there is a stream already, it does nothing. A server that refuses it (405) is left alone.
func (t *HTTP) OpenStream() {
	t.mu.Lock()
	skip := t.streaming || t.protocol >= modernProtocol
	t.streaming = true
	t.mu.Unlock()
	x := &exchange{method: http.MethodGet}
	if skip || t.open(x, false) != nil {
		return
	}
	go t.perform(t.life, x)
}

// resumable reports whether a stream that ended is asked for again: the optional stream always, one that carries a request when the server
// gave its events ids and the answer has not come.
func (x *exchange) resumable() bool {
	if x.t.legacy != nil || x.sse == nil || x.status != http.StatusOK || x.reason(nil) != nil || x.t.isClosing() {
		return false
	}
	if _, protocol := x.t.era(); protocol >= modernProtocol {
		return false
	}
	if x.method == http.MethodGet && x.frames == 0 && x.tries+1 >= maxTries {
		return false
	}
	if x.id == "" {
		if x.message != nil {
			return false // a GET of the caller's own
		}
		return x.method == http.MethodGet
	}
	return x.call != nil && !x.answered() && x.lastID != ""
}

// resume asks for the rest of x's stream, after the time that the server wants.
func (t *HTTP) resume(x *exchange) {
	n := &exchange{method: http.MethodGet, id: x.id, call: x.call, lastID: x.lastID, retry: x.retry}
	if x.method == http.MethodGet && x.frames == 0 {
		n.tries = x.tries + 1
	}
	wait := defaultRetry
	if x.retry > 0 {
		wait = min(x.retry, maxRetry)
	}
	t.group.Add(1)
	go func() {
		defer t.group.Done()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.life.Done():
			return
		}
		if !n.answered() && t.open(n, false) == nil {
			_ = t.perform(t.life, n)
		}
	}()
}
