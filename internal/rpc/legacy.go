package rpc

import (
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// HTTP+SSE of 2024-11-05: requests are posted, and what the server says comes on one stream, as on stdio.

// shared reports whether the frame came on a stream that all requests share, so that only its id, or that a single call waits, tells whose it is.
func shared(f *wire.Frame) bool {
	return f.HTTP == nil || f.Legacy && f.For == "" && f.Framing != trace.FramingBody
}

// endpoint takes the event that names where to post. The transport judges it.
func (c *Conn) endpoint(f *wire.Frame) {
	seq := c.frameEvent(f, trace.KindHTTPExchange)
	if c.named.Swap(true) {
		c.find(EndpointRepeated, where{seq, f.Offset, ""}, "another endpoint event is ignored: the first one counts; its data is %s", quote(f.Body))
	}
}

// legacyPost takes what a POST was accepted with. A word of thanks is nobody's concern; a message is on the wrong way, and is taken nevertheless.
func (c *Conn) legacyPost(f *wire.Frame) {
	r, one, batch, err := c.read(f.Body)
	defer c.readers.Put(r)
	if err != nil || f.Partial || batch == nil && !one.isMessage() {
		c.frameEvent(f, trace.KindHTTPExchange)
		return
	}
	seq := c.messages(f, one, batch)
	c.find(AnswerInPost, where{seq, f.Offset, f.For}, "the answer to the POST holds a message that belongs on the event stream: %s", quote(f.Body))
}

// legacyEnded takes the end of the event stream, and with it of the session.
func (c *Conn) legacyEnded(x *wire.Exchange, at where) {
	switch {
	case x.Err == nil:
		if n := c.waiting(); n > 0 {
			c.find(StreamNoAnswer, at, "the event stream ended while %d requests waited for their answers on it", n)
		}
	case ours(x.Err), x.HTTP.Status/100 != 2 && x.HTTP.Status != 0 && failedCode(x.Err) == BadEndpoint:
		// a status other than 200 only says that the server does not have this transport
	default:
		c.find(failedCode(x.Err), at, "GET %s: %v", x.HTTP.URL, x.Err)
	}
}

func (c *Conn) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}
