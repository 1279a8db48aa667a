package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/m3-go/m3/trace"
)

// exchange is one HTTP request with its answer. Its methods but abort are called by one goroutine at a time.
type exchange struct {
	t       *HTTP
	number  int64
	method  string
	url     *url.URL
	message *Message // nil for GET and DELETE
	body    []byte
	id      trace.RPCID // the request that is served, also by a GET that resumes its stream
	call    Call
	resent  bool
	hops    int
	tries   int // GETs of this stream before this one that brought nothing

	sent   *trace.HTTPInfo
	got    *trace.HTTPInfo // of the answer, once its headers are there
	status int
	header http.Header
	ended  bool

	sse     *sseParser
	acc     []byte // a body that did not come in one piece
	dropped int64
	tail    []byte
	frame   Frame
	frames  int
	lastID  string
	retry   time.Duration

	next     *exchange // a redirect's second request
	err      error     // what is wrong with the answer although it was read
	hopeless bool      // err is a reason not to read the body

	direct direct
	// written is called when the request is on its way, on HTTP+SSE, where its sender waits for no more than that. It may be nil.
	written func()
	ready   chan struct{} // on net/http: closed when the answer's headers are there, or nothing will come

	mu      sync.Mutex
	aborted error
	cancel  io.Closer // ends what the exchange waits for; set while it waits
}

// begin tells the handler what is about to be sent.
func (x *exchange) begin(fields []headerField) {
	t := x.t
	shown := t.shown
	if x.url != t.url {
		shown = t.redactURL(x.url)
	}
	x.sent = &trace.HTTPInfo{Exchange: x.number, Method: x.method, URL: shown, Header: t.recorded(x.host(), len(x.body), fields)}
	x.frame = Frame{
		Direction: trace.ClientToServer, Framing: trace.FramingBody, Raw: x.body, Body: x.body, Time: time.Now(),
		HTTP: x.sent, For: x.id, Message: x.message, Resent: x.resent,
	}
	t.h.Sent(&x.frame)
}

// host is the Host header, which a caller may set to something else.
func (x *exchange) host() string {
	if x.message != nil {
		if h := x.message.Header.Get("Host"); h != "" {
			return h
		}
	}
	if h := x.t.header.Get("Host"); h != "" {
		return h
	}
	return x.url.Host
}

// answered reports whether the exchange's request needs nothing more.
func (x *exchange) answered() bool { return x.call != nil && x.call.Answered() }

// satisfied reports whether the sender has what it waits for: the answer in an event stream, or for a message without an id a status.
func (x *exchange) satisfied() bool {
	return x.sse != nil && (x.answered() || x.id == "" && x.call == nil)
}

// head takes the answer's status and headers.
func (x *exchange) head(resp *http.Response) {
	x.status, x.header = resp.StatusCode, resp.Header
	if len(resp.TransferEncoding) > 0 {
		x.header["Transfer-Encoding"] = resp.TransferEncoding // net/http takes it out
	}
	x.got = &trace.HTTPInfo{Exchange: x.number, Method: x.method, URL: x.sent.URL, Status: x.status, Header: x.t.received(resp.Header)}
	x.frame = Frame{Direction: trace.ServerToClient, Framing: trace.FramingBody, HTTP: x.got, For: x.id}
	if x.message != nil && x.message.Method == "initialize" && x.status/100 == 2 && x.t.legacy == nil {
		x.t.setSession(resp.Header.Get(headerSession))
	}
	if x.method == http.MethodGet && x.message == nil && x.t.legacy == nil {
		x.t.mu.Lock()
		x.t.streamed = x.status
		x.t.mu.Unlock()
	}
	switch {
	case x.status == http.StatusSwitchingProtocols:
		x.err = errors.New("the server answered 101 Switching Protocols, which nobody asked for")
	case x.status >= 300 && x.status < 400:
		x.redirected()
	case mediaOf(x.header) == acceptStream:
		if enc := x.encoding(); enc != "" {
			x.hopeless, x.err = true, fmt.Errorf("the event stream has Content-Encoding %s, which the request did not accept", enc)
			return
		}
		x.frame.Framing = trace.FramingSSE
		x.sse = &sseParser{max: x.t.max}
	}
	if x.t.legacy != nil {
		x.legacyHead()
	}
}

func (t *HTTP) setSession(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session = id
}

// data takes the next part of the body; last says that it is the end.
func (x *exchange) data(b []byte, last bool) {
	x.t.read.Add(int64(len(b)))
	switch {
	case x.sse != nil:
		x.sse.feed(b, x.event)
	case last && len(x.acc) == 0 && int64(len(b)) <= x.t.max:
		x.bodyFrame(b, false)
	default:
		n := max(0, min(int64(len(b)), x.t.max-int64(len(x.acc))))
		x.acc = append(x.acc, b[:n]...)
		if over := b[n:]; len(over) > 0 {
			x.dropped += int64(len(over))
			x.tail = append(x.tail, over[max(0, len(over)-tailSize):]...)
			x.tail = bytes.Clone(x.tail[max(0, len(x.tail)-tailSize):])
		}
		if last {
			x.bodyFrame(x.acc, false)
			x.acc = nil
		}
	}
	if last && x.sse != nil {
		x.sse.end(x.event)
	}
}

func (x *exchange) bodyFrame(b []byte, partial bool) {
	if len(b) == 0 {
		return
	}
	x.frame.Raw, x.frame.Body, x.frame.Partial, x.frame.Dropped, x.frame.Tail, x.frame.Err = b, b, partial, x.dropped, x.tail, nil
	if enc := x.encoding(); enc != "" && !partial && x.dropped == 0 {
		x.frame.Body, x.frame.Err = decoded(enc, b, x.t.max)
	}
	x.hand()
}

// event takes one block of an event stream.
func (x *exchange) event(ev *event) {
	f := &x.frame
	f.Raw, f.Body, f.Event, f.Partial, f.Dropped, f.Tail = ev.raw, ev.data, ev.name, ev.partial, ev.dropped, ev.tail
	if ev.hasID && !ev.partial {
		x.lastID = ev.id
	}
	if ev.retry > 0 {
		x.retry = ev.retry
	}
	x.hand()
	f.Offset += int64(len(ev.raw)) + ev.dropped
	if x.t.legacy != nil && x.method == http.MethodGet {
		x.t.legacy.event(x, ev)
	}
}

func (x *exchange) hand() {
	x.frames++
	x.frame.Time = time.Now()
	x.t.handed.Add(int64(len(x.frame.Raw)))
	x.t.h.Received(&x.frame)
}

// rest hands over what was read of a body that never got to its end.
func (x *exchange) rest() {
	switch {
	case x.sse != nil:
		x.sse.end(x.event)
	case len(x.acc) > 0:
		x.bodyFrame(x.acc, true)
		x.acc = nil
	}
}

// finish tells the handler that the exchange is over, err being what ended it early. It returns the error for the sender.
func (x *exchange) finish(err error) error {
	if x.ended {
		return err
	}
	x.ended = true
	if err != nil {
		x.rest()
	} else {
		err = x.err
	}
	x.follow(err)
	info := x.got
	if info == nil {
		info = x.sent
	}
	resumed := x.resumable()
	x.t.h.ExchangeEnded(&Exchange{For: x.id, Message: x.message, HTTP: info, Frames: x.frames, Err: err, Continues: x.next != nil || resumed, Legacy: x.t.legacy != nil})
	if resumed {
		x.t.resume(x)
	}
	x.t.done(x)
	if err == nil && x.message != nil && x.id == "" && x.next == nil && x.status/100 != 2 {
		return &StatusError{Status: x.status, URL: x.sent.URL}
	}
	return err
}

// abort ends the exchange from outside.
func (x *exchange) abort(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.aborted == nil {
		x.aborted = err
	}
	if x.cancel != nil {
		x.cancel.Close() // under the lock: afterwards the connection may serve somebody else
	}
}

// waiting sets what abort calls, and reports why it is too late for that.
func (x *exchange) waiting(cancel io.Closer) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel = cancel
	return x.aborted
}

// reason returns why the exchange was aborted, else err.
func (x *exchange) reason(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.aborted != nil {
		return x.aborted
	}
	return err
}

// detach makes the exchange independent of its sender, who is about to go on and to use its buffers again.
func (x *exchange) detach() {
	if x.message == nil {
		return
	}
	m := *x.message
	m.Body = bytes.Clone(x.body)
	x.message, x.body = &m, m.Body
}

// patience is how long the next read may take; 0 is for ever.
func (x *exchange) patience() time.Duration {
	idle := x.t.idle
	switch {
	case idle < 0, x.method == http.MethodGet && x.got != nil && x.sse != nil:
		return 0
	case idle > 0:
		return idle
	case x.got != nil && x.sse == nil:
		return defaultIdle
	}
	return 0
}

// stalled is the error of an answer that stood still.
func (x *exchange) stalled(progress string) error {
	if x.got == nil {
		return fmt.Errorf("no answer for %v (idle timeout)", x.patience())
	}
	return fmt.Errorf("the answer stands still: nothing for %v after %s (idle timeout); is Content-Length or Content-Encoding wrong?", x.patience(), progress)
}

// early is the error of a request that did not get on its way: its context ended, its connection broke or could not be opened.
func (x *exchange) early(ctx context.Context, written int, err error) error {
	if end := ctx.Err(); end != nil {
		err = end
	} else if at, ok := ctx.Deadline(); ok && errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(at) {
		err = context.DeadlineExceeded // the network heard of the deadline before the context did
	}
	err = x.reason(err)
	x.finish(err)
	if _, ok := err.(*DialError); ok {
		return err
	}
	return &WriteError{Written: written, Size: len(x.body), Err: err}
}
