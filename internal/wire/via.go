package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, httpBuffer); return &b }}

// performVia runs an exchange over a net/http round tripper, and what its redirects lead to, in a goroutine of its own: it waits for the
// answer's headers at most.
func (t *HTTP) performVia(ctx context.Context, x *exchange) error {
	if x.message == nil {
		return x.via(ctx, nil)
	}
	x.detach() // net/http may read the body after RoundTrip has returned
	x.ready = make(chan struct{})
	var wrote atomic.Bool
	first, ready, done := x, x.ready, make(chan error, 1)
	go func() { done <- t.hopVia(x, &wrote) }()
	select {
	case err := <-done:
		return err
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	if wrote.Load() {
		return ctx.Err() // the request is on its way, and goes on
	}
	first.abort(ctx.Err())
	if err := <-done; err != nil {
		return &WriteError{Size: len(x.body), Err: ctx.Err()}
	}
	return nil
}

// hopVia runs the exchange and its redirects.
func (t *HTTP) hopVia(x *exchange, wrote *atomic.Bool) error {
	for {
		err := x.via(t.life, wrote)
		if err != nil || x.next == nil {
			return err
		}
		x.next.ready = x.ready
		x = x.next
	}
}

// via runs one exchange.
func (x *exchange) via(ctx context.Context, wrote *atomic.Bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fields := x.headers()
	x.begin(fields)
	if err := x.waiting(closeFunc(cancel)); err != nil {
		return x.finish(err)
	}
	req, err := x.httpRequest(ctx, fields, wrote)
	if err != nil {
		return x.finish(err)
	}
	idle := x.idleTimer()
	defer idle.stop()
	resp, err := x.t.rt.RoundTrip(req)
	if err != nil {
		return x.finish(x.reason(dialFailure(err)))
	}
	defer resp.Body.Close()
	x.head(resp)
	if x.hopeless {
		return x.finish(x.err)
	}
	if x.ready != nil && x.satisfiedVia() {
		close(x.ready)
	}
	return x.finish(x.reason(x.readVia(resp.Body, idle)))
}

// dialFailure tells an exchange that never had a connection from one that broke.
func dialFailure(err error) error {
	var de *DialError
	var op *net.OpError
	switch {
	case errors.As(err, &de):
		return de
	case errors.As(err, &op) && op.Op == "dial":
		return &DialError{err}
	}
	return err
}

// satisfiedVia reports whether the sender need not wait any longer: the request was accepted. What comes is for the handler.
func (x *exchange) satisfiedVia() bool { return x.next == nil && (x.id != "" || x.status/100 == 2) }

func (x *exchange) httpRequest(ctx context.Context, fields []headerField, wrote *atomic.Bool) (*http.Request, error) {
	if wrote != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				wrote.Store(true)
				if x.written != nil {
					x.written()
				}
			}
		}})
	}
	var body io.Reader
	if len(x.body) > 0 {
		body = &countingReader{r: bytes.NewReader(x.body), n: &x.t.written}
	}
	req, err := http.NewRequestWithContext(ctx, x.method, x.url.String(), body)
	if err != nil {
		return nil, fmt.Errorf("wire: request to %s: %w", x.t.shown, err)
	}
	req.ContentLength = int64(len(x.body))
	req.Host = x.host()
	for _, f := range fields {
		req.Header[f.name] = append(req.Header[f.name], f.value)
	}
	return req, nil
}

// readVia reads the body to its end.
func (x *exchange) readVia(body io.Reader, idle *idleTimer) error {
	b := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(b)
	for total := 0; ; {
		idle.reset(total)
		n, err := body.Read(*b)
		total += n
		if n > 0 || err == io.EOF {
			x.data((*b)[:n], err == io.EOF)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the body was cut off after %d bytes: %w", total, err)
		}
	}
}

// countingReader counts what is taken from it.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// idleTimer aborts an exchange whose answer stands still.
type idleTimer struct {
	x     *exchange
	timer *time.Timer
	total atomic.Int64
}

func (x *exchange) idleTimer() *idleTimer {
	t := &idleTimer{x: x}
	t.reset(0)
	return t
}

// reset starts to wait again, as long as the exchange's patience says.
func (t *idleTimer) reset(total int) {
	t.stop()
	t.total.Store(int64(total))
	if wait := t.x.patience(); wait > 0 {
		err := t.x.stalled(fmt.Sprintf("%d bytes of the body", total))
		t.timer = time.AfterFunc(wait, func() { t.x.abort(err) })
	}
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
