package storetest

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Dataset describes a history of evaluations: every run evaluates every case under every configuration in so many trials, each by every evaluator. The same
// description gives the same records, whenever and wherever. It is for comparing stores, and, with large numbers, for measuring them.
type Dataset struct {
	Runs, Cases, Configs, Trials, Evaluators int
	// Calls is how many tool calls an execution makes, at most; 0 makes none.
	Calls int
	// Odd adds what regular histories do not have: rows that are superseded, required or missing, executions that are open, or not
	// known, evaluations of none, a case that moves to another suite, metadata and judges.
	Odd bool
}

// Rows is how many evaluations a regular dataset has.
func (d *Dataset) Rows() int { return d.Runs * d.Cases * d.Configs * d.Trials * d.Evaluators }

// EvaluatorName is the name of evaluator i, from 0.
func (d *Dataset) EvaluatorName(i int) string { return fmt.Sprintf("quality-%d.v1", i) }

// Sample is one execution with its evaluations, in the order in which they are recorded.
type Sample struct {
	Records []store.Record
	// What the records say.
	Execution *store.Execution // nil: the rows have none, or one without a record
	Test      *store.Test
	End       time.Time // zero while it is open
	Outcome   trace.Outcome
	Calls     []SampleCall
	Rows      []*store.Evaluation
}

// SampleCall is a tool call.
type SampleCall struct {
	Tool    string
	Latency time.Duration
	Result  string // success, tool_error, protocol_error
}

// All makes the runs, and then each sample.
func (d *Dataset) All() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		r := rand.New(rand.NewPCG(20261130, uint64(d.Runs)))
		if !yield(Sample{Records: d.runs()}) {
			return
		}
		n := 0
		for run := range d.Runs {
			for c := range d.Cases {
				for cfg := range d.Configs {
					for trial := range d.Trials {
						n++
						if !yield(d.sample(r, cell{run, c, cfg, trial, n})) {
							return
						}
					}
				}
			}
		}
		if d.Odd {
			yield(d.strays())
		}
	}
}

type cell struct{ run, c, cfg, trial, n int }

func (d *Dataset) runID(run int) string { return fmt.Sprintf("run-%03d", run) }

func (d *Dataset) runs() (recs []store.Record) {
	for i := range d.Runs {
		recs = append(recs, &store.Run{ID: d.runID(i), Status: store.RunFinished, Started: d.start(i), Owner: "m3 test", Project: fmt.Sprintf("example.com/project%d", i%2)})
	}
	return recs
}

// start is when a run began: one each 31 hours, so that days and weeks differ.
func (d *Dataset) start(run int) time.Time { return epoch.Add(time.Duration(run) * 31 * time.Hour) }

func (d *Dataset) sample(r *rand.Rand, at cell) Sample {
	s := Sample{Outcome: trace.OutcomeCompleted}
	tape := NewTape(d.runID(at.run), fmt.Sprintf("x%08d", at.n))
	tape.Case, tape.Suite = fmt.Sprintf("case-%03d", at.c), fmt.Sprintf("suite-%d", at.c%3)
	if d.Odd && at.c == 1 && at.run > 0 {
		tape.Suite = "moved"
	}
	tape.TestID = ""
	// Several are created at the same moment, so that their order has to come from elsewhere.
	tape.Created = d.start(at.run).Add(time.Duration(at.n/3) * time.Second)
	s.Execution = tape.Open()
	s.Execution.Spec = d.spec(at)
	if d.Odd {
		d.odd(r, at, tape, &s)
	}
	s.Records = append(s.Records, s.Execution)
	open := d.Odd && at.n%11 == 0
	if d.Calls > 0 {
		s.Records = append(s.Records, tape.Begin()...)
		for range r.IntN(d.Calls) + 1 {
			s.Records = append(s.Records, d.call(r, tape, &s)...)
		}
	}
	if !open {
		if r.IntN(10) == 0 {
			s.Outcome = trace.OutcomeFailed
		}
		s.Records = append(s.Records, d.end(at, tape, s.Outcome)...)
		s.End = tape.Events[len(tape.Events)-1].Time
	}
	for i := range d.Evaluators {
		s.Rows = append(s.Rows, d.rows(r, at, i, tape)...)
	}
	for _, row := range s.Rows {
		s.Records = append(s.Records, row)
	}
	return s
}

func (d *Dataset) spec(at cell) trace.JSON {
	metadata := map[string]any{"harness_config": fmt.Sprintf("config-%d", at.cfg), "m3.matrix.trial": at.trial + 1}
	spec := map[string]any{"transport": "stdio", "metadata": metadata}
	if d.Odd {
		spec["harness"], spec["model"] = "codex", fmt.Sprintf("model-%d", at.cfg%2)
		metadata["m3.matrix.matrix_id"], metadata["m3.matrix.cell_id"] = "m", fmt.Sprintf("orders/%d", at.cfg)
		metadata["m3.matrix.case_id"] = fmt.Sprintf("orders/%d/trial-%d", at.cfg, at.trial+1)
		metadata["seed"], metadata["ratio"], metadata["cold"] = at.cfg*7, 0.5, at.cfg == 0
		spec["evaluations"] = []eval.Registration{{Name: d.EvaluatorName(0), Required: true}, {Name: d.EvaluatorName(1)}, {Name: "never.v1", Required: at.n%4 == 0}}
	}
	b, _ := json.Marshal(spec) // of texts and numbers
	return b
}

// odd makes some executions of more than one server, without a case, or of a test that still runs.
func (d *Dataset) odd(r *rand.Rand, at cell, tape *Tape, s *Sample) {
	switch at.n % 7 {
	case 2:
		s.Execution.Servers = []string{"orders", "billing"}
	case 3:
		s.Execution.Case = ""
	}
	if at.n%5 == 0 {
		tape.TestID = "test of " + string(tape.ID)
		s.Execution.TestID = tape.TestID
		s.Test = &store.Test{ID: tape.TestID, RunID: tape.RunID, Package: "p", Name: "T", Suite: tape.Suite, Iteration: 1, Status: store.TestRunning, Started: tape.Created}
		if r.IntN(2) == 0 {
			end := tape.Created.Add(time.Hour)
			s.Test.Status, s.Test.Finished = store.TestFailed, &end
		}
		s.Records = append(s.Records, s.Test)
	}
}

// call makes one of the sample's tool calls.
func (d *Dataset) call(r *rand.Rand, tape *Tape, s *Sample) []store.Record {
	c := SampleCall{Tool: []string{"quote", "quote", "cancel"}[r.IntN(3)], Latency: time.Duration(1+r.IntN(500_000)) * time.Microsecond, Result: "success"}
	switch r.IntN(12) {
	case 0:
		c.Result = "tool_error"
	case 1:
		c.Result = "protocol_error"
	}
	s.Calls = append(s.Calls, c)
	return tape.Call(c.Tool, c.Result, c.Latency)
}

func (d *Dataset) end(at cell, tape *Tape, outcome trace.Outcome) []store.Record {
	f := trace.Finished{Outcome: outcome}
	if d.Odd && at.n%13 == 0 {
		f.Error = trace.JSON(`{"code":"infrastructure","message":"the agent never connected"}`)
		if at.n%2 == 0 {
			f.Error = trace.JSON(`{"code":"provider_unauthorized","message":"the key was refused","blame":"provider","infrastructure":true}`)
		}
	}
	b, _ := json.Marshal(f) // of texts
	ev := trace.Event{Kind: trace.KindExecutionFinished, Phase: trace.PhaseTerminal, Source: trace.Source{Origin: trace.OriginDerived, Source: "m3"}, Payload: b}
	return tape.addAfter(ev, time.Duration(1+at.n%50)*time.Millisecond)
}

// rows makes the evaluations of one evaluator. Configurations differ in how often they pass, and cases in how hard they are.
func (d *Dataset) rows(r *rand.Rand, at cell, evaluator int, tape *Tape) []*store.Evaluation {
	e := &store.Evaluation{Result: eval.Result{ID: fmt.Sprintf("e%08d-%d", at.n, evaluator), RunID: tape.RunID, Execution: tape.ID, Suite: tape.Suite, Case: tape.Case,
		Evaluator: d.EvaluatorName(evaluator), Kind: eval.KindEvaluator, SubjectKind: "json", SubjectDigest: digits(at.n), Status: eval.Passed,
		Created: tape.Created.Add(time.Minute)}}
	if r.IntN(100) < 10+10*at.cfg+at.c%20 {
		e.Status = eval.Failed
	}
	if evaluator%2 == 0 {
		e.Score = eval.Score(float64(r.IntN(1000)) / 1000)
	}
	if !d.Odd {
		return []*store.Evaluation{e}
	}
	if r.IntN(8) == 0 {
		e.Status = eval.Statuses()[r.IntN(5)]
	}
	if evaluator == d.Evaluators-1 {
		judge(r, &e.Result)
	}
	switch r.IntN(9) {
	case 0:
		return nil // missing or pending, where it is required
	case 1:
		e.Required = true
		return []*store.Evaluation{e, later(e, "b", time.Second)}
	case 2: // the latest is recorded first
		return []*store.Evaluation{later(e, "b", time.Second), e}
	case 3: // at the same moment: the greater id is the later one
		return []*store.Evaluation{later(e, "b", 0), e}
	case 4:
		e.Turn = trace.TurnID("turn-" + string(tape.ID))
		other := later(e, "t", 0)
		other.Turn = ""
		return []*store.Evaluation{e, other}
	case 5:
		e.Details = map[string]any{eval.DetailInfrastructure: true}
		e.Metadata = map[string]any{"seed": 99.0, "reviewer": "ada"}
	case 6:
		e.Suite, e.Case = "", ""
	}
	return []*store.Evaluation{e}
}

func judge(r *rand.Rand, e *eval.Result) {
	e.Kind, e.SubjectKind = eval.KindJudge, "response"
	e.Provenance = &eval.Provenance{Kind: eval.ProvenanceJudge, Provider: "openai", Model: "judge-" + strconv.Itoa(r.IntN(2)), RubricID: "rubric"}
	if r.IntN(10) == 0 {
		e.Status, e.Details = eval.Error, map[string]any{"error_code": []string{"timeout", "judge_malformed_output"}[r.IntN(2)]}
	}
}

// later is another row of the same lineage, which passed.
func later(e *store.Evaluation, id string, after time.Duration) *store.Evaluation {
	out := *e
	out.ID += id
	out.Status, out.Required, out.Created = eval.Passed, false, e.Created.Add(after)
	return &out
}

// strays are evaluations of no execution, and of one without a record.
func (d *Dataset) strays() Sample {
	var s Sample
	for i := range 12 {
		e := Evaluation(d.runID(i%d.Runs), fmt.Sprintf("stray-%d", i), "", i*3600)
		e.Evaluator, e.TestID, e.Case, e.Suite = d.EvaluatorName(i%d.Evaluators), "", fmt.Sprintf("case-%03d", i%2), "strays"
		e.SubjectDigest = digits(i)
		switch i % 4 {
		case 1:
			e.Status, e.Case = eval.Failed, ""
		case 2:
			e.Execution = trace.ExecutionID(fmt.Sprintf("unknown-%d", i%2))
		}
		s.Rows = append(s.Rows, e)
		s.Records = append(s.Records, e)
	}
	return s
}

func digits(n int) string { return strings.Repeat("0", 56) + fmt.Sprintf("%08x", n) }
