// Package harnesstest holds a driver to the contract of package harness: scenarios that run it through the real kit, against a server that counts what arrives. What a
// scenario asserts is evidence: the trace, the server's own log, the processes that were started; never what the agent says alone.
package harnesstest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// UpdateVariable rewrites the golden list of skips when it is "1".
const UpdateVariable = "M3_UPDATE"

// Step is one thing that a scenario has the agent do. Exactly one of Tool, Say and Hang is set.
type Step struct {
	// Tool is a tool of the server "suite"; Args are its arguments.
	Tool string
	Args map[string]any
	// Ask: the agent is to ask for permission before the call.
	Ask bool
	// Say is the answer, which ends the turn.
	Say string
	// Hang: the agent's answer never comes.
	Hang bool
}

// Config is the driver to hold to the contract.
type Config struct {
	// Name stands in the name of the golden file: testdata/skips.NAME.txt.
	Name string
	// Driver makes the driver. Its turns are those of a scenario, for an agent that has no Dialects and plays a script of its own; a driver with Dialects
	// ignores them, and is given a scripted model.
	Driver func(turns [][]Step) harness.Driver
	// Only are the scenarios to run; nil: all.
	Only []string
}

// Verdict is how one scenario ended.
type Verdict struct {
	Scenario string
	Skipped  string   // the capability that is declared false, "" when it ran
	Problems []string // empty: it holds
}

// Scenarios are the names of all scenarios, in order.
func Scenarios() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// Run runs each scenario as a subtest of t, and compares what was skipped with the golden file.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	var skipped []string
	for i := range scenarios {
		s := &scenarios[i]
		if !cfg.wants(s.name) {
			continue
		}
		if missing := s.missing(&cfg); missing != "" {
			skipped = append(skipped, s.name+": "+missing)
			continue // the golden file shows it: a skip that nobody agreed to fails there
		}
		t.Run(s.name, func(t *testing.T) {
			for _, problem := range cfg.check(t.Context(), s) {
				t.Error(problem)
			}
		})
	}
	if cfg.Only == nil {
		cfg.golden(t, skipped)
	}
}

// Check runs the scenarios without a test, so that the suite itself can be seen to fail.
func Check(ctx context.Context, cfg Config) []Verdict {
	var verdicts []Verdict
	for i := range scenarios {
		s := &scenarios[i]
		if !cfg.wants(s.name) {
			continue
		}
		v := Verdict{Scenario: s.name, Skipped: s.missing(&cfg)}
		if v.Skipped == "" {
			v.Problems = cfg.check(ctx, s)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func (c *Config) wants(name string) bool { return c.Only == nil || slices.Contains(c.Only, name) }

// golden compares the skips with the file.
func (c *Config) golden(t *testing.T, skipped []string) {
	t.Helper()
	path := filepath.Join("testdata", "skips."+c.Name+".txt")
	var got bytes.Buffer
	for _, s := range skipped {
		fmt.Fprintln(&got, s)
	}
	if os.Getenv(UpdateVariable) == "1" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the list of skips: %v: run with %s=1 to write it", err, UpdateVariable)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("skipped:\n%s\nbut %s says:\n%s", got.Bytes(), path, want)
	}
}

// check runs one scenario.
func (c *Config) check(ctx context.Context, s *scenario) []string {
	e := &env{server: newServer(), watched: &watched{Driver: c.Driver(s.turns)}}
	kit, err := m3.New(m3.Config{})
	if err != nil {
		return []string{err.Error()}
	}
	selection := m3.Selection{Harness: e.watched}
	if len(e.watched.Capabilities().Dialects) > 0 {
		selection.Models = []m3.Model{model.Scripted("scripted", modelScript(s.turns))}
	}
	agents, err := kit.Agents([]m3.Selection{selection}, 1)
	if err != nil {
		return []string{err.Error()}
	}
	e.agent = agents[0]
	s.run(ctx, e)
	if err := kit.Close(); err != nil {
		e.failf("close the kit: %v", err)
	}
	for _, pid := range e.watched.left() {
		e.failf("process %d of the agent is left", pid)
	}
	return e.problems
}

// modelScript is the same script for a model.
func modelScript(turns [][]Step) model.Script {
	var script model.Script
	for _, turn := range turns {
		for _, s := range turn {
			switch {
			case s.Tool != "":
				args := any(s.Args)
				if s.Args == nil {
					args = map[string]any{}
				}
				script = append(script, model.Call(serverName+":"+s.Tool, args))
			case s.Hang:
				script = append(script, model.Fault(model.Failure{Kind: model.FailHang}))
			default:
				script = append(script, model.Say(s.Say))
			}
		}
	}
	return script
}

// env is what a scenario has.
type env struct {
	agent    *m3.Agent
	server   *server
	watched  *watched
	problems []string
}

func (e *env) failf(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

func (e *env) arrived(want ...string) {
	if got := e.server.tools(); !slices.Equal(got, want) {
		e.failf("at the server arrived [%s], want [%s]", strings.Join(got, " "), strings.Join(want, " "))
	}
}
