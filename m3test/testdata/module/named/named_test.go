// Package named is a package of tests with a TestMain and suites.
package named

import (
	"testing"

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
