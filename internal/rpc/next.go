package rpc

import "github.com/m3-go/m3/trace"

// NextID takes the next id of this side's requests, for a [Request] whose caller must know its id before the answer comes. Each call
// gives another id.
func (c *Conn) NextID() trace.RPCID { return c.nextID() }

// Ignore leaves a request of the server without an answer, for good.
func (c *Conn) Ignore(id trace.RPCID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.incoming, id)
}
