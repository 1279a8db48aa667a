package m3test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/m3-go/m3/store"
)

// Config configures the tests of one package. The zero value changes nothing.
type Config struct {
	// Suite is the suite of the package's tests that name none of their own; trimmed. Empty: the package's path in the module. A name
	// of nothing but spaces is an error.
	Suite string
	// RequireSuite makes a test fail that asks for a kit and has no named suite: neither this Suite nor one of its own.
	RequireSuite bool
}

// Main runs the tests of a package and exits with their code; call it from TestMain. m is a *testing.M. A package needs it to name a
// suite, for the recorded run to know its end, and for required evaluations: when one did not pass or is missing after the tests, Main says so and
// exits with 1. (Under m3 test that is done for the whole run, with or without Main.)
//
//	func TestMain(m *testing.M) { m3test.Main(m, &m3test.Config{Suite: "shipping"}) }
func Main(m interface{ Run() int }, cfg *Config) {
	os.Exit(std.main(m, cfg, os.Stderr))
}

// main is Main, but for the exit.
func (p *process) main(m interface{ Run() int }, cfg *Config, stderr io.Writer) int {
	if cfg != nil {
		suite, err := suiteName(cfg.Suite)
		if err != nil {
			fmt.Fprintf(stderr, "m3: m3test.Main: Config.Suite: %v\n", err)
			return 2
		}
		p.mu.Lock()
		p.suite, p.requireSuite = suite, cfg.RequireSuite
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.gated = true
	p.mu.Unlock()
	code := m.Run()
	if p.interrupted() {
		select {} // the signal is raised again when everything is kept, and ends the process
	}
	code = p.enforce(code, stderr)
	if err := p.finish(code); err != nil {
		fmt.Fprintf(stderr, "m3: the end of the run could not be recorded: %v\n", err)
		return max(code, 1)
	}
	return code
}

// finish records the run's end, if it is this process that owns the run, and closes the spool.
func (p *process) finish(code int) error {
	rec := p.recorder()
	if rec == nil {
		return nil
	}
	if p.settings.joined { // m3 test knows when its run ends
		return rec.Close()
	}
	now := p.began.Add(time.Since(p.began)) // also when the machine's clock was set meanwhile
	run := &store.Run{ID: p.runID(), Status: store.RunFinished, Finished: &now, Owner: owner}
	if code != 0 { // of several packages, one that failed decides
		run.ExitCode = &code
	}
	return errors.Join(rec.Append(context.Background(), run), rec.Close())
}

// owner says who ends the run of a plain go test.
const owner = "go test"
