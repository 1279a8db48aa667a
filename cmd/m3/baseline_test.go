package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
)

// TestBaselineRun: only a run of this project that has ended can be compared with, and the error of any other names those that can.
func TestBaselineRun(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	st := memory.New(nil)
	for _, r := range []store.Run{
		{ID: "good", Project: "example.test/x", Started: now, Finished: &now, Status: store.RunFinished},
		{ID: "open", Project: "example.test/x", Started: now, Status: store.RunRunning},
		{ID: "foreign", Project: "example.test/y", Started: now, Finished: &now, Status: store.RunFinished},
	} {
		if err := st.Append(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string][2]string{
		"good":    {},
		"open":    {"baseline run open has not ended", "wait for its end"},
		"foreign": {"baseline run foreign is of another project: example.test/y", "the newest runs in the database: good (2026-12-01 12:00:00 UTC)"},
		"nosuch":  {"baseline run was not found: nosuch", "the newest runs in the database: good (2026-12-01 12:00:00 UTC)"},
	} {
		b := baseline{id: id}
		err := b.read(t.Context(), st, "example.test/x")
		if want[0] == "" {
			if err != nil || b.f == nil || b.f.RunID != id {
				t.Errorf("%s: %v, %+v", id, err, b.f)
			}
			continue
		}
		var hinted *hintError
		if !errors.As(err, &hinted) || err.Error() != want[0] || !strings.HasPrefix(hinted.hint, want[1]) || strings.Contains(hinted.hint, "foreign") {
			t.Errorf("%s: %v, hint %+v; want %q", id, err, hinted, want)
		}
	}
}
