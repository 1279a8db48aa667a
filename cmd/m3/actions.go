package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/m3-go/m3/internal/report"
)

// actions is what m3 test tells GitHub Actions.
type actions struct {
	report.GitHub
	summary string // the file of the step's summary; empty: there is none
}

// actionsOf is nil outside GitHub Actions.
func actionsOf(r *testRun) *actions {
	if os.Getenv("GITHUB_ACTIONS") != "true" {
		return nil
	}
	a := &actions{summary: os.Getenv("GITHUB_STEP_SUMMARY")}
	a.Token, a.Module, a.Show = rand.Text(), r.proj.module, r.show
	if dir, err := filepath.Rel(os.Getenv("GITHUB_WORKSPACE"), r.proj.root); err == nil && filepath.IsLocal(dir) {
		a.Dir = filepath.ToSlash(dir)
	}
	return a
}

// report ends the part without commands, annotates, and writes the step's summary.
func (a *actions) report(w io.Writer, f *report.Feedback) error {
	a.End(w)
	a.Annotate(w, f)
	if a.summary == "" {
		return nil
	}
	file, err := os.OpenFile(a.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the step's summary: %w", err)
	}
	_, err = file.WriteString(a.Summary(f))
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write the step's summary: %w", err)
	}
	return nil
}
