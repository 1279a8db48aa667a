package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schemaDir is where the protocol's official schemas lie, outside the repository.
const schemaDir = "../../../shared/mcp/schema"

func readSchema(t *testing.T, version string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(schemaDir, version+".json"))
	if os.IsNotExist(err) && os.Getenv("M3_REQUIRE_SHARED") != "1" {
		t.Skip("the official schemas are not beside this repository: " + schemaDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// schemaMethods lists the methods of a version: every const under a method property.
func schemaMethods(t *testing.T, version string) []string {
	t.Helper()
	var schema struct {
		Definitions, Defs map[string]json.RawMessage
	}
	b := readSchema(t, version)
	b = []byte(strings.Replace(string(b), `"$defs"`, `"defs"`, 1))
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, defs := range []map[string]json.RawMessage{schema.Definitions, schema.Defs} {
		for _, def := range defs {
			var d struct {
				Properties struct {
					Method  struct{ Const string }
					ID      any
					JSONRPC any
				}
			}
			if json.Unmarshal(def, &d) == nil && d.Properties.Method.Const != "" && !slices.Contains(found, d.Properties.Method.Const) {
				found = append(found, d.Properties.Method.Const)
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestSupportsAgreesWithTheSchemas(t *testing.T) {
	t.Parallel()
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			want := schemaMethods(t, version)
			if version == Version20260728 { // they are in the schema as input requests, which are no messages
				want = slices.DeleteFunc(want, func(m string) bool {
					return m == "sampling/createMessage" || m == "roots/list" || m == "elicitation/create"
				})
			}
			var got []string
			for m := range methods {
				if Supports(version, m) {
					got = append(got, m)
				}
			}
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("methods of %s (-schema +m3):\n%s", version, d)
			}
		})
	}
}

func TestSupportsUnknown(t *testing.T) {
	t.Parallel()
	if Supports("1999-01-01", "tools/call") || Supports(Version20260728, "no/such") {
		t.Error("something unknown is supported")
	}
}

func TestNamedVersions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"Unsupported protocol version: 2025-11-25 (supported versions: 2025-03-26, 2024-11-05)", []string{"2025-11-25", "2025-03-26", "2024-11-05"}},
		{`{"supported":["2024-11-05"],"x":"2024-11-05"}`, []string{"2024-11-05"}},
		{"at 12025-11-25, 2025-11-250 and 2025-1-25", nil},
		{"", nil},
	} {
		if d := cmp.Diff(tc.want, namedVersions(tc.text)); d != "" {
			t.Errorf("%q:\n%s", tc.text, d)
		}
	}
}
