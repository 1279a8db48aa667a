package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3"
)

// What the suite hands over wrongly is one clear error, before anything is opened.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"no address", nil, map[string]string{"MCP_CONFORMANCE_SCENARIO": "initialize"}, "usage: suiteclient URL"},
		{"no scenario", []string{"http://localhost:1/mcp"}, nil, `scenario "" is not known`},
		{"a scenario that is not known", []string{"http://localhost:1/mcp"}, map[string]string{"MCP_CONFORMANCE_SCENARIO": "juggle"}, `scenario "juggle" is not known`},
		{"a version that is not known", []string{"x", "http://localhost:1/mcp"}, map[string]string{"MCP_CONFORMANCE_SCENARIO": "initialize", "MCP_CONFORMANCE_PROTOCOL_VERSION": "1999-01-01"}, `protocol "1999-01-01" is not known`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tc.args, func(name string) string { return tc.env[name] })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	got, err := sample([]byte(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"type":"number"}},"required":["a","b","c"]}`))
	if d := cmp.Diff(m3.Args{"a": "m3", "b": 3, "c": true}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{`{"required":["a"]}`, `{"properties":{"a":{"type":"object"}},"required":["a"]}`, `[]`} {
		if got, err := sample(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}
