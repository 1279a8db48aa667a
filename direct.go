package m3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/mcp"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// DirectOptions configure one direct client. Nil means all defaults.
type DirectOptions struct {
	// Protocol is the exact protocol version to speak; a server that does not accept it is an error. Empty: the kit's, else the newest
	// that both sides speak.
	Protocol string
	// ValidateSchemas checks arguments before they are sent and structured results after, against the tool's own schemas. A
	// mismatch is a *ValidationError. Default false.
	ValidateSchemas bool
	// Timeout bounds each operation. 0: 30 s.
	Timeout time.Duration
	// StartTimeout bounds starting the server and the handshake; building a StdioServer's Build is not part of it. 0: 30 s.
	StartTimeout time.Duration
	// Case is the stable name of the logical scenario.
	Case string
	// Sampling answers the server's sampling/createMessage requests. Nil: the capability is not declared.
	Sampling func(ctx context.Context, r *SamplingRequest) (*SamplingResult, error)
	// SamplingScript answers them with fixed results instead, in the order in which they come. One that is not used up when the client closes, or that
	// the server asks for more than, is an error of Close that matches [ErrSamplingScript]; on 2026-07-28 it also fails the call. Nil: none; empty: the
	// capability is declared, and no request expected.
	SamplingScript []SamplingResult
	// Elicitation is what the client declares of elicitation when it connects; on 2026-07-28, with every request. Before 2026-07-28 it is needed for
	// every call with a plan (CallOptions.Elicitation); from then on such a call declares by itself the modes of its plan, so leave it zero unless one
	// test runs on several versions. Zero: nothing is declared beside that.
	Elicitation ElicitModes
	// Roots are offered to the server. Nil: the capability is not declared; empty: declared, with none.
	Roots []Root
	// ListRoots answers the server's roots/list instead of Roots, and declares that the list may change: see [Client.SendRootsListChanged].
	ListRoots func(ctx context.Context) ([]Root, error)
	// Extensions are declared to the server (from 2026-07-28 on): the settings of each by its identifier; nil settings are empty ones.
	Extensions map[string]any
	// LogLevel asks for log messages of the level and above: with every request on 2026-07-28, by logging/setLevel after the handshake
	// before, and then a server that refuses it is an error. Empty: nothing is asked for.
	LogLevel LogLevel
	// Log receives the server's log notifications, in order, on a goroutine of its own: it may use the client. A call returns after the callbacks for what
	// came before its answer, unless they take more than 0.1 s. A panic in it is an error of Close.
	Log func(LogMessage)
	// Notification receives every notification of the server, log messages included, as Log does.
	Notification func(method string, params trace.JSON)
	// MaxFrame caps one frame, in bytes; a bigger one fails its call, and the session lives. 0: 64 MiB.
	MaxFrame int64
	// Strict makes findings of a severity and above failures, also one that comes after the last assertion, while the client closes: in m3test
	// they fail the test, elsewhere [Client.Close] returns a *[FindingsError]. Zero: findings are only listed.
	Strict Strictness
	// Evaluations declares which evaluators belong to the execution, and which of them are required of it (see package eval). It is stored with the execution
	// and runs nothing.
	Evaluations []eval.Registration
	// Metadata is stored with the execution: finite scalars only.
	Metadata map[string]any
}

// Direct connects to a server: it starts it if it is a process, and performs the protocol's handshake. ctx bounds the opening, not
// the life of the client, which ends with [Client.Close] or the kit.
//
// The errors are *TransportError, *ProtocolError, *TimeoutError, *CancelledError, *UnsupportedError, *ValidationError and
// *EndpointTrustError. A failed connect is an execution too: its trace tells what was seen.
func (k *Kit) Direct(ctx context.Context, server Server, opts *DirectOptions) (*Client, error) {
	return k.connect(ctx, "Direct", server, opts, (*Client).open)
}

// connect makes a client and opens it as open does; a kit that ends meanwhile ends the opening.
func (k *Kit) connect(ctx context.Context, operation string, server Server, opts *DirectOptions, open func(*Client, context.Context, Server) error) (*Client, error) {
	if server == nil {
		return nil, validationf("%s: the server is nil", operation)
	}
	if err := k.usable(); err != nil {
		return nil, err
	}
	if err := server.check(); err != nil {
		return nil, err
	}
	o, err := k.resolve(opts)
	if err != nil {
		return nil, err
	}
	extensions, err := encodeExtensions(o.Extensions)
	if err != nil {
		return nil, err
	}
	name, server := server.ServerName(), unbound(server)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &Client{kit: k, server: name, opts: o, abort: cancel, opened: make(chan struct{}),
		extensions: extensions,
		catalogue:  catalogue{listing: make(chan struct{}, 1)}}
	if o.SamplingScript != nil {
		c.script = &script{answers: slices.Clone(o.SamplingScript)}
		c.opts.Sampling = c.script.answer
	}
	if err := k.register(c); err != nil {
		return nil, err
	}
	err = open(c, ctx, server)
	c.mu.Lock()
	c.abort = nil
	cause := c.cause
	c.mu.Unlock()
	if err == nil && cause != nil { // stopped at the very moment of success
		err = errors.Join(cause.err("connect to "+c.server), c.end(cause))
	}
	close(c.opened)
	if err != nil {
		if cause == nil && c.session != nil {
			_ = c.Close() // it opened, and then a setting was refused: why there is no client is the one to tell
		}
		k.forget(c)
		return nil, err
	}
	return c, nil
}

// resolve fills in the defaults, so that what is stored is what holds.
func (k *Kit) resolve(opts *DirectOptions) (DirectOptions, error) {
	var o DirectOptions
	if opts != nil {
		o = *opts
	}
	if o.Timeout < 0 || o.StartTimeout < 0 || o.MaxFrame < 0 {
		return o, validationf("Direct: Timeout, StartTimeout and MaxFrame must not be negative")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultTimeout
	}
	if err := o.LogLevel.check("Direct"); err != nil {
		return o, err
	}
	if err := o.Strict.check(); err != nil {
		return o, err
	}
	if err := o.Elicitation.check(); err != nil {
		return o, err
	}
	if o.Sampling != nil && o.SamplingScript != nil {
		return o, validationf("Direct: Sampling and SamplingScript are both set: use one")
	}
	o.Protocol = orElse(o.Protocol, k.cfg.Protocol)
	err := checkProtocol(o.Protocol)
	if err != nil {
		return o, err
	}
	if o.Evaluations, err = checkRegistrations("Direct", o.Evaluations); err != nil {
		return o, err
	}
	return o, checkMetadata(o.Metadata)
}

// checkRegistrations returns a copy, for what is declared does not change any more.
func checkRegistrations(operation string, list []eval.Registration) ([]eval.Registration, error) {
	seen := map[string]bool{}
	for _, r := range list {
		if err := checkEvaluator(operation+": Evaluations", r.Name); err != nil {
			return nil, err
		}
		if seen[r.Name] {
			return nil, validationf("%s: Evaluations: %q is declared twice", operation, r.Name)
		}
		seen[r.Name] = true
	}
	return slices.Clone(list), nil
}

func checkProtocol(version string) error {
	if version == "" {
		return nil
	}
	for _, v := range mcp.Versions {
		if v == version {
			return nil
		}
	}
	return &UnsupportedError{Message: fmt.Sprintf("protocol %q is not known: use one of %s, or leave it empty for the newest that both sides speak", version, strings.Join(mcp.Versions, ", ")),
		Details: map[string]any{"feature": "protocol"}}
}

func checkMetadata(m map[string]any) error {
	for key, v := range m {
		switch v.(type) {
		case string, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		case float32, float64, json.Number:
			if _, err := json.Marshal(v); err != nil {
				return validationf("metadata %q is not a finite number", key)
			}
		default:
			return validationf("metadata %q is a %T: only text, booleans and finite numbers are allowed", key, v)
		}
	}
	return nil
}

// directSpec is the stored specification of a direct execution: the resolved options, secrets as references.
type directSpec struct {
	Kind            string              `json:"kind"`
	Server          string              `json:"server"`
	Transport       string              `json:"transport"`
	Command         string              `json:"command,omitempty"`
	Build           string              `json:"build,omitempty"`
	Args            []string            `json:"args,omitempty"`
	Dir             string              `json:"dir,omitempty"`
	Env             map[string]string   `json:"env,omitempty"`
	Inherit         []string            `json:"inherit,omitempty"`
	URL             string              `json:"url,omitempty"`
	Headers         map[string]string   `json:"headers,omitempty"`
	Secrets         map[string]string   `json:"secrets,omitempty"` // name → the reference
	Trust           string              `json:"trust,omitempty"`
	Protocol        string              `json:"protocol,omitempty"`
	ValidateSchemas bool                `json:"validate_schemas"`
	TimeoutSeconds  float64             `json:"timeout_seconds"`
	StartSeconds    float64             `json:"start_timeout_seconds"`
	Case            string              `json:"case_id,omitempty"`
	Sampling        bool                `json:"sampling"`
	SamplingScript  int                 `json:"sampling_script,omitempty"` // answers
	Elicitation     string              `json:"elicitation,omitempty"`     // modes
	Roots           []Root              `json:"roots,omitempty"`
	ListRoots       bool                `json:"list_roots,omitempty"`
	Extensions      map[string]any      `json:"extensions,omitempty"`
	LogLevel        LogLevel            `json:"log_level,omitempty"`
	Strict          Strictness          `json:"strict,omitempty"`
	Evaluations     []eval.Registration `json:"evaluations,omitempty"`
	Metadata        map[string]any      `json:"metadata,omitempty"`
}

func (c *Client) spec(server Server) (trace.JSON, error) {
	o := &c.opts
	s := &directSpec{Kind: "direct", Server: c.server, Protocol: o.Protocol, ValidateSchemas: o.ValidateSchemas, TimeoutSeconds: o.Timeout.Seconds(),
		StartSeconds: o.StartTimeout.Seconds(), Case: o.Case, Sampling: o.Sampling != nil, SamplingScript: len(o.SamplingScript), Elicitation: o.Elicitation.String(), Roots: o.Roots, ListRoots: o.ListRoots != nil,
		Extensions: o.Extensions, LogLevel: o.LogLevel, Strict: o.Strict, Evaluations: o.Evaluations, Metadata: o.Metadata}
	server.describe(s)
	s.Args = c.kit.redactor.Args(s.Args)
	refs := s.Secrets
	s.Secrets = nil
	b, err := json.Marshal(s)
	if err != nil {
		return nil, validationf("Direct: the options cannot be stored: %v", err)
	}
	b, _ = c.kit.redactor.Bytes(b)
	if refs == nil {
		return b, nil
	}
	// What stands under secrets are names, which the rule about sensitive keys would take for values.
	for name, ref := range refs {
		refs[name] = c.kit.redactor.String(ref)
	}
	names, _ := json.Marshal(refs) // text only: cannot fail
	b = append(b[:len(b)-1:len(b)-1], `,"secrets":`...)
	return append(append(b, names...), '}'), nil
}

// open makes the execution and connects.
func (c *Client) open(ctx context.Context, server Server) error {
	d, err := c.prepare(ctx, server)
	if err != nil {
		return err
	}
	start, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStartDeadline)
	defer cancel()
	session, err := mcp.Connect(start, c.mcpConfig(d))
	if err != nil {
		return c.failed(start, err, d)
	}
	c.session = session
	if c.opts.Protocol == "" && session.Info().Legacy {
		c.kit.rememberLegacy(d.key())
	}
	c.asks.serving = c.opts.Elicitation != 0 && !session.Modern()
	if c.opts.Notification != nil || c.opts.Log != nil || c.asks.serving {
		session.OpenStream(ctx) // where an HTTP server of the legacy eras sends what no request is about
	}
	return c.startLogging(ctx)
}

// prepare makes the execution, and everything that a connection needs.
func (c *Client) prepare(ctx context.Context, server Server) (*dialer, error) {
	c.id = trace.ExecutionID(newID())
	d := &dialer{client: c, server: server}
	if d.sse = d.transport() == LegacySSE; d.sse && mcp.Modern(c.opts.Protocol) {
		return nil, &UnsupportedError{Message: fmt.Sprintf("Direct: protocol %s has no HTTP+SSE: leave Transport empty or use m3.StreamableHTTP", c.opts.Protocol), Details: map[string]any{"feature": "transport"}}
	}
	c.dialer = d
	// Secrets are known to the redactor before anything is kept, the specification included.
	if err := d.resolveSecrets(ctx); err != nil {
		return nil, err
	}
	// The name of a case may be made of anything; it stands in many places.
	c.opts.Case = c.kit.redactor.String(c.opts.Case)
	spec, err := c.spec(server)
	if err != nil {
		return nil, err
	}
	if err := c.begin(ctx, spec); err != nil {
		return nil, err
	}
	if err := d.build(ctx); err != nil {
		return nil, c.failed(ctx, err, nil)
	}
	return d, nil
}

var errStartDeadline = errors.New("start deadline")

// begin records the run and the execution, and opens the tape.
func (c *Client) begin(ctx context.Context, spec trace.JSON) (err error) {
	rec := &store.Execution{ID: c.id, Case: c.opts.Case, Kind: "direct", Servers: []string{c.server}, Spec: spec}
	c.tape, err = c.kit.record(context.WithoutCancel(ctx), rec, &sink{store: c.kit.store, event: store.Event{ExecutionID: c.id}, blob: store.Blob{ExecutionID: c.id}}, "")
	return err
}

// record opens an execution: it completes the record and keeps it, and returns the tape, on which the first event stands.
func (k *Kit) record(ctx context.Context, rec *store.Execution, to evidence.Sink, harness string) (*evidence.Tape, error) {
	if err := k.begin(ctx); err != nil {
		return nil, fmt.Errorf("m3: record the run: %w", err)
	}
	now := k.now()
	rec.RunID, rec.Suite, rec.TestID, rec.Created = k.cfg.RunID, k.cfg.Suite, k.cfg.TestID, now
	if err := k.store.Append(ctx, rec); err != nil {
		return nil, fmt.Errorf("m3: record the execution: %w", err)
	}
	if k.cfg.Gate != nil {
		k.cfg.Gate.Expect(&eval.Expectation{Execution: rec.ID, TestID: rec.TestID, Suite: rec.Suite, Case: rec.Case, Declared: rec.Declared()})
	}
	tape := evidence.NewTape(rec.ID, to, k.redactor, &evidence.TapeConfig{Start: now, Now: k.now})
	if k.cfg.OnExecution != nil {
		k.cfg.OnExecution(rec.ID)
	}
	created, err := json.Marshal(trace.Created{Kind: rec.Kind, RunID: k.cfg.RunID, Suite: k.cfg.Suite, Case: rec.Case, Harness: harness})
	if err != nil {
		return nil, err
	}
	tape.Record(&trace.Event{Kind: trace.KindExecutionCreated, Time: now, Phase: trace.PhasePreflight, Source: m3Source, Payload: created})
	return tape, nil
}

var m3Source = trace.Source{Origin: trace.OriginDerived, Source: "m3"}

// sink hands a tape's records to the store. The tape calls it under its lock, so the two records are reused.
type sink struct {
	store store.Recorder
	event store.Event
	blob  store.Blob
}

func (s *sink) AppendEvent(seq int64, kind trace.Kind, body []byte) error {
	s.event.Sequence, s.event.Kind, s.event.Body = seq, kind, body
	return s.store.Append(context.Background(), &s.event)
}

func (s *sink) PutBlob(sha256 string, data []byte) error {
	s.blob.SHA256, s.blob.Data = sha256, data
	return s.store.Append(context.Background(), &s.blob)
}

func (k *Kit) rememberLegacy(key string) {
	if key == "" {
		return
	}
	k.mu.Lock()
	k.eras[key] = true
	k.mu.Unlock()
}

func (k *Kit) isLegacy(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.eras[key]
}
