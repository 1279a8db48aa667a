package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Feedback is what feedback.json holds: a run for programs to read. Everything in it stands in the store; [Build] only
// selects and counts. Its lists are never null.
type Feedback struct {
	SchemaVersion int             `json:"schema_version"` // 1
	RunID         string          `json:"run_id"`
	ProjectName   string          `json:"project_name"`
	M3Version     string          `json:"m3_version"`
	Command       []string        `json:"command"`
	StartedAt     time.Time       `json:"started_at"`
	FinishedAt    *time.Time      `json:"finished_at"`
	ExitCode      *int            `json:"exit_code"` // go test's
	Suites        []Suite         `json:"suites"`
	Tests         []TestRecord    `json:"tests"`
	Packages      []PackageRecord `json:"packages"`
	Executions    []Execution     `json:"executions"`
	Failures      []Failure       `json:"failures"`
	Findings      []FindingCount  `json:"findings"`
	// RequiredBlocked are the required evaluations that did not pass or are missing. They make the run fail, and change no outcome of a test or an execution.
	RequiredBlocked []eval.Blocked `json:"required_blocked"`
	// EvaluationStats are what Aggregate says of the run, by evaluator. Checks are among them, by the name of their matcher.
	EvaluationStats map[string]eval.Values `json:"evaluation_stats"`
	Summary         Summary                `json:"summary"`
	Limitations     []string               `json:"limitations"`
	// Comparison is with the run that --baseline named.
	Comparison *Comparison `json:"comparison,omitempty"`
	Files

	// more are failures that are told elsewhere to a person: they stand in feedback.json behind the others.
	more []Failure
}

// Suite is one suite of the run. The number that a database gives it is not here: it depends on the order in which the database was filled.
type Suite struct {
	Name string `json:"suite_name"`
}

// TestRecord is one attempt of one test.
type TestRecord struct {
	Package   string `json:"package"`
	Name      string `json:"name"`
	Iteration int    `json:"iteration"`
	// Outcome is go test's: passed, failed, skipped; interrupted when the run was stopped while it ran.
	Outcome store.TestStatus `json:"outcome"`
	// Verdict says what kind of end that was.
	Verdict Verdict `json:"verdict"`
	// EffectiveVerdict is Verdict, but failed_evaluation for a test that passed and has a required evaluation that did not.
	EffectiveVerdict Verdict `json:"effective_verdict"`
	// ToolResult says whether all tool calls of its executions succeeded; empty when there were none, or none has ended. It is no verdict: a test may want errors.
	ToolResult     ToolResult          `json:"tool_result,omitempty"`
	ElapsedSeconds float64             `json:"elapsed_seconds"`
	TestID         string              `json:"test_id,omitempty"` // of a test that used m3
	Suite          string              `json:"suite_name,omitempty"`
	Executions     []trace.ExecutionID `json:"execution_ids"`
	Reason         string              `json:"reason,omitempty"`
	// Messages are m3's own about the failure.
	Messages []string `json:"messages,omitempty"`
	Output   string   `json:"output,omitempty"` // of what failed
	Cached   bool     `json:"cached,omitempty"` // replayed by go test from an earlier run

	told bool // by go test
	cut  bool // ended by a crash: its own, or that of its process
}

// PackageRecord is one package as go test reported it.
type PackageRecord struct {
	Package        string  `json:"package"`
	Outcome        string  `json:"outcome"` // passed, failed, no_tests, build_failed, interrupted
	ElapsedSeconds float64 `json:"elapsed_seconds"`
	Reason         string  `json:"reason,omitempty"`
	Output         string  `json:"output,omitempty"`
	Cached         bool    `json:"cached,omitempty"`
}

// Execution is one execution of the run.
type Execution struct {
	ExecutionID trace.ExecutionID  `json:"execution_id"`
	Kind        string             `json:"kind"`
	Suite       string             `json:"suite_name,omitempty"`
	Case        string             `json:"case_id,omitempty"`
	TestID      string             `json:"test_id,omitempty"`
	Servers     []string           `json:"servers"`
	Lifecycle   string             `json:"lifecycle"` // finished, open
	Outcome     trace.Outcome      `json:"outcome,omitempty"`
	EventCount  int                `json:"event_count"`
	Evidence    Evidence           `json:"evidence"`
	Complete    bool               `json:"complete"` // the trace has no limitation
	Limitations []trace.Limitation `json:"limitations"`
	// Findings lists the first hundred; FindingCount counts all.
	Findings     []trace.Finding `json:"findings"`
	FindingCount int             `json:"finding_count"`
	// EvaluationCount counts all stored evaluations and checks.
	EvaluationCount int `json:"evaluation_count"`
	// EvaluationCounts counts the evaluations and checks by status: their verdicts are no outcome of the execution.
	EvaluationCounts map[eval.Status]int `json:"evaluation_counts"`
	// Unavailable says why the trace could not be read, when it could not.
	Unavailable string `json:"unavailable,omitempty"`
}

// Evidence says how much of an execution's trace there is.
type Evidence string

// The states of evidence.
const (
	EvidenceComplete    Evidence = "complete"
	EvidencePartial     Evidence = "partial"     // open, or its limitations say what is missing
	EvidenceUnavailable Evidence = "unavailable" // it cannot be read
)

// Failure is one thing that failed, with what is known about why.
type Failure struct {
	Kind       string              `json:"kind"` // test, package, build, run; evaluation, persistence, not_run
	Package    string              `json:"package,omitempty"`
	Test       string              `json:"test,omitempty"`
	Iteration  int                 `json:"iteration,omitempty"`
	Seconds    float64             `json:"elapsed_seconds"`
	Reason     string              `json:"reason"`
	Messages   []string            `json:"messages,omitempty"`
	Output     string              `json:"output,omitempty"`
	Executions []trace.ExecutionID `json:"execution_ids"`
}

// FindingCount says how often a finding was made in the run, and one execution in which.
type FindingCount struct {
	Severity  trace.Severity    `json:"severity"`
	Code      string            `json:"code"`
	Count     int               `json:"count"`
	Execution trace.ExecutionID `json:"execution_id"` // the first
	Message   string            `json:"message"`      // of the first
}

// Summary is the run in numbers. Attempts are counted, parents of subtests as tests of their own, as go test does.
type Summary struct {
	RunStatus          store.RunStatus `json:"run_status"`
	Tests              int             `json:"tests"`
	Executions         int             `json:"executions"`
	TerminalExecutions int             `json:"terminal_executions"`
	Failures           int             `json:"failures"`
	// Evaluations counts all that are stored of the executions, checks among them.
	Evaluations            int                      `json:"evaluations"`
	SkippedTests           int                      `json:"skipped_tests"`
	TestOutcomeCounts      map[store.TestStatus]int `json:"test_outcome_counts"`
	VerdictCounts          map[Verdict]int          `json:"verdict_counts"`
	EffectiveVerdictCounts map[Verdict]int          `json:"effective_verdict_counts"`
	FindingCounts          map[trace.Severity]int   `json:"finding_counts"`
	RequiredBlocked        int                      `json:"required_blocked"`
	// SkippedOnly says that tests were there and every one was skipped.
	SkippedOnly bool `json:"skipped_only"`
}

// JSON is feedback.json: indented, with a newline at its end.
func (f *Feedback) JSON() ([]byte, error) {
	whole := *f
	whole.Failures = slices.Concat(f.Failures, f.more)
	whole.Summary.Failures = len(whole.Failures)
	b, err := json.MarshalIndent(&whole, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode feedback: %w", err)
	}
	return append(b, '\n'), nil
}

// Path is where the feedback of a run stands in a project.
func Path(root, runID string) string {
	return filepath.Join(root, ".m3", "reports", runID, "feedback.json")
}

// WriteFile writes feedback.json at path so that a reader sees the old file or the new one, never a part. It makes the
// directories.
func (f *Feedback) WriteFile(path string) error {
	b, err := f.JSON()
	if err != nil {
		return err
	}
	if err := writeFile(path, b); err != nil {
		return fmt.Errorf("write feedback: %w", err)
	}
	return nil
}

// WriteJUnit writes the run as JUnit XML at path, as WriteFile does.
func (f *Feedback) WriteJUnit(path string) error {
	b, err := f.JUnit()
	if err != nil {
		return err
	}
	if err := writeFile(path, b); err != nil {
		return fmt.Errorf("write the JUnit file: %w", err)
	}
	return nil
}

// writeFile makes the directories and puts b at path, whole or not at all.
func writeFile(path string, b []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".m3-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
