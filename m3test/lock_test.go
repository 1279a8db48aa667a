package m3test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/m3-go/m3"
)

// lister lists one tool, whose description is given.
func lister(description string) m3.Server {
	return m3.StdioServer{Name: "lister", Command: "sh", Args: []string{"-c", `
		read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"lister","version":"1"}}}'
		read -r line
		read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"quote","description":"` + description + `","inputSchema":{"type":"object"}}]}}'
		while read -r line; do :; done`}}
}

// locked runs Locked as a test of its own, against a server with that description.
func locked(t *testing.T, description, path string) *fakeT {
	t.Helper()
	p := newProcess(settings{})
	return run(t, "TestTools", func(f *fakeT) {
		if ok := Locked(f, p.direct(f, lister(description), &m3.DirectOptions{Protocol: "2025-11-25"}), path); ok == f.failed {
			t.Errorf("Locked returns %v, and the test failed: %v", ok, f.failed)
		}
	})
}

// TestLocked is not parallel: it sets the variable that rewrites the files.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "lister.lock")
	if f := locked(t, "one", path); !f.failed || !f.says("there is no lock file", "M3_UPDATE=1 go test") {
		t.Errorf("without a file: %q", f.messages)
	}
	t.Run("written", func(t *testing.T) {
		t.Setenv(envUpdate, "1")
		if f := locked(t, "one", path); f.failed {
			t.Errorf("writing fails: %q", f.messages)
		}
	})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f := locked(t, "one", path); f.failed {
		t.Errorf("the same tools fail: %q", f.messages)
	}
	f := locked(t, "two", path)
	if !f.failed || len(f.messages) != 1 || !f.says("the tools of lister are not as locked", "1 wording", `quote description: reworded ("one" → "two")`, "M3_UPDATE=1 go test -run '^TestTools$'") {
		t.Errorf("other tools: %q", f.messages)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("a comparison changed the file: %v", err)
	}
	if err := os.WriteFile(path, []byte("<<<<<<< HEAD"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f := locked(t, "one", path); !f.failed || !f.says("cannot be used", "it is no lock file") {
		t.Errorf("a broken file: %q", f.messages)
	}
}
