package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/m3-go/m3/trace"
)

const (
	// inlineBody is up to how many bytes a body is written in one piece with its head. A larger one is written aside, so that
	// a server's early refusal is read although it does not take the body.
	inlineBody = 64 << 10
	// lingerTime is how long the sender waits, after its answer came in an event stream, for the server to end the stream. On most servers the
	// end follows at once, and then the whole exchange needs no goroutine.
	lingerTime = 5 * time.Millisecond
	// A stream that stays open this long after its answer is held open on purpose: then later senders do not wait for it at all.
	heldOpen = 100 * time.Millisecond
)

var longAgo = time.Unix(1, 0)

// direct is the part of an exchange on a connection of the pool. The sender's goroutine drives it; when the sender has to go on first,
// another goroutine takes it up where it stands.
type direct struct {
	conn        *httpConn
	writing     chan error // receives the result of a body that is written aside
	wrote       int
	interrupted bool // guarded by exchange.mu: the sender's context has ended
	lingering   bool
	eof         bool
	reuse       bool // the connection can carry another request after this one
}

// errYield is returned by run when the exchange must go on without its sender.
var errYield = errors.New("wire: yield")

// performDirect runs an exchange over the pool, and what its redirects lead to. When ctx ends before the exchange does, it goes on in the background.
func (t *HTTP) performDirect(ctx context.Context, x *exchange) error {
	for {
		err := x.runDirect(ctx)
		if err != nil || x.next == nil {
			return err
		}
		x = x.next
	}
}

func (x *exchange) runDirect(ctx context.Context) error {
	fields := x.headers()
	x.begin(fields)
	stop, err := x.start(ctx, fields)
	if err != nil {
		return x.early(ctx, x.direct.wrote, err)
	}
	if x.written != nil {
		x.written()
	}
	err = x.run(x.message != nil)
	stop()
	switch {
	case err == nil:
		return x.finish(x.settle())
	case err != errYield:
		return x.finish(err)
	case x.direct.writing != nil, x.message == nil:
		return x.early(ctx, x.direct.wrote, x.broken(ctx.Err()))
	}
	x.detach()
	go x.goOn()
	return ctx.Err()
}

// start sends the request. When a connection that was used before takes not a single byte of it, that connection was dead, and another one is
// tried. stop ends the watch on ctx.
func (x *exchange) start(ctx context.Context, fields []headerField) (stop func(), err error) {
	for {
		if err := x.connect(ctx); err != nil {
			return nil, err
		}
		stop = x.watch(ctx)
		n, err := x.write(fields)
		if err == nil {
			return stop, nil
		}
		stop()
		x.direct.conn.Close()
		if n > 0 || !x.direct.conn.used || ctx.Err() != nil {
			return nil, x.reason(err)
		}
	}
}

// goOn finishes an exchange whose sender is gone.
func (x *exchange) goOn() {
	lingered, began := x.direct.lingering, time.Now()
	x.direct.lingering = false
	x.direct.conn.SetDeadline(time.Time{})
	err := x.run(false)
	if lingered {
		x.t.slow.Store(time.Since(began) > heldOpen)
	}
	if err == nil {
		err = x.settle()
	}
	_ = x.finish(err)
	if x.next != nil {
		_ = x.t.performDirect(x.t.life, x.next)
	}
}

// connect takes a connection from the pool, or opens one.
func (x *exchange) connect(ctx context.Context) error {
	c := x.t.pool.get()
	if c == nil {
		var err error
		if c, err = x.dial(ctx); err != nil {
			return err
		}
	}
	x.direct.conn = c
	if err := x.waiting(c); err != nil {
		c.Close()
		return err
	}
	return nil
}

func (x *exchange) dial(ctx context.Context) (*httpConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := x.waiting(closeFunc(cancel)); err != nil {
		return nil, err
	}
	return x.t.pool.connect(ctx)
}

// closeFunc makes a function a closer.
type closeFunc func()

// Close calls the function.
func (f closeFunc) Close() error {
	f()
	return nil
}

// watch makes the end of ctx end what the connection waits for. The returned function ends the watch.
func (x *exchange) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	over := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(over)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.direct.interrupted = true
		x.direct.conn.SetDeadline(longAgo)
	})
	return func() {
		if !unwatch() {
			<-over
		}
	}
}

// write sends the request.
func (x *exchange) write(fields []headerField) (int, error) {
	c := x.direct.conn
	b := append(c.out[:0], x.method...)
	b = append(b, ' ')
	b = append(b, x.url.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, x.host()...)
	for _, f := range fields {
		b = append(b, '\r', '\n')
		b = append(b, f.name...)
		b = append(b, ": "...)
		b = append(b, f.value...)
	}
	if x.method == http.MethodPost || len(x.body) > 0 {
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(x.body)), 10)
	}
	b = append(b, "\r\n\r\n"...)
	head := len(b)
	if len(x.body) <= inlineBody {
		b = append(b, x.body...)
	}
	c.out = b
	n, err := c.Write(b)
	x.count(n - head)
	if err != nil {
		return n, err
	}
	if len(x.body) > inlineBody {
		x.direct.writing = make(chan error, 1)
		go func() {
			n, err := c.Write(x.body)
			x.count(n)
			x.direct.writing <- err
		}()
	}
	return n, nil
}

// count counts written bytes of the body.
func (x *exchange) count(n int) {
	if n > 0 {
		x.direct.wrote += n
		x.t.written.Add(int64(n))
	}
}

// run reads the answer. With a sender it returns errYield when the sender must go on first: its context has ended, or it has
// its answer and the stream stays open.
func (x *exchange) run(sender bool) error {
	d := &x.direct
	a := &d.conn.answer
	for {
		last, err := x.take(a)
		switch {
		case err == nil && last:
			return nil
		case err == nil && x.hopeless:
			return x.broken(x.err)
		case err == nil:
			continue
		case err != errMore:
			return x.broken(err)
		}
		if sender && x.satisfied() && !d.lingering {
			d.lingering = true
			if x.t.slow.Load() {
				return errYield
			}
		}
		if err := x.fill(a); err != nil {
			return err
		}
	}
}

// take moves on by what is in the buffer.
func (x *exchange) take(a *answer) (last bool, err error) {
	if x.got == nil {
		resp, err := a.readHead()
		if err != nil {
			if err == errMore && x.direct.eof {
				err = x.noAnswer(a)
			}
			return false, err
		}
		x.direct.conn.keepAlive(resp.Header)
		x.direct.reuse = !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols && (a.chunk != notChunked || a.left != unknownLength)
		x.head(resp)
		return false, nil
	}
	part, last, err := a.readBody(x.direct.eof)
	if len(part) > 0 || last {
		x.data(part, last)
	}
	return last, err
}

// noAnswer is the error of a connection that ended before the answer's headers were complete.
func (x *exchange) noAnswer(a *answer) error {
	if b := a.unread(); len(b) > 0 {
		return fmt.Errorf("the server closed the connection in the middle of the answer's headers: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the server closed the connection without an answer: %w", io.EOF)
}

// fill reads more bytes.
func (x *exchange) fill(a *answer) error {
	d := &x.direct
	if d.eof {
		return x.broken(io.ErrUnexpectedEOF)
	}
	wait := x.patience()
	if d.lingering {
		wait = lingerTime
	}
	if wait > 0 || d.conn.timed {
		x.deadline(wait)
	}
	n, err := d.conn.Read(a.space())
	a.filled(n)
	switch {
	case n > 0 || err == nil:
		return nil
	case err == io.EOF:
		d.eof = true
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return x.deadlinePassed(a)
	}
	return x.broken(x.readError(err))
}

// deadline sets how long the next read may take, unless the sender's context has ended already.
func (x *exchange) deadline(wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.direct.interrupted {
		return
	}
	var at time.Time
	if x.direct.conn.timed = wait > 0; wait > 0 {
		at = time.Now().Add(wait)
	}
	x.direct.conn.SetReadDeadline(at)
}

func (x *exchange) deadlinePassed(a *answer) error {
	x.mu.Lock()
	interrupted := x.direct.interrupted
	x.direct.interrupted = false
	x.mu.Unlock()
	x.direct.conn.timed = true
	if interrupted {
		return errYield
	}
	if x.direct.lingering {
		return errYield
	}
	return x.broken(x.stalled(a.progress()))
}

// readError makes a reset before any answer readable.
func (x *exchange) readError(err error) error {
	select {
	case werr := <-x.direct.writing:
		x.direct.writing <- werr // for settle
		if werr != nil && x.got == nil {
			return werr
		}
	default:
	}
	if x.got == nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("the connection broke before the answer: %w", err)
	}
	return err
}

// broken closes the connection and returns why the exchange failed. What came instead of HTTP is kept.
func (x *exchange) broken(err error) error {
	c := x.direct.conn
	c.Close()
	if x.direct.writing != nil {
		<-x.direct.writing
		x.direct.writing = nil
	}
	if errors.Is(err, errNotHTTP) && x.got == nil {
		b := c.answer.unread()
		err = fmt.Errorf("%w: it begins with %.60q", errNotHTTP, b[:min(len(b), 60)])
		x.got = x.sent
		x.frame = Frame{Direction: trace.ServerToClient, Framing: trace.FramingBody, HTTP: x.sent, For: x.id}
		x.t.read.Add(int64(len(b)))
		x.bodyFrame(b, true)
	}
	return x.reason(err)
}

// settle gives the connection back, or closes it when it cannot carry another request.
func (x *exchange) settle() error {
	c := x.direct.conn
	reuse := x.direct.reuse && len(c.answer.unread()) == 0 && !x.direct.eof
	if x.direct.writing != nil {
		select {
		case err := <-x.direct.writing:
			reuse = reuse && err == nil
		default: // the server answered without taking the body
			reuse = false
			c.Close()
			<-x.direct.writing
		}
		x.direct.writing = nil
	}
	x.mu.Lock()
	x.cancel = nil
	c.timed = c.timed || x.direct.interrupted
	reuse = reuse && x.aborted == nil
	x.mu.Unlock()
	if !reuse {
		c.Close()
		return nil
	}
	x.t.pool.put(c)
	return nil
}
