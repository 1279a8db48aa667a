package m3test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/trace"
)

// evaluator registers one that decides by its subject's text.
func evaluator(t *testing.T, k *m3.Kit) {
	t.Helper()
	err := k.RegisterEvaluator("good.v1", func(_ context.Context, e eval.Context) (eval.Decision, error) {
		return eval.PassIf(string(e.Subject) == `"good"`, "it is "+string(e.Subject)), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A required evaluation that does not pass is fatal for the test; an advisory one is not, and neither is one that passes.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "db.sqlite")
	p := newProcess(settings{database: db, pkg: "example.test/shop"})
	var id trace.ExecutionID
	var advisory, detached eval.Result
	reached := false
	f := run(t, "TestA", func(f *fakeT) {
		evaluator(t, p.kit(f))
		c := p.direct(f, fixture(), nil)
		p.finishClient(f, c)
		id = c.ExecutionID()
		advisory = p.evaluate(f, "bad", "good.v1", &m3.EvaluateOptions{Execution: id})
		detached = p.evaluate(f, "bad", "good.v1", nil)
		p.evaluate(f, "good", "good.v1", &m3.EvaluateOptions{Execution: id, Required: true})
		reached = true
		p.evaluate(f, "worse", "good.v1", &m3.EvaluateOptions{Execution: id, Required: true})
		t.Error("the test went on")
	})
	if !reached || !f.failed || len(f.messages) != 1 || !f.says(`m3: required evaluation failed: good.v1: it is "worse"`, "\n  evidence: m3 show --results-db "+db+" "+string(id)) {
		t.Errorf("reached %v, messages %q", reached, f.messages)
	}
	if advisory.Status != eval.Failed || advisory.Case != "TestA" || detached.Case != "TestA" || detached.TestID == "" || detached.TestID != advisory.TestID {
		t.Errorf("%+v\n%+v", advisory, detached)
	}
	rows, err := p.recorder().Evaluations(t.Context(), nil)
	if err != nil || len(rows) != 3 {
		t.Errorf("%d rows, %v: the detached one is not required", len(rows), err)
	}
	for name, call := range map[string]func(f *fakeT){
		`evaluate "none.v1": m3: Evaluate: there is no evaluator`: func(f *fakeT) { p.evaluate(f, "x", "none.v1", nil) },
		`execution "x" is not in the kit's store`:                 func(f *fakeT) { p.evaluate(f, "x", eval.OutputHasText, &m3.EvaluateOptions{Execution: "x"}) },
	} {
		if f := run(t, "TestB", func(f *fakeT) { call(f); t.Error("the test went on") }); !f.says(name) {
			t.Errorf("messages %q, want %q", f.messages, name)
		}
	}
	if err := p.recorder().Close(); err != nil {
		t.Error(err)
	}
}

// In a clean-up the test's context has ended, and an evaluator runs all the same.
func TestEvaluateInCleanup(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{})
	var r eval.Result
	f := run(t, "TestA", func(f *fakeT) {
		evaluator(t, p.kit(f))
		f.Cleanup(func() { r = p.evaluate(f, "good", "good.v1", &m3.EvaluateOptions{Required: true}) })
	})
	if f.failed || r.Status != eval.Passed {
		t.Errorf("%q, %+v", f.messages, r)
	}
}

type runsAs func() int

func (r runsAs) Run() int { return r() }

// Main runs the gate over all tests of its process, whatever they did with the errors, and without any recording.
func TestMainRunsTheGate(t *testing.T) {
	t.Parallel()
	swallow := func(p *process, required bool, subject string) func(f *fakeT) {
		return func(f *fakeT) {
			k := p.kit(f)
			evaluator(t, k)
			_, err := k.Evaluate(t.Context(), subject, "good.v1", &m3.EvaluateOptions{Required: required})
			var e *eval.RequiredError
			if required != errors.As(err, &e) && subject != "good" {
				t.Errorf("%v", err)
			}
		}
	}
	declare := func(p *process, after func(f *fakeT)) func(f *fakeT) {
		return func(f *fakeT) {
			p.direct(f, fixture(), &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "good.v1", Required: true}}})
			after(f)
		}
	}
	for _, tt := range []struct {
		name string
		body func(p *process) func(f *fakeT)
		code int
		want string // on stderr
	}{
		{"nothing is required", func(p *process) func(*fakeT) { return swallow(p, false, "bad") }, 0, ""},
		{"passed", func(p *process) func(*fakeT) { return swallow(p, true, "good") }, 0, ""},
		{"swallowed", func(p *process) func(*fakeT) { return swallow(p, true, "bad") }, 1,
			"m3: 1 required evaluation blocked the run:\n  good.v1 failed in TestA: it is \"bad\"\n"},
		{"missing", func(p *process) func(*fakeT) { return declare(p, func(*fakeT) {}) }, 1, "good.v1 is missing in TestA\n"},
		{"skipped", func(p *process) func(*fakeT) { return declare(p, func(f *fakeT) { f.Skipf("not today") }) }, 1, "good.v1 is missing in TestA\n"},
		{"a kit with a store of its own", func(p *process) func(*fakeT) {
			return func(f *fakeT) {
				k := p.newKit(f, &KitOptions{Store: memory.New(nil)})
				evaluator(t, k)
				c := p.direct(f, fixture(), &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "other.v1", Required: true}}})
				_, _ = k.Evaluate(t.Context(), "bad", "good.v1", &m3.EvaluateOptions{Execution: c.ExecutionID(), Required: true})
			}
		}, 1, "m3: 2 required evaluations blocked the run:\n  good.v1 failed in TestA: it is \"bad\"\n"},
	} {
		for _, recorded := range []bool{false, true} {
			s := settings{pkg: "example.test/shop"}
			if recorded {
				s.database = filepath.Join(t.TempDir(), "db.sqlite")
			}
			p := newProcess(s)
			var out bytes.Buffer
			p.stderr = &out
			code := p.main(runsAs(func() int { run(t, "TestA", tt.body(p)); return 0 }), nil, &out)
			if code != tt.code || !strings.Contains(out.String(), tt.want) || tt.want == "" && out.Len() != 0 {
				t.Errorf("%s (recorded %v): code %d, want %d, stderr %q, want %q", tt.name, recorded, code, tt.code, out.String(), tt.want)
			}
			if strings.Contains(out.String(), "evidence: m3 show") != (recorded && strings.Contains(tt.want, "missing") || recorded && strings.Contains(tt.name, "own")) {
				t.Errorf("%s (recorded %v): %q", tt.name, recorded, out.String())
			}
		}
	}
}

// A code of go test's stands, and under m3 test the gate is m3 test's.
func TestMainKeepsTheCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		joined           bool
		code, want, said int
	}{{false, 2, 2, 1}, {true, 0, 0, 0}} {
		p := newProcess(settings{joined: tt.joined})
		var out bytes.Buffer
		p.stderr = &out
		code := p.main(runsAs(func() int {
			run(t, "TestA", func(f *fakeT) {
				p.direct(f, fixture(), &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "good.v1", Required: true}}})
			})
			return tt.code
		}), nil, &out)
		if code != tt.want || strings.Count(out.String(), "blocked the run") != tt.said {
			t.Errorf("%+v: code %d, %q", tt, code, out.String())
		}
	}
}

// Without Main one line says that nobody looks, once a process.
func TestNoGate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		joined, required bool
		want             int
	}{{false, true, 1}, {false, false, 0}, {true, true, 0}} {
		p := newProcess(settings{joined: tt.joined})
		var out bytes.Buffer
		p.stderr = &out
		for range 2 {
			run(t, "TestA", func(f *fakeT) {
				p.direct(f, fixture(), &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "good.v1", Required: tt.required}}})
			})
		}
		if n := strings.Count(out.String(), "did not run: add func TestMain(m *testing.M) { m3test.Main(m, nil) } to the package, or run m3 test\n"); n != tt.want {
			t.Errorf("%+v: %q", tt, out.String())
		}
	}
}

// What blocks of a kit with a store of its own is in the recording as well: m3 test finds it there.
func TestBlockedOfAForeignStoreIsRecorded(t *testing.T) {
	t.Parallel()
	p := newProcess(settings{database: filepath.Join(t.TempDir(), "db.sqlite"), joined: true, runID: "r"})
	run(t, "TestA", func(f *fakeT) {
		p.newKit(f, &KitOptions{Store: memory.New(nil)})
		p.direct(f, fixture(), &m3.DirectOptions{Evaluations: []eval.Registration{{Name: "good.v1", Required: true}}})
	})
	rows, err := p.recorder().Evaluations(t.Context(), &store.EvaluationQuery{RunID: "r", Required: true})
	if err != nil || len(rows) != 1 || rows[0].Status != eval.NotRun || rows[0].Evaluator != "good.v1" || rows[0].TestID == "" {
		t.Errorf("%+v, %v", rows, err)
	}
	blocked, err := store.Blocked(t.Context(), p.recorder(), "r", nil)
	if err != nil || len(blocked) != 1 || !strings.Contains(blocked[0].String(), "good.v1 was not run in TestA: it is required") {
		t.Errorf("%+v, %v", blocked, err)
	}
	if err := p.recorder().Close(); err != nil {
		t.Error(err)
	}
}
