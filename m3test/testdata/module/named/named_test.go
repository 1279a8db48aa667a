// Package named is a package of tests with a TestMain and suites.
package named

import (
	"os"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/m3test"

	"example.test/module/plain"
)

func TestMain(m *testing.M) { m3test.Main(m, &m3test.Config{Suite: " shipping "}) }

func TestInherits(t *testing.T) { m3test.Direct(t, plain.Server, nil) }

func TestOwn(t *testing.T) {
	m3test.NewKit(t, &m3test.KitOptions{Suite: "billing"})
	m3test.Direct(t, plain.Server, nil)
	t.Run("sub", func(t *testing.T) { m3test.Direct(t, plain.Server, nil) })
}

func TestWithoutKit(t *testing.T) {}

// TestSecretNames has subtests that are called like secrets: one of a variable that says so, one of a variable that a server is given.
func TestSecretNames(t *testing.T) {
	key, plainly := os.Getenv("SHOP_API_KEY"), os.Getenv("PLAINLY_NAMED")
	if key == "" {
		t.Skip("there is no secret")
	}
	t.Run(key, func(t *testing.T) { m3test.NewKit(t, &m3test.KitOptions{Suite: "of " + key}) })
	t.Run(plainly, func(t *testing.T) {
		server := m3.StdioServer{Name: "gone", Command: "false", Secrets: map[string]m3.SecretRef{"TOKEN": m3.EnvSecret("PLAINLY_NAMED")}}
		if _, err := m3test.Kit(t).Direct(t.Context(), server, nil); err == nil {
			t.Error("a server that exits was connected to")
		}
	})
}
