package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

const (
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"
	modern         = "2026-07-28"
	maxRedirects   = 5
	httpBuffer     = 32 << 10
)

// Handler returns a reverse proxy for a server of streamable HTTP. Whatever path a request has, it goes to target. Bytes, statuses, headers and their
// order of events are unchanged, except for hop-by-hop headers, Host, and Accept-Encoding, which becomes identity: what is compressed
// cannot be read. header, which an agent must not see (credentials), replaces the agent's own of those names. Event streams are flushed event by
// event. A redirect within the server's origin is followed (307 and 308); any other would lead the agent past the relay and is answered with 502.
//
// client gives the transport and nothing else; nil is one of the relay's own, without a proxy of the environment.
func (r *Relay) Handler(target *url.URL, header http.Header, client *http.Client) http.Handler {
	p := &proxy{r: r, target: *target, header: header.Clone(), sessions: map[string]*conn{}}
	p.target.Fragment, p.target.RawFragment = "", ""
	if client != nil {
		p.rt = client.Transport
	}
	if p.rt == nil {
		own := &http.Transport{DialContext: (&net.Dialer{Timeout: 30 * time.Second}).DialContext, DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second}
		context.AfterFunc(r.life, own.CloseIdleConnections)
		p.rt = own
	}
	return p
}

// proxy is one server's Handler.
type proxy struct {
	r      *Relay
	target url.URL
	header http.Header
	rt     http.RoundTripper

	mu       sync.Mutex
	sessions map[string]*conn // by Mcp-Session-Id
	plain    *conn            // the latest connection without one
}

// ServeHTTP relays one request.
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !p.r.enter() {
		http.Error(w, "the connection to this server is closed", http.StatusServiceUnavailable)
		return
	}
	defer p.r.active.Done()
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(p.r.life, func() {
		cancel()
		past, rc := time.Unix(1, 0), http.NewResponseController(w)
		_ = rc.SetReadDeadline(past) // an agent that stands still does not hold Close up
		_ = rc.SetWriteDeadline(past)
	})()
	x := &exchange{p: p, w: w, in: req, ctx: ctx}
	if err := x.readRequest(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if x.send() {
		x.receive()
	}
}

// exchange is one request with its answer.
type exchange struct {
	p   *proxy
	w   http.ResponseWriter
	in  *http.Request
	ctx context.Context

	c      *conn
	body   []byte
	more   io.Reader // what of the body is over the cap
	id     trace.RPCID
	method string // of the message
	at     place
	sent   *trace.HTTPInfo
	got    *trace.HTTPInfo
	resp   *http.Response
	answer []byte // the relay's own, for a part of a batch: it goes before the server's
}

// readRequest reads the agent's body, and finds its connection.
func (x *exchange) readRequest() error {
	limit := x.p.r.cfg.MaxFrame
	b, err := io.ReadAll(io.LimitReader(x.in.Body, limit+1))
	if err != nil {
		return fmt.Errorf("the request's body could not be read: %w", err)
	}
	if int64(len(b)) > limit {
		x.more = io.MultiReader(strings.NewReader(string(b[limit:])), x.in.Body)
		b = b[:limit]
	}
	x.body = b
	begins := false
	rd := readers.Get().(*rpc.Envelopes)
	if list, batch, err := rd.Read(b); err == nil && !batch {
		m := &list[0]
		if m.Method != nil {
			x.id, x.method = trace.RPCID(m.ID), m.MethodName()
		}
		begins = x.method == "initialize"
	}
	readers.Put(rd)
	x.c, err = x.p.connection(x.in.Header.Get(headerSession), begins, x.id)
	if err == nil {
		x.c.read.Add(int64(len(b)))
		x.at = x.p.r.scope()
	}
	return err
}

// connection finds the connection of a request. A session has its own. Without one it is the latest without; initialize begins another, and so does a request with an
// id that is in use there: it is another client's.
func (p *proxy) connection(session string, begins bool, id trace.RPCID) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session != "" {
		c := p.sessions[session]
		if c == nil {
			var err error
			if c, err = p.r.open("", "streamable_http"); err != nil {
				return nil, err
			}
			p.sessions[session] = c
		}
		return c, nil
	}
	if p.plain == nil || begins && p.plain.exchanges.Load() > 0 || id != "" && p.plain.waiting(id) {
		c, err := p.r.open("", "streamable_http")
		if err != nil {
			return nil, err
		}
		p.plain = c
	}
	return p.plain, nil
}

// bind gives a connection the session that the server began for it.
func (p *proxy) bind(c *conn, session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[session] = c
	if p.plain == c {
		p.plain = nil
	}
}

// url is where the request goes.
func (x *exchange) url() *url.URL {
	u := x.p.target
	if q := x.in.URL.RawQuery; q != "" {
		if u.RawQuery != "" {
			q = u.RawQuery + "&" + q
		}
		u.RawQuery = q
	}
	return &u
}

// send records the request and sends it on. False: it was answered here.
func (x *exchange) send() bool {
	header := x.outgoing()
	u := x.url()
	x.sent = &trace.HTTPInfo{Exchange: x.c.exchanges.Add(1), Method: x.in.Method, URL: u.Redacted(), Header: recorded(header, u.Host)}
	f := &wire.Frame{Direction: trace.ClientToServer, Framing: trace.FramingBody, Raw: x.body, Body: x.body, Time: time.Now(), HTTP: x.sent}
	if x.more != nil {
		f.Dropped = max(1, x.in.ContentLength-int64(len(x.body))) // what is not told beforehand is one at least
	}
	p := x.c.fromAgent(f, x.in.Header)
	if p.denied && p.forward == nil {
		x.refuse(p.answer)
		return false
	}
	x.answer = p.answer
	resp, err := x.roundTrip(u, header, p.forward)
	if err != nil {
		x.failed(err)
		return false
	}
	x.resp = resp
	return true
}

// hopByHop are the headers of one connection (RFC 9110, 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// endToEnd returns a copy of a header without what is meant for the next hop alone.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}

// outgoing is the header of the request to the server.
func (x *exchange) outgoing() http.Header {
	out := endToEnd(x.in.Header)
	out.Del("Expect")
	out.Del("Content-Length")
	out.Set("Accept-Encoding", "identity")
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // or net/http adds its own
	}
	for name, values := range x.p.header {
		out[http.CanonicalHeaderKey(name)] = values
	}
	return out
}

// recorded returns header fields as they are kept: Host first, the rest by name. The tape takes out secrets.
func recorded(h http.Header, host string) []trace.HTTPHeader {
	out := make([]trace.HTTPHeader, 0, len(h)+1)
	for name, values := range h {
		for _, v := range values {
			if name != "User-Agent" || v != "" {
				out = append(out, trace.HTTPHeader{Name: name, Value: v})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b trace.HTTPHeader) int { return strings.Compare(a.Name, b.Name) })
	if host != "" {
		out = slices.Insert(out, 0, trace.HTTPHeader{Name: "Host", Value: host})
	}
	return out
}

// roundTrip sends the request, and follows redirects that stay with the server.
func (x *exchange) roundTrip(u *url.URL, header http.Header, body []byte) (*http.Response, error) {
	for hops := 0; ; hops++ {
		req := (&http.Request{Method: x.in.Method, URL: u, Host: u.Host, Header: header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(x.ctx)
		if h := header.Get("Host"); h != "" {
			req.Host = h
		}
		if len(body) > 0 || x.more != nil {
			req.ContentLength = int64(len(body))
			var r io.Reader = strings.NewReader(string(body))
			if x.more != nil {
				r, req.ContentLength = io.MultiReader(r, x.more), -1
				if n := x.in.ContentLength; n > 0 {
					req.ContentLength = n
				}
			}
			req.Body = io.NopCloser(r)
		}
		resp, err := x.p.rt.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.StatusCode == http.StatusNotModified {
			return resp, nil
		}
		resp.Body.Close()
		next, err := resp.Location()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the server answered %s without a usable Location", resp.Status)
		case resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect, next.Scheme != u.Scheme, !strings.EqualFold(next.Host, u.Host):
			return nil, fmt.Errorf("the server redirects (%s) to %s, which would lead past m3; give that address as the server's", resp.Status, next.Redacted())
		case hops == maxRedirects || x.more != nil:
			return nil, fmt.Errorf("the server redirects too often, at last to %s", next.Redacted())
		}
		u = next
	}
}

// failed answers a request that the server did not.
func (x *exchange) failed(err error) {
	kind, reason := "transport_error", err.Error()
	if x.in.Context().Err() != nil {
		kind, reason = "cancelled", "the agent ended the request before its answer"
	}
	x.callFailed(kind, reason)
	http.Error(x.w, "m3: no answer from the server: "+err.Error(), http.StatusBadGateway)
}

// callFailed records that a request gets no answer any more.
func (x *exchange) callFailed(kind, reason string) {
	if x.id == "" || !x.c.forget(x.id) {
		return
	}
	p := append([]byte(`{"rpc_id":`), x.id...)
	p = trace.AppendString(append(p, `,"method":`...), x.method)
	p = trace.AppendString(append(p, `,"kind":`...), kind)
	p = append(trace.AppendString(append(p, `,"reason":`...), reason), '}')
	x.c.r.queue.put(x.c.entry(trace.KindMCPCallFailed, trace.Event{Phase: x.c.phase(), Source: wireSource, SessionID: x.at.session, TurnID: x.at.turn,
		RPCID: x.id, Method: x.method, Payload: p, Time: time.Now()}))
}

// refuse answers in the place of the server, with the status that the era has for it.
func (x *exchange) refuse(answer []byte) {
	status := http.StatusOK
	switch {
	case answer == nil && x.id == "" && x.method != "":
		x.w.WriteHeader(http.StatusAccepted) // a notification
		return
	case answer == nil:
		answer = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
		status = http.StatusBadRequest
	case x.in.Header.Get(headerProtocol) >= modern:
		status = http.StatusBadRequest
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(answer) // an agent that is gone has no use for it
}

// errCut ends a request whose answer was cut off, so that the agent sees that too.
var errCut = errors.New("relay: the server's answer was cut off")
