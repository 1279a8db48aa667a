package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/m3-go/m3/internal/report"
	"github.com/m3-go/m3/store"
)

// baseline is the run that m3 test compares with; without an id there is none.
type baseline struct {
	id     string
	margin float64 // a share: 0.05 is 5 points
	f      *report.Feedback
}

// checkBaseline checks the flags alone.
func (f *testFlags) checkBaseline(given, marginGiven bool) error {
	switch {
	case given && strings.TrimSpace(f.baseline) == "":
		return hint("give the id of a run, which m3 test prints and feedback.json has, or leave --baseline away", "--baseline is blank")
	case marginGiven && !given:
		return hint("name the run to compare with: --baseline RUN_ID", "--baseline-margin without --baseline")
	case !(f.margin > 0 && f.margin < 100): // not a number is neither
		return hint("5 is the default", "--baseline-margin %v is not above 0 and below 100 points", f.margin)
	}
	f.baseline = strings.TrimSpace(f.baseline)
	return nil
}

// maxListed is how many runs the error of a missing baseline names.
const maxListed = 5

// read reads the run before any test starts. A missing, an open or a foreign one is an error.
func (b *baseline) read(ctx context.Context, st store.Reader, project string) error {
	if b.id == "" {
		return nil
	}
	run, err := st.Run(ctx, b.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return hint(recentRuns(ctx, st, project), "baseline run was not found: %s", b.id)
	case err != nil:
		return err
	case run.Finished == nil:
		return hint("wait for its end, or take another run", "baseline run %s has not ended", b.id)
	case run.Project != "" && project != "" && run.Project != project:
		return hint(recentRuns(ctx, st, project), "baseline run %s is of another project: %s", b.id, run.Project)
	}
	if b.f, err = report.Build(ctx, st, b.id); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	return nil
}

// recentRuns names the runs that could have been meant.
func recentRuns(ctx context.Context, st store.Reader, project string) string {
	runs, err := st.Runs(ctx)
	if err != nil {
		return "the database's runs cannot be read: " + err.Error()
	}
	var ids []string
	for i := range runs {
		if r := &runs[i]; r.Finished != nil && (r.Project == "" || project == "" || r.Project == project) && len(ids) < maxListed {
			ids = append(ids, r.ID+" ("+r.Started.UTC().Format("2006-01-02 15:04:05")+" UTC)")
		}
	}
	if len(ids) == 0 {
		return "the database has no finished run of this project: run m3 test without --baseline first"
	}
	return "the newest runs in the database: " + strings.Join(ids, ", ")
}

// compare adds the comparison to the run's feedback. That it cannot be had is told there, and takes nothing else away.
func (b *baseline) compare(ctx context.Context, st store.Reader, now *report.Feedback) {
	if b.f == nil {
		return
	}
	c, err := report.Compare(ctx, st, b.f, now, b.margin)
	if err != nil {
		now.NoComparison(err)
		return
	}
	now.Comparison = c
}
