package opencode_test

import (
	"os"
	"testing"

	"github.com/m3-go/m3/internal/leaktest"
)

// TestMain fails when the tests leave a goroutine or a process behind.
func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" {
		os.Exit(play())
	}
	os.Exit(leaktest.Run(os.Stderr, m.Run, &leaktest.Config{Goroutines: []string{"m3-go/m3"}, But: []string{"opencode_test.TestMain(", "/internal/proc.(*reaper)"}, Processes: true}))
}
