package mcp

import (
	"context"
	"fmt"
	"time"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// The legacy era: initialize, its counter-offer, notifications/initialized.

// initializeParams encodes the params of initialize.
func (c *connector) initializeParams(version string) []byte {
	b := append([]byte(nil), `{"protocolVersion":`...)
	b = trace.AppendString(b, version)
	b = append(b, `,"capabilities":`...)
	b = c.cfg.Capabilities.append(b, version)
	b = append(b, `,"clientInfo":`...)
	b = appendImplementation(b, c.cfg.ClientName, c.cfg.ClientVersion)
	return append(b, '}')
}

// initialize sets up a legacy session, asking for the version.
func (c *connector) initialize(ctx context.Context, version string) (*Session, error) {
	c.link.use("") // initialize itself is sent in no version
	began := time.Now()
	resp, err := c.call(ctx, string(StageInitialize), c.initializeParams(version), false)
	if err != nil && c.cfg.DialSSE != nil && isRefusal(statusOf(err)) {
		return c.overSSE(ctx, began, version, err)
	}
	if err != nil {
		return nil, c.failed(StageInitialize, began, err)
	}
	if resp.Error != nil {
		return c.errorInsteadOfOffer(ctx, resp, version)
	}
	return c.initialized(ctx, resp, version)
}

// overSSE asks for initialize again, over the older transport, because streamable HTTP was refused with err. When this fails as well, both failures are
// told: which of the two transports the server was meant to speak, only its owner knows.
func (c *connector) overSSE(ctx context.Context, began time.Time, version string, err error) (*Session, error) {
	earlier := fmt.Errorf("%s over streamable HTTP: %s", StageInitialize, why(err, string(StageInitialize), began))
	if c.probe != nil {
		earlier = fmt.Errorf("%w; before that, %w", earlier, c.probe)
	}
	c.probe = earlier
	c.cfg.Dial, c.cfg.DialSSE = c.cfg.DialSSE, nil
	if err := c.dial(ctx); err != nil {
		return nil, err
	}
	return c.initialize(ctx, version)
}

// errorInsteadOfOffer handles a server that refuses the version with an error where it should have offered its own. When the error names one
// that m3 speaks, and none was pinned, that one is asked for.
func (c *connector) errorInsteadOfOffer(ctx context.Context, resp *rpc.Response, asked string) (*Session, error) {
	e := resp.Error
	offered := without(namedVersions(e.Message+" "+string(e.Data)), asked)
	if len(offered) == 0 {
		return nil, c.refused(StageInitialize, e)
	}
	c.find("error-instead-of-negotiation", trace.SeverityError, resp, fmt.Sprintf(
		"the server answered initialize in %s with %s instead of offering a version of its own", asked, c.describe(e)))
	next := newestOf(offered, func(v string) bool { return !Modern(v) && v < asked })
	if c.cfg.Protocol != "" || next == "" {
		ce := versionError(StageInitialize, asked, offered)
		ce.Probe = c.probe
		return nil, c.answered(ce, e)
	}
	return c.initialize(ctx, next)
}

// initialized checks what the server chose, confirms it, and makes the session.
func (c *connector) initialized(ctx context.Context, resp *rpc.Response, asked string) (*Session, error) {
	info, f := readInitialize(resp.Result)
	if info.ProtocolVersion == "" {
		info.ProtocolVersion = asked // nothing says otherwise, and the finding says that it is missing
	}
	if err := c.checkOffer(resp, asked, info.ProtocolVersion); err != nil {
		return nil, err
	}
	c.link.settle(info.ProtocolVersion)
	if err := c.link.conn.Notify(ctx, string(StageInitialized), nil); err != nil {
		return nil, &ConnectError{Stage: StageInitialized, Reason: err.Error(), Protocol: c.cfg.Protocol, Probe: c.probe, Err: err}
	}
	s := c.session(info, f.findings(string(StageInitialize), "init-result", clauseLifecycle, resp.Received, resp.ID))
	if c.cfg.Capabilities.any() {
		s.OpenStream(ctx) // where an HTTP server sends its requests: what it asks for during the first call must not get lost
	}
	return s, nil
}

// checkOffer accepts any legacy version that m3 knows, unless one was pinned.
func (c *connector) checkOffer(resp *rpc.Response, asked, offered string) error {
	switch {
	case offered == asked:
		return nil
	case c.cfg.Protocol != "":
		c.find("version-not-accepted", trace.SeverityWarning, resp, fmt.Sprintf(
			"asked for %s, the server answered %s: clients that speak only the former cannot connect", asked, shorten(offered)))
	case Known(offered) && !Modern(offered):
		return nil
	case Modern(offered):
		c.find("modern-version-in-initialize", trace.SeverityError, resp, fmt.Sprintf(
			"the server answered initialize with %s, a version that has no initialize", shorten(offered)))
	}
	ce := versionError(StageInitialize, asked, []string{offered})
	ce.Probe = c.probe
	return ce
}
