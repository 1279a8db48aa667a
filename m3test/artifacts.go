package m3test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/m3-go/m3/trace"
)

// artifactsWanted reports whether go test was told -artifacts. Without it t.ArtifactDir is a temporary directory that nobody sees.
func artifactsWanted() bool {
	f := flag.Lookup("test.artifacts")
	return f != nil && f.Value.String() == "true"
}

// keepArtifacts puts the evidence of a failed test into its artifact directory: <execution>.json, the view, and
// <execution>.frames.jsonl, every frame with its bytes. Both are redacted.
func (a *attempt) keepArtifacts() {
	if !artifactsWanted() {
		return
	}
	a.mu.Lock()
	execs := a.execs
	a.mu.Unlock()
	if len(execs) == 0 {
		return
	}
	dir := a.t.ArtifactDir()
	for _, e := range execs {
		if err := keep(e, dir); err != nil {
			a.t.Errorf("m3: the trace of execution %s could not be kept as an artifact: %v", e.id, err)
		}
	}
}

func keep(e execution, dir string) error {
	// From the store, not from the client: what the store gives is redacted.
	t, err := e.store.Trace(context.Background(), e.id)
	if err != nil {
		return err
	}
	view, err := t.View()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(view, "", "  ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, string(e.id))
	if err := os.WriteFile(base+".json", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return writeFrames(t, base+".frames.jsonl")
}

// writeFrames writes every event that has a frame, in the stored form, its bytes in it.
func writeFrames(t *trace.Trace, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	var line []byte
	for ev, err := range t.All() {
		if err != nil {
			f.Close()
			return fmt.Errorf("read its events: %w", err)
		}
		if ev.Frame == nil {
			continue
		}
		ev.Frame.OutOfLine = false // its bytes were loaded
		line = append(trace.AppendEvent(line[:0], &ev), '\n')
		if _, err := w.Write(line); err != nil {
			f.Close()
			return err
		}
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
