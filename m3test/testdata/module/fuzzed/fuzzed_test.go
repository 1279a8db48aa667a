// Package fuzzed calls a server with what go test -fuzz makes up.
package fuzzed

import (
	"testing"

	"github.com/m3-go/m3/m3test"

	"example.test/module/plain"
)

func FuzzCall(f *testing.F) {
	f.Add("ok")
	f.Fuzz(func(t *testing.T, s string) {
		client := m3test.Direct(t, plain.Server, nil)
		if _, err := client.CallTool(t.Context(), "ok", map[string]string{"s": s}, nil); err != nil {
			t.Fatal(err)
		}
	})
}
