package m3_test

import (
	"strings"
	"testing"
)

// TestFaultsPage: what docs/faults.md says is shown by tests that exist.
func TestFaultsPage(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(page(t, "docs/faults.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || strings.HasPrefix(line, "| fault") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		tests := shownBy.FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("no test shows: %s", cells[0])
		}
		for _, test := range tests {
			sub := strings.TrimPrefix(test[3], "/")
			if test[2] == "TestWild" { // its subtests are files
				sub = ""
			}
			if why := missing(t, test[1], test[2], sub); why != "" {
				t.Errorf("%s: %s: %s", cells[0], test[0], why)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows: the search is broken", rows)
	}
}
