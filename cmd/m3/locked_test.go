package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/store/sqlite"
)

// A database that is locked for longer than SQLite itself waits is waited for, at the beginning and at the end of a run.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": signalGoMod, "x_test.go": "package signals\n\nimport \"testing\"\n\nfunc TestDone(t *testing.T) {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "db.sqlite")
	st, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	unlocked := make(chan error)
	time.AfterFunc(6500*time.Millisecond, func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		unlocked <- err
	})
	var out, errs strings.Builder
	c := &cli{in: strings.NewReader(""), out: &out, err: &errs, dir: dir}
	code := c.run(t.Context(), []string{"test", "--results-db", path, "."})
	if err := <-unlocked; err != nil {
		t.Fatal(err)
	}
	if code != 0 || !strings.Contains(out.String(), "PASS  1 of 1 test passed") || !strings.Contains(errs.String(), "is locked by another program: waiting for it, up to 30s") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}
