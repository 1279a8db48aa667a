package m3

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/m3-go/m3/harness"
)

// reaching is the way to a server over HTTP. It notes when the server does not answer any more, and when it does again.
type reaching struct {
	s  *served
	rt http.RoundTripper
}

// RoundTrip sends a request. Only messages count: a stream of events may be cut by whatever is in between.
func (r *reaching) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.rt.RoundTrip(req)
	if req.Method != http.MethodPost {
		return resp, err
	}
	if err != nil {
		r.failed(req, err)
		return nil, err
	}
	resp.Body = &reachingBody{ReadCloser: resp.Body, r: r, req: req}
	return resp, nil
}

// failed notes why there is no answer, unless the agent did not want one any more, or m3 itself refused the way.
func (r *reaching) failed(req *http.Request, err error) {
	var trust *EndpointTrustError
	if req.Context().Err() == nil && !errors.As(err, &trust) {
		r.s.reached(err)
	}
}

// reachingBody is an answer that may be cut off.
type reachingBody struct {
	io.ReadCloser
	r   *reaching
	req *http.Request
}

// Read reads the answer.
func (b *reachingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.r.s.reached(nil)
	case err != nil:
		b.r.failed(b.req, err)
	}
	return n, err
}

// reached notes how the last message to the server went.
func (s *served) reached(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreached = err
}

// takeUnreached is why the server did not answer the last message; nil when it did.
func (s *served) takeUnreached() error {
	s.mu.Lock()
	err := s.unreached
	s.unreached = nil
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	return &harness.Error{Blame: harness.BlameServer, Code: "server_died", Err: err,
		Message: "server " + s.alias + " did not answer any more while the agent used it: " + strings.TrimPrefix(err.Error(), "m3: ")}
}
