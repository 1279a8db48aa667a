package rpc

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	cancelBound = 250 * time.Millisecond // what telling the server of a cancellation may take
	// After a write has failed the other direction often says why within this time: the server has gone.
	endWait = 100 * time.Millisecond
	// maxGivenUp bounds how many requests without an answer are remembered as such.
	maxGivenUp = 1 << 16
	batchEra   = "2025-03-26"
)

// Config says what a connection is and who is told of what.
type Config struct {
	Tape       *evidence.Tape
	Server     string // the server's name in the execution
	Connection trace.ConnectionID
	// Request is called with each request of the server, on a goroutine of its own. Its context ends when the server cancels the request or the
	// connection ends. It answers with [Conn.Reply]. Nil: every request is answered with -32601.
	Request func(ctx context.Context, in *Incoming)
	// Arrived is called with each request of the server before Request is, in order, on the reader: it must not block. Nil: nobody is told.
	Arrived func(in *Incoming)
	// Notification is called with each notification, in order, on the reader: it must not block, and keep nothing of n. Nil: nobody is told.
	Notification func(n *Notification)
	// Cancel tells the server that a request whose call has ended is no longer wanted. It must not block for long. Nil: notifications/cancelled is sent.
	Cancel func(id trace.RPCID)
}

// Incoming is a request of the server.
type Incoming struct {
	ID       trace.RPCID
	Method   string
	Params   trace.JSON // nil when there were none
	Sequence int64      // the event that holds it
	// For is the id of the call of ours whose HTTP exchange brought it; empty elsewhere.
	For trace.RPCID
	// Local is for whoever answers it: what Config.Arrived leaves for Config.Request.
	Local any
}

// Notification is a notification of the server.
type Notification struct {
	Method   string
	Params   []byte // nil when there were none; valid during the call
	Sequence int64
}

// Conn is one JSON-RPC connection. It is the [wire.Handler] of its transport. It may be used from several goroutines.
type Conn struct {
	cfg     Config
	source  trace.Source
	t       wire.Transport
	last    atomic.Int64 // the last integer id given to a request
	inCall  atomic.Bool  // the first call of the session proper has been made
	batch   atomic.Bool  // batches are allowed
	closing atomic.Bool  // Close was called: how the transport ends is no news
	named   atomic.Bool  // the endpoint of HTTP+SSE was named

	mu       sync.Mutex
	pending  map[trace.RPCID]*call
	givenUp  map[trace.RPCID]struct{} // requests whose call ended without an answer
	custom   map[trace.RPCID]struct{} // finished requests with ids of the caller's own
	incoming map[trace.RPCID]context.CancelFunc
	ended    bool
	err      error
	done     chan struct{}

	raw atomic.Pointer[tap] // nil until somebody sends bytes of his own

	readers sync.Pool // *reader
	lines   lines
}

var _ wire.Handler = (*Conn)(nil)

// New returns a connection that is not started. Frames may be handed to it from now on.
func New(cfg *Config) *Conn {
	return &Conn{
		cfg: *cfg, source: trace.Source{Origin: trace.OriginWire, Source: "mcp"}, done: make(chan struct{}),
		pending: map[trace.RPCID]*call{}, givenUp: map[trace.RPCID]struct{}{}, custom: map[trace.RPCID]struct{}{},
		incoming: map[trace.RPCID]context.CancelFunc{}, readers: sync.Pool{New: func() any { return &reader{} }},
	}
}

// Start gives the connection its transport, whose handler it is. It must come before the first Call, Notify or Reply.
func (c *Conn) Start(t wire.Transport) { c.t = t }

// SetProtocol tells the connection which protocol version was agreed on: in 2025-03-26 a server may send batches.
func (c *Conn) SetProtocol(version string) { c.batch.Store(version == batchEra) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; nil while it is open and after Close.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and its transport. Calls that wait fail. It is idempotent.
func (c *Conn) Close() error {
	var err error
	c.closing.Store(true)
	if c.t != nil {
		err = c.t.Close()
	}
	c.end(nil)
	return err
}

// Closed is for the transport: nothing more will come.
func (c *Conn) Closed(err error) {
	c.flushLines()
	if c.closing.Load() {
		err = nil
	}
	c.end(err)
}

// end fails everything that waits. The first reason counts.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.err = true, err
	waiting := make([]*call, 0, len(c.pending))
	for _, k := range c.pending {
		waiting = append(waiting, k)
	}
	clear(c.pending)
	for _, cancel := range c.incoming {
		cancel()
	}
	clear(c.incoming)
	c.mu.Unlock()
	for _, k := range waiting {
		c.fail(k, &CallError{Kind: KindTransport, Reason: endReason(err, k.hint()), Sequence: k.seq(), Err: endCause(err)})
	}
	close(c.done)
}

// Abandon fails every call that waits, now, with the given kind and reason: somebody above has decided that their time is over. The connection
// stays open.
func (c *Conn) Abandon(kind ErrorKind, reason string) {
	c.mu.Lock()
	waiting := make([]*call, 0, len(c.pending))
	for _, k := range c.pending {
		waiting = append(waiting, k)
	}
	c.mu.Unlock()
	for _, k := range waiting {
		c.failNow(k, &CallError{Kind: kind, Reason: reason, Sequence: k.seq()})
	}
}

// endReason is why a call failed with its connection.
func endReason(err error, hint string) string {
	var we *wire.WriteError
	var ee *wire.EndpointError
	reason := ""
	switch {
	case err == nil:
		reason = "the connection was closed"
	case errors.As(err, &ee):
		reason = ee.Error()
	case errors.Is(err, io.EOF):
		reason = "the server closed its output without an answer"
	case errors.As(err, &we), errors.Is(err, errNotRead):
		reason = "the connection ended: " + err.Error()
	default:
		reason = "reading from the server failed: " + err.Error()
	}
	if hint != "" {
		reason += "; " + hint
	}
	return reason
}

func endCause(err error) error {
	if err == nil {
		return wire.ErrClosed
	}
	return err
}

// nextID numbers the requests of this side from 1.
func (c *Conn) nextID() trace.RPCID { return trace.RPCID(strconv.FormatInt(c.last.Add(1), 10)) }

// issued reports whether a request with this id was once made, and whether its call ended without an answer. Call it with the lock held.
func (c *Conn) issued(id trace.RPCID) (made, gaveUp bool) {
	if _, ok := c.givenUp[id]; ok {
		return true, true
	}
	if _, ok := c.custom[id]; ok {
		return true, false
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && 0 < n && n <= c.last.Load() && string(id) == strconv.FormatInt(n, 10), false
}

// phase is the part of the execution in which traffic without a call of its own happens.
func (c *Conn) phase() trace.Phase {
	if c.inCall.Load() {
		return trace.PhaseMCPCall
	}
	return trace.PhaseInitialization
}
