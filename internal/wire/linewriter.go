package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/trace"
)

// A write that cannot go on looks this often whether its context has ended. The deadline costs a hundredth of what
// a context.AfterFunc a message would.
const writeSlice = 50 * time.Millisecond

type deadliner interface{ SetWriteDeadline(t time.Time) error }

// lineWriter writes messages as lines, one at a time, and never longer than the context of each allows.
type lineWriter struct {
	w        io.WriteCloser
	deadline deadliner     // nil when w has none: then writes go through a goroutine of their own
	gone     chan struct{} // closed when nothing more can be sent
	turn     chan struct{} // holds a token while somebody writes
	written  atomic.Int64

	// The rest belongs to who has the turn.
	buf   []byte
	until time.Time // the deadline that w has now
	frame Frame

	mu     sync.Mutex
	broken error // why nothing more can be sent
}

func newLineWriter(w io.WriteCloser) *lineWriter {
	t := &lineWriter{w: w, gone: make(chan struct{}), turn: make(chan struct{}, 1)}
	if d, ok := w.(deadliner); ok && d.SetWriteDeadline(time.Time{}) == nil {
		t.deadline = d
	}
	return t
}

// send writes the message; told is called with its frame before.
func (t *lineWriter) send(ctx context.Context, m *Message, told func(*Frame)) error {
	size := len(m.Body) + 1
	if m.Exact {
		size--
	}
	if err := t.take(ctx); err != nil {
		return &WriteError{Size: size, Err: err, Broken: errors.Is(err, ErrClosed)}
	}
	defer func() { <-t.turn }()
	if err := t.failure(); err != nil {
		return &WriteError{Size: size, Err: err, Broken: true}
	}
	if err := ctx.Err(); err != nil {
		return &WriteError{Size: size, Err: err}
	}
	t.buf = append(t.buf[:0], m.Body...)
	body := len(t.buf)
	if !m.Exact {
		t.buf = append(t.buf, '\n')
	}
	t.frame = Frame{Direction: trace.ClientToServer, Framing: trace.FramingLine, Raw: t.buf, Body: t.buf[:body], Time: time.Now(), Offset: t.written.Load(), Message: m}
	told(&t.frame)
	n, err := t.write(ctx, t.buf)
	t.written.Add(int64(n))
	if cap(t.buf) > keepBuffer {
		t.buf = nil
	}
	if err == nil {
		return nil
	}
	end := ctx.Err()
	we := &WriteError{Written: n, Size: size, Err: err, Broken: n > 0 || end == nil || !errors.Is(err, end) || t.failure() != nil}
	if we.Broken {
		t.stop(we)
	}
	return we
}

// take waits for the turn.
func (t *lineWriter) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.gone:
		return t.failure()
	}
}

func (t *lineWriter) write(ctx context.Context, b []byte) (int, error) {
	if t.deadline == nil {
		return t.writeAside(ctx, b)
	}
	for done := 0; ; {
		if now := time.Now(); t.until.Sub(now) < writeSlice/2 {
			t.until = now.Add(writeSlice)
			if err := t.deadline.SetWriteDeadline(t.until); err != nil {
				return done, closedOr(err)
			}
		}
		n, err := t.w.Write(b[done:])
		done += n
		if err == nil || done == len(b) {
			return done, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, closedOr(err)
		}
		t.until = time.Time{}
		if err := ctx.Err(); err != nil {
			return done, err
		}
	}
}

// writeAside writes to a writer without deadlines. When the context ends first the write cannot be taken back: the writer keeps
// the buffer, and how much of it was taken is not known.
func (t *lineWriter) writeAside(ctx context.Context, b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := t.w.Write(b)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, closedOr(r.err)
	case <-ctx.Done():
		t.buf = nil
		t.stop(ctx.Err())
		return 0, ctx.Err()
	case <-t.gone:
		t.buf = nil
		return 0, t.failure()
	}
}

// closedOr makes one error of the several that mean that this side was closed.
func closedOr(err error) error {
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return ErrClosed
	}
	return err
}

func (t *lineWriter) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// stop makes every later send fail. The first reason stays.
func (t *lineWriter) stop(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil {
		return
	}
	if t.broken = ErrClosed; err != nil {
		t.broken = &endedError{err}
	}
	close(t.gone)
}

// endedError is ErrClosed with the reason of the end.
type endedError struct{ reason error }

func (e *endedError) Error() string   { return "the stream has ended: " + e.reason.Error() }
func (e *endedError) Unwrap() []error { return []error{ErrClosed, e.reason} }

// closeWrite tells the peer that nothing more comes: it closes w, or its writing half where there is one. It does not wait for a write that is
// under way (closing ends it), nor beyond bound for a writer that blocks.
func (t *lineWriter) closeWrite(bound context.Context) error {
	t.stop(nil)
	done := make(chan error, 1)
	go func() {
		if h, ok := t.w.(interface{ CloseWrite() error }); ok {
			done <- h.CloseWrite()
			return
		}
		done <- t.w.Close()
	}()
	select {
	case err := <-done:
		if err != nil && closedOr(err) != ErrClosed {
			return err
		}
		return nil
	case <-bound.Done():
		return errors.New("wire: closing the stream did not end within 1 s")
	}
}

// release closes what closeWrite left open.
func (t *lineWriter) release() {
	if _, ok := t.w.(interface{ CloseWrite() error }); ok {
		go t.w.Close()
	}
}
