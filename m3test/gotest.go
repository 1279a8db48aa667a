package m3test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/m3-go/m3/internal/shim"
)

// goTestRun is the run that this process shares with the other packages of one go test: derived from the go command that started
// it, its pid and when it began. False when something else started it: a debugger, or a shell.
func goTestRun() (string, bool) {
	parent, ok := shim.Find(os.Getppid())
	if !ok || parent.Start == 0 || strings.TrimSuffix(filepath.Base(executable(parent.PID)), " (deleted)") != "go" {
		return "", false
	}
	// Start counts from the boot, so the boot and the host belong to it.
	host, _ := os.Hostname()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", host, bootID(), parent.PID, parent.Start))
	return "gotest-" + hex.EncodeToString(sum[:8]), true
}
