package m3_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMatchersPage: every example in the tables of docs/matchers.md compiles.
func TestMatchersPage(t *testing.T) {
	t.Parallel()
	examples := regexp.MustCompile("(?m)\\| `(expect\\..*)` \\|$").FindAllStringSubmatch(page(t, "docs/matchers.md"), -1)
	if len(examples) < 55 {
		t.Fatalf("%d examples: the search is broken", len(examples))
	}
	var b strings.Builder
	b.WriteString(`package page

import (
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

type Quote struct{ Price float64 }

func TestPage(t *testing.T) {
	var (
		quote  *m3.ToolCallResult
		prompt *m3.PromptResult
		tools  []m3.ToolInfo
		view   trace.View
		turn   trace.TurnID
		err    error
	)
`)
	for _, m := range examples {
		fmt.Fprintf(&b, "\t%s\n", strings.ReplaceAll(m[1], `\|`, "|"))
	}
	b.WriteString("}\n")
	dir := t.TempDir()
	userModule(t, dir, "example.test/matchers")
	writeFile(t, filepath.Join(dir, "page_test.go"), b.String())
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
