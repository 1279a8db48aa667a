package wire

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/trace"
)

const (
	closeBound        = time.Second // what Close may take at most
	defaultCloseGrace = 500 * time.Millisecond
)

// StreamConfig are the options of [NewStream]. The zero value, and nil, mean the defaults.
type StreamConfig struct {
	// MaxFrame is the cap on one received frame in bytes. What is over it is read, counted and dropped. Default 64 MiB.
	MaxFrame int64
	// CloseGrace is how long Close, after it closed the writing side, waits for the peer to end its own, so that its last words are kept.
	// Default 0.5 s, at most 0.9 s; negative: no wait.
	CloseGrace time.Duration
}

// stream is a transport over two byte streams: one JSON text a line.
type stream struct {
	h     Handler
	r     io.Reader
	grace time.Duration
	out   *lineWriter
	split *splitter

	read, handed atomic.Int64

	mu      sync.Mutex // held while the handler is told of a frame, so that Close can say the last word
	silent  bool       // no more frames may be handed over
	closing atomic.Bool
	ended   chan struct{} // closed when the reader is through
	once    sync.Once
	err     error // what Close returns
}

// NewStream returns a transport over r and w, and starts to read. It is the transport of a process's stdin and stdout, and of pipes.
//
// Frames end at 0x0A alone. Blank lines and CRLF are frames like others; the line that the end of the stream cuts is handed over as Partial. Writes
// are bounded by Send's context, also when the peer has stopped reading; w with a SetWriteDeadline method (pipes of the operating system,
// network connections) tells exactly how much it took.
//
// Close closes w, waits for the peer's end as long as CloseGrace says, then closes r when it is an [io.Closer].
func NewStream(r io.Reader, w io.WriteCloser, h Handler, cfg *StreamConfig) Transport {
	if cfg == nil {
		cfg = &StreamConfig{}
	}
	t := &stream{h: h, r: r, grace: cfg.CloseGrace, split: newSplitter(cfg.MaxFrame, readBuffer), ended: make(chan struct{})}
	if t.grace == 0 {
		t.grace = defaultCloseGrace
	}
	t.grace = min(t.grace, closeBound*9/10)
	t.out = newLineWriter(w)
	go t.run()
	return t
}

// run reads until the end.
func (t *stream) run() {
	f := Frame{Direction: trace.ServerToClient, Framing: trace.FramingLine}
	err := t.pump(&f)
	if t.split.rest(&f) {
		t.hand(&f)
	}
	if t.closing.Load() {
		err = nil
	}
	t.out.stop(err)
	t.close(err)
	t.split.release()
	close(t.ended)
}

// pump hands over whole frames until the stream fails or ends.
func (t *stream) pump(f *Frame) error {
	for empty := 0; ; {
		n, err := t.r.Read(t.split.space())
		if n > 0 {
			empty = 0
			t.read.Add(int64(n))
			t.split.filled(n)
			for t.split.next(f) {
				t.hand(f)
			}
		}
		if err != nil {
			return err
		}
		if empty++; empty > 100 {
			return io.ErrNoProgress
		}
	}
}

func (t *stream) hand(f *Frame) {
	f.Time = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.silent {
		return
	}
	t.handed.Add(int64(len(f.Raw)))
	t.h.Received(f)
}

// close tells the handler, once, that nothing more comes.
func (t *stream) close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.silent {
		t.silent = true
		t.h.Closed(err)
	}
}

// Stats counts bytes.
func (t *stream) Stats() Stats {
	return Stats{BytesRead: t.read.Load(), BytesHanded: t.handed.Load(), BytesWritten: t.out.written.Load()}
}

// Send writes one message.
func (t *stream) Send(ctx context.Context, m *Message) error { return t.out.send(ctx, m, t.h.Sent) }

// Close ends the transport.
func (t *stream) Close() error {
	t.once.Do(func() {
		t.closing.Store(true)
		bound, cancel := context.WithTimeout(context.Background(), closeBound)
		defer cancel()
		t.err = t.out.closeWrite(bound)
		if t.grace > 0 {
			wait(bound, t.ended, t.grace)
		}
		t.out.release()
		if c, ok := t.r.(io.Closer); ok {
			go c.Close() // a reader of the caller's own kind may block in it
		}
		select {
		case <-t.ended:
		case <-bound.Done():
			t.close(nil) // the reader cannot be ended; what it still reads is not handed over
		}
	})
	return t.err
}

// wait waits until done is closed, for d at most.
func wait(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}
