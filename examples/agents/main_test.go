package agents

import (
	"os"
	"testing"

	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/internal/conformance"
)

// TestMain makes this test binary the scripted agent when it was started as one. With an agent of your own you need no TestMain.
func TestMain(m *testing.M) {
	if acpagent.Active() {
		os.Exit(acpagent.Main())
	}
	os.Exit(conformance.Run(m)) // which checks what passes: this repository's own affair. Yours is m.Run, or m3test.Main.
}
