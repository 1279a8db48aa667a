package report

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
)

// Stream writes a run as JSON lines while it goes on, one object a line, each with its type: run, test, package, output, failure, evaluation, required, comparison, summary. It
// is safe for concurrent use.
type Stream struct {
	mu      sync.Mutex
	enc     *json.Encoder
	stopped bool
}

// NewStream returns a Stream that writes to w.
func NewStream(w io.Writer) *Stream {
	s := &Stream{enc: json.NewEncoder(w)}
	s.enc.SetEscapeHTML(false)
	return s
}

func (s *Stream) write(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(v) // whoever reads it may have gone: the run is stored all the same
}

// Run writes the first line.
func (s *Stream) Run(id, project string, started time.Time) {
	s.write(struct {
		Type      string    `json:"type"`
		RunID     string    `json:"run_id"`
		Project   string    `json:"project_name"`
		StartedAt time.Time `json:"started_at"`
	}{"run", id, project, started})
}

// streamItem is a test or a package that ended.
type streamItem struct {
	Type      string  `json:"type"`
	Package   string  `json:"package"`
	Test      string  `json:"name,omitempty"`
	Iteration int     `json:"iteration,omitempty"`
	Outcome   string  `json:"outcome"`
	Seconds   float64 `json:"elapsed_seconds"`
	Reason    string  `json:"reason,omitempty"`
	TestID    string  `json:"test_id,omitempty"`
	Cached    bool    `json:"cached,omitempty"`
}

// Item writes what ended.
func (s *Stream) Item(it *store.Item) {
	s.mu.Lock()
	b := &builder{stopped: s.stopped}
	s.mu.Unlock()
	line := streamItem{Type: "package", Package: it.Package, Outcome: b.pkg(it).Outcome, Seconds: it.Elapsed.Seconds(), Reason: it.Reason, Cached: it.Cached}
	if it.Test != "" {
		line.Type, line.Test, line.Iteration, line.TestID, line.Outcome = "test", it.Test, it.Iteration, it.TestID, string(b.outcome(it.Action))
	}
	s.write(line)
}

// Began writes nothing: the stream is of results.
func (s *Stream) Began(string, string) {}

// Text writes what go itself, or m3, said beside the results.
func (s *Stream) Text(text string) {
	if text == "" {
		return
	}
	s.write(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"output", text})
}

// Stopped says that the run is being ended from outside: what never ends from now on has not failed by itself.
func (s *Stream) Stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// Tick writes nothing.
func (s *Stream) Tick() {}

// Close writes nothing.
func (s *Stream) Close() {}

// End writes the failures, the evaluators and what blocks the run, one a line, and the summary.
func (s *Stream) End(f *Feedback, feedbackPath string) {
	for i := range f.Failures {
		s.write(struct {
			Type string `json:"type"`
			*Failure
		}{"failure", &f.Failures[i]})
	}
	s.evaluations(f)
	for i := range f.RequiredBlocked {
		s.write(struct {
			Type string `json:"type"`
			*eval.Blocked
		}{"required", &f.RequiredBlocked[i]})
	}
	if f.Comparison != nil {
		s.write(struct {
			Type string `json:"type"`
			*Comparison
		}{"comparison", f.Comparison})
	}
	s.write(struct {
		Type     string `json:"type"`
		RunID    string `json:"run_id"`
		ExitCode *int   `json:"exit_code"`
		Feedback string `json:"feedback,omitempty"`
		*Summary
	}{"summary", f.RunID, f.ExitCode, feedbackPath, &f.Summary})
}
