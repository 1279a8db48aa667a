package baseline

import (
	"os"
	"testing"

	"github.com/m3-go/m3/internal/conformance"
)

// TestMain checks what m3 itself sends: this repository's own affair. Your tests need none.
func TestMain(m *testing.M) { os.Exit(conformance.Run(m)) }
