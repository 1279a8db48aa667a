package m3_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJudgePage: docs/judge.md names every error code and every field, and says what leaves the machine.
func TestJudgePage(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/judge.md")
	sections := sectionsOf(text)
	codes := flagsOf(`(?m)^\tCode\w+ += "([a-z_]+)"$`, page(t, "judge/error.go"))
	if len(codes) < 10 {
		t.Fatalf("codes %v: the search is broken", codes)
	}
	codes = append(codes, "invalid_argument", "code") // a *judge.ConfigError's, and the head of the table
	if diff := cmp.Diff(flagsOf(`(\w+)`, strings.Join(codes, " ")), firstCells(sections["The row"], `[a-z_]+`)); diff != "" {
		t.Errorf("codes (-judge/error.go +docs/judge.md):\n%s", diff)
	}
	_, fields, _ := strings.Cut(page(t, "judge/llm.go"), "type LLM struct {")
	fields, _, _ = strings.Cut(fields, "\n}")
	if diff := cmp.Diff(flagsOf(`(?m)^\t([A-Z]\w+) `, fields), flagsOf("`([A-Z]\\w+)`", firstColumn(sections["Configuration"]))); diff != "" {
		t.Errorf("fields (-judge.LLM +docs/judge.md):\n%s", diff)
	}
	for _, want := range []string{"are sent to the endpoint", "private data"} {
		if !strings.Contains(text, want) || !strings.Contains(page(t, "judge/llm.go")+page(t, "judge/doc.go"), want) {
			t.Errorf("the page, or the package, does not say %q", want)
		}
	}
}

// firstColumn is the first cells of a section's tables.
func firstColumn(section string) string {
	var cells []string
	for line := range strings.Lines(section) {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, " | ")
			cells = append(cells, strings.ReplaceAll(cell, "judge.LLM", ""))
		}
	}
	return strings.Join(cells, "\n")
}
