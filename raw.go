package m3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/trace"
)

// Raw sends any bytes to a server and looks at whatever comes back: broken JSON, wrong ids, batches, huge messages, requests before the
// handshake, wrong HTTP methods and headers. Get one from [Client.Raw], beside a session, or from [Kit.Raw], without any handshake.
//
// Everything is on the tape as usual. What a server makes of raw bytes is for the test to judge: an error status or an answer without a usable id is
// no finding then. It may be used from several goroutines; each message is given to one of them.
type Raw struct {
	client *Client
	conn   *rpc.Conn
	link   any // the transport, where the connection is the raw's own
	inbox  *inbox
	ids    atomic.Int64
	modern string // the version that [Raw.Request] writes into _meta; empty in the legacy eras
}

// RawFrame is one unit of raw bytes.
type RawFrame struct {
	// Body is sent as it is. On a stream a line break is added, unless Exact is set; over HTTP it is the body.
	Body []byte
	// Exact sends Body alone on a stream: half a frame, two frames, no frame.
	Exact bool
	// Method is the HTTP method; empty is POST. Streams ignore it.
	Method string
	// Header is added to the HTTP request and goes over m3's own headers. A name without values leaves that header out; Host sets the Host.
	// Streams ignore it.
	Header http.Header
}

// Raw gives the raw face of the client's connection. From the first call on, what the server sends is also kept for [Raw.Next]; the session goes on
// beside it. Every call returns the same Raw.
func (c *Client) Raw() *Raw {
	c.rawOnce.Do(func() {
		c.raw = newRaw(c, c.conn(), nil)
		if c.session != nil && c.session.Modern() {
			c.raw.modern = c.session.Protocol()
		}
	})
	return c.raw
}

// Raw connects to a server without a handshake: nothing is sent but what the test sends, and nothing of the server's is answered. Protocol, when it is set,
// goes into the HTTP headers and the _meta of [Raw.Request] from the start on where that version has them. Close it, or the kit.
func (k *Kit) Raw(ctx context.Context, server Server, opts *DirectOptions) (*Raw, error) {
	c, err := k.connect(ctx, "Raw", server, opts, (*Client).openRaw)
	if err != nil {
		return nil, err
	}
	return c.raw, nil
}

// openRaw makes the execution and dials.
func (c *Client) openRaw(ctx context.Context, server Server) error {
	d, err := c.prepare(ctx, server)
	if err != nil {
		return err
	}
	start, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStartDeadline)
	defer cancel()
	conn := rpc.New(&rpc.Config{Tape: c.tape, Server: c.server, Connection: "c1", Request: func(context.Context, *rpc.Incoming) {}})
	raw := newRaw(c, conn, nil)
	_, link, err := d.dial(start, conn)
	if err != nil {
		return c.failed(start, err, d)
	}
	conn.Start(link)
	raw.link = link
	c.rawOnce.Do(func() { c.raw, c.lone = raw, conn })
	if mcp.Modern(c.opts.Protocol) {
		raw.SetProtocol(c.opts.Protocol)
	}
	return nil
}

func newRaw(c *Client, conn *rpc.Conn, link any) *Raw {
	r := &Raw{client: c, conn: conn, link: link, inbox: newInbox()}
	conn.Tap(r.inbox.frame, r.inbox.exchange)
	return r
}

// Send sends one frame: the bytes and, on a stream, a line break. Over HTTP it returns when the server has answered, or begun an event stream; the error
// is then only about what is on this side or between: an answer of any status is for [Raw.Next].
func (r *Raw) Send(ctx context.Context, frame []byte) error {
	return r.SendFrame(ctx, &RawFrame{Body: frame})
}

// SendFrame sends one unit of bytes. See [Raw.Send].
func (r *Raw) SendFrame(ctx context.Context, f *RawFrame) error {
	if err := r.client.usable("raw send"); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, r.client.opts.Timeout, errOperationDeadline)
	defer cancel()
	err := r.conn.SendRaw(bounded, &rpc.RawFrame{Body: f.Body, Exact: f.Exact, Verb: f.Method, Header: f.Header})
	if err == nil {
		return nil
	}
	return r.failure(bounded, "raw send", err)
}

// failure makes the public error of what ended a raw operation.
func (r *Raw) failure(ctx context.Context, operation string, err error) error {
	details := map[string]any{"operation": operation, "phase": "call"}
	text := operation + ": " + r.client.kit.redactor.String(err.Error())
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &TimeoutError{Message: text, Details: details, Err: err}
	case ctx.Err() != nil:
		return &CancelledError{Message: text, Details: details, Err: context.Cause(ctx)}
	}
	e := &TransportError{Message: text, Details: details, Err: err}
	r.client.addProcess(e)
	return e
}

// firstRawID keeps the ids of raw requests apart from those of a session, which count from 1; servers that keep ids in 32 bits can take them.
const firstRawID = 1 << 30

// NextID gives an id for a request that nobody else uses on the connection, as JSON text: a number.
func (r *Raw) NextID() string { return strconv.FormatInt(firstRawID+r.ids.Add(1), 10) }

// Request gives the text of a proper request, for a test to send or to break: with a fresh id, and the _meta that the version asks for. params is a
// JSON object, or empty for none.
func (r *Raw) Request(method, params string) (id string, frame []byte) {
	id = r.NextID()
	if r.modern != "" {
		params = withMeta(params, r.modern)
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = trace.AppendString(append(b, `,"method":`...), method)
	if params != "" {
		b = append(append(b, `,"params":`...), params...)
	}
	return id, append(b, '}')
}

// SetProtocol sets the version for the HTTP headers of later frames and, from 2026-07-28 on, for the _meta of [Raw.Request]. [Raw.Handshake] does it by
// itself. On the raw face of a session it does nothing: the session has settled it.
func (r *Raw) SetProtocol(version string) {
	t, ok := r.link.(interface{ SetProtocol(version string) })
	if ok {
		t.SetProtocol(version)
	}
	if r.link != nil && mcp.Modern(version) {
		r.modern = version
	}
	r.conn.SetProtocol(version)
}

// Handshake performs initialize and notifications/initialized in the given version, and returns the answer to initialize. The server's own version
// goes into the headers of what follows.
func (r *Raw) Handshake(ctx context.Context, version string) (*RawMessage, error) {
	res, err := r.Initialize(ctx, version)
	if err != nil {
		return nil, err
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := res.Result.Decode(&result); err == nil && result.ProtocolVersion != "" {
		r.SetProtocol(result.ProtocolVersion)
	}
	return res, r.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// Initialize sends initialize with no capabilities and waits for its result. It sends no notifications/initialized.
func (r *Raw) Initialize(ctx context.Context, version string) (*RawMessage, error) {
	params := append([]byte(`{"protocolVersion":`), trace.AppendString(nil, version)...)
	params = append(params, `,"capabilities":{},"clientInfo":{"name":"m3","version":`...)
	params = append(trace.AppendString(params, Version), `}}`...)
	id, frame := r.Request("initialize", string(params))
	if err := r.Send(ctx, frame); err != nil {
		return nil, err
	}
	return r.ExpectResult(ctx, id)
}

// Alive checks that the server still answers a proper request: a ping, and from 2026-07-28 on server/discover. An error is an answer as well.
func (r *Raw) Alive(ctx context.Context) error {
	id, frame := r.Request(aliveMethod(r.modern), "")
	if err := r.Send(ctx, frame); err != nil {
		return err
	}
	_, err := r.ExpectAnswer(ctx, id)
	return err
}

func aliveMethod(modern string) string {
	if modern != "" {
		return "server/discover"
	}
	return "ping"
}

// Close ends the connection, and with that of [Kit.Raw] the server's process. See [Client.Close].
func (r *Raw) Close() error { return r.client.Close() }

// ExecutionID names the execution.
func (r *Raw) ExecutionID() trace.ExecutionID { return r.client.id }

// Findings are those of the connection. See [Client.Findings].
func (r *Raw) Findings() []trace.Finding { return r.client.Findings() }

// FinalTrace is the finalized trace. See [Client.FinalTrace].
func (r *Raw) FinalTrace() (*trace.Trace, error) { return r.client.FinalTrace() }

// View is the view of the finalized trace. See [Client.View].
func (r *Raw) View() (trace.View, error) { return r.client.View() }

// Done is closed when the connection has ended.
func (r *Raw) Done() <-chan struct{} { return r.conn.Done() }

// withMeta puts the _meta of a modern request into params that have none.
func withMeta(params, version string) string {
	meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"m3","version":%q},"io.modelcontextprotocol/clientCapabilities":{}}`, version, Version)
	if len(params) < 2 || params[0] != '{' {
		return "{" + meta + "}"
	}
	if params == "{}" {
		return "{" + meta + "}"
	}
	return "{" + meta + "," + params[1:]
}

// quiet is how long a raw expectation of silence waits when nothing else is said.
const quiet = 100 * time.Millisecond
