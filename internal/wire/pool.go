package wire

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxIdle = 128 // connections kept for later requests
	// Common servers (Node, uvicorn) close a connection that was idle for 5 s. A request that meets that moment is lost, so
	// a connection is not used again when it comes near, or near the Keep-Alive that the server named.
	idleLife      = 4 * time.Second
	idleLifeLimit = 2 * time.Minute
)

// httpConn is one connection of a pool.
type httpConn struct {
	net.Conn
	answer answer
	out    []byte // the request being written
	used   bool   // it has carried a request before
	until  time.Time
	keep   time.Duration
	timed  bool // it has a read deadline of ours
	raw    syscall.RawConn
	look   func(fd uintptr) // sets dead; kept, because a method value costs memory each time
	dead   bool
}

// pool keeps the idle connections to one address.
type pool struct {
	addr string
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	idle   []*httpConn // the last one used is the last
	closed bool
}

// get returns an idle connection that still lives, or nil.
func (p *pool) get() *httpConn {
	for {
		c := p.take()
		if c == nil || c.fresh() {
			return c
		}
		c.Close()
	}
}

func (p *pool) take() *httpConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle[len(p.idle)-1] = nil
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

func (p *pool) connect(ctx context.Context) (*httpConn, error) {
	nc, err := p.dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, &DialError{err}
	}
	c := &httpConn{Conn: nc, keep: idleLife}
	c.watch()
	return c, nil
}

// put takes back a connection whose answer was read to its end.
func (p *pool) put(c *httpConn) {
	if c.timed {
		c.timed = false
		if c.SetDeadline(time.Time{}) != nil {
			c.Close()
			return
		}
	}
	c.used, c.until = true, time.Now().Add(c.keep)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

// close closes the idle connections, and every one that is put back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
}

// fresh reports whether an idle connection can carry another request: it was not idle for too long, the peer has not closed it, and
// nobody sent bytes that no request asked for.
func (c *httpConn) fresh() bool {
	if !time.Now().Before(c.until) {
		return false
	}
	if c.raw == nil {
		return true
	}
	c.dead = false
	if err := c.raw.Control(c.look); err != nil {
		return false
	}
	return !c.dead
}

// keepAlive takes the life of an idle connection from the answer's headers, a second before the server's own limit.
func (c *httpConn) keepAlive(h http.Header) {
	for _, v := range h["Keep-Alive"] {
		for part := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if s, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "timeout") {
				c.keep = min(time.Duration(max(0, s-1))*time.Second, idleLifeLimit)
			}
		}
	}
}

// watch makes fresh able to look at the socket.
func (c *httpConn) watch() {
	if sc, ok := c.Conn.(syscall.Conn); ok && socketAlive != nil {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.look = func(fd uintptr) { c.dead = !socketAlive(fd) }
		}
	}
}
