package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// Config says how to open a session. Tape and Dial are required.
type Config struct {
	// Protocol is the exact version to speak. Empty takes the newest that both sides speak.
	Protocol string
	// Legacy leaves the era probe out, because this server is known to need initialize. It means something only without a Protocol.
	Legacy bool
	// ClientName and ClientVersion are what the server is told; empty means m3, and "dev".
	ClientName, ClientVersion string
	Capabilities              Capabilities
	// LogLevel asks for log messages with every request of a 2026-07-28 session. The legacy eras have logging/setLevel, which is the caller's.
	LogLevel string
	Tape     *evidence.Tape
	Server   string // the server's name in the trace
	// Dial opens a fresh connection that reports to h. It is called a second time when a probe left the first connection in doubt. ctx bounds
	// the opening, not the connection's life. The caller starts the process and records it; it hears of the end by the transport's Close.
	Dial func(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error)
	// DialSSE opens a connection over HTTP+SSE of 2024-11-05. It is tried when initialize over Dial was answered with a 4xx that says nothing about
	// credentials (basic/transports, backwards compatibility). Nil: that is the end.
	DialSSE func(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error)
	// Request answers the server's requests for sampling, roots and elicitation, each on a goroutine of its own. What was not
	// declared is never passed on, ping is answered here. handled false is answered with "method not found".
	Request func(ctx context.Context, method string, params trace.JSON) (result any, err *rpc.ErrorObject, handled bool)
	// Elicit answers elicitation/create of the legacy eras, one after the other in the order of their arrival. Nil: Request does.
	Elicit func(ctx context.Context, in *Asked) (result trace.JSON, err *rpc.ErrorObject)
	// Notification is told of every notification of the server, progress included, on the reader: it must not block, and params are
	// valid during the call only.
	Notification func(method string, params trace.JSON)
	// StartTimeout bounds all of Connect (0: 30 s), ProbeTimeout the wait for the answer to an era probe (0: 3 s).
	StartTimeout, ProbeTimeout time.Duration
}

const (
	defaultStart  = 30 * time.Second
	defaultProbe  = 3 * time.Second
	cancelTimeout = 250 * time.Millisecond // for the write of a cancellation
)

// Connect opens a session: it dials, settles the version and the era, and reads what the server says of itself. ctx bounds the opening, not
// the session's life. The error is a *[ConnectError]; nothing stays open then.
func Connect(ctx context.Context, cfg *Config) (*Session, error) {
	c, err := newConnector(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	s, err := c.open(ctx)
	if err != nil {
		if c.link != nil {
			_ = c.link.conn.Close() // the reason why there is no session is the one to tell
		}
		return nil, err
	}
	return s, nil
}

// connector is one Connect at work.
type connector struct {
	cfg   Config
	link  *link // the connection in use; nil before the first dial
	probe error // why server/discover settled nothing
}

func newConnector(cfg *Config) (*connector, error) {
	c := &connector{cfg: *cfg}
	if c.cfg.Protocol != "" && !Known(c.cfg.Protocol) {
		return nil, &ConnectError{Stage: StageConfig, Protocol: c.cfg.Protocol, Err: ErrVersion,
			Reason: fmt.Sprintf("m3 does not speak protocol %s; it speaks %s", quote(c.cfg.Protocol), strings.Join(Versions, ", "))}
	}
	if c.cfg.ClientName == "" {
		c.cfg.ClientName = "m3"
	}
	if c.cfg.ClientVersion == "" {
		c.cfg.ClientVersion = "dev"
	}
	if c.cfg.StartTimeout == 0 {
		c.cfg.StartTimeout = defaultStart
	}
	if c.cfg.ProbeTimeout == 0 {
		c.cfg.ProbeTimeout = defaultProbe
	}
	return c, nil
}

func (c *connector) open(ctx context.Context) (*Session, error) {
	if err := c.dial(ctx); err != nil {
		return nil, err
	}
	switch {
	case c.cfg.Protocol == "" && !c.cfg.Legacy:
		return c.negotiateFrom(ctx, Versions[0])
	case Modern(c.cfg.Protocol):
		return c.discoverPinned(ctx)
	}
	return c.initialize(ctx, c.firstLegacy())
}

func (c *connector) firstLegacy() string {
	if c.cfg.Protocol != "" {
		return c.cfg.Protocol
	}
	return newestLegacy
}

// dial opens the connection, or a fresh one in place of the one that is there.
func (c *connector) dial(ctx context.Context) error {
	if c.link != nil {
		_ = c.link.conn.Close()
		c.link = nil
	}
	l, err := dial(ctx, &c.cfg)
	if err != nil {
		return &ConnectError{Stage: StageDial, Reason: strings.TrimPrefix(err.Error(), "m3: "), Probe: c.probe, Err: err}
	}
	c.link = l
	return nil
}

// call sends one request of the set-up. It is never cancelled on the wire: when it fails, the connection goes.
func (c *connector) call(ctx context.Context, method string, params []byte, own bool) (*rpc.Response, error) {
	return c.link.conn.Call(ctx, &rpc.Request{Method: method, Params: params, Phase: trace.PhaseInitialization, Own: own, NoCancel: true})
}

// failed is a call of the set-up that got no answer.
func (c *connector) failed(stage Stage, began time.Time, err error) *ConnectError {
	return &ConnectError{Stage: stage, Reason: why(err, string(stage), began), Protocol: c.cfg.Protocol, Probe: c.probe, Err: err}
}

// refused is a call of the set-up that was answered with an error.
func (c *connector) refused(stage Stage, e *rpc.ErrorObject) *ConnectError {
	return &ConnectError{Stage: stage, Reason: "the server answered " + string(stage) + " with " + c.describe(e), Protocol: c.cfg.Protocol, Answer: e, Probe: c.probe}
}

// describe is an error of the server on one line. Secrets are taken out before the text is cut: half of one would not be found.
func (c *connector) describe(e *rpc.ErrorObject) string {
	message := c.cfg.Tape.Redactor().String(e.Message)
	if strings.ContainsFunc(message, unicode.IsControl) {
		message = strconv.Quote(message)
	}
	return ErrorText(&rpc.ErrorObject{Code: e.Code, Message: message})
}

// why turns a failure into one clause that names what was waited for and how long.
func why(err error, method string, began time.Time) string {
	var call *rpc.CallError
	if !errors.As(err, &call) {
		return err.Error()
	}
	waited := time.Since(began).Round(time.Millisecond)
	var endpoint *wire.EndpointError
	switch call.Kind {
	case rpc.KindTimeout:
		if errors.As(call.Err, &endpoint) {
			return fmt.Sprintf("%s could not be sent within %s: %v", method, waited, endpoint)
		}
		return fmt.Sprintf("no answer to %s within %s", method, waited)
	case rpc.KindCancelled:
		return fmt.Sprintf("cancelled after waiting %s for the answer to %s", waited, method)
	}
	return call.Reason
}

// hopeless reports whether initialize has no reason to fare better than the probe did: nothing was reached at all, or the server wants
// credentials first, whatever the method.
func hopeless(err error) bool {
	var unreached *wire.DialError
	return errors.As(err, &unreached) || statusOf(err) == http.StatusUnauthorized
}

// statusOf is the HTTP status that a call failed with, or 0.
func statusOf(err error) int {
	var call *rpc.CallError
	if errors.As(err, &call) && call.HTTP != nil {
		return call.HTTP.Status
	}
	return 0
}

// session makes the session of the settled link.
func (c *connector) session(info *Info, found []trace.Finding) *Session {
	for _, f := range found {
		c.cfg.Tape.Find(f)
	}
	c.cfg.Tape.Record(&trace.Event{
		Kind: trace.KindMCPInitialized, Phase: trace.PhaseInitialization, Server: c.cfg.Server, ConnectionID: c.link.id,
		Source: trace.Source{Origin: trace.OriginNormalized, Source: "mcp"}, Payload: info.payload(),
	})
	return &Session{link: c.link, info: info, meta: c.cfg.meta(info.ProtocolVersion, c.cfg.Capabilities)}
}

// find records a finding about an answer of the set-up.
func (c *connector) find(code string, sev trace.Severity, resp *rpc.Response, msg string) {
	c.cfg.Tape.Find(trace.Finding{Code: code, Severity: sev, Message: msg, Sequence: resp.Received, Offset: -1, RPCID: resp.ID, Clause: clauseLifecycle})
}

const clauseLifecycle = "basic/lifecycle"

// without returns the versions without v.
func without(versions []string, v string) []string {
	return slices.DeleteFunc(slices.Clone(versions), func(s string) bool { return s == v })
}
