package m3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// bridged reports whether the server speaks HTTP and the agent reaches servers over stdio only, or the server speaks HTTP+SSE, which agents are not offered. Then the kit posts what the agent
// writes, and writes what the server answers.
func bridged(s Server, can *harness.Capabilities) bool {
	sse := false
	switch s := s.(type) {
	case HTTPServer:
		sse = s.Transport == LegacySSE
	case HandlerServer:
		sse = s.Transport == LegacySSE
	default:
		return false
	}
	return can.StdioServers && (sse || !can.HTTPServers)
}

// offerBridge has the agent reach a server over HTTP through a shim.
func (s *served) offerBridge(ctx context.Context) error {
	b, err := s.newBridge(ctx)
	if err != nil {
		return err
	}
	s.server = PipeServer{Name: s.server.ServerName(), Serve: b.serve}
	s.x.diagnose(&trace.Diagnostic{Code: "server_bridged", Message: "server " + s.alias + " speaks HTTP and the agent stdio: m3 posts what the agent writes, with the same messages and ids; HTTP's own headers are not in the trace",
		Stage: "server", Operation: s.alias}, trace.PhaseStartup)
	return s.offerShim(ctx)
}

// bridge is the way from a stream to a server over HTTP. Each connection of the agent has a transport of its own.
type bridge struct {
	s   *served
	url string
	sse bool
	cfg wire.HTTPConfig
}

// newBridge makes the way, and sees whether somebody is there.
func (s *served) newBridge(ctx context.Context) (*bridge, error) {
	b := &bridge{s: s}
	trust := TrustedPrivate
	switch server := s.server.(type) {
	case HTTPServer:
		b.url, b.sse, trust = server.URL, server.Transport == LegacySSE, server.Trust
		b.cfg.Header = http.Header{}
		for name, value := range server.Headers {
			b.cfg.Header.Set(name, value)
		}
		for name, value := range s.d.secrets {
			if strings.ContainsAny(value, "\r\n") {
				return nil, &TransportError{Message: fmt.Sprintf("server %s: the secret for header %s holds a line break", s.alias, name), Details: map[string]any{"phase": "authentication"}}
			}
			b.cfg.Header.Set(name, value)
		}
	case HandlerServer:
		at, err := s.listen(server.Handler)
		if err != nil {
			return nil, err
		}
		b.url, b.sse = "http://"+at+"/"+strings.TrimPrefix(server.Path, "/"), server.Transport == LegacySSE
	}
	e, err := parseEndpoint(b.url)
	if err != nil {
		return nil, err
	}
	b.cfg.Dial = (&pinned{endpoint: e, trust: trust}).dial
	port := e.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	}
	conn, err := b.cfg.Dial(ctx, "tcp", net.JoinHostPort(e.url.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return b, conn.Close()
}

// serve is one connection.
func (b *bridge) serve(ctx context.Context, stream io.ReadWriteCloser) error {
	c := &bridgeConn{b: b, stream: stream, waiting: map[trace.RPCID]string{}}
	var err error
	cfg := b.cfg
	if b.sse {
		c.t, err = wire.NewSSE(b.url, c, &cfg)
	} else {
		c.t, err = wire.NewHTTP(b.url, c, &cfg)
	}
	if err != nil {
		return err
	}
	var posts sync.WaitGroup
	defer posts.Wait()
	defer c.t.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := wire.NewLines(64<<20, func(_, _ []byte) {}) // a line over the cap is dropped, and its call never answered
	var f wire.Frame
	for {
		n, err := stream.Read(lines.Space())
		lines.Filled(n)
		for lines.Next(&f) {
			c.send(ctx, bytes.Clone(bytes.TrimSpace(f.Body)), &posts)
		}
		if err != nil {
			return nil // the agent has ended
		}
	}
}

// bridgeConn is one connection of the agent on its way to the server.
type bridgeConn struct {
	b      *bridge
	t      wire.Transport
	stream io.Writer

	writing sync.Mutex
	mu      sync.Mutex
	waiting map[trace.RPCID]string // methods of requests without an answer
}

var _ wire.Handler = (*bridgeConn)(nil)

// send posts a message of the agent. Requests do not wait for each other.
func (c *bridgeConn) send(ctx context.Context, body []byte, posts *sync.WaitGroup) {
	if len(body) == 0 {
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string          `json:"name"`
			URI  string          `json:"uri"`
			ID   json.RawMessage `json:"requestId"`
			Meta struct {
				Protocol string `json:"io.modelcontextprotocol/protocolVersion"`
			} `json:"_meta"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // what is none the server is to refuse
	out := &wire.Message{Body: body, ID: trace.RPCID(m.ID), Method: m.Method, Name: orElse(m.Params.Name, m.Params.URI)}
	setter, _ := c.t.(interface{ SetProtocol(version string) })
	switch {
	case m.Method == "initialize":
		setter.SetProtocol("")
	case m.Params.Meta.Protocol != "":
		setter.SetProtocol(m.Params.Meta.Protocol)
	}
	if a, ok := c.t.(interface{ Abort(id trace.RPCID) }); ok && m.Method == "notifications/cancelled" && m.Params.Meta.Protocol != "" {
		a.Abort(trace.RPCID(bytes.TrimSpace(m.Params.ID))) // which is how 2026-07-28 cancels over HTTP
		return
	}
	if m.ID == nil || m.Method == "" {
		_ = c.t.Send(ctx, out) // who sends what wants no answer is told of no failure
		return
	}
	c.mu.Lock()
	c.waiting[out.ID] = m.Method
	c.mu.Unlock()
	posts.Go(func() {
		if err := c.t.Send(ctx, out); err != nil {
			c.lost(out.ID, err)
		}
	})
}

// lost answers a request that the server did not.
func (c *bridgeConn) lost(id trace.RPCID, err error) {
	c.mu.Lock()
	_, waits := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if !waits || errors.Is(err, context.Canceled) {
		return
	}
	var trust *EndpointTrustError
	if !errors.As(err, &trust) {
		c.b.s.reached(err)
	}
	text := c.b.s.x.kit.redactor.String("m3: no answer from the server: " + err.Error())
	c.write(append(trace.AppendString(append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":{"code":-32603,"message":`...), text), "}}"...))
}

func (c *bridgeConn) write(line []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.stream.Write(append(line, '\n')) // an agent that is gone is noticed by reading
}

// Sent implements wire.Handler.
func (c *bridgeConn) Sent(*wire.Frame) {}

// Received passes a message on, in one line.
func (c *bridgeConn) Received(f *wire.Frame) {
	var line bytes.Buffer
	if len(f.Body) == 0 || json.Compact(&line, f.Body) != nil {
		return // a text beside the protocol: the end of its exchange tells what it means
	}
	if !bytes.ContainsAny(f.Body, "\r\n") {
		line.Reset()
		line.Write(f.Body)
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result struct {
			Protocol string `json:"protocolVersion"`
		} `json:"result"`
	}
	_ = json.Unmarshal(line.Bytes(), &m) // a batch has no answer to initialize
	if m.Method == "" && m.ID != nil {
		id := trace.RPCID(bytes.TrimSpace(m.ID))
		c.mu.Lock()
		method := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		c.b.s.reached(nil)
		if method == "initialize" && m.Result.Protocol != "" {
			c.t.(interface{ SetProtocol(version string) }).SetProtocol(m.Result.Protocol)
			if o, ok := c.t.(interface{ OpenStream() }); ok {
				o.OpenStream()
			}
		}
	}
	c.write(line.Bytes())
}

// ExchangeEnded answers a request whose exchange is over without an answer.
func (c *bridgeConn) ExchangeEnded(x *wire.Exchange) {
	if x.For == "" || x.Continues || x.Legacy && x.Err == nil {
		return
	}
	err := x.Err
	if err == nil {
		err = errors.New("the answer holds no message")
		if x.HTTP != nil {
			err = fmt.Errorf("HTTP status %d without a message", x.HTTP.Status)
		}
	}
	c.lost(x.For, err)
}

// Closed implements wire.Handler.
func (c *bridgeConn) Closed(error) {}
