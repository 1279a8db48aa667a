// Package wire moves frames between m3 and a server: over the two streams of a process or a pipe, and over streamable
// HTTP. It knows framing, not JSON-RPC. Evidence is taken here, from the bytes as read and as written.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// ErrClosed is returned by Send on a transport that was closed or has ended.
var ErrClosed = errors.New("wire: closed")

// Frame is one unit of traffic as it passed. The transport uses it again: neither it nor its bytes may be kept after the call
// that hands it over.
type Frame struct {
	Direction trace.Direction
	Framing   trace.Framing
	// Raw is every byte of the frame, terminator included. It is valid only during the call that hands it over.
	Raw []byte
	// Body is the message in it: without terminator, or the joined data of a server-sent event. It may alias Raw.
	Body []byte
	// Time is when the frame was complete (received) or about to be written (sent), with its monotonic reading.
	Time time.Time
	// Offset is the position of Raw's first byte in its stream; 0 for an HTTP body.
	Offset int64
	// Dropped counts bytes over the frame cap, drained and not kept. Tail is the last of them, at most 512: enough to tell which
	// request a cut answer belongs to, where its id stands last. It is not part of the evidence.
	Dropped int64
	Tail    []byte
	// Partial says that the stream ended before the frame's terminator.
	Partial bool
	// Event is the event name of a server-sent event; empty means message.
	Event string
	HTTP  *trace.HTTPInfo
	// For is the id of the request whose HTTP exchange carried the frame. Empty elsewhere, and on the GET stream.
	For trace.RPCID
	// Message is what a sent frame carries; nil for a request without a body (GET, DELETE).
	Message *Message
	// Resent says that the same message was sent before: a redirect was followed.
	Resent bool
	// Err says why Body cannot be trusted: its content encoding is not what the headers say. Body is then the bytes as they came.
	Err error
	// Legacy says that the transport is HTTP+SSE of 2024-11-05: the answers are on the GET stream, which all requests share, and a POST is only
	// accepted or refused.
	Legacy bool
	// Sequence is set by the Handler: the event that holds the frame.
	Sequence int64
}

// Message is what Send sends.
type Message struct {
	Body []byte // one JSON text without newlines
	// ID and Method are the message's own; Name is the tool, prompt or resource that it names. HTTP headers need them.
	ID     trace.RPCID
	Method string
	Name   string
	// Header is added to an HTTP request.
	Header http.Header
	// Call is the sender's record of a request; nil for other messages. An HTTP transport asks it whether there is anything to wait for.
	Call Call
	// Exact sends Body alone on a stream, without the line break that ends a frame: a part of a frame, or something that is none.
	Exact bool
	// Verb is the HTTP method; empty is POST. Streams have none.
	Verb string
}

// Call is a request that waits for its answer.
type Call interface {
	// Answered reports whether nothing more is awaited for the request. It must not block.
	Answered() bool
}

// Handler is told what passes. Its methods may be called from several goroutines, but never two at once for one stream,
// and they must not block on anything that needs the transport.
type Handler interface {
	// Sent is called with each frame before it is written.
	Sent(f *Frame)
	// Received is called with each frame as soon as it is complete.
	Received(f *Frame)
	// ExchangeEnded is called once for each HTTP request, after its last Received: for is the id of the message that it
	// carried, err says how it failed, nil when the answer was read to its end.
	ExchangeEnded(x *Exchange)
	// Closed is called once, after everything else, when no more frames will come: nil after Close, else the reason (io.EOF when
	// the peer ended the stream).
	Closed(err error)
}

// Exchange is one finished HTTP request.
type Exchange struct {
	For     trace.RPCID // the id of the request in it; empty for a notification, a response, or the GET stream
	Message *Message    // what was sent; nil for GET and DELETE. Valid during the call
	HTTP    *trace.HTTPInfo
	Frames  int // how many frames the answer carried
	Err     error
	// Continues says that another exchange goes on with the request: after a redirect, or where a cut event stream is resumed.
	Continues bool
	// Legacy is that of [Frame]: the GET is the session's own stream, and a POST that was accepted has done its part.
	Legacy bool
}

// Transport is one connection to a server.
type Transport interface {
	// Send writes one message. The answer arrives at the Handler: on HTTP often before Send returns, which it does at the latest
	// when ctx ends; the exchange then goes on without it, until it is over, aborted, or the transport is closed.
	// When Send returns an error part of the message may have been written: *WriteError says how much. When there was no connection to write
	// to, because none could be opened, it is a *DialError. On HTTP a message without an id
	// that the server did not accept is a *StatusError. ctx bounds Send, never the life of the transport.
	Send(ctx context.Context, m *Message) error
	// Stats counts bytes. It may be called at any time.
	Stats() Stats
	// Close ends the transport. It never waits longer than its own bound (1 s) and is idempotent.
	Close() error
}

// Stats counts the bytes of a transport. A capture is complete when as many were handed over as were read.
type Stats struct {
	BytesRead    int64 // read from the peer (bodies and streams, not HTTP headers)
	BytesHanded  int64 // handed to Received, Dropped not included
	BytesWritten int64
}

// WriteError is a message that could not be written whole.
type WriteError struct {
	Written, Size int
	// Broken says that the whole transport is of no more use for sending: a stream with half a message in it, or with no reader. It is
	// never set on HTTP, where each message has a request of its own.
	Broken bool
	Err    error
}

// Error says how much of the message was written, and what stopped it.
func (e *WriteError) Error() string {
	return fmt.Sprintf("write: %d of %d bytes sent: %v", e.Written, e.Size, e.Err)
}

// Unwrap returns the cause: the context's error when that ended the write.
func (e *WriteError) Unwrap() error { return e.Err }

// DialError is a connection that could not be opened: nothing was written, and nothing is known of how the peer speaks.
type DialError struct {
	Err error // of the dial function, or of the network; never nil
}

// Error is the cause's text, which names the address. The "m3: " of an error that a dial function of this module returns is left out: it
// would stand in the middle of a longer text.
func (e *DialError) Error() string { return strings.TrimPrefix(e.Err.Error(), "m3: ") }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// StatusError is a notification or a response that a server answered with an HTTP status other than 2xx.
type StatusError struct {
	Status int
	URL    string // redacted
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("HTTP %d %s from %s", e.Status, http.StatusText(e.Status), e.URL)
}
