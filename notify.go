package m3

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/m3-go/m3/trace"
)

// callbacks runs the test's own functions for notifications, in order, on a goroutine of their own: one that is slow, or that uses the client, must not
// keep its answers from being read, or the server would be blamed for it.
type callbacks struct {
	mu      sync.Mutex
	queue   []func()
	running bool          // the goroutine is there
	idle    chan struct{} // closed when the queue has run empty; nil while it is
	panic   error         // of the first callback that panicked
}

// callbackWait bounds how long a call waits, after its answer, for callbacks about what came before it.
const callbackWait = 100 * time.Millisecond

func (k *callbacks) add(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, f)
	if !k.running {
		k.running, k.idle = true, make(chan struct{})
		go k.run()
	}
}

// run ends when nothing is left to do, so that an idle client has no goroutine here.
func (k *callbacks) run() {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.running = false
			close(k.idle)
			k.mu.Unlock()
			return
		}
		f := k.queue[0]
		k.queue = k.queue[1:]
		k.mu.Unlock()
		k.guard(f)
	}
}

// guard keeps a panic in a callback from ending the tests; Close reports it.
func (k *callbacks) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			k.mu.Lock()
			if k.panic == nil {
				k.panic = fmt.Errorf("m3: a Log or Notification callback panicked: %v\n%s", v, debug.Stack())
			}
			k.mu.Unlock()
		}
	}()
	f()
}

// settle waits until the callbacks for all that has arrived are done, but not for long: one of them may be waiting for the caller.
func (k *callbacks) settle() {
	k.mu.Lock()
	idle, running := k.idle, k.running
	k.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(callbackWait)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

func (k *callbacks) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.panic
}

// notified takes a notification of the server, on the goroutine that reads.
func (c *Client) notified(method string, params trace.JSON) {
	if method == "notifications/tools/list_changed" {
		c.catalogue.invalidate()
		c.mirror.forget()
	}
	if method == methodElicitComplete && c.opts.Elicitation&ElicitURL != 0 {
		c.asks.note(params)
	}
	log := c.opts.Log
	if method != "notifications/message" {
		log = nil
	}
	if log == nil && c.opts.Notification == nil {
		return
	}
	params = bytes.Clone(params)
	c.callbacks.add(func() {
		if log != nil {
			var m LogMessage
			if params.Decode(&m) == nil {
				log(m)
			}
		}
		if f := c.opts.Notification; f != nil {
			f(method, params)
		}
	})
}
