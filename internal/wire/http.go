package wire

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/trace"
)

const (
	defaultIdle  = 30 * time.Second
	deleteBound  = 400 * time.Millisecond
	dialTimeout  = 30 * time.Second
	maxRedirects = 5
)

// HTTPConfig are the options of [NewHTTP]. The zero value, and nil, mean the defaults.
type HTTPConfig struct {
	// Client gives the http.RoundTripper to use: its Transport. Its other fields are not used; redirects and deadlines are handled here. Its
	// transport should not ask for compression by itself. Nil: plain http over connections of this package's own (half the
	// CPU time of net/http's), https and what goes through a proxy of the environment over a net/http transport of its own.
	Client *http.Client
	// Dial opens connections when Client is nil, for who checks or pins addresses. Then no proxy is used. Nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Header is sent with every request, instead of the transport's own header of the same name. A name without values leaves that out.
	Header http.Header
	// MaxFrame is the cap on one received message in bytes. What is over it is read, counted and dropped. Default 64 MiB.
	MaxFrame int64
	// Redact gives the value to keep for a header; nil keeps values as they are. RedactURL does the same for the URL; nil removes the
	// password in it. Both must be safe for concurrent use.
	Redact    func(name, value string) string
	RedactURL func(string) string
	// IdleTimeout ends an exchange whose answer stands still. When it is zero, a body that has begun must not stand still for 30 s, and nothing
	// else is bounded but by the contexts of the calls. When it is set it also bounds the wait for an answer's headers and for
	// the next event of a POST's stream. The GET stream may be silent for ever. Negative: no bound at all.
	IdleTimeout time.Duration
}

// HTTP is the streamable HTTP transport, client side. It is a [Transport].
type HTTP struct {
	h      Handler
	url    *url.URL
	header http.Header
	fixed  []headerField // header, in the order of names
	auth   string        // from the URL's user info
	shown  string
	redact func(name, value string) string
	hide   func(string) string
	max    int64
	idle   time.Duration

	pool *pool             // nil: rt
	rt   http.RoundTripper // nil: pool
	own  *http.Transport   // to be closed

	life   context.Context
	end    context.CancelFunc
	number atomic.Int64
	slow   atomic.Bool // the server keeps event streams open after the answer
	group  sync.WaitGroup

	read, handed, written atomic.Int64

	mu        sync.Mutex
	session   string
	protocol  string
	moved     *url.URL // where a 308 sent us
	streaming bool
	streamed  int // the status with which the GET for the stream was answered last
	closing   bool
	exchanges map[*exchange]struct{}

	legacy *SSE // the transport is HTTP+SSE, and this its outside

	once     sync.Once
	closeErr error
}

// NewHTTP returns a transport that posts each message to rawURL. It opens no connection. The error names what is wrong with the URL or
// with a header.
func NewHTTP(rawURL string, h Handler, cfg *HTTPConfig) (*HTTP, error) {
	if cfg == nil {
		cfg = &HTTPConfig{}
	}
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(cfg.Header); err != nil {
		return nil, err
	}
	t := &HTTP{h: h, url: u, redact: cfg.Redact, hide: cfg.RedactURL, max: cfg.MaxFrame, idle: cfg.IdleTimeout, header: canonical(cfg.Header), exchanges: map[*exchange]struct{}{}}
	t.fixed = appendFields(nil, t.header)
	if t.max <= 0 {
		t.max = defaultFrame
	}
	if u.User != nil {
		password, _ := u.User.Password()
		t.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	t.shown = t.redactURL(u)
	t.life, t.end = context.WithCancel(context.Background())
	t.carrier(cfg)
	return t, nil
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL, which may hold a secret
		}
		return nil, fmt.Errorf("wire: the server's URL is no URL: %w", err)
	}
	if u.Scheme = strings.ToLower(u.Scheme); u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("wire: the server's URL must begin with http:// or https://, not %q", u.Scheme+":")
	}
	if u.Hostname() == "" {
		return nil, errors.New("wire: the server's URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// carrier chooses what moves the bytes.
func (t *HTTP) carrier(cfg *HTTPConfig) {
	if cfg.Client != nil {
		if t.rt = cfg.Client.Transport; t.rt == nil {
			t.rt = http.DefaultTransport
		}
		return
	}
	dial, proxy := cfg.Dial, http.ProxyFromEnvironment
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	} else {
		proxy = nil
	}
	if t.url.Scheme == "http" && !proxied(t.url, proxy) {
		addr := net.JoinHostPort(t.url.Hostname(), portOf(t.url))
		t.pool = &pool{addr: addr, dial: dial}
		return
	}
	t.own = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, &DialError{err}
			}
			return c, nil
		},
		Proxy: proxy, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleLife, TLSHandshakeTimeout: dialTimeout,
	}
	t.rt = t.own
}

func proxied(u *url.URL, proxy func(*http.Request) (*url.URL, error)) bool {
	if proxy == nil {
		return false
	}
	p, err := proxy(&http.Request{URL: u})
	return p != nil || err != nil
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return "80"
}

func canonical(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		key := http.CanonicalHeaderKey(name)
		out[key] = append(out[key], values...)
	}
	return out
}

// SetProtocol sets the protocol version: the MCP-Protocol-Version header of every later request. From 2026-07-28 on requests also name their
// method and tool in headers, and there is no session id, GET stream or DELETE. Empty means none of all that.
func (t *HTTP) SetProtocol(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.protocol = version
}

func (t *HTTP) era() (session, protocol string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session, t.protocol
}

// Send posts one message. See [Transport].
func (t *HTTP) Send(ctx context.Context, m *Message) error {
	if err := ctx.Err(); err != nil {
		return &WriteError{Size: len(m.Body), Err: err}
	}
	if len(m.Header) > 0 {
		if err := checkHeader(m.Header); err != nil {
			return &WriteError{Size: len(m.Body), Err: err}
		}
		m.Header = canonical(m.Header)
	}
	verb := http.MethodPost
	if m.Verb != "" {
		verb = m.Verb
	}
	x := &exchange{method: verb, message: m, body: m.Body, id: m.ID, call: m.Call}
	if err := t.open(x, false); err != nil {
		return &WriteError{Size: len(m.Body), Err: err}
	}
	return t.perform(ctx, x)
}

// perform runs an exchange and what its redirects lead to.
func (t *HTTP) perform(ctx context.Context, x *exchange) error {
	if t.rt != nil {
		return t.performVia(ctx, x)
	}
	return t.performDirect(ctx, x)
}

// open registers an exchange and numbers it. The last word (DELETE) may be said while the transport closes.
func (t *HTTP) open(x *exchange, last bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing && !last {
		return ErrClosed
	}
	x.t, x.url = t, t.url
	if t.moved != nil {
		x.url = t.moved
	}
	x.number = t.number.Add(1)
	t.exchanges[x] = struct{}{}
	t.group.Add(1)
	return nil
}

// done takes an exchange off the list.
func (t *HTTP) done(x *exchange) {
	t.mu.Lock()
	delete(t.exchanges, x)
	t.mu.Unlock()
	t.group.Done()
}

func (t *HTTP) isClosing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closing
}

// ErrAborted is the error of an exchange that Abort ended.
var ErrAborted = errors.New("wire: the exchange was aborted")

// Abort ends the exchange that carries the request with this id, if there is one: its connection is closed. That is how a request is cancelled
// from 2026-07-28 on.
func (t *HTTP) Abort(id trace.RPCID) {
	for _, x := range t.matching(func(x *exchange) bool { return x.id == id && id != "" }) {
		x.abort(ErrAborted)
	}
}

// matching returns the open exchanges that match.
func (t *HTTP) matching(match func(*exchange) bool) []*exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*exchange
	for x := range t.exchanges {
		if match(x) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *exchange) int { return int(a.number - b.number) })
	return out
}

// Stats counts the bytes of bodies and event streams.
func (t *HTTP) Stats() Stats {
	return Stats{BytesRead: t.read.Load(), BytesHanded: t.handed.Load(), BytesWritten: t.written.Load()}
}

// Close ends the session with a DELETE where there is one, then every exchange. See [Transport].
func (t *HTTP) Close() error {
	t.shut(nil, ErrClosed)
	return t.closeErr
}

// shut closes the transport because of why; exchanges that are under way fail with cut.
func (t *HTTP) shut(why, cut error) {
	t.once.Do(func() {
		bound, cancel := context.WithTimeout(context.Background(), closeBound)
		defer cancel()
		t.mu.Lock()
		t.closing = true
		goodbye := t.session != "" && t.protocol < modernProtocol
		t.mu.Unlock()
		if goodbye {
			t.deleteSession(bound)
		}
		t.end()
		for _, x := range t.matching(func(*exchange) bool { return true }) {
			x.abort(cut)
		}
		t.wait(bound)
		if t.pool != nil {
			t.pool.close()
		}
		if t.own != nil {
			t.own.CloseIdleConnections()
		}
		t.h.Closed(why)
	})
}

// deleteSession says goodbye. How the server takes it is recorded and of no further interest.
func (t *HTTP) deleteSession(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deleteBound)
	defer cancel()
	x := &exchange{method: http.MethodDelete}
	if t.open(x, true) == nil {
		_ = t.perform(ctx, x)
	}
}

// wait waits for the goroutines of all exchanges.
func (t *HTTP) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		t.group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.closeErr = errors.New("wire: an HTTP exchange did not end within 1 s: a handler blocks")
	}
}

func (t *HTTP) redactHeader(name, value string) string {
	if t.redact == nil {
		return value
	}
	return t.redact(name, value)
}

func (t *HTTP) redactURL(u *url.URL) string {
	if t.hide == nil {
		return u.Redacted()
	}
	return t.hide(u.String())
}
