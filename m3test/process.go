package m3test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/runner"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
)

// process is what m3test knows of its test process. There is one, std; the package's own tests make more.
type process struct {
	settings settings
	stderr   io.Writer
	signals  signals

	runOnce sync.Once
	run     string

	openOnce sync.Once
	openErr  error

	mu           sync.Mutex
	rec          store.Store // where everything is recorded; nil while nothing is
	began        time.Time   // when rec was opened
	suite        string      // Main's
	requireSuite bool
	suites       map[string]string // NewKit's, by test name
	attempts     map[T]*attempt    // tests that have a kit and have not ended
	iterations   map[string]int    // attempts begun, by test name
	untold       []string          // variables of secrets that no test's output has told of yet

	gate  eval.Gate // what is required of the process's executions
	gated bool      // Main runs the gate, or it was said that nobody does

	redactOnce sync.Once
	redactor   *evidence.Redactor
}

func newProcess(s settings) *process {
	return &process{settings: s, stderr: os.Stderr, suites: map[string]string{}, attempts: map[T]*attempt{}, iterations: map[string]int{}}
}

// runID is the run of the process's kits: the one that m3 test made; else one for each go test; else one for each process.
func (p *process) runID() string {
	p.runOnce.Do(func() {
		switch id, ok := goTestRun(); {
		case p.settings.runID != "":
			p.run = p.settings.runID
		case ok:
			p.run = id
		default:
			p.run = uuid.NewString()
		}
	})
	return p.run
}

// recorder is where the process records, once open has been asked; nil when nothing is recorded.
func (p *process) recorder() store.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec
}

// open opens the spool at the first test that has something to record. A process in which no test uses a kit leaves none. The
// store is nil when nothing is to be recorded.
func (p *process) open(ctx context.Context) (store.Store, error) {
	consultEnvironment()
	p.openOnce.Do(func() { p.openErr = p.openSpool(context.WithoutCancel(ctx)) })
	return p.recorder(), p.openErr
}

func (p *process) openSpool(ctx context.Context) error {
	path := p.settings.databasePath()
	if path == "" {
		return nil
	}
	if err := checkDatabase(path); err != nil {
		return fmt.Errorf("%w (name another file with %s or -m3.db, or unset it)", err, envDatabase)
	}
	s, err := spool.Open(ctx, &spool.Config{Database: path, RunID: p.runID(), Package: p.settings.pkg, Version: m3.Version, AfterWrite: killHook()})
	if err != nil {
		return fmt.Errorf("%w (name a place that can be written to with %s, or unset it)", err, envDatabase)
	}
	run := &store.Run{ID: p.runID(), Status: store.RunRunning, Started: time.Now(), Project: p.settings.module, Version: m3.Version}
	if !p.settings.joined {
		run.Owner = owner
	}
	if err := s.Append(ctx, run); err != nil {
		s.Close()
		return err
	}
	p.mu.Lock()
	p.rec, p.began = s, run.Started
	p.mu.Unlock()
	return nil
}

// defaults are what a kit gets that was made by m3.New without a store.
func (p *process) defaults() (*runner.Defaults, error) {
	rec, err := p.open(context.Background())
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return &runner.Defaults{Gate: &p.gate}, nil
	}
	p.mu.Lock()
	suite := p.suite
	p.mu.Unlock()
	return &runner.Defaults{Store: rec, RunID: p.runID(), Suite: p.redact(orElse(suite, p.settings.packageSuite())), OnSecret: p.secret, Gate: &p.gate}, nil
}

// secret is told of the variable of a secret that a kit of no test uses. The output of the next best test tells m3 test.
func (p *process) secret(variable string) {
	p.learn(variable)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.attempts {
		a.t.Attr(attrSecret, variable)
		return
	}
	p.untold = append(p.untold, variable)
}

// known is the redactor for what is no kit's: names of tests and suites. It knows the variables whose names say that they are secret, and those
// that kits have used.
func (p *process) known() *evidence.Redactor {
	p.redactOnce.Do(func() {
		p.redactor = evidence.NewRedactor(nil)
		for _, kv := range os.Environ() {
			if name, value, _ := strings.Cut(kv, "="); value != "" && p.redactor.Sensitive(name) {
				_ = p.redactor.Add(name, value) // too short a value is not told from other text
			}
		}
	})
	return p.redactor
}

func (p *process) learn(variable string) { _ = p.known().Add(variable, os.Getenv(variable)) }

func (p *process) redact(text string) string { return p.known().String(text) }
