package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// The modern era: set-up and probe are one request, server/discover.

// discover asks server/discover in the given version. A server that refuses the version and lists it as supported is asked once more: the schema
// has clients choose from the list and retry (UnsupportedProtocolVersionError), and such a server may have changed its mind.
func (c *connector) discover(ctx context.Context, version string, own bool) (*rpc.Response, error) {
	c.link.use(version)
	m := newMeta(version, &c.cfg.Capabilities, c.cfg.ClientName, c.cfg.ClientVersion)
	params, err := m.appendParams(nil, nil, "", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.call(ctx, string(StageDiscover), params, own)
	if err != nil || !refusesListed(resp.Error, version) {
		return resp, err
	}
	c.find("refused-version-listed", trace.SeverityError, resp, fmt.Sprintf("server/discover in protocol %s was refused with an error that lists %s as supported; it was sent again, once", version, version))
	return c.call(ctx, string(StageDiscover), params, own)
}

// refusesListed reports whether an answer is an UnsupportedProtocolVersionError that lists the refused version.
func refusesListed(e *rpc.ErrorObject, version string) bool {
	return e != nil && isCode(e, codeUnsupportedProtocol) && slices.Contains(supported(e), version)
}

// discoverPinned sets up a session in the pinned modern version, or tells why the server does not speak it.
func (c *connector) discoverPinned(ctx context.Context) (*Session, error) {
	began, version := time.Now(), c.cfg.Protocol
	resp, err := c.discover(ctx, version, false)
	switch {
	case err != nil && isRefusal(statusOf(err)):
		return nil, c.wrongEra(ctx, why(err, string(StageDiscover), began), err)
	case err != nil:
		return nil, c.failed(StageDiscover, began, err)
	case resp.Error == nil:
		return c.accept(resp, version)
	case isCode(resp.Error, codeUnsupportedProtocol):
		return nil, c.answered(versionError(StageDiscover, version, supported(resp.Error)), resp.Error)
	case isModernError(resp.Error):
		return nil, c.refused(StageDiscover, resp.Error)
	}
	ce := c.wrongEra(ctx, "the server answered "+string(StageDiscover)+" with "+c.describe(resp.Error), nil)
	return nil, c.answered(ce, resp.Error)
}

// isRefusal reports whether an HTTP status is what servers answer a request with that they do not understand.
func isRefusal(status int) bool {
	return status/100 == 4 && status != http.StatusUnauthorized && status != http.StatusForbidden
}

// wrongEra explains a legacy server to somebody who pinned a modern version. The server did not say what it speaks, so it is asked, once, for
// the message only: the version that it answers is never used. err is nil when the connection can still be used.
func (c *connector) wrongEra(ctx context.Context, reason string, err error) *ConnectError {
	ce := versionError(StageDiscover, c.cfg.Protocol, c.ask(ctx, err != nil))
	ce.Reason += ": " + reason
	if err != nil {
		ce.Err = errors.Join(ErrVersion, err)
	}
	return ce
}

// ask finds out which version a legacy server offers.
func (c *connector) ask(ctx context.Context, fresh bool) []string {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ProbeTimeout)
	defer cancel()
	if fresh && c.dial(ctx) != nil {
		return nil
	}
	c.link.use("")
	resp, err := c.call(ctx, string(StageInitialize), c.initializeParams(newestLegacy), true)
	if err != nil || resp.Error != nil {
		return nil
	}
	if v, ok := textMember(resp.Result, "protocolVersion"); ok {
		return []string{v}
	}
	return nil
}

func (c *connector) answered(ce *ConnectError, e *rpc.ErrorObject) *ConnectError {
	ce.Answer = e
	return ce
}

// negotiateFrom finds the newest version that both sides speak. The probe is a server/discover; a server that does not know it answers
// with some error, not at all, or dies of it. version is the first to try.
func (c *connector) negotiateFrom(ctx context.Context, version string) (*Session, error) {
	began := time.Now()
	probe, cancel := context.WithTimeout(ctx, c.cfg.ProbeTimeout)
	resp, err := c.discover(probe, version, true)
	cancel()
	switch {
	case err != nil:
		return c.fallBack(ctx, began, err)
	case resp.Error == nil:
		return c.choose(ctx, resp, version)
	case isCode(resp.Error, codeUnsupportedProtocol):
		return c.chooseSupported(ctx, resp.Error, version)
	case isModernError(resp.Error):
		return nil, c.refused(StageDiscover, resp.Error)
	}
	c.probe = fmt.Errorf("%s was answered with %s", StageDiscover, c.describe(resp.Error))
	return c.initialize(ctx, newestLegacy)
}

// fallBack goes on with initialize, on a fresh connection, after a probe without an answer.
func (c *connector) fallBack(ctx context.Context, began time.Time, err error) (*Session, error) {
	if ctx.Err() != nil || hopeless(err) {
		return nil, c.failed(StageDiscover, began, err)
	}
	c.probe = fmt.Errorf("%s: %s", StageDiscover, why(err, string(StageDiscover), began))
	if err := c.dial(ctx); err != nil {
		return nil, err
	}
	return c.initialize(ctx, newestLegacy)
}

// choose takes the newest common version from a result of server/discover. A list that is missing leaves the version that was asked:
// the server did answer in it.
func (c *connector) choose(ctx context.Context, resp *rpc.Response, asked string) (*Session, error) {
	info, _ := readDiscover(resp.Result)
	if info.Supported == nil {
		return c.accept(resp, asked)
	}
	switch v := newestOf(info.Supported, Known); {
	case v == "":
		return nil, versionError(StageDiscover, asked, info.Supported)
	case Modern(v):
		return c.accept(resp, v)
	default:
		return c.initialize(ctx, v)
	}
}

// chooseSupported goes on with the newest common version that an UnsupportedProtocolVersionError names. It must be older than the one that was
// refused, so that the search ends.
func (c *connector) chooseSupported(ctx context.Context, e *rpc.ErrorObject, asked string) (*Session, error) {
	offered := supported(e)
	switch v := newestOf(offered, func(v string) bool { return v < asked }); {
	case v == "":
		return nil, c.answered(versionError(StageDiscover, asked, offered), e)
	case Modern(v):
		return c.negotiateFrom(ctx, v)
	default:
		return c.initialize(ctx, v)
	}
}

// accept makes the session of an answered server/discover. A server that does not list the version has refused it.
func (c *connector) accept(resp *rpc.Response, version string) (*Session, error) {
	info, f := readDiscover(resp.Result)
	if info.Supported != nil && newestOf(info.Supported, func(v string) bool { return v == version }) == "" {
		return nil, versionError(StageDiscover, version, info.Supported)
	}
	info.ProtocolVersion = version
	c.link.settle(version)
	if code, sev, msg := checkResultType(string(StageDiscover), resp.Result); code != "" && code != "result-type-missing" {
		c.find(code, sev, resp, msg)
	}
	return c.session(info, f.findings(string(StageDiscover), "discover-result", clauseDiscover, resp.Received, resp.ID)), nil
}

const clauseDiscover = "server/discover"

// supported reads data.supported of an UnsupportedProtocolVersionError.
func supported(e *rpc.ErrorObject) []string {
	var list []string
	if json.Unmarshal(member(e.Data, "supported"), &list) != nil {
		return nil
	}
	return list
}

func isCode(e *rpc.ErrorObject, code int64) bool {
	n, ok := e.Int()
	return ok && n == code
}

// isModernError reports whether only a server of the modern era can have answered so. All other codes mean nothing about the era: legacy
// servers answer an unknown first request with whatever they like.
func isModernError(e *rpc.ErrorObject) bool {
	return isCode(e, codeHeaderMismatch) || isCode(e, codeMissingCapability) || isCode(e, codeUnsupportedProtocol)
}
