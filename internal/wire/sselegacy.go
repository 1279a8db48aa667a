package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// endpointTime is how long the event stream may take to name its endpoint.
	endpointTime  = 10 * time.Second
	endpointEvent = "endpoint"
)

// ErrStreamEnded is the error of a POST that was under way when the event stream that carries the answers ended.
var ErrStreamEnded = errors.New("the event stream that carries the answers ended")

// EndpointError says why there is nothing to post messages to, or why posting there fails.
type EndpointError struct {
	// Stream is the URL of the event stream and Endpoint what it named, both redacted. Endpoint is empty when it named nothing.
	Stream, Endpoint string
	// Status is the HTTP status that the reason is about, 0 when it is about something else.
	Status int
	// Lost is the path prefix of Stream that Endpoint lacks, for an endpoint that was answered with 404; else empty.
	Lost   string
	Reason string // one clause
	Err    error  // the cause, or nil
}

// Error is the reason with both URLs.
func (e *EndpointError) Error() string {
	if e.Endpoint == "" {
		return fmt.Sprintf("no endpoint from the event stream %s: %s", e.Stream, e.Reason)
	}
	return fmt.Sprintf("the endpoint %s that the event stream %s names: %s", e.Endpoint, e.Stream, e.Reason)
}

// Unwrap returns the cause.
func (e *EndpointError) Unwrap() error { return e.Err }

// SSE is the HTTP+SSE transport of protocol 2024-11-05, client side: one GET stream carries everything that the server says, and
// its endpoint event names where messages are posted to. It is a [Transport]. When the stream ends, so does the transport.
type SSE struct {
	http *HTTP
	wait time.Duration
	once sync.Once

	ready chan struct{} // closed when the endpoint is known, or never will be
	mu    sync.Mutex
	known bool
	err   error // why there is no endpoint
	seen  int   // events before it
}

// NewSSE returns a transport whose event stream is at rawURL. It opens no connection: the first Send asks for the stream, and waits for the
// endpoint, at most cfg.IdleTimeout, 10 s by default. The error names what is wrong with the URL or with a header.
func NewSSE(rawURL string, h Handler, cfg *HTTPConfig) (*SSE, error) {
	t, err := NewHTTP(rawURL, h, cfg)
	if err != nil {
		return nil, err
	}
	s := &SSE{http: t, wait: endpointTime, ready: make(chan struct{})}
	if t.idle > 0 {
		s.wait = t.idle
	}
	t.legacy = s
	return s, nil
}

// SetProtocol sets the MCP-Protocol-Version header of every later POST. Empty means none.
func (s *SSE) SetProtocol(version string) { s.http.SetProtocol(version) }

// Stats counts the bytes of bodies and of the event stream.
func (s *SSE) Stats() Stats { return s.http.Stats() }

// Close ends the event stream and every POST. See [Transport].
func (s *SSE) Close() error { return s.http.Close() }

// Send posts one message to the endpoint. See [Transport]. For a request it returns when the message is written: the status of the POST, which
// some servers hold back until the request is done, is told by ExchangeEnded. Without an endpoint the error has an *[EndpointError].
func (s *SSE) Send(ctx context.Context, m *Message) error {
	s.once.Do(s.start)
	select {
	case <-s.ready:
	case <-ctx.Done():
		return &WriteError{Size: len(m.Body), Err: s.missing(ctx.Err())}
	}
	if err := s.failure(); err != nil {
		return &WriteError{Size: len(m.Body), Broken: true, Err: err}
	}
	if m.ID == "" {
		return s.http.Send(ctx, m)
	}
	return s.request(ctx, m)
}

// request posts a request, whose answer comes elsewhere.
func (s *SSE) request(ctx context.Context, m *Message) error {
	if err := ctx.Err(); err != nil {
		return &WriteError{Size: len(m.Body), Err: err}
	}
	if len(m.Header) > 0 {
		if err := checkHeader(m.Header); err != nil {
			return &WriteError{Size: len(m.Body), Err: err}
		}
		m.Header = canonical(m.Header)
	}
	x := &exchange{method: http.MethodPost, message: m, body: m.Body, id: m.ID, call: m.Call}
	if err := s.http.open(x, false); err != nil {
		return &WriteError{Size: len(m.Body), Err: err}
	}
	x.detach()
	written, done := make(chan struct{}), make(chan error, 1)
	x.written = sync.OnceFunc(func() { close(written) })
	go func() { done <- s.http.perform(ctx, x) }()
	select {
	case err := <-done:
		return err
	case <-written:
		return nil
	}
}

// start asks for the event stream.
func (s *SSE) start() {
	x := &exchange{method: http.MethodGet}
	if err := s.http.open(x, false); err != nil {
		s.settle(err)
		return
	}
	timer := time.AfterFunc(s.wait, func() { s.refuse(s.missing(nil)) })
	go func() {
		err := s.http.perform(s.http.life, x)
		timer.Stop()
		s.over(err)
	}()
}

// over ends the transport when its stream has ended.
func (s *SSE) over(err error) {
	var we *WriteError
	if errors.As(err, &we) { // of the GET, of which nobody asks how much was written
		err = we.Err
	}
	if err == nil {
		err = fmt.Errorf("the event stream ended: %w", io.EOF)
		if !s.settled() {
			err = &EndpointError{Stream: s.http.shown, Reason: "it ended before its endpoint event; " + s.brought(), Err: err}
		}
	}
	s.settle(err)
	s.http.shut(err, ErrStreamEnded)
}

// settle says whether there is an endpoint; the first call counts.
func (s *SSE) settle(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return false
	}
	s.known, s.err = true, err
	close(s.ready)
	return true
}

func (s *SSE) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

func (s *SSE) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// refuse gives the stream up because of its endpoint.
func (s *SSE) refuse(err error) {
	if !s.settle(err) {
		return
	}
	for _, x := range s.http.matching(func(x *exchange) bool { return x.method == http.MethodGet }) {
		x.abort(err)
	}
}

// missing is the error of a stream that does not name its endpoint in time.
func (s *SSE) missing(cause error) error {
	reason := "no endpoint event came in time; "
	if cause == nil {
		reason = fmt.Sprintf("no endpoint event within %v; ", s.wait)
	}
	return &EndpointError{Stream: s.http.shown, Reason: reason + s.brought(), Err: cause}
}

func (s *SSE) brought() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.seen {
	case 0:
		return "nothing came"
	case 1:
		return "one other event came"
	}
	return fmt.Sprintf("%d other events came", s.seen)
}

// event looks for the endpoint in an event of the stream. The first one counts.
func (s *SSE) event(x *exchange, ev *event) {
	if s.settled() {
		return
	}
	if ev.name != endpointEvent || ev.partial {
		if ev.data != nil || ev.name != "" { // more than a comment
			s.mu.Lock()
			s.seen++
			s.mu.Unlock()
		}
		return
	}
	to, err := s.endpoint(x.url, ev)
	if err != nil {
		s.refuse(err)
		return
	}
	s.http.move(to)
	s.settle(nil)
}

func (s *SSE) endpoint(base *url.URL, ev *event) (*url.URL, error) {
	shown := s.http.redactURL(base)
	if ev.dropped > 0 {
		return nil, &EndpointError{Stream: shown, Reason: fmt.Sprintf("its endpoint event has more than %d bytes", s.http.max)}
	}
	to, reason := resolveEndpoint(base, string(ev.data))
	if reason == "" {
		return to, nil
	}
	return nil, &EndpointError{Stream: shown, Endpoint: s.shownEndpoint(to, ev.data), Reason: reason}
}

// shownEndpoint is what an error says of an endpoint that is refused.
func (s *SSE) shownEndpoint(to *url.URL, data []byte) string {
	if to != nil {
		return s.http.redactURL(to)
	}
	return fmt.Sprintf("%.80q", data)
}

// resolveEndpoint returns the URL that the text means, seen from the event stream's (RFC 3986, 5.2), and why it must not be used, empty when it may: it must be
// of the stream's origin (2024-11-05 leaves that open; a client that follows leads its credentials to whom the server names).
func resolveEndpoint(base *url.URL, text string) (to *url.URL, reason string) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, "it is empty; the data of the endpoint event must be a URI"
	case strings.ContainsAny(text[:1], `"'{[<`):
		return nil, "it is no URI; the data of the endpoint event must be the bare URI, without quotes or JSON around it"
	}
	to, err := base.Parse(text)
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if err != nil {
		return nil, "it is no URI: " + err.Error()
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	to.RawQuery, to.ForceQuery = escapeQuery(to.RawQuery), false
	if to.Opaque != "" || to.Host == "" {
		return to, "it has no host"
	}
	from, target := origin(base), origin(to)
	switch {
	case from == target:
		return to, ""
	case base.Scheme == "https" && to.Scheme == "http":
		return to, fmt.Sprintf("it leaves https (%s to %s), so nothing is sent there; behind a proxy, make the server send a path instead of a whole URL", from, target)
	}
	return to, fmt.Sprintf("it is of another origin (%s, the stream is of %s), so nothing is sent there; behind a proxy, make the server send a path instead of a whole URL", target, from)
}

// escapeQuery escapes what cannot stand in a request line.
func escapeQuery(q string) string {
	var b strings.Builder
	for i := range len(q) {
		if c := q[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// legacyHead judges the answer's head where it is for HTTP+SSE.
func (x *exchange) legacyHead() {
	x.frame.Legacy = true
	if x.err != nil || x.next != nil {
		return
	}
	switch {
	case x.method == http.MethodGet && (x.status/100 != 2 || x.sse == nil):
		x.err = &EndpointError{Stream: x.sent.URL, Status: x.status, Reason: x.noStream()}
	case x.method == http.MethodPost && x.status == http.StatusNotFound:
		if lost := lostPrefix(x.t.url, x.url); lost != "" {
			x.err = &EndpointError{Stream: x.t.shown, Endpoint: x.sent.URL, Status: x.status, Lost: lost,
				Reason: fmt.Sprintf("HTTP 404 Not Found: prefix %s lost; a proxy in front of the server probably takes it away: tell the server its root path", lost)}
		}
	}
}

// noStream says what came instead of an event stream.
func (x *exchange) noStream() string {
	if x.status/100 != 2 {
		return fmt.Sprintf("GET was answered with HTTP %d %s", x.status, http.StatusText(x.status))
	}
	media := x.header.Get("Content-Type")
	if media == "" {
		media = "missing"
	}
	return fmt.Sprintf("the answer to GET is no event stream: its Content-Type is %.60s", media)
}

// lostPrefix returns the directory of the stream's path when the endpoint is not below it.
func lostPrefix(stream, endpoint *url.URL) string {
	dir := stream.Path[:strings.LastIndexByte(stream.Path, '/')+1]
	if len(dir) <= 1 || strings.HasPrefix(endpoint.Path, dir) {
		return ""
	}
	return strings.TrimSuffix(dir, "/")
}
