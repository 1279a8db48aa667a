package mcp_test

import (
	"os"
	"testing"

	"github.com/m3-go/m3/internal/conformance"
)

// TestMain checks every message that m3 sends in these tests.
func TestMain(m *testing.M) { os.Exit(conformance.Run(m)) }
