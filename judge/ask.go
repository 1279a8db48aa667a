package judge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/judging"
)

// Judge asks the model about the subject, outside every kit, and stores nothing. The error is a *[ConfigError] or an *[Error]; an abstention is one, too.
// The answer's rationale has no text of the subject and not the key: "<redacted>" stands in their place. In a test use
// m3.Kit.JudgeResponse, or register [LLM.Evaluate].
func (l LLM) Judge(ctx context.Context, subject Subject) (Answer, error) {
	s, err := l.settled()
	if err != nil {
		return Answer{}, err
	}
	if e := checkSubject(subject); e != nil {
		return Answer{}, e
	}
	out := s.ask(ctx, subject)
	if out.err != nil {
		return Answer{}, out.err
	}
	return out.answer, nil
}

// outcome is what came of asking.
type outcome struct {
	answer   Answer
	err      *Error // nil: there is an answer
	attempts int    // requests that were tried
	elapsed  time.Duration
	reply    *reply // the last; nil when none came
}

// ask asks, and once more where that may help.
func (s *settings) ask(ctx context.Context, subject Subject) (out outcome) {
	begin := time.Now()
	defer func() { out.elapsed = time.Since(begin) }()
	host := judging.HostOf(ctx)
	if host.Err != nil {
		out.err = fail(CodeBudgetUnavailable, "the budget of judge requests is not known: %v", host.Err)
		return out
	}
	key, e := s.key()
	if e != nil {
		out.err = e
		return out
	}
	if key != "" && host.Secret != nil {
		host.Secret(s.APIKeyEnv, key)
	}
	s.attempts(ctx, host.Budget, key, s.request(subject), &out)
	out.hide(key, subject)
	return out
}

// attempts makes the request, at most twice.
func (s *settings) attempts(ctx context.Context, budget *judging.Budget, key string, body []byte, out *outcome) {
	most := 2
	if s.NoRetry {
		most = 1
	}
	for {
		if e := budgetError(budget.Check()); e != nil {
			if out.err != nil {
				e = e.with("last_error_code", out.err.Reason)
			}
			out.err = e
			return
		}
		out.attempts++
		var pause time.Duration
		out.reply, pause, out.err = s.attempt(ctx, budget, key, body)
		if out.err == nil {
			out.answer, out.err = s.read(out.reply)
			return
		}
		if !out.err.retried() || ctx.Err() != nil || out.attempts >= most || pause > maxPause || !wait(ctx, s.test.shorter(pause)) {
			return
		}
	}
}

// read is the answer in a reply.
func (s *settings) read(r *reply) (Answer, *Error) {
	a, err := parseAnswer(r.text, s.ResponseMode)
	if err == nil && a.Abstain {
		err = fail(CodeAbstained, "the judge abstained: it says that what it was given cannot be assessed")
	}
	return a, err
}

const (
	usualPause = 500 * time.Millisecond
	// maxPause is how long an endpoint may have us wait. Where it wants more, asking again would be rude, and would be refused.
	maxPause = 10 * time.Second
)

// wait reports false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one request on one connection. Pause is how long to wait before another.
func (s *settings) attempt(ctx context.Context, budget *judging.Budget, key string, body []byte) (r *reply, pause time.Duration, e *Error) {
	mine, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	gate := &gate{ctx: mine, budget: budget, hooks: s.test, body: bytes.NewReader(body)}
	req, err := http.NewRequestWithContext(mine, http.MethodPost, s.end.base+"/chat/completions", nil)
	if err != nil {
		return nil, 0, fail(CodeProvider, "the request cannot be made: BaseURL is no usable URL")
	}
	req.Body, req.ContentLength = gate, int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "m3-judge")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	t := s.transport()
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if e := budgetError(gate.refused()); e != nil {
		return nil, 0, e
	}
	if err != nil {
		return nil, usualPause, s.broken(ctx, mine, req.URL, err)
	}
	defer resp.Body.Close()
	if e := statusError(resp); e != nil {
		return nil, pauseOf(resp), e
	}
	r, e, err = readReply(resp)
	if err != nil {
		return nil, usualPause, s.broken(ctx, mine, req.URL, err)
	}
	return r, 0, e
}

// pauseOf is how long the endpoint wants us to wait.
func pauseOf(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 1e6 {
		return usualPause
	}
	return max(time.Duration(seconds)*time.Second, usualPause)
}

// budgetError is the error of a request that the budget did not let through. The end of a context has codes of its own.
func budgetError(err error) *Error {
	var b *judging.Error
	switch {
	case !errors.As(err, &b), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, judging.ErrExhausted):
		return fail(CodeBudgetExhausted, "the budget of judge requests is spent: it allows %d", b.Limit).with("budget", b.Limit)
	default:
		return fail(CodeBudgetUnavailable, "no request was made, because the budget allows %d and cannot be counted: %v", b.Limit, b.Err).with("budget", b.Limit)
	}
}

// broken is the error of a request that came to no response, or to half of one. The text of err is not shown: it may quote the endpoint.
func (s *settings) broken(caller, mine context.Context, u *url.URL, err error) *Error {
	var timeout net.Error
	switch {
	case errors.Is(caller.Err(), context.Canceled):
		return fail(CodeCancelled, "the caller gave up before the judge had answered")
	case caller.Err() != nil:
		return fail(CodeTimeout, "the caller's deadline passed before the judge had answered")
	case mine.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return fail(CodeTimeout, "the judge had not answered within %v", s.Timeout)
	default:
		return fail(CodeProvider, "the endpoint at %s could not be asked: %s", u.Host, cause(err))
	}
}

// cause says in m3's words why a connection failed.
func cause(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, errNotLoopback):
		return errNotLoopback.Error()
	case errors.As(err, &dns):
		return "its name has no address"
	case errors.As(err, &cert), errors.As(err, &name), errors.As(err, &authority):
		return "its certificate cannot be verified"
	case errors.As(err, &record):
		return "it does not speak TLS"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection before the end of its answer"
	default:
		return "what it sent is no HTTP response"
	}
}

// gate is the body of a request. Its first read is the last moment before the first byte goes out, on a connection that is open (net/http writes head and
// body together): then the request is taken from the budget, and refused when nothing is left.
type gate struct {
	ctx    context.Context
	budget *judging.Budget
	hooks  *testHooks
	body   *bytes.Reader

	mu    sync.Mutex
	begun bool
	err   error
}

// Read is that of io.Reader.
func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.begun {
		g.begun = true
		g.hooks.at("before")
		if g.err = g.ctx.Err(); g.err == nil {
			g.err = g.budget.Spend(g.ctx)
		}
		g.hooks.at("after")
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.body.Read(p)
}

// Close is that of io.Closer.
func (g *gate) Close() error { return nil }

// refused is why the budget did not let the request through.
func (g *gate) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// testHooks are for tests of this package. Nil is none of them.
type testHooks struct {
	certificates *x509.CertPool
	addresses    func(host string) []netip.Addr
	noPause      bool
	point        func(name string) // is told "before" and "after" the budget is asked
}

func (h *testHooks) roots() *x509.CertPool {
	if h == nil {
		return nil
	}
	return h.certificates
}

func (h *testHooks) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if h != nil && h.addresses != nil {
		return h.addresses(host), nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

func (h *testHooks) shorter(d time.Duration) time.Duration {
	if h != nil && h.noPause {
		return 0
	}
	return d
}

func (h *testHooks) at(point string) {
	if h != nil && h.point != nil {
		h.point(point)
	}
}
