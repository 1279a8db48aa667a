package traceview

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/trace"
)

// A store is a value that is passed in. An execution that was kept in SQLite is reopened by its id, and its view is the same.
func TestReopenFromSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "executions.sqlite")
	db := open(t, path)
	kit := m3test.NewKit(t, &m3test.KitOptions{Store: db})
	client, err := kit.Direct(t.Context(), shop, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(t.Context(), "quote", m3.Args{"weight_kg": 2}, nil); err != nil {
		t.Fatal(err)
	}
	live := encode(t, m3test.Finish(t, client)) // before its store is closed: a view reads from it
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	reopened := reopen(t, path, client.ExecutionID())
	expect.That(t, reopened).ToolCall("quote", expect.Succeeded(), expect.WithArguments(m3.Args{"weight_kg": 2}))
	if again := encode(t, reopened); !bytes.Equal(live, again) {
		t.Errorf("the views differ:\n%s\n%s", live, again)
	}
}

// open opens a database that the test closes after its kits: clean-ups run from the last to the first.
func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func reopen(t *testing.T, path string, id trace.ExecutionID) trace.View {
	t.Helper()
	db := open(t, path)
	tr, err := db.Trace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	view, err := tr.View()
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func encode(t *testing.T, v trace.View) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
