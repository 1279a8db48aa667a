package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// dialer makes the connections of one client: usually one, two when an era probe needed a process of its own.
type dialer struct {
	client *Client
	server Server

	secrets map[string]string // resolved, by name
	binary  string            // what Build made
	sse     bool              // HTTP goes over the transport of 2024-11-05

	mu    sync.Mutex
	conns int
	conn  trace.ConnectionID // of the connection being opened
	last  *proc.Process      // the latest process, for its stderr and exit
	words string             // what a server in this process failed with
}

// resolveSecrets resolves the references and makes their values, and plain values under sensitive names, known to the redactor.
func (d *dialer) resolveSecrets(ctx context.Context) error {
	var refs map[string]SecretRef
	plain := map[string]string{}
	switch s := d.server.(type) {
	case StdioServer:
		refs, plain = s.Secrets, s.stated()
	case HTTPServer:
		refs, plain = s.Secrets, s.Headers
	}
	d.secrets = make(map[string]string, len(refs))
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		secret, err := refs[name].resolve(ctx, d.client.server, name)
		if err != nil {
			return err
		}
		if err := d.client.kit.redactor.Add(name, secret); err != nil {
			return validationf("server %s: secret %s: %v", d.client.server, name, err)
		}
		d.secrets[name] = refs[name].Prefix + secret
		if f := d.client.kit.cfg.OnSecret; f != nil && refs[name].Env != "" {
			f(refs[name].Env)
		}
	}
	for name, value := range plain {
		if d.client.kit.redactor.Sensitive(name) {
			_ = d.client.kit.redactor.Add(name, value) // a short plain value is no secret that could be hidden: only a reference promises that
		}
	}
	return nil
}

// key identifies the definition for what the kit remembers of it. It is empty for a server in this process: two of those look alike and may be
// different functions, and asking them again costs nothing.
func (d *dialer) key() string {
	switch d.server.(type) {
	case PipeServer, HandlerServer:
		return ""
	}
	var s directSpec
	d.server.describe(&s)
	b, _ := json.Marshal(s) // strings only: cannot fail
	return fmt.Sprintf("%T %s", d.server, b)
}

// dial is what the protocol layer calls for each fresh connection.
func (d *dialer) dial(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
	d.mu.Lock()
	d.conns++
	d.conn = trace.ConnectionID("c" + strconv.Itoa(d.conns))
	d.mu.Unlock()
	t, err := d.server.open(ctx, d, h)
	if err != nil {
		return d.conn, nil, err
	}
	return d.conn, t, nil
}

// older returns how to dial the server over HTTP+SSE when it refuses streamable HTTP; nil where that is out of the question.
func (d *dialer) older() func(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
	if d.transport() != AnyHTTP || d.sse {
		return nil
	}
	return func(ctx context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
		d.sse = true
		return d.dial(ctx, h)
	}
}

// transport is what the definition says of HTTP. Other servers have nothing to choose.
func (d *dialer) transport() HTTPTransport {
	switch s := d.server.(type) {
	case HTTPServer:
		return s.Transport
	case HandlerServer:
		return s.Transport
	}
	return StreamableHTTP
}

func (d *dialer) record(kind trace.Kind, phase trace.Phase, conn trace.ConnectionID, payload any) {
	b, err := json.Marshal(payload)
	if err != nil { // entries of our own, made of strings and numbers
		d.client.tape.Limit("capture_incomplete", fmt.Sprintf("a %s event could not be encoded: %v", kind, err))
		return
	}
	d.client.tape.Record(&trace.Event{Kind: kind, Phase: phase, Server: d.client.server, ConnectionID: conn, Source: m3Source, Payload: b})
}

func (d *dialer) connected(transport string, configured any) {
	b, _ := json.Marshal(configured) // maps of strings: cannot fail
	d.record(trace.KindTransportConnected, trace.PhaseStartup, d.conn, map[string]any{
		"phase": "connected", "transport": transport, "configured": trace.Observe(trace.JSON(b)),
		"instrumented": trace.Absent[trace.JSON](trace.Unsupported, trace.ReasonTransportNotApplicable)})
}

// disconnected records how a connection ended, and whether every byte read was kept.
func (d *dialer) disconnected(transport string, conn trace.ConnectionID, st wire.Stats, step string) {
	if st.BytesRead != st.BytesHanded {
		d.client.tape.Limit("capture_incomplete", fmt.Sprintf("connection %s: %d bytes were read and %d kept", conn, st.BytesRead, st.BytesHanded))
	}
	d.record(trace.KindTransportDisconnected, trace.PhaseCleanup, conn, map[string]any{
		"phase": "disconnected", "transport": transport, "bytes_read": st.BytesRead, "bytes_kept": st.BytesHanded, "close": step,
		"configured": trace.Observation[trace.JSON]{}, "instrumented": trace.Absent[trace.JSON](trace.Unsupported, trace.ReasonTransportNotApplicable)})
}

// ending closes a transport together with what is behind it, once.
type ending struct {
	once sync.Once
	err  error
	end  func() error
}

// Close ends the transport and what is behind it.
func (e *ending) Close() error {
	e.once.Do(func() { e.err = e.end() })
	return e.err
}

// streamLink is a stream with the process or the function behind it.
type streamLink struct {
	wire.Transport
	ending
}

// Close ends both.
func (l *streamLink) Close() error { return l.ending.Close() }

// httpLink is an HTTP connection with all its powers, and the server behind it where there is one.
type httpLink struct {
	*wire.HTTP
	ending
}

// Close ends both.
func (l *httpLink) Close() error { return l.ending.Close() }

// sseLink is a connection over HTTP+SSE, and the server behind it where there is one.
type sseLink struct {
	*wire.SSE
	ending
}

// Close ends both.
func (l *sseLink) Close() error { return l.ending.Close() }

// stated is every plain value of the environment that the definition states.
func (s StdioServer) stated() map[string]string {
	all := map[string]string{}
	for _, name := range s.Inherit {
		if v, ok := os.LookupEnv(name); ok {
			all[name] = v
		}
	}
	maps.Copy(all, s.Env)
	return all
}

// inherited are the variables that every server process gets (see StdioServer).
func inherited() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" || name == "HOME" || name == "TMPDIR" || name == "LANG" || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	return env
}

// serverRun is the process of a server.
type serverRun struct {
	d       *dialer
	conn    trace.ConnectionID
	proc    *proc.Process
	entry   map[string]any
	written atomic.Int64 // to stderr
}

// start starts the process and records that.
func (s StdioServer) start(ctx context.Context, d *dialer, conn trace.ConnectionID) (*serverRun, error) {
	env := inherited()
	maps.Copy(env, s.stated())
	maps.Copy(env, d.secrets)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	run := &serverRun{d: d, conn: conn}
	p, err := proc.Start(ctx, &proc.Spec{Path: orElse(d.binary, s.Command), Args: s.Args, Env: list, Dir: s.Dir,
		Stderr: func(piece []byte, _ proc.LineEnd) {
			run.written.Add(int64(len(piece)))
			d.client.stderr(conn, piece)
		}})
	if err != nil {
		return nil, err
	}
	run.proc = p
	d.mu.Lock()
	d.last = p
	d.mu.Unlock()
	run.entry = map[string]any{"executable": trace.Observe(orElse(s.Command, s.Build)), "pid": trace.Observe(p.PID()),
		"exit_code": trace.Observation[int]{}, "signal": trace.Observation[string]{}, "stderr": trace.Observation[string]{}}
	d.record(trace.KindProcessStarted, trace.PhaseStartup, conn, run.entry)
	return run, nil
}

// exited records the end of the process.
func (r *serverRun) exited(ended proc.Ended) {
	r.d.exited(r.conn, r.entry, r.proc, ended, r.written.Load())
}

func (s StdioServer) open(ctx context.Context, d *dialer, h wire.Handler) (wire.Transport, error) {
	conn := d.conn
	run, err := s.start(ctx, d, conn)
	if err != nil {
		return nil, err
	}
	p := run.proc
	d.connected("stdio", map[string]any{"command": orElse(s.Command, s.Build), "args": d.client.kit.redactor.Args(s.Args)})
	stream := wire.NewStream(p.Stdout(), p.Stdin(), h, &wire.StreamConfig{MaxFrame: d.client.opts.MaxFrame})
	return &streamLink{Transport: stream, ending: ending{end: func() error {
		ended := p.End(nil)
		err := stream.Close()
		run.exited(ended)
		d.disconnected("stdio", conn, stream.Stats(), ended.Step)
		return err
	}}}, nil
}

// exited records the end of a process that wrote so many bytes to stderr, and what of its tree had to be hunted down.
func (d *dialer) exited(conn trace.ConnectionID, entry map[string]any, p *proc.Process, ended proc.Ended, written int64) {
	if ended.Exit.Signal != "" {
		entry["signal"] = trace.Observe(ended.Exit.Signal)
		entry["exit_code"] = trace.Absent[int](trace.NotEmitted, "")
	} else {
		entry["exit_code"] = trace.Observe(ended.Exit.Code)
	}
	tail := p.StderrTail()
	stderr := trace.Observe(d.client.kit.redactor.String(tail))
	if int64(len(tail)) < written {
		stderr.State, stderr.Reason = trace.Truncated, trace.ReasonEvidenceTruncated
	}
	entry["stderr"] = stderr
	entry["ended"], entry["survivors"] = ended.Step, ended.Survivors
	d.record(trace.KindProcessExited, trace.PhaseCleanup, conn, entry)
	switch {
	case ended.Own == proc.StepSigkill:
		d.client.find(trace.SeverityWarning, "ignores-sigterm-and-eof", "the server ended only by SIGKILL: it ignored the end of its stdin and SIGTERM", "basic/lifecycle: shutdown, stdio")
	case ended.Own == proc.StepSigterm:
		// A note: half a second is m3's patience, not the specification's.
		d.client.find(trace.SeverityNote, "ignores-eof", "the server did not exit within 0.5 s of the end of its stdin; SIGTERM was needed", "basic/lifecycle: shutdown, stdio")
	}
	if ended.Held {
		d.client.find(trace.SeverityWarning, "process-leak", "a process of the server's tree that could not be found still holds its stderr: it may go on running", "")
	}
	if ended.Unswept != nil {
		d.client.tape.Limit("cleanup_failed", "whether processes of the server survived could not be checked: "+ended.Unswept.Error())
	}
	if len(ended.Survivors) > 0 {
		d.client.find(trace.SeverityWarning, "process-leak", fmt.Sprintf("%d processes of the server's tree outlived it and were ended: pids %v", len(ended.Survivors), ended.Survivors), "")
	}
}

func (s PipeServer) open(_ context.Context, d *dialer, h wire.Handler) (wire.Transport, error) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	conn := d.conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		// It is told before the stream ends, so that a call that fails with it can say why.
		serve(ctx, s.Serve, theirs, func(err error) { d.serveEnded(conn, err) })
	}()
	d.connected("pipe", map[string]any{"name": d.client.server})
	stream := wire.NewStream(ours, ours, h, &wire.StreamConfig{MaxFrame: d.client.opts.MaxFrame})
	return &streamLink{Transport: stream, ending: ending{end: func() error {
		defer cancel()
		err := stream.Close()
		step := "eof"
		select {
		case <-done:
		case <-time.After(500 * time.Millisecond):
			cancel()
			step = "context"
			select {
			case <-done:
			case <-time.After(500 * time.Millisecond):
				step = "abandoned"
				d.client.find(trace.SeverityWarning, "serve-did-not-return", "the server's Serve function did not return when its stream and its context ended", "")
			}
		}
		d.disconnected("pipe", conn, stream.Stats(), step)
		return err
	}}}, nil
}

// serve runs a server in this process and tells how it ended. A panic in it ends the connection, not the tests; so does the end of its goroutine.
func serve(ctx context.Context, f func(context.Context, io.ReadWriteCloser) error, stream net.Conn, ended func(error)) {
	returned := false
	var err error
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the server panicked: %v\n%s", v, debug.Stack())
		} else if !returned {
			err = errors.New("the server's Serve function ended its goroutine, as t.FailNow does")
		}
		ended(err)
	}()
	err = f(ctx, stream)
	returned = true
}

// serveEnded keeps what a server in this process failed with, as the stderr of one that is a process.
func (d *dialer) serveEnded(conn trace.ConnectionID, err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	d.mu.Lock()
	d.words = err.Error()
	d.mu.Unlock()
	for line := range strings.Lines(err.Error() + "\n") {
		d.client.stderr(conn, []byte(line))
	}
}

func (s HandlerServer) open(ctx context.Context, d *dialer, h wire.Handler) (wire.Transport, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("no loopback port for the handler: %w", err)
	}
	srv := &http.Server{Handler: s.Handler, ReadHeaderTimeout: 10 * time.Second}
	go srv.Serve(ln) //nolint:errcheck // it always ends with ErrServerClosed, by Close below
	url := "http://" + ln.Addr().String() + "/" + strings.TrimPrefix(s.Path, "/")
	t, err := d.http(url, nil, TrustedPrivate, h, "handler")
	if err != nil {
		srv.Close()
		return nil, err
	}
	return d.linked(t, srv.Close), nil
}

func (s HTTPServer) open(ctx context.Context, d *dialer, h wire.Handler) (wire.Transport, error) {
	headers := http.Header{}
	for name, value := range s.Headers {
		headers.Set(name, value)
	}
	for name, value := range d.secrets {
		if strings.ContainsAny(value, "\r\n") {
			return nil, &TransportError{Message: fmt.Sprintf("server %s: the secret for header %s holds a line break", d.client.server, name), Details: map[string]any{"phase": "authentication"}}
		}
		headers.Set(name, value)
	}
	t, err := d.http(s.URL, headers, s.Trust, h, "endpoint")
	if err != nil {
		return nil, err
	}
	return d.linked(t, nil), nil
}

// http opens the HTTP transport with the address pinned as the trust level allows.
func (d *dialer) http(url string, headers http.Header, trust Trust, h wire.Handler, what string) (wire.Transport, error) {
	endpoint, err := parseEndpoint(url)
	if err != nil {
		return nil, err
	}
	r := d.client.kit.redactor
	cfg := &wire.HTTPConfig{Dial: (&pinned{endpoint: endpoint, trust: trust}).dial, Header: headers, MaxFrame: d.client.opts.MaxFrame, RedactURL: r.Endpoint} // the tape redacts the headers
	t, err := d.newHTTP(url, h, cfg)
	if err != nil {
		return nil, err
	}
	d.connected(string(d.spoken()), map[string]any{what: endpoint.shown()})
	return t, nil
}

func (d *dialer) newHTTP(url string, h wire.Handler, cfg *wire.HTTPConfig) (wire.Transport, error) {
	if d.sse {
		return wire.NewSSE(url, h, cfg)
	}
	return wire.NewHTTP(url, h, cfg)
}

// spoken is the HTTP transport in use.
func (d *dialer) spoken() HTTPTransport {
	if d.sse {
		return LegacySSE
	}
	return StreamableHTTP
}

// linked ties the transport to the record of its end, and to what must be closed after it.
func (d *dialer) linked(t wire.Transport, after func() error) wire.Transport {
	conn, spoken := d.conn, string(d.spoken())
	end := func() error {
		err := t.Close()
		if after != nil {
			_ = after()
		}
		d.disconnected(spoken, conn, t.Stats(), "")
		return err
	}
	switch t := t.(type) {
	case *wire.HTTP:
		return &httpLink{HTTP: t, ending: ending{end: end}}
	case *wire.SSE:
		return &sseLink{SSE: t, ending: ending{end: end}}
	}
	return &streamLink{Transport: t, ending: ending{end: end}}
}

func (s StdioServer) describe(spec *directSpec) {
	spec.Transport, spec.Command, spec.Build, spec.Args, spec.Dir = "stdio", s.Command, s.Build, s.Args, s.Dir
	spec.Env, spec.Inherit, spec.Secrets = s.Env, s.Inherit, references(s.Secrets)
}

func (s HTTPServer) describe(spec *directSpec) {
	spec.Transport, spec.Headers, spec.Secrets, spec.Trust = orElse(string(s.Transport), string(StreamableHTTP)), s.Headers, references(s.Secrets), orElse(string(s.Trust), "untrusted")
	if e, err := parseEndpoint(s.URL); err == nil {
		spec.URL = e.shown()
	}
}

func (s HandlerServer) describe(spec *directSpec) {
	spec.Transport = orElse(string(s.Transport), string(StreamableHTTP))
}

func (s PipeServer) describe(spec *directSpec) { spec.Transport = "pipe" }

func references(secrets map[string]SecretRef) map[string]string {
	if len(secrets) == 0 {
		return nil
	}
	refs := make(map[string]string, len(secrets))
	for name, r := range secrets {
		refs[name] = orElse(r.Env, orElse(r.Name, "lookup"))
	}
	return refs
}

// build makes the binary of a StdioServer's Build, once a process.
func (d *dialer) build(ctx context.Context) error {
	s, ok := d.server.(StdioServer)
	if !ok || s.Build == "" {
		return nil
	}
	path, err := builds.get(ctx, s.Build)
	if err != nil {
		return err
	}
	d.binary = path
	return nil
}
