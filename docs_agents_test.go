package m3_test

import (
	"strings"
	"testing"
)

// TestDriverPage: every piece of Go of the page for authors of drivers stands in the example, which is compiled and tested.
func TestDriverPage(t *testing.T) {
	t.Parallel()
	driver := page(t, "examples/agents/driver/driver.go")
	n := 0
	for _, b := range blocks(page(t, "docs/driver-authors.md")) {
		if b.lang != "go" {
			continue
		}
		n++
		if !strings.Contains(driver, b.text) {
			t.Errorf("examples/agents/driver/driver.go has no\n%s", b.text)
		}
	}
	if n < 8 {
		t.Errorf("%d pieces: the search is broken", n)
	}
}

// TestAgentsPage: the test that the page about agents begins with is an example, which runs with the real agent in the gate.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	all := blocks(page(t, "docs/agents.md"))
	for _, b := range all {
		if b.lang == "go" {
			if b.text != page(t, "examples/agents/first/first_test.go") {
				t.Errorf("docs/agents.md begins with another test than examples/agents/first/first_test.go:\n%s", b.text)
			}
			return
		}
	}
	t.Errorf("there is no Go among its %d blocks", len(all))
}
