package judge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// endpoint is a BaseURL that was checked.
type endpoint struct {
	base     string // without a slash at its end
	loopback bool   // the URL itself names loopback: localhost, 127.0.0.0/8, ::1
}

// endpoint applies the rules for addresses. Its errors hold no part of the URL but the host: the rest may hold a secret.
func (l LLM) endpoint() (*endpoint, error) {
	base := strings.TrimRight(l.BaseURL, "/")
	if base == "" && l.BaseURL == "" || base == DefaultBaseURL {
		if l.Auth == AuthNone {
			return nil, misconfigured("Auth", "is judge.AuthNone, and the endpoint is %s: only loopback may be asked without a key", DefaultBaseURL)
		}
		return &endpoint{base: DefaultBaseURL}, nil
	}
	u, err := url.Parse(base)
	if err == nil {
		err = checkURL(l.BaseURL, u)
	} else {
		err = misconfigured("BaseURL", "cannot be parsed: write it as https://host/v1")
	}
	if err != nil {
		return nil, err
	}
	end := &endpoint{base: base, loopback: loopbackName(u.Hostname())}
	switch {
	case u.Scheme == "http" && !end.loopback:
		return nil, misconfigured("BaseURL", "speaks plain HTTP to %s: use https; http is for loopback only", u.Hostname())
	case l.Auth == AuthNone && !end.loopback:
		return nil, misconfigured("Auth", "is judge.AuthNone, and %s is not loopback (localhost, 127.0.0.0/8, ::1): name the key's variable in APIKeyEnv", u.Hostname())
	case l.ResponseMode == "":
		return nil, misconfigured("ResponseMode", "is not set: with a BaseURL of your own say judge.JSONSchema or judge.JSONText, whichever the endpoint supports")
	case l.Auth != AuthNone && l.APIKeyEnv == "":
		return nil, misconfigured("APIKeyEnv", "is not set: with a BaseURL of your own name the variable with the endpoint's key (or, on loopback, set Auth to judge.AuthNone)")
	}
	return end, nil
}

func checkURL(raw string, u *url.URL) error {
	switch {
	case len(raw) > maxURL:
		return misconfigured("BaseURL", "has %d bytes: at most %d are allowed", len(raw), maxURL)
	case u.Scheme != "http" && u.Scheme != "https":
		return misconfigured("BaseURL", "is not an absolute http or https URL: write it as https://host/v1")
	case u.Hostname() == "":
		return misconfigured("BaseURL", "has no host: write it as https://host/v1")
	case u.User != nil:
		return misconfigured("BaseURL", "holds credentials: put the key into an environment variable and name that in APIKeyEnv")
	case u.RawQuery != "" || u.ForceQuery:
		return misconfigured("BaseURL", "has a query: leave away what begins with ?")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return misconfigured("BaseURL", "has a fragment: leave away what begins with #")
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return misconfigured("BaseURL", "ends in /chat/completions, which is added to it: leave that away")
	}
	return nil
}

// loopbackName tells the names of loopback (decision 16 of the architecture).
func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// errNotLoopback is what dialling gives when a loopback name is somebody else's.
var errNotLoopback = errors.New("a loopback name resolved to an address that is not loopback")

// transport makes the one connection of one request. Connections are not kept: then each request is one connection, one write and one count, and
// nothing outlives the call. Redirects are the client's affair.
func (s *settings) transport() *http.Transport {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{}).DialContext,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    s.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.test.roots()},
	}
	if s.end.loopback {
		t.Proxy = nil
		t.DialContext = s.dialLoopback
	}
	return t
}

// dialLoopback resolves the host, insists on loopback for every address, and dials those.
func (s *settings) dialLoopback(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := s.test.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if !a.Unmap().IsLoopback() {
			return nil, fmt.Errorf("%w: %s", errNotLoopback, host)
		}
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	first := fmt.Errorf("%s has no address", host)
	for i, a := range addrs {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		if i == 0 {
			first = err
		}
	}
	return nil, first
}
