package wire

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/trace"
)

// journal is a handler that keeps everything.
type journal struct {
	mu        sync.Mutex
	sent      []Frame
	received  []Frame
	exchanges []Exchange
	closed    []error
	more      chan struct{}
	onFrame   func(*Frame)
}

func keep(f *Frame) Frame {
	c := *f
	c.Raw, c.Body = bytes.Clone(f.Raw), bytes.Clone(f.Body)
	return c
}

func (l *journal) changed() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

func (l *journal) Sent(f *Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, keep(f))
	l.changed()
}

func (l *journal) Received(f *Frame) {
	if l.onFrame != nil {
		l.onFrame(f)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = append(l.received, keep(f))
	l.changed()
}

func (l *journal) ExchangeEnded(x *Exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exchanges = append(l.exchanges, *x)
	l.changed()
}

func (l *journal) Closed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = append(l.closed, err)
	l.changed()
}

// wait waits until cond holds; it is called with the lock held.
func (l *journal) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	timer := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		ok := cond()
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-timer:
			t.Fatalf("%s did not happen", what)
		}
	}
}

var _ Call = answeredCall(false)

// answeredCall is a call that is answered, or never is.
type answeredCall bool

func (c answeredCall) Answered() bool { return bool(c) }

func message(id, body string) *Message {
	return &Message{Body: []byte(body), ID: trace.RPCID(id), Method: "tools/call"}
}
