package realtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRealExampleOpenCode runs the examples of a real agent under a scripted model as a user runs them, with the installed OpenCode in PATH. An example that skips is
// a failure here.
func TestRealExampleOpenCode(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if err := os.Symlink(openCodeBinary(t), filepath.Join(bin, "opencode")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/m3", "test", "--results-db", filepath.Join(t.TempDir(), "results.sqlite"), "./examples/agents", "./examples/agents/first", "--", "-run", "^(TestOpenCodeScripted|TestQuote)$", "-v")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 of 2 tests passed") {
		t.Errorf("%v\n%s", err, out)
	}
}
