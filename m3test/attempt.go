package m3test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// attempt is one test as it runs, from its first kit to its last clean-up.
type attempt struct {
	p       *process
	t       T
	name    string // the test's, and its suite: the record has them redacted
	suite   string
	record  store.Test
	store   store.Store // the process's spool, or memory of the attempt's own
	rec     store.Store // the spool; nil when nothing is recorded
	begun   sync.Once
	beginE  error
	unwatch func()
	making  sync.Mutex // the first kit is made once

	out sync.Mutex // guards the test's output, which ends with the test
	end bool

	foreign eval.Gate // what is required of kits with a store of their own

	mu    sync.Mutex
	kits  []*m3.Kit
	execs []execution

	checks     map[checkKey]int // how many of each there were
	unrecorded sync.Once
}

// execution is where one of the attempt's executions is kept.
type execution struct {
	id    trace.ExecutionID
	store store.Store
}

// attempt returns that of the test, and begins it at the first call. A suite that is given holds for the test and its subtests.
func (p *process) attempt(t T, suite string) (*attempt, error) {
	given, err := suiteName(suite)
	if err != nil {
		return nil, fmt.Errorf("KitOptions.Suite: %w", err)
	}
	if p.interrupted() {
		return nil, errInterrupted
	}
	if _, err := judging.Process(); err != nil {
		return nil, err
	}
	rec, err := p.open(t.Context())
	if err != nil {
		return nil, fmt.Errorf("it is to be recorded, and cannot be: %w", err)
	}
	a, err := p.admit(t, given, rec)
	if err != nil {
		return nil, err
	}
	a.begun.Do(func() { a.beginE = a.begin() })
	return a, a.beginE
}

// admit finds or makes the attempt.
func (p *process) admit(t T, suite string, rec store.Store) (*attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if suite != "" {
		p.suites[t.Name()] = suite
	}
	if a := p.attempts[t]; a != nil {
		return a, nil
	}
	suite, err := p.suiteOf(t.Name())
	if err != nil {
		return nil, err
	}
	if only := p.settings.suite; only != "" && suite != only {
		return nil, &notSelectedError{suite, only}
	}
	p.iterations[t.Name()]++
	a := &attempt{p: p, t: t, name: t.Name(), suite: suite, rec: rec, store: rec, record: store.Test{ID: uuid.NewString(), RunID: p.runID(),
		Package: p.settings.pkg, Name: p.redact(t.Name()), Suite: p.redact(suite), Iteration: p.iterations[t.Name()], Status: store.TestRunning, Started: time.Now()}}
	if rec == nil {
		a.store = memory.New(nil)
	}
	p.attempts[t] = a
	return a, nil
}

func (p *process) attemptOf(t T) *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts[t]
}

// begin records the attempt and watches over it.
func (a *attempt) begin() error {
	a.t.Cleanup(a.finish)
	unobserve := expect.Observe(a.t, &expect.Observer{Redact: a.redact, Executions: a.executions, Command: a.command,
		Checked: a.checked})
	unsignal := a.p.signals.watch(a.p)
	a.unwatch = func() { unobserve(); unsignal() }
	if a.rec == nil {
		return nil
	}
	if err := a.rec.Append(context.Background(), &a.record); err != nil {
		return fmt.Errorf("it cannot be recorded: %w", err)
	}
	a.t.Attr("m3.run", a.record.RunID)
	a.t.Attr("m3.suite", a.record.Suite)
	a.t.Attr("m3.test", a.record.ID)
	a.p.mu.Lock()
	untold := a.p.untold
	a.p.untold = nil
	a.p.mu.Unlock()
	for _, variable := range untold {
		a.t.Attr(attrSecret, variable)
	}
	return nil
}

// attrSecret is the attribute by which m3 test learns which variables hold secrets.
const attrSecret = "m3.secret"

// kit is the test's kit: its first, made when there is none yet.
func (a *attempt) kit() (*m3.Kit, error) {
	a.making.Lock()
	defer a.making.Unlock()
	a.mu.Lock()
	kits := a.kits
	a.mu.Unlock()
	if len(kits) > 0 {
		return kits[0], nil
	}
	return a.newKit(&KitOptions{})
}

// newKit makes a kit of the test.
func (a *attempt) newKit(o *KitOptions) (*m3.Kit, error) {
	suite, err := suiteName(o.Suite)
	if err != nil {
		return nil, fmt.Errorf("KitOptions.Suite: %w", err)
	}
	cfg := m3.Config{Store: o.Store, RunID: o.RunID, Suite: a.p.redact(suite), Protocol: o.Protocol, SensitiveKeys: o.SensitiveKeys, StderrLine: a.stderrLine, OnFindings: a.strict,
		Case: a.record.Name, Gate: &a.p.gate, JudgeMaxRequests: o.JudgeMaxRequests}
	if suite == "" {
		cfg.Suite = a.record.Suite
	}
	if o.Store == nil {
		cfg.Store = a.store
		if a.rec != nil {
			cfg.TestID = a.record.ID
		}
	} else {
		cfg.Gate = &a.foreign
	}
	if o.RunID == "" {
		cfg.RunID = a.p.runID()
		cfg.JoinRun = a.rec != nil && o.Store == nil // the process itself recorded this run there
	}
	kept := cfg.Store
	cfg.OnExecution = func(id trace.ExecutionID) { a.began(execution{id, kept}) }
	cfg.OnSecret = func(variable string) {
		a.p.learn(variable)
		if a.rec != nil {
			a.t.Attr(attrSecret, variable)
		}
	}
	k, err := m3.New(cfg)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.kits = append(a.kits, k)
	a.mu.Unlock()
	unwatch := a.watchDeadline(k)
	a.t.Cleanup(func() {
		unwatch()
		if err := unreported(k.Close()); err != nil {
			a.fail("m3: close the test's kit: " + err.Error())
		}
	})
	if a.p.signals.caught() { // a kit that comes after the end would outlive it
		return nil, errInterrupted
	}
	return k, nil
}

// began is told of each execution as it begins.
func (a *attempt) began(e execution) {
	a.mu.Lock()
	a.execs = append(a.execs, e)
	a.mu.Unlock()
	if a.rec != nil {
		a.t.Attr("m3.execution", string(e.id))
	}
}

func (a *attempt) executions() []trace.ExecutionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]trace.ExecutionID, len(a.execs))
	for i, e := range a.execs {
		ids[i] = e.id
	}
	return ids
}

// command opens the trace of one of the test's executions; empty when it is not in the recording.
func (a *attempt) command(id trace.ExecutionID) string {
	if a.rec == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.execs, execution{id, a.rec}) {
		return ""
	}
	return a.p.settings.showCommand() + " " + string(id)
}

// redact removes what any kit of the test knows to be secret.
func (a *attempt) redact(text string) string {
	a.mu.Lock()
	kits := slices.Clone(a.kits)
	a.mu.Unlock()
	for _, k := range kits {
		text = k.Redact(text)
	}
	return a.p.redact(text)
}

// The bounds of what is kept of a test's failures.
const (
	maxReasons = 20
	maxReason  = 4000 // bytes
)

// reason keeps a failure message of m3's own.
func (a *attempt) reason(text string) {
	text = a.redact(text)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.record.Reasons) < maxReasons {
		a.record.Reasons = append(a.record.Reasons, text)
	}
}

// fail marks the test as failed, for a reason of m3's.
func (a *attempt) fail(text string) {
	a.reason(text)
	a.t.Errorf("%s", a.redact(text))
}

// fatal ends test t, whose attempt this is; nil if it has none yet.
func (a *attempt) fatal(t T, text string) {
	t.Helper()
	if a != nil {
		a.reason(text)
		text = a.redact(text)
	}
	t.Fatalf("%s", text)
}

// stderrLine shows what a server says on stderr in the output of its test.
func (a *attempt) stderrLine(server, line string) {
	a.out.Lock()
	defer a.out.Unlock()
	if !a.end {
		fmt.Fprintf(a.t.Output(), "%s: %s\n", server, line)
	}
}

// finish is the test's last clean-up of m3's: its kits are closed.
func (a *attempt) finish() {
	if a.t.Failed() {
		a.keepArtifacts()
	}
	a.unwatch()
	a.p.forget(a)
	if err := a.recordBlocked(); err != nil && !a.p.interrupted() {
		a.t.Errorf("m3: a required evaluation could not be recorded: %v", err)
	}
	a.p.remarkNoGate(a.p.stderr)
	if a.rec == nil { // memory of the attempt's own: readable until here
		if err := a.store.Close(); err != nil {
			a.t.Errorf("m3: close the test's store: %v", err)
		}
	} else if err := a.recordEnd(); err != nil && !a.p.interrupted() { // else the recording may be closed already
		a.t.Errorf("m3: the end of the test could not be recorded: %v", err)
	}
	a.out.Lock()
	a.end = true
	a.out.Unlock()
}

// recordEnd records how the test ended.
func (a *attempt) recordEnd() error {
	a.mu.Lock()
	record := a.record
	a.mu.Unlock()
	now := record.Started.Add(time.Since(record.Started)) // also when the machine's clock was set meanwhile
	record.Finished = &now
	record.Name, record.Suite = a.redact(a.name), a.redact(a.suite) // more is known to be secret now
	switch {
	case a.t.Failed():
		record.Status = store.TestFailed
	case a.t.Skipped():
		record.Status = store.TestSkipped
	default:
		record.Status = store.TestPassed
	}
	return a.rec.Append(context.Background(), &record)
}

func (p *process) forget(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.attempts, a.t)
	delete(p.suites, a.name)
}

var errInterrupted = errors.New("the run was interrupted")
