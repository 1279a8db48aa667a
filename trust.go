package m3

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/m3-go/m3/internal/evidence"
)

// endpoint is a checked URL of an HTTP server.
type endpoint struct {
	url      *url.URL
	loopback bool // the URL itself names loopback: localhost, 127.0.0.0/8, ::1
}

// parseEndpoint checks what can be checked without looking anything up. Its errors hold no part of the URL but the host.
func parseEndpoint(raw string) (*endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, validationf("HTTPServer: the URL cannot be parsed: write it as http://host:port/path")
	}
	switch {
	case raw == "":
		return nil, validationf("HTTPServer: URL is empty")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, validationf("HTTPServer: the URL's scheme is %q: only http and https are spoken", u.Scheme)
	case u.Host == "" || u.Hostname() == "":
		return nil, validationf("HTTPServer: the URL has no host")
	case u.User != nil:
		return nil, validationf("HTTPServer %s: the URL holds credentials: put them into Secrets as a header", u.Hostname())
	case u.Fragment != "":
		return nil, validationf("HTTPServer %s: the URL has a fragment", u.Hostname())
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // what cannot be read cannot be checked: "?a=1;token=…"
		return nil, validationf("HTTPServer %s: the URL's query cannot be parsed: separate parameters with &, and escape the rest", u.Hostname())
	}
	for name := range query {
		if credentialLike(name) {
			return nil, validationf("HTTPServer %s: the query parameter %q looks like a credential: put it into Secrets as a header", u.Hostname(), name)
		}
	}
	return &endpoint{url: u, loopback: loopbackName(u.Hostname())}, nil
}

// shown is the URL as it is stored: without its query.
func (e *endpoint) shown() string {
	u := *e.url
	u.RawQuery = ""
	return u.String()
}

func hostOf(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return "http"
}

func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// credentialLike tells names of query parameters that carry secrets (spec/behaviour.md 7.8b): those whose values the redactor hides.
func credentialLike(name string) bool {
	probe := "http://host/?" + url.Values{name: {"value"}}.Encode()
	return evidence.NewRedactor(nil).URL(probe) != probe
}

// pinned resolves a host once, checks every address against the trust level, and from then on dials only those.
type pinned struct {
	endpoint *endpoint
	trust    Trust

	mu    sync.Mutex
	addrs []netip.Addr
}

// dial is a DialContext for the endpoint's host and no other.
func (p *pinned) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := p.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	var first error
	for _, a := range addrs {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (p *pinned) resolve(ctx context.Context) ([]netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.addrs != nil {
		return p.addrs, nil
	}
	host := p.endpoint.url.Hostname()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
		if err := p.allow(host, addrs[i]); err != nil {
			return nil, err
		}
	}
	p.addrs = addrs
	return addrs, nil
}

// allow applies spec/behaviour.md 2.2 and decision 16 of the architecture.
func (p *pinned) allow(host string, a netip.Addr) error {
	details := map[string]any{"host": host}
	if p.endpoint.loopback {
		if !a.IsLoopback() {
			return &EndpointTrustError{Message: fmt.Sprintf("server at %s: a loopback URL resolved to an address that is not loopback", host), Details: details}
		}
		return nil
	}
	private := a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast() || a.IsMulticast() || a.IsUnspecified() || carrierGrade.Contains(a)
	if private && p.trust != TrustedPrivate {
		return &EndpointTrustError{Message: fmt.Sprintf("server at %s: the host resolves to a private address: set Trust: m3.TrustedPrivate if that is meant", host), Details: details}
	}
	return nil
}

// carrierGrade is RFC 6598's shared address space, which is no public address either.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")
