package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

const (
	username = "opencode"
	// maxBody is the most that one answer may have: a history page with large results.
	maxBody = 64 << 20
	// dialBound is how long a connection to a process on the same machine may take.
	dialBound = 10 * time.Second
)

// client is the HTTP connection to the process. Every body passes to the tape; the password, which is in a header, does not, and neither does what holds resolved keys:
// GET /config is never asked for.
type client struct {
	host     harness.Host
	base     string
	password string
	http     *http.Client
	stream   *http.Transport
}

func newClient(host harness.Host, base, password string) *client {
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: dialBound}).DialContext, DisableCompression: true}
	return &client{host: host, base: base, password: password, stream: t,
		http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (c *client) close() { c.stream.CloseIdleConnections() }

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(username, c.password)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(req)
}

// statusError is an answer that is no success.
type statusError struct {
	method, path string
	status       int
	body         []byte
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s was answered with HTTP %d: %.300s", e.method, e.path, e.status, e.body)
}

var errTooLarge = errors.New("the answer has more than 64 MB")

// do is one exchange. in and out may be nil.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		b, err := encode(in)
		if err != nil {
			return err
		}
		body = b
		c.host.Frame(trace.ClientToServer, trace.FramingBody, body)
	}
	res, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if len(b) > 0 && len(b) <= maxBody {
		c.host.Frame(trace.ServerToClient, trace.FramingBody, b)
	}
	switch {
	case err != nil:
		return err
	case len(b) > maxBody:
		return fmt.Errorf("%s %s: %w", method, path, errTooLarge)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return &statusError{method, path, res.StatusCode, b}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return &protocolError{fmt.Sprintf("the answer to %s %s is not what it should be: %v (%.200q)", method, path, err, b)}
	}
	return nil
}

// protocolError is an answer that the driver cannot read.
type protocolError struct{ msg string }

func (e *protocolError) Error() string { return e.msg }

// encode writes JSON without HTML's escapes: text stays as it is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
