package m3_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/memory"
	"github.com/m3-go/m3/store/sqlite"
)

func openSQLite(t *testing.T, path string) *sqlite.Store {
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

// legacy is what the scripted server speaks.
func legacy(name string) *m3.DirectOptions {
	return &m3.DirectOptions{Protocol: "2025-11-25", Case: name}
}

// C1: run, suite, case and execution are four things. Two runs have a suite of one name each, and its id is the database's.
func TestRunSuiteCaseAndExecutionAreDistinct(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, filepath.Join(t.TempDir(), "db.sqlite"))
	for _, run := range []string{"monday", "tuesday"} {
		kit := newKit(t, m3.Config{Store: db, RunID: run, Suite: "  shipping "})
		for range 2 {
			if err := connect(t, kit, scripted, legacy("quote")).Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := kit.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := db.Executions(t.Context(), &store.ExecutionQuery{Suite: "shipping", Case: "quote"})
	if err != nil || len(all) != 4 {
		t.Fatalf("%d executions, %v", len(all), err)
	}
	ids, suites := map[any]bool{}, map[string]store.SuiteID{}
	for _, x := range all {
		ids[x.ID] = true
		if x.SuiteID < 1 || suites[x.RunID] != 0 && suites[x.RunID] != x.SuiteID {
			t.Errorf("execution %s of run %s has the suite %d", x.ID, x.RunID, x.SuiteID)
		}
		suites[x.RunID] = x.SuiteID
	}
	if len(ids) != 4 || len(suites) != 2 || suites["monday"] == suites["tuesday"] {
		t.Errorf("ids %v, suites %v", ids, suites)
	}
}

// C5: without a store everything is in memory, readable until the kit closes, and then gone.
func TestWithoutAStoreEverythingIsInMemory(t *testing.T) {
	t.Parallel()
	kit := newKit(t, m3.Config{})
	if _, ok := kit.Store().(*memory.Store); !ok {
		t.Fatalf("the store is a %T", kit.Store())
	}
	client := connect(t, kit, scripted, legacy(""))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.Trace(t.Context(), client.ExecutionID()); err != nil {
		t.Fatal(err)
	}
	st := kit.Store()
	if err := kit.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.Trace(t.Context(), client.ExecutionID()); !errors.Is(err, m3.ErrKitClosed) {
		t.Errorf("the trace of a closed kit: %v", err)
	}
	if _, err := st.Execution(t.Context(), client.ExecutionID()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the store of a closed kit: %v", err)
	}
}

// C12: the specification is stored once, with what holds, and a secret in it is a reference.
func TestStoredSpecificationHasReferences(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	kit := newKit(t, m3.Config{Store: openSQLite(t, path)})
	const secret = "correct-horse-battery"
	server := m3.StdioServer{Name: "broken", Command: "sh", Args: []string{"-c", "exit 3"}, Secrets: map[string]m3.SecretRef{
		"SHOP_KEY": {Name: "vault", Lookup: func(context.Context) (string, error) { return secret, nil }},
	}}
	if _, err := kit.Direct(t.Context(), server, nil); err == nil {
		t.Fatal("sh -c 'exit 3' is a server")
	}
	all, err := openSQLite(t, path).Executions(t.Context(), nil)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d executions, %v", len(all), err)
	}
	var spec struct {
		Command string            `json:"command"`
		Secrets map[string]string `json:"secrets"`
		Timeout float64           `json:"timeout_seconds"`
	}
	if err := all[0].Spec.Decode(&spec); err != nil {
		t.Fatal(err)
	}
	if spec.Command != "sh" || spec.Secrets["SHOP_KEY"] != "vault" || spec.Timeout != 30 || strings.Contains(string(all[0].Spec), secret) {
		t.Errorf("the specification is %s", all[0].Spec)
	}
}

// C49: a run is an invocation of the test runner, or an id that a kit was given. Both are runs with a begin and an end.
func TestExplicitRun(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, filepath.Join(t.TempDir(), "db.sqlite"))
	for _, cfg := range []m3.Config{{RunID: " nightly "}, {}} {
		cfg.Store = db
		kit := newKit(t, cfg)
		if err := connect(t, kit, scripted, legacy("")).Close(); err != nil {
			t.Fatal(err)
		}
		if err := kit.Close(); err != nil {
			t.Fatal(err)
		}
		run, err := db.Run(t.Context(), kit.RunID())
		if err != nil {
			t.Fatal(err)
		}
		if run.Status != store.RunFinished || run.Finished == nil || run.Explicit != (cfg.RunID != "") || cfg.RunID != "" && run.ID != "nightly" {
			t.Errorf("run %+v", run)
		}
	}
	if _, err := m3.New(m3.Config{RunID: strings.Repeat("x", 257)}); !errors.Is(err, m3.ErrValidation) {
		t.Errorf("a run id of 257 characters: %v", err)
	}
}
