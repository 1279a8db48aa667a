package m3test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
)

// process is what m3test knows of its test process. There is one, std; the package's own tests make more.
type process struct {
	settings settings
	signals  signals

	runOnce sync.Once
	run     string

	openOnce sync.Once
	openErr  error

	mu           sync.Mutex
	rec          store.Store // where everything is recorded; nil while nothing is
	suite        string      // Main's
	requireSuite bool
	suites       map[string]string // NewKit's, by test name
	attempts     map[T]*attempt    // tests that have a kit and have not ended
	iterations   map[string]int    // attempts begun, by test name
}

func newProcess(s settings) *process {
	return &process{settings: s, suites: map[string]string{}, attempts: map[T]*attempt{}, iterations: map[string]int{}}
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
	p.openOnce.Do(func() { p.openErr = p.openSpool(context.WithoutCancel(ctx)) })
	return p.recorder(), p.openErr
}

func (p *process) openSpool(ctx context.Context) error {
	consultEnvironment()
	path := p.settings.databasePath()
	if path == "" {
		return nil
	}
	if mayBeCached(os.Args) {
		if err := stamp(p.settings.root); err != nil {
			return fmt.Errorf("go test could not be kept from caching the result (run it with -count=1): %w", err)
		}
	}
	s, err := spool.Open(ctx, &spool.Config{Database: path, RunID: p.runID(), Package: p.settings.pkg, Version: m3.Version, AfterWrite: killHook()})
	if err != nil {
		return fmt.Errorf("%w (name a place that can be written to with %s, or unset it)", err, envDatabase)
	}
	run := &store.Run{ID: p.runID(), Status: store.RunRunning, Started: time.Now().UTC(), Project: p.settings.module, Version: m3.Version}
	if p.settings.runID == "" {
		run.Owner = owner
	}
	if err := s.Append(ctx, run); err != nil {
		s.Close()
		return err
	}
	p.mu.Lock()
	p.rec = s
	p.mu.Unlock()
	return nil
}
