package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	stallBound   = 100 * time.Millisecond // what a frame waits to be recorded, before it goes on without
	stallPerByte = 20 * time.Nanosecond   // and more for each byte of it
	entryBytes   = 512                    // what an entry counts beside its frame
	keepBuffer   = 64 << 10               // an entry's buffer over this size is not used again
)

// entry is one event on its way to the tape. It owns its bytes.
type entry struct {
	ev      trace.Event
	fr      trace.Frame
	see     Frame
	seen    bool // the event is for Observe
	counted bool // the frame's bytes were read from a peer
	conn    *conn
	late    func(*trace.Event) // completes the event when its turn has come
	buf     []byte
	done    chan struct{} // is sent to when the entry is through; nil: nobody waits
}

var entries = sync.Pool{New: func() any { return &entry{} }}

// setFrame makes f the frame of the entry's event, with a copy of its bytes unless they belong to nobody else.
func (e *entry) setFrame(f *wire.Frame) {
	raw, body := f.Raw, f.Body
	if len(raw) <= wire.OwnBytes || f.Framing != trace.FramingLine {
		e.buf = append(e.buf[:0], raw...)
		raw = e.buf
		if i := within(f.Raw, body); i >= 0 {
			body = raw[i : i+len(body)]
		} else {
			body = bytes.Clone(body)
		}
	}
	e.fr = trace.Frame{Direction: f.Direction, Framing: f.Framing, Bytes: raw, Dropped: f.Dropped, Partial: f.Partial, HTTP: f.HTTP}
	e.ev.Frame, e.ev.Time = &e.fr, f.Time
	e.see.Direction, e.see.Body = f.Direction, body
}

// within returns where part stands in whole, when it is a part of that very memory; else -1.
func within(whole, part []byte) int {
	if len(part) == 0 {
		return 0
	}
	i := cap(whole) - cap(part)
	if i >= 0 && i+len(part) <= len(whole) && &whole[i] == &part[0] {
		return i
	}
	return bytes.Index(whole, part)
}

func (e *entry) size() int64 { return int64(len(e.fr.Bytes)+len(e.ev.Payload)) + entryBytes }

func (e *entry) release() {
	buf := e.buf
	if cap(buf) > keepBuffer {
		buf = nil
	}
	*e = entry{buf: buf}
	entries.Put(e)
}

// queue is between the traffic and the tape: what passes is put in under one lock, whose order is the order of the trace, and one goroutine takes
// it out. The traffic waits for that as long as the store keeps up. Only the goroutine touches the tape, whose lock a store that stands still may hold.
type queue struct {
	cfg   *Config
	wake  chan struct{}
	over  chan struct{} // closed when the goroutine is through
	bytes atomic.Int64

	mu      sync.Mutex
	list    []*entry
	dropped int64
	stalled bool // the traffic does not wait until the queue is empty again
	closed  bool
}

func newQueue(cfg *Config) *queue {
	q := &queue{cfg: cfg, wake: make(chan struct{}, 1), over: make(chan struct{})}
	go q.run()
	return q
}

// waiter waits for an entry.
type waiter struct {
	done  chan struct{}
	timer *time.Timer
}

var waiters = sync.Pool{New: func() any {
	w := &waiter{make(chan struct{}, 1), time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}}

// put records the entries, which stay together, and waits for the last of them while the store keeps up.
func (q *queue) put(list ...*entry) {
	size := int64(0)
	for _, e := range list {
		size += e.size()
	}
	last := list[len(list)-1]
	w := waiters.Get().(*waiter)
	last.done = w.done
	wait, ok := q.add(list, size)
	if !ok || !wait {
		if !ok {
			waiters.Put(w) // otherwise the channel is still to be sent to
		}
		return
	}
	w.timer.Reset(stallBound + time.Duration(size)*stallPerByte)
	select {
	case <-w.done:
		w.timer.Stop()
		waiters.Put(w)
	case <-w.timer.C:
		q.mu.Lock()
		q.stalled = len(q.list) > 0 || q.bytes.Load() > 0
		q.mu.Unlock()
	}
}

// add puts the entries in, unless there is no room: one frame alone always has it.
func (q *queue) add(list []*entry, size int64) (wait, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes.Load() > 0 && q.bytes.Load()+size > q.cfg.Buffer {
		q.dropped += int64(len(list))
		for _, e := range list {
			e.release()
		}
		return false, false
	}
	q.list = append(q.list, list...)
	q.bytes.Add(size)
	q.signal()
	return !q.stalled, true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run records until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.over)
	var spare []*entry
	told := false
	for {
		q.mu.Lock()
		list, closed, dropped := q.list, q.closed, q.dropped
		q.list = spare[:0]
		if len(list) == 0 {
			q.stalled = false
		}
		q.mu.Unlock()
		if dropped > 0 && !told {
			told = true
			q.cfg.Tape.Limit("capture_incomplete", fmt.Sprintf("frames between the agent and server %s were forwarded and not recorded: the store stood still while the queue of %d bytes was full", q.cfg.Server, q.cfg.Buffer))
		}
		for i, e := range list {
			q.record(e)
			list[i] = nil
		}
		if spare = list; len(list) > 0 {
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}

func (q *queue) record(e *entry) {
	size := e.size()
	if e.late != nil {
		e.late(&e.ev)
	}
	if e.ev.Kind != "" {
		seq := q.cfg.Tape.Record(&e.ev)
		if e.counted && seq >= 0 {
			e.conn.kept.Add(int64(len(e.fr.Bytes)))
		}
		if e.seen && q.cfg.Observe != nil {
			e.see.Sequence = seq
			q.cfg.Observe(&e.see)
		}
	}
	done := e.done
	e.release()
	q.bytes.Add(-size)
	if done != nil {
		done <- struct{}{} // has room for one
	}
}

func (q *queue) drain(ctx context.Context) error {
	e := entries.Get().(*entry)
	done := make(chan struct{}, 1)
	e.done = done
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		done = nil
	} else {
		q.list = append(q.list, e)
		q.bytes.Add(e.size())
		q.signal()
		q.mu.Unlock()
	}
	select {
	case <-done:
		return nil
	case <-q.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) lost() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// close takes nothing more in and waits until everything is recorded.
func (q *queue) close(bound time.Duration) error {
	q.mu.Lock()
	q.closed = true
	q.signal()
	q.mu.Unlock()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-q.over:
		return nil
	case <-timer.C:
		return errors.New("relay: the store of server " + q.cfg.Server + " stands still: what passed last is not recorded")
	}
}
