package m3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/m3-go/m3/internal/oauth"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

const (
	chainBound = 10 * time.Second // all of a discovery
	fetchBound = 3 * time.Second  // one document
	fetchBytes = 1 << 20
)

// addAuthorization shows, in the error about a 401 of a deployed server, what the server says of its authorization. Nothing else starts it: no
// other status, and no answer to the optional GET stream.
func (c *Client) addAuthorization(ctx context.Context, e *TransportError, call *rpc.CallError, d *dialer) {
	if d == nil || call == nil || call.HTTP == nil || call.HTTP.Status != http.StatusUnauthorized {
		return
	}
	s, ok := d.server.(HTTPServer)
	if !ok {
		return
	}
	endpoint, err := parseEndpoint(s.URL)
	if err != nil {
		return // it was checked before anything was sent
	}
	bounded, cancel := context.WithTimeout(ctx, chainBound)
	defer cancel()
	f := &fetcher{client: c, endpoint: endpoint, trust: s.Trust}
	chain := oauth.Discover(bounded, endpoint.url, challengesOf(call.HTTP), f.fetch)
	for _, found := range chain.Findings {
		found.Sequence = call.Sequence
		c.tape.Find(found)
	}
	r := c.kit.redactor
	e.Message += "\n  what the server offers for authorization:\n    " + strings.ReplaceAll(r.String(chain.String()), "\n", "\n    ")
	for _, found := range chain.Findings {
		e.Message += "\n  " + string(found.Severity) + " " + found.Code + ": " + r.String(found.Message) + " (" + found.Clause + ")"
	}
	e.Message += "\n  m3 starts no authorization: give the server a token, with Secrets: {\"Authorization\": m3.BearerFromEnv(\"NAME\")}"
	e.Details["phase"] = "authorization"
	e.Details["status"] = http.StatusUnauthorized
	e.Details["authorization"] = chainDetails(r.String, chain)
}

// challengesOf are the values of WWW-Authenticate.
func challengesOf(h *trace.HTTPInfo) []string {
	var values []string
	for _, f := range h.Header {
		if strings.EqualFold(f.Name, "WWW-Authenticate") {
			values = append(values, f.Value)
		}
	}
	return values
}

// chainDetails is the chain as plain data, redacted.
func chainDetails(redact func(string) string, c *oauth.Chain) map[string]any {
	steps := make([]any, len(c.Steps))
	for i, s := range c.Steps {
		steps[i] = map[string]any{"what": s.What, "url": redact(s.URL), "status": s.Status, "usable": s.Usable, "note": redact(s.Note)}
	}
	codes := []any{}
	for _, f := range c.Findings {
		codes = append(codes, f.Code)
	}
	servers := []any{}
	for _, s := range c.AuthorizationServers {
		servers = append(servers, redact(s))
	}
	return map[string]any{"steps": steps, "findings": codes, "authorization_servers": servers, "scopes": redact(c.Scopes)}
}

// fetcher gets the documents of a chain. Their URLs come from the server, so each is held to the server's own trust, and none gets a
// header that the test gave.
type fetcher struct {
	client   *Client
	endpoint *endpoint // the server's
	trust    Trust
	count    int64
}

// allow checks a URL that a server named. Loopback is open to a server that is there itself, and to one that is trusted with private addresses.
func (f *fetcher) allow(raw string) (*endpoint, error) {
	e, err := parseEndpoint(raw)
	var invalid *ValidationError
	if errors.As(err, &invalid) {
		return nil, errors.New("not fetched: " + strings.TrimPrefix(invalid.Message, "HTTPServer: "))
	}
	if err == nil && e.loopback && !f.endpoint.loopback && f.trust != TrustedPrivate {
		return nil, errors.New("not fetched: a server elsewhere sends its clients to loopback")
	}
	return e, err
}

func (f *fetcher) fetch(ctx context.Context, raw string) (*oauth.Fetched, error) {
	e, err := f.allow(raw)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchBound)
	defer cancel()
	t := &http.Transport{DialContext: (&pinned{endpoint: e, trust: f.trust}).dial, DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("not fetched: %w", withoutURL(err))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "m3")
	f.count++
	info := &trace.HTTPInfo{Exchange: f.count, Method: req.Method, URL: f.client.kit.redactor.URL(e.url.String())}
	f.record(trace.ClientToServer, info, nil)
	resp, err := t.RoundTrip(req) // a RoundTripper follows no redirects
	if err != nil {
		var trust *EndpointTrustError
		if errors.As(err, &trust) {
			return nil, errors.New("not fetched: " + trust.Message)
		}
		return nil, withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes))
	answer := *info
	answer.Status = resp.StatusCode
	for name, values := range resp.Header {
		for _, v := range values {
			answer.Header = append(answer.Header, trace.HTTPHeader{Name: name, Value: v})
		}
	}
	f.record(trace.ServerToClient, &answer, body)
	if err != nil {
		return nil, fmt.Errorf("the body was cut off: %w", err)
	}
	return &oauth.Fetched{Status: resp.StatusCode, Location: resp.Header.Get("Location"), Body: bytes.TrimSpace(body)}, nil
}

// record keeps the exchange on the tape, under a connection of its own.
func (f *fetcher) record(dir trace.Direction, info *trace.HTTPInfo, body []byte) {
	f.client.tape.Record(&trace.Event{Kind: trace.KindHTTPExchange, Phase: trace.PhaseInitialization, Server: f.client.server, ConnectionID: "authorization", Own: true,
		Source: trace.Source{Origin: trace.OriginWire, Source: "mcp"}, Frame: &trace.Frame{Direction: dir, Framing: trace.FramingBody, Bytes: body, HTTP: info}})
}

// withoutURL is the reason inside an error that names a whole URL.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return errors.New("it cannot be reached")
	}
	return err
}
