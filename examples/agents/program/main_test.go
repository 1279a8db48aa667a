package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `AGENT    TRIAL  OUTCOME    CALLS  ANSWER
careful  1      completed  1      7.00 EUR in 2 days
careful  2      completed  1      7.00 EUR in 2 days
hasty    1      completed  0      About 10 EUR, I guess.
hasty    2      completed  0      About 10 EUR, I guess.
`

// The program is run as a user runs it: built, and started from a shell.
func TestProgram(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}
