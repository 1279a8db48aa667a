package wire

import (
	"os"
	"testing"

	"github.com/m3-go/m3/internal/leaktest"
)

// TestMain fails when a test leaves a goroutine of these packages behind.
func TestMain(m *testing.M) {
	os.Exit(leaktest.Run(os.Stderr, m.Run, &leaktest.Config{Goroutines: []string{"/internal/wire.(", "/internal/rpc.(", "/internal/wiretest.("}}))
}
