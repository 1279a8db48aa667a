package m3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/runner"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// Config configures a [Kit]. The zero value keeps everything in memory until the kit closes.
type Config struct {
	// Store keeps the executions. Nil: where a test process records, if it imports m3test and is recorded; else memory, until Close. The kit does
	// not close a store that it was given.
	Store store.Store
	// RunID groups executions into a run: 1 to 256 characters after trimming. Empty: that of the test process's recording, if that keeps the
	// executions, else a generated one.
	RunID string
	// JoinRun says that the run RunID belongs to somebody else, who records its begin and its end. m3test sets it.
	JoinRun bool
	// Suite is the suite of this kit's executions; trimmed. Empty: that of the test package, if its recording keeps the executions, else none.
	Suite string
	// Protocol is the default for every Direct of the kit: an exact version, or empty for the newest that both sides speak.
	Protocol string
	// ExecutionTimeout is the deadline of agents' actions and turns that name none. 0: 180 s. m3test sets it to what --execution-timeout says.
	ExecutionTimeout time.Duration
	// Concurrency is how many submitted actions of agents run at a time; the others are queued. Sessions are not counted. 0: 4.
	Concurrency int
	// JudgeMaxRequests is the most requests that judges may make, retries included; 0 is none at all. Nil: no limit of the kit's own. A kit whose
	// executions are recorded in the run of its test process counts together with all other kits of that run that have such a limit, in all its processes; another counts for itself.
	// What m3 test --judge-max-requests allows holds in any case.
	JudgeMaxRequests *int
	// TestID ties executions to a recorded test. m3test sets it.
	TestID string
	// Case is the case of evaluations that have neither an execution nor a case of their own. m3test sets it: the test's name.
	Case string
	// SensitiveKeys adds names of keys, headers and variables whose values are secrets to those known (spec/behaviour.md 7.8b).
	SensitiveKeys []string
	// StderrLine, if set, is given every line that a server writes to stderr, redacted. It must not block.
	StderrLine func(server, line string)
	// OnSecret, if set, is told the name of each environment variable that a secret reference was resolved from. m3test passes the names on to m3
	// test, so that it can take the values out of what the tests themselves print.
	OnSecret func(variable string)
	// OnExecution, if set, is told of every execution as it begins.
	OnExecution func(id trace.ExecutionID)
	// Gate, if set, is told of what executions declare and of every evaluation. m3test sets it.
	Gate *eval.Gate
	// OnUnmet, if set, is told of a scripted model whose steps and an agent's requests did not fit, once an execution, as it ends. m3test sets it.
	OnUnmet func(err error)
	// OnFindings, if set, is told of what DirectOptions.Strict makes a failure, once a client, as the client closes. m3test sets it.
	OnFindings func(err *FindingsError)
}

// Kit is the outer runtime and the boundary of clean-up: every client and session opened with it is closed by it. It may be used from
// several goroutines.
type Kit struct {
	cfg      Config
	store    store.Store
	ownStore bool
	explicit bool // somebody gave the run id
	redactor *evidence.Redactor

	mu       sync.Mutex
	closed   bool
	stopped  *stopCause
	clients  map[*Client]struct{}
	agents   map[*execution]struct{}
	slots    chan struct{}   // one for each submitted action that may run
	eras     map[string]bool // definition → speaks only the initialize era
	evals    evaluations
	judges   judges
	begun    sync.Once
	beginE   error
	started  time.Time // when the run was recorded
	now      func() time.Time
	patience time.Duration // see servedPatience

	closeOnce sync.Once
}

// stopCause is why a kit's executions were ended from outside.
type stopCause struct {
	outcome trace.Outcome
	reason  string
}

// New returns a kit. It opens nothing, but for the recording of a test process: see Config.Store.
func New(cfg Config) (*Kit, error) {
	cfg.RunID, cfg.Suite = strings.TrimSpace(cfg.RunID), strings.TrimSpace(cfg.Suite)
	if n := utf8.RuneCountInString(cfg.RunID); n > 256 {
		return nil, validationf("the run id has %d characters, at most 256 are allowed", n)
	}
	if err := checkProtocol(cfg.Protocol); err != nil {
		return nil, err
	}
	if n := cfg.JudgeMaxRequests; n != nil && *n < 0 {
		return nil, validationf("Config.JudgeMaxRequests is %d: write the number of requests, 0 for none, or leave it nil for no limit", *n)
	}
	if cfg.ExecutionTimeout < 0 || cfg.Concurrency < 0 {
		return nil, validationf("ExecutionTimeout and Concurrency must not be negative")
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 4
	}
	explicit := cfg.RunID != ""
	if cfg.Store == nil {
		if err := cfg.record(); err != nil {
			return nil, err
		}
	}
	if cfg.RunID == "" {
		cfg.RunID = newID()
	}
	k := &Kit{cfg: cfg, store: cfg.Store, explicit: explicit, clients: map[*Client]struct{}{}, agents: map[*execution]struct{}{}, eras: map[string]bool{}, now: time.Now, patience: servedPatience,
		slots:    make(chan struct{}, cfg.Concurrency),
		redactor: evidence.NewRedactor(&evidence.RedactorConfig{Keys: cfg.SensitiveKeys, Off: redaction == "off"})}
	if k.store == nil {
		k.store, k.ownStore = memory.New(nil), true
	}
	return k, nil
}

// record gives the kit what the test runner has for kits that name no store.
func (c *Config) record() error {
	d, err := runner.Get()
	if err != nil {
		return &Error{CodeText: "recording_failed", Message: "the kit is to be recorded, and cannot be: " + err.Error(), Err: err}
	}
	if d == nil {
		return nil
	}
	if c.Gate == nil {
		c.Gate = d.Gate
	}
	if c.ExecutionTimeout == 0 {
		c.ExecutionTimeout = d.ExecutionTimeout
	}
	if d.Store == nil {
		return nil
	}
	c.Store = d.Store
	if c.RunID == "" {
		c.RunID, c.JoinRun = d.RunID, true
	}
	if c.Suite == "" {
		c.Suite = d.Suite
	}
	if c.OnSecret == nil {
		c.OnSecret = d.OnSecret
	}
	return nil
}

// redaction is "off" only in binaries that this module's own tests link so (-ldflags "-X github.com/m3-go/m3.redaction=off"), for the control run
// that shows what redaction removes. Nothing at run time can switch it.
var redaction string

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system's randomness failed: nothing sensible can go on
		panic("m3: no randomness: " + err.Error())
	}
	return id.String()
}

// RunID is the run that the kit's executions belong to.
func (k *Kit) RunID() string { return k.cfg.RunID }

// Store is where the kit's executions are kept. It is readable until the kit closes, or as long as the store that was given
// to the kit is open.
func (k *Kit) Store() store.Store { return k.store }

// Redact replaces in text whatever the kit knows to be secret, as it does in everything it keeps.
func (k *Kit) Redact(text string) string { return k.redactor.String(text) }

// begin records the run, once, before its first execution.
func (k *Kit) begin(ctx context.Context) error {
	k.begun.Do(func() {
		if k.cfg.JoinRun {
			return
		}
		k.started = k.now()
		k.beginE = k.store.Append(ctx, &store.Run{ID: k.cfg.RunID, Status: store.RunRunning, Started: k.started, Explicit: k.explicit, Owner: "kit"})
	})
	return k.beginE
}

// Trace returns the trace of an execution of this kit or its store.
func (k *Kit) Trace(ctx context.Context, id trace.ExecutionID) (*trace.Trace, error) {
	if err := k.usable(); err != nil {
		return nil, err
	}
	return k.store.Trace(ctx, id)
}

// ReadRawEvidence returns at most maxBytes (0: 1 MiB) of the bytes behind a raw message's reference. What was redacted stays so. The
// errors are [ErrRawEvidenceUnavailable] and [*RawEvidenceIntegrityError].
func (k *Kit) ReadRawEvidence(ctx context.Context, ref trace.EvidenceRef, maxBytes int64) (store.Evidence, error) {
	if err := k.usable(); err != nil {
		return store.Evidence{}, err
	}
	ev, err := k.store.ReadRawEvidence(ctx, ref, maxBytes)
	var broken *store.IntegrityError
	switch {
	case err == nil:
		return ev, nil
	case errors.As(err, &broken):
		return store.Evidence{}, &RawEvidenceIntegrityError{Message: strings.TrimPrefix(broken.Error(), "store: "),
			Details: map[string]any{"field": broken.Field}, Err: err}
	case errors.Is(err, store.ErrEvidenceUnavailable):
		return store.Evidence{}, &Error{CodeText: "raw_evidence_unavailable", Message: fmt.Sprintf("raw evidence %q is not in the store", ref.ID), Err: ErrRawEvidenceUnavailable}
	default:
		return store.Evidence{}, err
	}
}

// Stop ends every execution that is open, with the given outcome (timed_out or cancelled): pending calls fail with a
// *TimeoutError or *CancelledError that gives the reason, evidence is kept, traces are finalized. New clients are refused. It waits until all is
// ended, at most as long as ctx allows.
func (k *Kit) Stop(ctx context.Context, outcome trace.Outcome, reason string) error {
	k.mu.Lock()
	if k.stopped == nil {
		k.stopped = &stopCause{outcome, reason}
	}
	k.mu.Unlock()
	return k.closeClients(ctx, k.stopped)
}

// Close closes every client that is still open, then the kit's own store. It is idempotent, and every caller waits for its end. The
// first returns the failures of the clean-up, the others nil.
func (k *Kit) Close() (err error) {
	k.closeOnce.Do(func() { err = k.close() })
	return err
}

func (k *Kit) close() error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	err := k.closeClients(context.Background(), nil)
	if k.begunRun() && !k.cfg.JoinRun {
		now := k.started.Add(k.now().Sub(k.started)) // also when the machine's clock was set meanwhile
		err = errors.Join(err, k.store.Append(context.Background(), &store.Run{ID: k.cfg.RunID, Status: store.RunFinished, Finished: &now, Explicit: k.explicit, Owner: "kit"}))
	}
	if k.ownStore {
		err = errors.Join(err, k.store.Close())
	}
	return err
}

func (k *Kit) begunRun() bool {
	begun := true
	k.begun.Do(func() { begun = false })
	return begun && k.beginE == nil
}

// closeClients ends all clients at once and waits for them.
func (k *Kit) closeClients(ctx context.Context, cause *stopCause) error {
	k.mu.Lock()
	open := make([]*Client, 0, len(k.clients))
	for c := range k.clients {
		open = append(open, c)
	}
	agents := slices.Collect(maps.Keys(k.agents))
	k.mu.Unlock()
	errs := make([]error, len(open)+len(agents))
	var wg sync.WaitGroup
	for i, c := range open {
		wg.Go(func() { errs[i] = c.end(cause) })
	}
	for i, x := range agents {
		wg.Go(func() { errs[len(open)+i] = x.endWithKit(ctx, cause) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return errors.Join(errs...)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Kit) usable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.usableLocked()
}

func (k *Kit) usableLocked() error {
	if k.closed {
		return &Error{CodeText: "kit_closed", Message: "the kit is closed: make a new one with m3.New", Err: ErrKitClosed}
	}
	return nil
}

// register makes the kit responsible for a client, unless the kit has ended meanwhile.
func (k *Kit) register(c *Client) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.usableLocked(); err != nil {
		return err
	}
	if k.stopped != nil {
		return k.stopped.err("connect to " + c.server)
	}
	k.clients[c] = struct{}{}
	return nil
}

// adopt makes the kit responsible for an agent's execution, unless the kit has ended meanwhile.
func (k *Kit) adopt(x *execution) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.usableLocked(); err != nil {
		return err
	}
	if k.stopped != nil {
		return k.stopped.err("start " + x.agent.name)
	}
	k.agents[x] = struct{}{}
	return nil
}

func (k *Kit) release(x *execution) {
	k.mu.Lock()
	delete(k.agents, x)
	k.mu.Unlock()
}

func (k *Kit) forget(c *Client) {
	k.mu.Lock()
	delete(k.clients, c)
	k.mu.Unlock()
}

// err is the error of an operation that the stop ended.
func (s *stopCause) err(operation string) error {
	details := map[string]any{"operation": operation}
	if s.outcome == trace.OutcomeTimedOut {
		return &TimeoutError{Message: operation + ": " + s.reason, Details: details}
	}
	return &CancelledError{Message: operation + ": " + s.reason, Details: details}
}

// log opens the events of an execution of this kit for reading.
func (k *Kit) log(id trace.ExecutionID) (trace.Log, error) {
	t, err := k.store.Trace(context.Background(), id)
	if err != nil {
		return nil, err
	}
	return t.Log(), nil
}
