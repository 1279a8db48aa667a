package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"unicode/utf8"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// maxDetailed bounds the executions whose evidence is written beside feedback.json.
const maxDetailed = 100

// Files says what stands beside feedback.json: the path of each file, relative to its folder. Executions are by their id, tests by "package name #iteration". There are files of what
// failed or has a required evaluation that blocks the run, of the first hundred executions; m3 show prints any.
type Files struct {
	ExecutionFiles  map[string]string `json:"execution_files"`  // the execution as it is in feedback.json, and when it was
	SpecFiles       map[string]string `json:"spec_files"`       // its resolved options
	CatalogFiles    map[string]string `json:"catalog_files"`    // the tools that it saw listed
	TraceFiles      map[string]string `json:"trace_files"`      // its view: what m3 show --json prints
	EvidenceFiles   map[string]string `json:"evidence_files"`   // its frames, one a line, redacted
	ArtifactFiles   map[string]string `json:"artifact_files"`   // the list of its artifacts
	DiagnosticFiles map[string]string `json:"diagnostic_files"` // m3's notes about it
	TestRunFiles    map[string]string `json:"test_run_files"`   // the run as it is stored, by its id
	TestResultFiles map[string]string `json:"test_result_files"`
	// Unavailable lists what could not be written, and why.
	Unavailable []UnavailableReference `json:"unavailable_references"`
}

// UnavailableReference is a file that is not there.
type UnavailableReference struct {
	Kind   string `json:"kind"` // the name of the folder
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func newFiles() Files {
	m := func() map[string]string { return map[string]string{} }
	return Files{m(), m(), m(), m(), m(), m(), m(), m(), m(), []UnavailableReference{}}
}

// WriteFiles writes the evidence of what failed into folders beside path, which is that of feedback.json, and names the files in f. What cannot be read is told in f; the error is about writing.
func (f *Feedback) WriteFiles(ctx context.Context, r store.Reader, path string) error {
	w := &fileWriter{ctx: ctx, r: r, f: f, dir: filepath.Dir(path)}
	f.Files = newFiles()
	for _, step := range []func() error{w.run, w.tests, w.executions} {
		if err := step(); err != nil {
			return fmt.Errorf("write the files of feedback: %w", err)
		}
	}
	return nil
}

type fileWriter struct {
	ctx context.Context
	r   store.Reader
	f   *Feedback
	dir string
}

func (w *fileWriter) run() error {
	run, err := w.r.Run(w.ctx, w.f.RunID)
	if err != nil {
		return w.missing("runs", w.f.RunID, err)
	}
	run.Started, run.Finished = run.Started.UTC(), utc(run.Finished)
	return w.json(w.f.TestRunFiles, "runs", w.f.RunID, &run)
}

// tests writes those that failed.
func (w *fileWriter) tests() error {
	n := 0
	for i := range w.f.Tests {
		t := &w.f.Tests[i]
		switch t.EffectiveVerdict {
		case VerdictPassed, VerdictSkipped:
			continue
		}
		if n++; n > maxDetailed {
			continue
		}
		if err := w.json(w.f.TestResultFiles, "tests", fmt.Sprintf("%s %s #%d", t.Package, t.Name, t.Iteration), t); err != nil {
			return err
		}
	}
	w.bounded(n, "test")
	return nil
}

func (w *fileWriter) bounded(n int, noun string) {
	if n > maxDetailed {
		w.f.Limitations = append(w.f.Limitations, fmt.Sprintf("of %s that failed the first %d have files", count(n, noun), maxDetailed))
	}
}

// executions writes those that did not complete, belong to a test that did not pass, or have a required evaluation that did not.
func (w *fileWriter) executions() error {
	wanted, n := w.wanted(), 0
	for i := range w.f.Executions {
		e := &w.f.Executions[i]
		if e.Outcome == trace.OutcomeCompleted && !wanted[e.ExecutionID] {
			continue
		}
		if n++; n > maxDetailed {
			continue
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.execution(e); err != nil {
			return err
		}
	}
	w.bounded(n, "execution")
	return nil
}

func (w *fileWriter) wanted() map[trace.ExecutionID]bool {
	wanted := map[trace.ExecutionID]bool{}
	for i := range w.f.RequiredBlocked {
		wanted[w.f.RequiredBlocked[i].Execution] = true
	}
	for i := range w.f.Tests {
		switch t := &w.f.Tests[i]; t.EffectiveVerdict {
		case VerdictPassed, VerdictSkipped:
		default:
			for _, id := range t.Executions {
				wanted[id] = true
			}
		}
	}
	return wanted
}

func (w *fileWriter) execution(e *Execution) error {
	id := string(e.ExecutionID)
	info, err := w.r.Execution(w.ctx, e.ExecutionID)
	if err != nil {
		return w.missing("executions", id, err)
	}
	detail := struct {
		*Execution
		Created  any `json:"created_at"`
		Finished any `json:"finished_at"`
	}{e, info.Created.UTC(), utc(info.Finished)}
	return errors.Join(w.json(w.f.ExecutionFiles, "executions", id, detail), w.json(w.f.SpecFiles, "specs", id, info.Spec), w.catalog(e), w.trace(e), w.evidence(e))
}

// catalog writes the tools that the execution saw listed, when it saw any.
func (w *fileWriter) catalog(e *Execution) error {
	seen, err := observedTools(w.ctx, w.r, store.EventQuery{RunID: w.f.RunID, Execution: e.ExecutionID})
	switch {
	case err != nil:
		return w.missing("catalogs", string(e.ExecutionID), err)
	case len(seen) == 0:
		return nil
	}
	return w.json(w.f.CatalogFiles, "catalogs", string(e.ExecutionID), seen)
}

// trace writes the view, and of it the diagnostics and the list of artifacts apart, when there are any.
func (w *fileWriter) trace(e *Execution) error {
	id := string(e.ExecutionID)
	view, err := w.view(e.ExecutionID)
	if err != nil {
		return w.missing("traces", id, err)
	}
	var out bytes.Buffer
	if err := view.WriteJSON(&out); err != nil {
		return w.missing("traces", id, err)
	}
	err = w.put(w.f.TraceFiles, "traces", id, ".json", append(out.Bytes(), '\n'))
	if d := view.Diagnostics(); d.Len() > 0 {
		err = errors.Join(err, w.json(w.f.DiagnosticFiles, "diagnostics", id, collect(d)))
	}
	if a := view.Artifacts(); a.Len() > 0 {
		err = errors.Join(err, w.json(w.f.ArtifactFiles, "artifacts", id, collect(a)))
	}
	return err
}

func collect[T any](l trace.List[T]) []T {
	var out []T
	for _, e := range l.All() {
		out = append(out, e)
	}
	return out
}

func (w *fileWriter) view(id trace.ExecutionID) (trace.View, error) {
	tr, err := w.r.Trace(w.ctx, id)
	if err != nil {
		return trace.View{}, err
	}
	view, err := tr.View()
	if errors.Is(err, trace.ErrNotFinalized) {
		return tr.Snapshot()
	}
	return view, err
}

// frameLine is one frame of an evidence file.
type frameLine struct {
	Sequence   int64              `json:"sequence"`
	OffsetNS   int64              `json:"offset_ns"`
	Kind       trace.Kind         `json:"kind"`
	Server     string             `json:"server,omitempty"`
	Connection trace.ConnectionID `json:"connection_id,omitempty"`
	Direction  trace.Direction    `json:"direction"`
	SHA256     string             `json:"sha256"`
	Size       int64              `json:"size_bytes"`
	Text       *string            `json:"text,omitempty"`  // when it is UTF-8
	Bytes      []byte             `json:"bytes,omitempty"` // else, in base64
}

// text is b as text, nil when it is none.
func text(b []byte) *string {
	if !utf8.Valid(b) {
		return nil
	}
	s := string(b)
	return &s
}

// evidence writes the frames of an execution.
func (w *fileWriter) evidence(e *Execution) error {
	id, n := string(e.ExecutionID), 0
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := w.r.Events(w.ctx, &store.EventQuery{RunID: w.f.RunID, Execution: e.ExecutionID}, func(ev *trace.Event) error {
		f := ev.Frame
		if f == nil {
			return nil
		}
		n++
		line := frameLine{Sequence: ev.Sequence, OffsetNS: int64(ev.Offset), Kind: ev.Kind, Server: ev.Server, Connection: ev.ConnectionID, Direction: f.Direction, SHA256: f.SHA256, Size: f.Size}
		if line.Text = text(f.Bytes); line.Text == nil {
			line.Bytes = f.Bytes
		}
		return enc.Encode(line)
	})
	switch {
	case err != nil:
		return w.missing("evidence", id, err)
	case n == 0:
		return nil
	}
	return w.put(w.f.EvidenceFiles, "evidence", id, ".jsonl", out.Bytes())
}

// missing notes what cannot be read. The end of the context is no such thing.
func (w *fileWriter) missing(kind, id string, err error) error {
	if ctxErr := w.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	w.f.Unavailable = append(w.f.Unavailable, UnavailableReference{kind, id, err.Error()})
	return nil
}

func (w *fileWriter) json(names map[string]string, folder, id string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return w.missing(folder, id, err)
	}
	return w.put(names, folder, id, ".json", append(b, '\n'))
}

func (w *fileWriter) put(names map[string]string, folder, id, ext string, b []byte) error {
	sum := sha256.Sum256([]byte(id))
	name := folder + "/" + hex.EncodeToString(sum[:16]) + ext
	if err := writeFile(filepath.Join(w.dir, filepath.FromSlash(name)), b); err != nil {
		return err
	}
	names[id] = name
	return nil
}
