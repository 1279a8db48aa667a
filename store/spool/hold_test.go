package spool

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHold: a run's directory that is held outlives every sweep, and goes with what is in it after the hold.
func TestHold(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "x.sqlite")
	h, err := HoldRun(t.Context(), db, "run/1")
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(h.Dir()) != Dir(db) {
		t.Errorf("the directory is %s", h.Dir())
	}
	file := filepath.Join(h.Dir(), ".counter")
	if err := os.WriteFile(file, []byte("."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(db); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("swept while it was held: %v", err)
	}
	if files, err := List(db); err != nil || len(files) != 0 {
		t.Errorf("spools %v, %v", files, err)
	}
	h.Release()
	if err := Sweep(db); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(Dir(db)); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
	var none *Hold
	none.Release()
}

func TestHoldNowhere(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(db+".spool", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := HoldRun(t.Context(), db, "run"); err == nil {
		t.Error("a run is held where no directory can be")
	}
}
