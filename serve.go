package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// served is one server of an execution, with the relay between it and the agent.
type served struct {
	x           *execution
	alias       string
	server      Server
	optional    bool
	client      *Client // for the record of the server's side; it never connects
	d           *dialer
	endpoint    harness.Endpoint
	unavailable string // why an optional one is left out

	relay    *relay.Relay // nil until it is started
	listener *relay.Listener
	http     []*http.Server
	life     context.Context
	end      context.CancelFunc
	group    sync.WaitGroup

	mu        sync.Mutex
	conns     int
	spare     *upstream       // started before the agent, for its first connection
	joined    []*upstream     // that agents were connected to
	unreached error           // why the last message to a server over HTTP had no answer; nil when it had
	died      error           // a server that ended by itself under an agent; taken by serverFault
	listed    map[string]bool // tools that the server listed
	whole     bool            // the list was read to its end
	refusal   string          // why the server refused the last handshake; empty when it did not
}

// serve prepares a server: its secrets are resolved and known. Nothing is started.
func (x *execution) serve(ctx context.Context, b *Binding) (*served, error) {
	s := &served{x: x, alias: b.Alias, server: b.Server, optional: b.Optional, listed: map[string]bool{}}
	s.client = &Client{kit: x.kit, server: b.Alias, id: x.id}
	s.d = &dialer{client: s.client, server: b.Server}
	s.life, s.end = context.WithCancel(context.Background())
	if h, ok := b.Server.(HTTPServer); ok && h.Trust == Untrusted {
		if e, err := parseEndpoint(h.URL); err == nil && !e.loopback {
			return nil, &EndpointTrustError{Message: fmt.Sprintf("server %s: an agent is given no untrusted server: set Trust: m3.TrustedPublic, or m3.TrustedPrivate for a private address", b.Alias),
				Details: map[string]any{"server": b.Alias}}
		}
	}
	if err := s.d.resolveSecrets(ctx); err != nil {
		if !b.Optional {
			return nil, err
		}
		s.unavailable = err.Error()
	}
	return s, nil
}

// servedSpec is what is stored of a server.
type servedSpec struct {
	Alias     string            `json:"alias"`
	Optional  bool              `json:"optional,omitempty"`
	Name      string            `json:"name"`
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Build     string            `json:"build,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Inherit   []string          `json:"inherit,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Trust     string            `json:"trust,omitempty"`
}

// spec is the stored form, redacted.
func (s *served) spec() []byte {
	var d directSpec
	s.server.describe(&d)
	r := s.x.kit.redactor
	b, _ := json.Marshal(&servedSpec{Alias: s.alias, Optional: s.optional, Name: s.server.ServerName(), Transport: d.Transport, Command: d.Command, Build: d.Build, Args: r.Args(d.Args),
		Dir: d.Dir, Env: d.Env, Inherit: d.Inherit, URL: d.URL, Headers: d.Headers, Trust: d.Trust}) // text only: cannot fail
	b, _ = r.Bytes(b)
	if len(d.Secrets) > 0 {
		b = splice(b, "secrets", s.x.kit.references(d.Secrets))
	}
	return b
}

// startServers starts every server and offers it to the agent. One that may be missing is left out when it cannot be started.
func (x *execution) startServers(ctx context.Context) error {
	for _, s := range x.servers {
		err := error(nil)
		if s.unavailable == "" {
			err = s.start(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !s.optional:
			return serverError(s.alias, err)
		case err != nil:
			s.unavailable = err.Error()
		}
		if s.unavailable != "" {
			x.diagnose(&trace.Diagnostic{Code: "server_unavailable", Message: "the optional server " + s.alias + " is left out: " + s.unavailable, Stage: "server", Operation: s.alias}, trace.PhaseStartup)
		}
	}
	return nil
}

// serverError blames a server, unless the error blames somebody else.
func serverError(alias string, err error) error {
	var own *harness.Error
	var broken *relay.ShimError
	switch {
	case errors.As(err, &own):
		return err
	case errors.As(err, &broken):
		return &harness.Error{Blame: harness.BlameHarness, Code: "shim_failed", Message: strings.TrimPrefix(broken.Error(), "m3: "), Err: err}
	}
	return &harness.Error{Blame: harness.BlameServer, Code: "server_failed", Message: "server " + alias + " could not be started: " + strings.TrimPrefix(err.Error(), "m3: "), Err: err}
}

func (s *served) start(ctx context.Context) error {
	s.client.tape = s.x.tape
	if err := s.d.build(ctx); err != nil {
		return err
	}
	cfg := &relay.Config{Tape: s.x.tape, Server: s.alias, Scope: s.scope, Observe: s.observe, Note: s.note, Connection: s.name}
	s.relay = relay.New(cfg)
	s.restrict(&s.x.act.tools)
	s.endpoint.Name = s.alias
	if bridged(s.server, &s.x.can) {
		return s.offerBridge(ctx)
	}
	switch server := s.server.(type) {
	case HTTPServer:
		return s.offerURL(ctx, server)
	case HandlerServer:
		return s.offerHandler(server)
	}
	return s.offerShim(ctx)
}

// restrict has the relay enforce a selection.
func (s *served) restrict(t *harness.Tools) {
	if s.relay == nil {
		return
	}
	if t.All {
		s.relay.Restrict(nil)
		return
	}
	allowed := t.Allowed[s.alias]
	s.relay.Restrict(func(tool string) bool { return slices.Contains(allowed, tool) })
}

// scope is where a request belongs that passes now.
func (s *served) scope() (trace.SessionID, trace.TurnID) { return s.x.session, s.x.turnNow() }

// name names the next connection.
func (s *served) name() trace.ConnectionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	return trace.ConnectionID(s.alias + "-" + strconv.Itoa(s.conns))
}

// offerShim starts a server that speaks on a stream, and has the agent reach it through a shim.
func (s *served) offerShim(ctx context.Context) error {
	exe, err := relay.Executable()
	if err == nil {
		err = shims.check(ctx, exe)
	}
	if err != nil {
		return err
	}
	if s.listener, err = relay.Listen("", ""); err != nil {
		return harness.Errorf(harness.BlameHarness, "shim_failed", "%v", err)
	}
	if s.spare, err = s.connect(ctx); err != nil {
		return err
	}
	s.endpoint.Command, s.endpoint.Args, s.endpoint.Env = exe, []string{}, s.listener.Env()
	s.group.Go(s.accept)
	return nil
}

// shims remembers which executables were checked in this process.
var shims shimChecks

type shimChecks struct {
	mu sync.Mutex
	ok map[string]bool
}

// check runs an executable once as a shim.
func (c *shimChecks) check(ctx context.Context, exe string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ok[exe] {
		return nil
	}
	if err := relay.SelfCheck(ctx, exe); err != nil {
		return err
	}
	if c.ok == nil {
		c.ok = map[string]bool{}
	}
	c.ok[exe] = true
	return nil
}

// accept takes the agent's shims, each with a server of its own.
func (s *served) accept() {
	for {
		agent, _, err := s.listener.Accept(s.life)
		if err != nil {
			return // it was closed
		}
		s.group.Go(func() { s.join(agent) })
	}
}

// join relays one connection of the agent.
func (s *served) join(agent *relay.Agent) {
	defer agent.Close()
	s.mu.Lock()
	up := s.spare
	s.spare = nil
	s.mu.Unlock()
	if up == nil {
		var err error
		if up, err = s.connect(s.life); err != nil {
			s.fault(serverError(s.alias, err))
			_ = agent.Exit(1)
			return
		}
	}
	s.mu.Lock()
	s.joined = append(s.joined, up)
	s.mu.Unlock()
	defer up.close()
	s.group.Go(func() { s.passSignals(agent, up) })
	_ = s.relay.StreamOn(s.life, up.conn, agent, up) // the relay records how it ended
	if up.endedFirst() {
		_ = agent.Exit(1)
	}
}

// passSignals passes on to a server what the agent sends to what it takes for it.
func (s *served) passSignals(agent *relay.Agent, up *upstream) {
	for {
		select {
		case sig := <-agent.Signals():
			up.signal(sig)
		case <-agent.Gone():
			return
		}
	}
}

// fault notes that the server failed an agent. The first stands until it is taken.
func (s *served) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.died == nil {
		s.died = err
	}
}

// serverFault takes what a server that must be there failed with; nil when none did. An agent that saw its server end cannot be before it: the end is noted
// before it is passed on.
func (x *execution) serverFault() error {
	for _, s := range x.servers {
		if err := s.takeFault(); err != nil && !s.optional {
			return err
		}
	}
	return nil
}

func (s *served) takeFault() error {
	s.mu.Lock()
	err := s.died
	s.died = nil
	joined := slices.Clone(s.joined)
	s.mu.Unlock()
	for _, up := range joined {
		if up.endedFirst() && up.told.CompareAndSwap(false, true) && err == nil {
			err = &harness.Error{Blame: harness.BlameServer, Code: "server_died", Message: "server " + s.alias + " ended while the agent was connected to it" + up.lastWords(), Details: up.details()}
		}
	}
	if err == nil {
		err = s.takeUnreached()
	}
	return err
}

// offerURL has the agent reach a deployed server through a reverse proxy on loopback.
func (s *served) offerURL(ctx context.Context, server HTTPServer) error {
	e, err := parseEndpoint(server.URL)
	if err != nil {
		return err
	}
	header := http.Header{}
	for name, value := range server.Headers {
		header.Set(name, value)
	}
	for name, value := range s.d.secrets {
		if strings.ContainsAny(value, "\r\n") {
			return &TransportError{Message: fmt.Sprintf("server %s: the secret for header %s holds a line break", s.alias, name), Details: map[string]any{"phase": "authentication"}}
		}
		header.Set(name, value)
	}
	dial := (&pinned{endpoint: e, trust: server.Trust}).dial
	port := e.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(e.url.Hostname(), port))
	if err != nil {
		return err
	}
	conn.Close()
	transport := &http.Transport{DialContext: dial, DisableCompression: true, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second}
	context.AfterFunc(s.life, transport.CloseIdleConnections)
	return s.offerProxy(e.url, header, &http.Client{Transport: &reaching{s, transport}})
}

// offerHandler serves the handler on a port of its own, behind the proxy.
func (s *served) offerHandler(server HandlerServer) error {
	at, err := s.listen(server.Handler)
	if err != nil {
		return err
	}
	target := &url.URL{Scheme: "http", Host: at, Path: "/" + strings.TrimPrefix(server.Path, "/")}
	transport := &http.Transport{DisableCompression: true}
	context.AfterFunc(s.life, transport.CloseIdleConnections)
	return s.offerProxy(target, nil, &http.Client{Transport: &reaching{s, transport}})
}

func (s *served) offerProxy(target *url.URL, header http.Header, client *http.Client) error {
	at, err := s.listen(s.relay.Handler(target, header, client))
	if err != nil {
		return err
	}
	s.endpoint.URL = "http://" + at + "/mcp"
	return nil
}

// listen serves a handler on a loopback port and returns its address.
func (s *served) listen(h http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", harness.Errorf(harness.BlameHarness, "no_port", "no loopback port for server %s: %v", s.alias, err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.http = append(s.http, srv)
	s.group.Go(func() { _ = srv.Serve(ln) }) // it always ends with ErrServerClosed, by Close
	return ln.Addr().String(), nil
}

// close ends the agent's connections, then the server.
func (s *served) close() error {
	s.end()
	if s.listener != nil {
		s.listener.Close()
	}
	var failed error
	if s.relay != nil {
		if err := s.relay.Close(); err != nil {
			failed = fmt.Errorf("server %s: %w", s.alias, err)
		}
	}
	for _, srv := range slices.Backward(s.http) {
		srv.Close()
	}
	s.mu.Lock()
	spare := s.spare
	s.spare = nil
	s.mu.Unlock()
	if spare != nil {
		spare.close()
	}
	s.group.Wait()
	return failed
}

// drain waits until what passed is recorded.
func (s *served) drain(ctx context.Context) error {
	if s.relay == nil {
		return nil
	}
	return s.relay.Drain(ctx)
}
