package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// ExchangeEnded takes the end of an HTTP request. A request that has no answer by then fails.
func (c *Conn) ExchangeEnded(x *wire.Exchange) {
	k := c.callOf(x.For)
	seq := int64(-1)
	if t := c.raw.Load(); t != nil {
		defer t.ended(x)
	}
	if o := outgoingOf(x.Message); o != nil {
		seq = o.seq()
	}
	if x.Frames == 0 || x.Err != nil {
		seq = c.exchangeEvent(k, x)
	}
	at := where{seq, -1, x.For}
	switch {
	case isRaw(x.Message): // what came back is for its sender to judge
	case x.Continues:
		c.continues(x, at)
	case x.Legacy && x.Message == nil:
		c.legacyEnded(x, at)
	case x.Legacy && x.Err == nil && x.HTTP.Status/100 == 2: // accepted, and the answer comes elsewhere
	case x.Message == nil:
		c.streamEnded(x, at)
		c.failExchange(k, x, at)
	case x.For == "":
		c.accepted(x, at)
	default:
		c.failExchange(k, x, at)
	}
}

// exchangeEvent records an answer without a frame, or the end of one that broke.
func (c *Conn) exchangeEvent(k *call, x *wire.Exchange) int64 {
	ev := trace.Event{Kind: trace.KindHTTPExchange, Phase: c.phase(), RPCID: x.For}
	if k != nil {
		ev.Phase, ev.Own = k.phase, k.own
	}
	if x.Err != nil {
		ev.Payload = append(trace.AppendString([]byte(`{"error":`), x.Err.Error()), '}')
	}
	return c.record(ev, &wire.Frame{Direction: trace.ServerToClient, Framing: trace.FramingBody, HTTP: x.HTTP})
}

func (c *Conn) continues(x *wire.Exchange, at where) {
	if s := x.HTTP.Status; s >= 300 && s < 400 {
		c.find(RedirectFollowed, at, "%s answered %s; the request went on to %s", x.HTTP.URL, statusText(s), header(x.HTTP, "Location"))
		return
	}
	c.find(StreamResumed, at, "the event stream of %s %s ended and is asked for again", x.HTTP.Method, x.HTTP.URL)
}

// streamEnded takes the end of a GET or a DELETE.
func (c *Conn) streamEnded(x *wire.Exchange, at where) {
	s := x.HTTP.Status
	switch {
	case x.Err != nil && !ours(x.Err):
		c.find(ExchangeFailed, at, "%s %s: %v", x.HTTP.Method, x.HTTP.URL, x.Err)
	case x.HTTP.Method == http.MethodGet && x.For == "" && s/100 != 2 && s != http.StatusMethodNotAllowed && s != 0:
		c.find(GetStreamRefused, at, "the optional GET stream was answered with %s; without one it is 405", statusText(s))
	}
}

// ours reports whether this side ended the exchange, or never began it: a connection that could not be opened says nothing about how the
// server speaks.
func ours(err error) bool {
	var unreached *wire.DialError
	return errors.Is(err, wire.ErrAborted) || errors.Is(err, wire.ErrClosed) || errors.As(err, &unreached) || isContext(err)
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// accepted takes the end of the exchange of a notification or of a response.
func (c *Conn) accepted(x *wire.Exchange, at where) {
	s := x.HTTP.Status
	what := "an answer to the server"
	if x.Message.Method != "" {
		what = x.Message.Method
	}
	switch {
	case x.Err != nil:
		if !ours(x.Err) {
			c.find(failedCode(x.Err), at, "%s: %v", what, x.Err)
		}
	case s/100 != 2:
		c.find(RefusedMessage, at, "%s was answered with %s", what, statusText(s))
	case s != http.StatusAccepted:
		c.find(AcceptedStatus, at, "%s was answered with %s; it should be 202 Accepted without a body", what, statusText(s))
	}
}

func failedCode(err error) Code {
	var re *wire.RedirectError
	var ee *wire.EndpointError
	switch {
	case errors.As(err, &re):
		return RedirectRefused
	case errors.As(err, &ee) && ee.Lost != "":
		return EndpointPrefixLost
	case errors.As(err, &ee):
		return BadEndpoint
	case errors.Is(err, wire.ErrStreamEnded):
		return StreamNoAnswer
	}
	return ExchangeFailed
}

// failExchange fails the call whose exchange is over and brought no answer.
func (c *Conn) failExchange(k *call, x *wire.Exchange, at where) {
	if k == nil {
		if x.Err != nil && x.Message != nil && !ours(x.Err) {
			c.find(failedCode(x.Err), at, "after the answer: %v", x.Err)
		}
		return
	}
	if isContext(x.Err) {
		return // the caller's own time was up, and the caller knows
	}
	e := &CallError{Kind: KindTransport, HTTP: x.HTTP, Sequence: at.seq, Err: x.Err}
	code := Code("")
	switch s := x.HTTP.Status; {
	case x.Err != nil:
		e.Reason, code = x.Err.Error(), failedCode(x.Err)
		if ours(x.Err) {
			code = ""
		}
	case s == http.StatusUnauthorized:
		e.Reason = "the server answered with " + statusText(s) + c.challenge(x.HTTP, where{at.seq, -1, k.id})
	case s/100 != 2:
		e.Reason = "the server answered with " + statusText(s) + guard(x.HTTP, k.hint())
	case isStream(x.HTTP):
		e.Kind, e.Reason, code = KindProtocol, "the event stream ended without an answer", StreamNoAnswer
	default:
		e.Kind, e.Reason, code = KindProtocol, fmt.Sprintf("the server answered with %s, but without an answer to the request", statusText(s)), EmptyAnswer
	}
	if hint := k.hint(); hint != "" {
		e.Reason += "; " + hint
	}
	if code != "" {
		c.find(code, where{at.seq, -1, k.id}, "%s: %s", k.Method, e.Reason)
	}
	c.failNow(k, e)
}

// challenge tells what a 401 asks for, and finds fault with one that does not say where authorisation is to be had.
func (c *Conn) challenge(h *trace.HTTPInfo, at where) string {
	asks := header(h, "Www-Authenticate")
	switch {
	case asks == "":
		c.find(ChallengeMissing, at, "401 without a WWW-Authenticate header: a client cannot know what to do about it")
		return " without a WWW-Authenticate header"
	case !strings.Contains(strings.ToLower(asks), "resource_metadata"):
		c.find(ChallengeWithoutMetadata, at, "the challenge names no resource_metadata: a client must guess where it is: %s", quote([]byte(asks)))
	}
	return "; it asks for " + quote([]byte(asks))
}

// guard explains a status that looks like a server's guard against DNS rebinding: the host that it saw is not among those it expects.
func guard(h *trace.HTTPInfo, hint string) string {
	if h.Status != http.StatusMisdirectedRequest && (h.Status != http.StatusForbidden || !strings.Contains(strings.ToLower(hint), "host")) {
		return ""
	}
	host := ""
	if u, err := url.Parse(h.URL); err == nil {
		host = u.Host
	}
	return fmt.Sprintf(", which looks like a guard against DNS rebinding: the request's Host was %s; use a name that the server expects, or allow this one there", host)
}

func isStream(h *trace.HTTPInfo) bool {
	const want = "text/event-stream"
	v := header(h, "Content-Type")
	return len(v) >= len(want) && v[:len(want)] == want
}

func header(h *trace.HTTPInfo, name string) string {
	for _, f := range h.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}
