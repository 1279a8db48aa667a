package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/stats"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Comparison says how a run differs from an earlier one in the same database. Nothing in it changes what a test, an execution or an evaluation is.
type Comparison struct {
	BaselineRunID  string   `json:"baseline_run_id"`
	CurrentRunID   string   `json:"current_run_id"`
	BaselineSuites []string `json:"baseline_suites"`
	CurrentSuites  []string `json:"current_suites"`
	// Margin is how far two rates may lie apart and still be the same: 0.05 is 5 points.
	Margin float64 `json:"margin"`
	// Evaluators compares rates, by suite, evaluator and configuration, over what both runs have and can be compared.
	Evaluators []EvaluatorComparison `json:"evaluators"`
	// EvaluationChanges are the evaluations that differ, or cannot be compared.
	EvaluationChanges []EvaluationChange `json:"evaluation_changes"`
	InterfaceChanges  []InterfaceChange  `json:"interface_changes"`
	TestChanges       []TestChange       `json:"test_changes"`
	Failures          []ComparedFailure  `json:"failures"`
	Coverage          Coverage           `json:"coverage"`
	// UnmatchedEvaluations counts the rows without a case: they have nothing by which to find each other.
	UnmatchedEvaluations Both[int] `json:"unmatched_evaluations"`
	Limitations          []string  `json:"limitations"`
}

// Both is something of the baseline and of the current run.
type Both[T any] struct {
	Baseline T `json:"baseline"`
	Current  T `json:"current"`
}

// Coverage counts what stands in each run, and what was found in both.
type Coverage struct {
	Tests       Covered `json:"tests"`
	Executions  Covered `json:"executions"`
	Evaluations Covered `json:"evaluations"`
}

// Covered is one kind of thing, counted by identity: trials and repetitions are one.
type Covered struct {
	Both         int `json:"both"`
	BaselineOnly int `json:"baseline_only"`
	CurrentOnly  int `json:"current_only"`
}

// ComparedFailure is a failure of one of the runs.
type ComparedFailure struct {
	Source  string `json:"source"` // baseline, current
	Kind    string `json:"kind"`
	Package string `json:"package,omitempty"`
	Test    string `json:"test,omitempty"`
	Reason  string `json:"reason"`
}

// Compare compares the run of now with the one of base: both are what [Build] made of r. A margin of 0 or less is 5 points.
func Compare(ctx context.Context, r store.Reader, base, now *Feedback, margin float64) (*Comparison, error) {
	if margin <= 0 {
		margin = stats.DefaultMargin
	}
	c := &comparer{ctx: ctx, r: r, base: &side{f: base}, now: &side{f: now}, out: &Comparison{BaselineRunID: base.RunID, CurrentRunID: now.RunID,
		BaselineSuites: base.suiteNames(), CurrentSuites: now.suiteNames(), Margin: margin, Evaluators: []EvaluatorComparison{}, EvaluationChanges: []EvaluationChange{},
		InterfaceChanges: []InterfaceChange{}, TestChanges: []TestChange{}, Failures: []ComparedFailure{}, Limitations: []string{}}}
	for _, step := range []func() error{c.executions, c.evaluations, c.interfaces} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("compare with run %s: %w", base.RunID, err)
		}
	}
	c.tests()
	c.failures()
	c.limitations()
	return c.out, nil
}

// noComparison begins the limitation of a run that could not be compared.
const noComparison = "there is no comparison: "

// NoComparison notes why the run could not be compared.
func (f *Feedback) NoComparison(err error) {
	f.Limitations = append(f.Limitations, noComparison+err.Error())
}

type comparer struct {
	ctx       context.Context
	r         store.Reader
	base, now *side
	out       *Comparison
}

// side is one of the two runs.
type side struct {
	f          *Feedback
	executions map[trace.ExecutionID]*compared
}

// compared is an execution as comparison sees it.
type compared struct {
	place
	input map[string]string // what was asked of it, by the name of the field
}

// place is where something happened: what trials of one case under one configuration share.
type place struct {
	Suite  string `json:"suite_name,omitempty"`
	Case   string `json:"case_id,omitempty"`
	Config string `json:"config_digest,omitempty"`
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.Suite, q.Suite), cmp.Compare(p.Case, q.Case), cmp.Compare(p.Config, q.Config))
}

func (f *Feedback) suiteNames() []string {
	names := []string{}
	for _, s := range f.Suites {
		names = append(names, s.Name)
	}
	return names
}

func (c *comparer) executions() error {
	for _, s := range []*side{c.base, c.now} {
		infos, err := c.r.Executions(c.ctx, &store.ExecutionQuery{RunID: s.f.RunID})
		if err != nil {
			return err
		}
		s.executions = make(map[trace.ExecutionID]*compared, len(infos))
		for i := range infos {
			s.executions[infos[i].ID] = comparedOf(&infos[i])
		}
		if err := c.prompts(s); err != nil {
			return err
		}
	}
	c.out.Coverage.Executions = covered(c.base.places(), c.now.places())
	return nil
}

// prompts adds what the test said to its agents, message by message.
func (c *comparer) prompts(s *side) error {
	q := &store.EventQuery{RunID: s.f.RunID, Kinds: []trace.Kind{trace.KindAgentMessage}}
	return c.r.Events(c.ctx, q, func(ev *trace.Event) error {
		var m struct {
			Role    string     `json:"role"`
			Content trace.JSON `json:"content"`
		}
		x := s.executions[ev.ExecutionID]
		if x == nil || ev.Source.Origin != trace.OriginDerived || ev.Payload.Decode(&m) != nil || m.Role != "user" {
			return nil
		}
		x.input["prompt"] += string(m.Content) + "\n"
		return nil
	})
}

func (s *side) places() map[place]bool {
	out := map[place]bool{}
	for _, x := range s.executions {
		out[x.place] = true
	}
	return out
}

func covered[K comparable](base, now map[K]bool) (c Covered) {
	for k := range base {
		if now[k] {
			c.Both++
		} else {
			c.BaselineOnly++
		}
	}
	c.CurrentOnly = len(now) - c.Both
	return c
}

// configFields are the members of a specification that make a configuration: executions that differ in one of them are not trials of one thing. What is different in every run
// (addresses, folders, commands) is not among them, nor is what was asked, which inputFields has.
var (
	configFields = []string{"kind", "harness", "name", "model", "session", "tools", "timeout_seconds", "workspace", "artifacts", "keep_artifacts", "permissions",
		"elicitation_round_limit", "transport", "protocol", "validate_schemas", "sampling", "elicitation", "strict", "extensions"}
	inputFields = []string{"message", "goal", "instructions"}
	// observed are members of metadata that tell trials apart.
	observed = []string{"m3.matrix.trial", "m3.matrix.case_id", "case_id", "trial"}
	trial    = regexp.MustCompile(`[-/]trial-[0-9]+$`)
)

func comparedOf(in *store.ExecutionInfo) *compared {
	var spec map[string]json.RawMessage
	_ = json.Unmarshal(in.Spec, &spec) // what cannot be read has the configuration of its kind and servers
	config := map[string]any{"kind": in.Kind, "servers": in.Servers}
	for _, name := range configFields {
		if v, ok := spec[name]; ok {
			config[name] = v
		}
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(spec["metadata"], &metadata) == nil && len(metadata) > 0 {
		for _, name := range observed {
			delete(metadata, name)
		}
		config["metadata"] = metadata
	}
	x := &compared{place: place{Suite: in.Suite, Case: trial.ReplaceAllString(in.Case, ""), Config: digest(config)}, input: map[string]string{}}
	for _, name := range inputFields {
		if v, ok := spec[name]; ok {
			x.input[name] = string(v)
		}
	}
	return x
}

// digest is 16 hexadecimal digits of the SHA-256 of v as JSON.
func digest(v any) string {
	b, _ := json.Marshal(v) // maps of what was JSON before
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// TestChange is a test whose outcomes differ, or that is in one run only.
type TestChange struct {
	Suite   string `json:"suite_name,omitempty"`
	Package string `json:"package"`
	Test    string `json:"test"`
	// Outcomes are those of all attempts, sorted; none when the run does not have the test.
	Outcomes Both[[]store.TestStatus] `json:"outcomes"`
}

type testKey struct{ suite, pkg, name string }

func (c *comparer) tests() {
	base, now := c.base.outcomes(), c.now.outcomes()
	keys := map[testKey]bool{}
	for k := range base {
		keys[k] = true
	}
	for k := range now {
		keys[k] = true
	}
	for k := range keys {
		if !slices.Equal(base[k], now[k]) {
			c.out.TestChanges = append(c.out.TestChanges, TestChange{k.suite, k.pkg, k.name, Both[[]store.TestStatus]{list(base[k]), list(now[k])}})
		}
		switch {
		case base[k] == nil:
			c.out.Coverage.Tests.CurrentOnly++
		case now[k] == nil:
			c.out.Coverage.Tests.BaselineOnly++
		default:
			c.out.Coverage.Tests.Both++
		}
	}
	slices.SortFunc(c.out.TestChanges, func(x, y TestChange) int {
		return cmp.Or(cmp.Compare(x.Package, y.Package), cmp.Compare(x.Test, y.Test), cmp.Compare(x.Suite, y.Suite))
	})
}

func (s *side) outcomes() map[testKey][]store.TestStatus {
	out := map[testKey][]store.TestStatus{}
	for i := range s.f.Tests {
		t := &s.f.Tests[i]
		k := testKey{t.Suite, t.Package, trial.ReplaceAllString(t.Name, "")}
		out[k] = append(out[k], t.Outcome)
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

func (c *comparer) failures() {
	for _, s := range []struct {
		source string
		f      *Feedback
	}{{"baseline", c.base.f}, {"current", c.now.f}} {
		for _, fail := range slices.Concat(s.f.Failures, s.f.more) {
			c.out.Failures = append(c.out.Failures, ComparedFailure{s.source, fail.Kind, fail.Package, fail.Test, fail.why()})
		}
	}
}

func (c *comparer) limitations() {
	note := func(format string, args ...any) {
		c.out.Limitations = append(c.out.Limitations, fmt.Sprintf(format, args...))
	}
	for _, s := range []*side{c.base, c.now} {
		for _, l := range s.f.Limitations {
			note("run %s: %s", s.f.RunID, l)
		}
	}
	if !slices.Equal(c.out.BaselineSuites, c.out.CurrentSuites) {
		note("the runs have different suites: %s, and now %s", orNone(c.out.BaselineSuites), orNone(c.out.CurrentSuites))
	}
	for _, k := range []struct {
		noun string
		c    Covered
	}{{"tests", c.out.Coverage.Tests}, {"configurations of a case", c.out.Coverage.Executions}, {"evaluations", c.out.Coverage.Evaluations}} {
		if k.c.BaselineOnly+k.c.CurrentOnly > 0 {
			note("%s: %d in both runs, %d in the baseline only, %d in this one only; what is in one run only is compared with nothing", k.noun, k.c.Both, k.c.BaselineOnly, k.c.CurrentOnly)
		}
	}
	if u := c.out.UnmatchedEvaluations; u.Baseline+u.Current > 0 {
		note("evaluations without a case cannot be matched: %d in the baseline, %d in this run", u.Baseline, u.Current)
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}
