package acp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/m3-go/m3/trace"
)

// The error codes that this client sends, and those of the protocol that it reads.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeAuthRequired   = -32000
	codeInternal       = -32603
)

// maxOpenRequests bounds how many of its requests an agent may leave open; more are answered with an error.
const maxOpenRequests = 256

// maxQueued bounds, in bytes, what waits to be written to an agent that does not read.
const maxQueued = 128 << 20

// peer is who a conn tells what arrives. Notify and Odd are called one at a time in the order of arrival, and must not block.
type peer interface {
	frame(dir trace.Direction, line []byte)
	notify(method string, params raw)
	// answer answers a request of the agent. ctx ends with the connection, and when the agent withdraws the request.
	answer(ctx context.Context, method string, params raw) (any, *rpcError)
	// odd tells what arrived and is no message, or no answer to anything.
	odd(code, message string, data raw)
}

// conn is JSON-RPC over two streams: raw lines, raw ids, nothing decoded beyond the envelope.
type conn struct {
	peer peer
	in   io.Reader
	out  io.WriteCloser

	mu      sync.Mutex
	next    int64
	pending map[string]chan frame // by raw id
	asked   map[string]context.CancelFunc
	queue   [][]byte
	queued  int
	err     error // why it ended; nil while it lives

	wake    chan struct{} // there is something in queue
	done    chan struct{} // ended: err is set
	running sync.WaitGroup
	ctx     context.Context // of the agent's requests
	cancel  context.CancelFunc
}

// newConn starts the connection. It ends with its streams, or by end.
func newConn(p peer, in io.Reader, out io.WriteCloser) *conn {
	c := &conn{peer: p, in: in, out: out, pending: map[string]chan frame{}, asked: map[string]context.CancelFunc{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(c.read)
	c.running.Go(c.write)
	return c
}

// end ends the connection for the given reason: everything that waits fails. It does not close the streams.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	c.cancel()
}

// why is the reason of the end.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// wait waits until nothing of the connection runs any more. The streams must be closed, or their process gone.
func (c *conn) wait() { c.running.Wait() }

var errEOF = errors.New("the agent closed its output")

func (c *conn) read() {
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		line, err := readLine(r, maxLine)
		if len(line) > 0 && !errors.Is(err, errLineTooLong) {
			c.peer.frame(trace.ServerToClient, line)
			c.take(parseFrame(line), line)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLineTooLong):
			c.peer.odd("line_too_long", err.Error(), nil)
			c.end(err)
			_, _ = io.Copy(io.Discard, c.in) // the agent is not to hang on its pipe while it is being ended
		default:
			c.end(errEOF)
		}
		return
	}
}

// take hands a frame on.
func (c *conn) take(f frame, line []byte) {
	switch f.kind {
	case frameOdd:
		c.peer.odd(f.reason, "a line that is no message of the protocol", quoted(line))
	case frameNotification:
		c.notified(f)
	case frameRequest:
		c.requested(f)
	case frameResponse:
		c.responded(f)
	}
}

// quoted is a line as JSON: itself if it is JSON, else the start of it as a string.
func quoted(line []byte) raw {
	const limit = 4 << 10
	return encode(string(line[:min(len(line), limit)]))
}

func (c *conn) responded(f frame) {
	c.mu.Lock()
	ch := c.pending[string(f.id)]
	delete(c.pending, string(f.id))
	c.mu.Unlock()
	if ch == nil {
		c.peer.odd("unexpected_response", "an answer to no open request", f.id)
		return
	}
	ch <- f
}

func (c *conn) notified(f frame) {
	if f.method != "$/cancel_request" {
		c.peer.notify(f.method, f.params)
		return
	}
	c.mu.Lock()
	cancel := c.asked[string(f.params.at("requestId"))]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// requested answers a request of the agent in a goroutine of its own.
func (c *conn) requested(f frame) {
	id := string(f.id)
	c.mu.Lock()
	_, twice := c.asked[id]
	full := len(c.asked) >= maxOpenRequests
	if twice || full || c.err != nil {
		c.mu.Unlock()
		if twice {
			c.peer.odd("duplicate_request", "two open requests with one id", f.id)
		}
		c.reply(f.id, nil, &rpcError{Code: codeInternal, Message: "the id is in use, or too many requests are open"})
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.asked[id] = cancel
	c.mu.Unlock()
	c.running.Go(func() {
		defer cancel()
		result, failure := c.peer.answer(ctx, f.method, f.params)
		c.mu.Lock()
		delete(c.asked, id)
		c.mu.Unlock()
		c.reply(f.id, result, failure)
	})
}

func (c *conn) reply(id raw, result any, failure *rpcError) {
	if failure != nil {
		c.send(struct {
			JSONRPC string    `json:"jsonrpc"`
			ID      raw       `json:"id"`
			Error   *rpcError `json:"error"`
		}{"2.0", id, failure})
		return
	}
	c.send(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      raw    `json:"id"`
		Result  any    `json:"result"`
	}{"2.0", id, result})
}

// notification sends a notification.
func (c *conn) notification(method string, params any) {
	c.send(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}

// start sends a request and returns where its answer arrives.
func (c *conn) start(method string, params any) (id string, answer <-chan frame) {
	ch := make(chan frame, 1)
	c.mu.Lock()
	c.next++
	id = strconv.FormatInt(c.next, 10)
	c.pending[id] = ch
	c.mu.Unlock()
	c.send(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      raw    `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", raw(id), method, params})
	return id, ch
}

// forget gives a request up: an answer to it is unexpected from now on.
func (c *conn) forget(id string) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// call sends a request and waits for its answer. The error is an *rpcError when the agent answered with one, and the context's when that ended first.
func (c *conn) call(ctx context.Context, method string, params any) (raw, error) {
	id, answer := c.start(method, params)
	f, err := c.await(ctx, answer)
	if err != nil {
		c.forget(id)
		return nil, err
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.result, nil
}

// await waits for an answer, the end of ctx, or the end of the connection. What has arrived counts, whatever has ended since.
func (c *conn) await(ctx context.Context, answer <-chan frame) (frame, error) {
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return frame{}, ctx.Err()
	case <-c.done:
	}
	select {
	case f := <-answer:
		return f, nil
	default:
		return frame{}, c.why()
	}
}

// send queues a message. It never blocks: an agent that does not read must not hold its client.
func (c *conn) send(m any) {
	line := append(encode(m), '\n')
	c.mu.Lock()
	over := c.queued+len(line) > maxQueued
	if !over {
		c.queue = append(c.queue, line)
		c.queued += len(line)
	}
	c.mu.Unlock()
	if over {
		c.end(fmt.Errorf("the agent does not read its input: %d MiB wait", maxQueued>>20))
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) write() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		for line := c.pop(); line != nil; line = c.pop() {
			c.peer.frame(trace.ClientToServer, line)
			if _, err := c.out.Write(line); err != nil {
				c.closedInput(err)
				return
			}
		}
	}
}

// closedInput ends the connection to an agent that reads no more, but not before what it still says has been read.
func (c *conn) closedInput(err error) {
	select {
	case <-c.done:
	case <-time.After(time.Second):
		c.end(fmt.Errorf("the agent closed its input: %w", err))
	}
}

func (c *conn) pop() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	line := c.queue[0]
	c.queue = c.queue[1:]
	c.queued -= len(line)
	return line
}
