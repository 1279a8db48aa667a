package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// Request is one call.
type Request struct {
	Method string
	Params []byte      // a JSON object on one line, or nil for none; not kept
	Name   string      // the tool, prompt or resource that it names, for an HTTP header
	Header http.Header // added to the HTTP request
	// Phase is the phase of its events. Default mcp_call.
	Phase trace.Phase
	Own   bool // m3 makes it for itself
	// NoCancel keeps the server from being told when the call ends early. It never is for initialize.
	NoCancel bool
	// ID is the JSON text of the request's id. Default: the next integer. An id that is in use makes Call fail.
	ID trace.RPCID
	// Note is JSON that is kept with the request's event and not sent.
	Note trace.JSON
	// Issued, if not nil, is told the request's id before anything is sent.
	Issued func(id trace.RPCID)
}

// Response is the answer to a call: a result or an error.
type Response struct {
	ID     trace.RPCID // the request's
	Result trace.JSON  // nil when Error is set
	Error  *ErrorObject
	// Sent and Received are the sequences of the events that hold request and answer.
	Sent, Received int64
	HTTP           *trace.HTTPInfo // of the answer; nil on streams
}

// outgoing is a message on its way out. It is the [wire.Call] of every message, so that Sent knows what it is told of.
type outgoing struct {
	wire.Message
	kind  trace.Kind
	id    trace.RPCID // of the message, for the event
	phase trace.Phase
	own   bool
	sent  atomic.Int64 // the event, or -1
	over  atomic.Bool  // nothing is awaited
	raw   bool         // bytes of the caller's own
	memo  trace.JSON   // what is kept with the event
}

// Answered reports whether nothing is awaited for the message.
func (o *outgoing) Answered() bool { return o.over.Load() }

func (o *outgoing) seq() int64 { return o.sent.Load() }

// call is a request that waits for its answer.
type call struct {
	outgoing
	began    time.Time
	noCancel bool
	custom   bool          // its id is the caller's own
	done     chan struct{} // receives once, after the rest is set
	resp     Response
	err      *CallError

	mu   sync.Mutex
	note string // what came for it that was no answer
}

// remark notes something that came for the call and was no answer, for the reason of a later failure.
func (k *call) remark(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note = fmt.Sprintf(format, args...)
}

func (k *call) hint() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note
}

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

const keepBody = 1 << 20

// Call sends a request and waits for its answer. When ctx ends first, the server is told that the answer is no longer wanted. Every error is
// a *[CallError]. A call that ends without an answer leaves an mcp.call_failed event.
func (c *Conn) Call(ctx context.Context, r *Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		e := contextError(ctx, 0)
		e.Method, e.Reason = r.Method, "not sent: "+e.Reason
		return nil, e
	}
	k := newCall(r)
	buf := bodies.Get().(*[]byte)
	if err := c.add(k, r); err != nil {
		return nil, err
	}
	*buf = appendRequest((*buf)[:0], k.id, r.Method, r.Params)
	k.Body = *buf
	err := c.t.Send(ctx, &k.Message)
	if cap(*buf) <= keepBody {
		bodies.Put(buf) // Send keeps nothing of it
	}
	if err != nil {
		c.unsent(ctx, k, err)
	}
	return c.await(ctx, k)
}

func newCall(r *Request) *call {
	k := &call{began: time.Now(), noCancel: r.NoCancel || r.Method == "initialize", done: make(chan struct{}, 1)}
	k.kind, k.phase, k.own, k.memo = trace.KindMCPRequest, r.Phase, r.Own, r.Note
	k.sent.Store(-1)
	k.Method, k.Name, k.Header, k.Call = r.Method, r.Name, r.Header, k
	if k.phase == "" {
		k.phase = trace.PhaseMCPCall
	}
	return k
}

// add gives the call its id and makes it wait.
func (c *Conn) add(k *call, r *Request) error {
	if k.phase == trace.PhaseMCPCall && !c.inCall.Load() {
		c.inCall.Store(true)
	}
	k.id, k.custom = r.ID, r.ID != ""
	if !k.custom {
		k.id = c.nextID()
	}
	k.ID = k.id
	if k.custom {
		c.reserve(r.ID)
	}
	if r.Issued != nil {
		r.Issued(k.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return &CallError{Kind: KindTransport, Method: k.Method, Reason: "not sent: " + endReason(c.err, ""), Sequence: -1, Err: endCause(c.err)}
	case c.pending[k.id] != nil:
		return &CallError{Kind: KindProtocol, Method: k.Method, Reason: fmt.Sprintf("not sent: the id %s is in use by %s", k.id, c.pending[k.id].Method), Sequence: -1}
	}
	c.pending[k.id] = k
	if r.ID != "" {
		delete(c.givenUp, k.id)
	}
	return nil
}

// reserve keeps the numbers that this side counts with away from an id of the caller's own.
func (c *Conn) reserve(id trace.RPCID) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	for err == nil {
		last := c.last.Load()
		if n <= last || c.last.CompareAndSwap(last, n) {
			return
		}
	}
}

func appendRequest(dst []byte, id trace.RPCID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = trace.AppendString(append(dst, `,"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// await waits for the call's end.
func (c *Conn) await(ctx context.Context, k *call) (*Response, error) {
	select {
	case <-k.done:
	case <-ctx.Done():
		if c.take(k, true) {
			c.giveUp(ctx, k)
		}
		<-k.done
	}
	if k.err != nil {
		return nil, k.err
	}
	return &k.resp, nil
}

// take claims the right to end the call; only one can.
func (c *Conn) take(k *call, gaveUp bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[k.id] != k {
		return false
	}
	delete(c.pending, k.id)
	c.finished(k.id, k.custom, gaveUp)
	return true
}

// finished remembers what became of a request. Call it with the lock held.
func (c *Conn) finished(id trace.RPCID, custom, gaveUp bool) {
	switch {
	case gaveUp && len(c.givenUp) < maxGivenUp:
		c.givenUp[id] = struct{}{}
	case custom && len(c.custom) < maxGivenUp:
		c.custom[id] = struct{}{}
	}
}

// succeed ends a call that was taken, with its answer.
func (k *call) succeed() {
	k.Body = nil
	k.over.Store(true)
	k.done <- struct{}{}
}

// fail ends a call that was taken, without an answer.
func (c *Conn) fail(k *call, e *CallError) {
	e.Method, e.ID = k.Method, k.id
	c.recordFailure(k, e)
	k.err = e
	k.over.Store(true)
	k.done <- struct{}{}
}

// failNow fails the call unless it has ended already.
func (c *Conn) failNow(k *call, e *CallError) {
	if c.take(k, true) {
		c.fail(k, e)
	}
}

// giveUp ends a taken call whose context has ended, and tells the server.
func (c *Conn) giveUp(ctx context.Context, k *call) {
	c.flushLines()
	e := contextError(ctx, time.Since(k.began))
	if hint := k.hint(); hint != "" {
		e.Reason += "; " + hint
	}
	e.Sequence = k.seq()
	c.fail(k, e)
	if k.noCancel || k.seq() < 0 {
		return
	}
	if c.cfg.Cancel != nil {
		c.cfg.Cancel(k.id)
		return
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelBound)
	defer cancel()
	params := append(append([]byte(`{"requestId":`), k.id...), `,"reason":"the caller no longer waits for the answer"}`...)
	_ = c.Notify(bound, methodCancelled, params) // a failed write ends the connection, which tells more than this could
}

// contextError says how the end of ctx ends a call that took so long.
func contextError(ctx context.Context, took time.Duration) *CallError {
	e := &CallError{Kind: KindCancelled, Sequence: -1, Err: ctx.Err()}
	took = took.Round(time.Millisecond)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Kind = KindTimeout
		e.Reason = fmt.Sprintf("no answer within %v", took)
		if took == 0 {
			e.Reason = "the deadline has passed"
		}
		return e
	}
	e.Reason = fmt.Sprintf("cancelled by the caller after %v", took)
	if cause := context.Cause(ctx); cause != nil && cause != context.Canceled {
		e.Reason += ": " + cause.Error()
		e.Err = errors.Join(ctx.Err(), cause)
	}
	return e
}

// unsent handles a failed Send.
func (c *Conn) unsent(ctx context.Context, k *call, err error) {
	var we *wire.WriteError
	var noEndpoint *wire.EndpointError
	wrote := errors.As(err, &we)
	end := ctx.Err()
	late := end != nil && errors.Is(err, end)
	if wrote {
		c.writeFailed(&k.outgoing, we, late)
		k.noCancel = k.noCancel || we.Written == 0
	}
	switch {
	case wrote && we.Broken && late:
		c.unread(ctx, k, we)
	case wrote && we.Broken:
		c.brokenBy(k, we)
	case late && errors.As(err, &noEndpoint):
		e := contextError(ctx, time.Since(k.began))
		e.Reason, e.Err = e.Reason+"; "+noEndpoint.Error(), err
		c.failNow(k, e)
	case wrote && late: // nothing of it went out: the connection is whole
		c.failNow(k, notRead(ctx, k, we))
	case late: // await sees it too
	default:
		c.failNow(k, &CallError{Kind: KindTransport, Reason: err.Error(), Sequence: k.seq(), Err: err})
	}
}

// unread ends a call, and the connection, whose message the server did not take in time. It is the server that did not read: a timeout or
// cancellation like any other, but nothing can be sent after half a message.
func (c *Conn) unread(ctx context.Context, k *call, we *wire.WriteError) {
	c.failNow(k, notRead(ctx, k, we))
	c.end(fmt.Errorf("an earlier message was taken only in part (%d of %d bytes): %w", we.Written, we.Size, errNotRead))
}

func notRead(ctx context.Context, k *call, we *wire.WriteError) *CallError {
	e := contextError(ctx, time.Since(k.began))
	e.Reason = fmt.Sprintf("the server did not read its input: %d of %d bytes of %s were taken within %v", we.Written, we.Size, k.Method, time.Since(k.began).Round(time.Millisecond))
	e.Sequence, e.Unwritten = k.seq(), we
	return e
}

var errNotRead = errors.New("the server does not read its input")

// writeFailed records how much of a message went out. A message that nothing went out of because the caller had no more time
// is nobody's fault.
func (c *Conn) writeFailed(o *outgoing, we *wire.WriteError, late bool) {
	if o.seq() < 0 || late && we.Written == 0 && !we.Broken {
		return
	}
	if late {
		c.find(WriteFailed, where{o.seq(), -1, o.id}, "%s: %d of %d bytes were taken before the time was over: the server does not read its input", o.what(), we.Written, we.Size)
		return
	}
	c.find(WriteFailed, where{o.seq(), -1, o.id}, "%s: %v", o.what(), we)
}

func (o *outgoing) what() string {
	if o.Method == "" {
		return "an answer to the server"
	}
	return o.Method
}

// brokenBy ends the connection after a failed write. The end of the server's output, when it follows at once, is the better reason.
func (c *Conn) brokenBy(k *call, we *wire.WriteError) {
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	if k != nil {
		c.failNow(k, &CallError{Kind: KindTransport, Reason: we.Error(), Sequence: k.seq(), Err: we})
	}
	c.end(we)
}
