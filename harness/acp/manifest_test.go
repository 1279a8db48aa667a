package acp_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/trace"
)

const goodManifest = `{"schema_version":"m3.harness.v1","protocol":"acp","protocol_version":1,"command":"my-agent","args":["acp"],"env":{"KEY":"${MY_KEY}"}}`

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	m, err := acp.ParseManifest([]byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	if refs := m.References(); len(refs) != 1 || refs["KEY"] != "MY_KEY" {
		t.Errorf("references %v", refs)
	}
	b, err := m.Export()
	want := "{\n  \"args\": [\n    \"acp\"\n  ],\n  \"command\": \"my-agent\",\n  \"env\": {\n    \"KEY\": \"${MY_KEY}\"\n  },\n  \"protocol\": \"acp\",\n  \"protocol_version\": 1,\n  \"schema_version\": \"m3.harness.v1\"\n}\n"
	if err != nil || string(b) != want {
		t.Errorf("%s\n%v", b, err)
	}
	path := filepath.Join(t.TempDir(), "agent.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := acp.LoadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if b2, err := again.Export(); err != nil || !bytes.Equal(b, b2) {
		t.Errorf("%s, %v", b2, err)
	}
}

func TestManifestRefused(t *testing.T) {
	t.Parallel()
	edit := func(old, new string) string { return strings.Replace(goodManifest, old, new, 1) }
	for text, want := range map[string]string{
		`[]`: "no JSON object", `{`: "no JSON", goodManifest + "{}": "no JSON", "\xff": "no JSON in UTF-8",
		edit(`"args"`, `"argz"`):                         "argz: unknown",
		edit(`"protocol":"acp",`, ``):                    "protocol: missing",
		edit(`"command":"my-agent",`, ``):                "command: missing",
		edit(`m3.harness.v1`, `m3.harness.v2`):           "schema_version",
		edit(`"acp",`, `"mcp",`):                         "protocol",
		edit(`:1,`, `:2,`):                               "protocol_version",
		edit(`:1,`, `:0,`):                               "protocol_version",
		edit(`:1,`, `:true,`):                            "protocol_version: of the wrong type",
		edit(`:1,`, `:1.5,`):                             "protocol_version: of the wrong type",
		edit(`"my-agent"`, `""`):                         "command: must have 1 to 1000",
		edit(`my-agent`, strings.Repeat("ä", 1001)):      "command: must have 1 to 1000",
		edit(`["acp"]`, `"acp"`):                         "args: of the wrong type",
		edit(`["acp"]`, `[null]`):                        "args: of the wrong type",
		edit(`["acp"]`, `null`):                          "args: of the wrong type",
		edit(`${MY_KEY}`, `sk-very-secret`):              "env.KEY: must be a reference",
		edit(`${MY_KEY}`, `x${MY_KEY}`):                  "env.KEY: must be a reference",
		edit(`${MY_KEY}`, `${M3_ACCESS_TOKEN}`):          "M3_ACCESS_TOKEN",
		edit(`"KEY"`, `"1KEY"`):                          "env.1KEY: no name",
		edit(`"command"`, `"command":"other","command"`): "command: given twice",
		edit(`{"KEY"`, `{"KEY":"${OTHER}","KEY"`):        "KEY: given twice",
	} {
		_, err := acp.ParseManifest([]byte(text))
		var e *acp.ManifestError
		if !errors.As(err, &e) || !errors.Is(err, trace.ErrValidation) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sk-very-secret") {
			t.Error("the error quotes a secret")
		}
	}
	if _, err := acp.LoadManifest(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.json") {
		t.Error(err)
	}
}

func TestManifestLocal(t *testing.T) {
	t.Parallel()
	m := &acp.Manifest{Command: "no-such-agent", Env: map[string]string{"KEY": "${ACPTEST_NOT_SET}"}}
	if err := m.CheckLocal(nil); err == nil || !strings.Contains(err.Error(), "acp_executable_missing") {
		t.Error(err)
	}
	m.Command, _ = os.Executable()
	if err := m.CheckLocal(nil); err == nil || !strings.Contains(err.Error(), "acp_environment_missing: not set: ACPTEST_NOT_SET") {
		t.Error(err)
	}
	var unavailable *harness.UnavailableError
	if _, err := acp.New(acp.Config{Manifest: m}).Check(context.Background()); !errors.As(err, &unavailable) || unavailable.Reason != "environment_missing" {
		t.Error(err)
	}
	m.Env = nil
	if found, err := acp.New(acp.Config{Manifest: m}).Check(context.Background()); err != nil || found.Executable != m.Command {
		t.Error(found, err)
	}
}

// FuzzManifest holds that what is accepted can be exported and read again as the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte(`{"schema_version":"m3.harness.v1","protocol":"acp","protocol_version":1,"command":"\u0000"}`))
	f.Add([]byte(`{"a":{"a":[{"a":1}]},"a":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := acp.ParseManifest(b)
		if err != nil {
			return
		}
		out, err := m.Export()
		if err != nil {
			t.Fatal(err)
		}
		again, err := acp.ParseManifest(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if second, err := again.Export(); err != nil || !bytes.Equal(out, second) {
			t.Fatalf("%s\n%s\n%v", out, second, err)
		}
	})
}
