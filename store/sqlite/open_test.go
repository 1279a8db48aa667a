package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

var update = flag.Bool("update", false, "write the golden spool and database anew: only for a version that was never released")

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.sqlite")
	db, err := sql.Open("sqlite", foreign)
	if err == nil {
		_, err = db.Exec(`CREATE TABLE t (a)`)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		content []byte // nil: as it is
		want    string
	}{
		{"text", []byte("hello, this is a text file and no database at all"), `not an SQLite database (it begins with "hello, this is a")`},
		{"short", []byte("hi"), `not an SQLite database (it begins with "hi")`},
		{"cut", []byte(magic + "\x10\x00"), "damaged SQLite database (18 bytes)"},
		{"foreign.sqlite", nil, "not one of m3 (application id 0x0)"},
	} {
		path := filepath.Join(dir, tt.name)
		if tt.content != nil {
			if err := os.WriteFile(path, tt.content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, beforeInfo := read(t, path)
		s, err := Open(path)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
		after, afterInfo := read(t, path)
		if !bytes.Equal(before, after) || beforeInfo.Mode() != afterInfo.Mode() || !beforeInfo.ModTime().Equal(afterInfo.ModTime()) {
			t.Errorf("%s was touched", tt.name)
		}
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 4 {
		t.Errorf("files were made: %v", names)
	}
}

func read(t *testing.T, path string) ([]byte, fs.FileInfo) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return b, info
}

func TestOpenBadPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"nothing", "", "the path is empty"},
		{"a directory", dir, "not a regular file"},
		{"a symbolic link", link, "not a regular file"},
		{"below a file", filepath.Join(file, "db"), "not a directory"},
	} {
		s, err := Open(tt.path)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

func TestOpenReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "read-only")
	switch {
	case os.Geteuid() != 0:
		if err := os.Mkdir(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	case runtime.GOOS == "linux":
		dir = "/proc/self" // not even root makes a file there
	default:
		t.Skip("no directory that root cannot write in")
	}
	path := filepath.Join(dir, "db.sqlite")
	s, err := Open(path)
	if err == nil {
		s.Close()
	}
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), path) {
		t.Errorf("Open: %v", err)
	}
}

// TestPrivate: the database and its log are for their owner only, also when they were not before.
func TestPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	appendTo(t, s, &store.Run{ID: "r"})
	check := func() {
		t.Helper()
		for _, suffix := range []string{"", "-wal", "-shm", ".ingest.lock"} {
			info, err := os.Stat(path + suffix)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("db.sqlite%s: %v, %v", suffix, info, err)
			}
		}
	}
	check()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reopen(t, path)
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOneFile: after the last Close everything is in one file.
func TestOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	tape := storetest.NewTape("r", "e")
	appendTo(t, s, tape.Whole(storetest.Payloads()...)...)
	if _, err := s.Runs(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	gone(t, path+"-wal")
	gone(t, path+"-shm")
	b, _ := read(t, path)
	moved := filepath.Join(t.TempDir(), "moved.sqlite")
	if err := os.WriteFile(moved, b, 0o600); err != nil {
		t.Fatal(err)
	}
	checkTape(t, reopen(t, moved), tape)
}

func TestEmptyFileBecomesADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	appendTo(t, reopen(t, path), &store.Run{ID: "r"})
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db.sqlite")
	s := reopen(t, path)
	if _, err := s.writeExec(`INSERT INTO m3_schema VALUES (7, '')`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := Open(path)
	if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "schema 7, this m3 knows up to 2") || !strings.Contains(err.Error(), path) {
		t.Errorf("Open: %v", err)
	}
}

// TestMigrate takes a database of the newest version through a migration that is made up, and through one that fails.
func TestMigrate(t *testing.T) {
	t.Parallel()
	path := golden(t, SchemaVersion)
	next := append(append([]string{}, migrations...), `ALTER TABLE run ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'; CREATE TABLE more (a);`)
	_, err := open(path, append(append([]string{}, next...), `CREATE TABLE twice (a); CREATE TABLE run (a)`))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migrate to schema %d", SchemaVersion+2)) {
		t.Errorf("a migration that fails: %v", err)
	}
	s, err := Open(path) // and is as it was
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 2 {
		s, err := open(path, next)
		if err != nil {
			t.Fatal(err)
		}
		var extra string
		var version int
		err = errors.Join(s.readDB.QueryRow(`SELECT extra FROM run`).Scan(&extra), s.readDB.QueryRow(`SELECT max(version) FROM m3_schema`).Scan(&version))
		if err != nil || extra != "x" || version != SchemaVersion+1 {
			t.Errorf("after the migration: %q, version %d, %v", extra, version, err)
		}
		checkTape(t, s, goldenTape("golden-run", "golden"))
		s.Close()
	}
	if _, err := Open(path); !errors.Is(err, store.ErrVersion) {
		t.Errorf("an older m3 opens it: %v", err)
	}
}

func goldenTape(run, id string) *storetest.Tape {
	tape := storetest.NewTape(run, id)
	payloads := append(storetest.Payloads()[:11:11], storetest.Payload{Name: "out of line", Bytes: bytes.Repeat([]byte("0123456789\n"), 7000)})
	tape.Whole(payloads...)
	return tape
}

// goldenEvaluations are those in the golden files from version 2 on: two of one lineage, and one of another execution.
func goldenEvaluations(run, id string) []store.Record {
	return []store.Record{storetest.Judged(run, id+"-1", trace.ExecutionID(id), 1), storetest.Evaluation(run, id+"-2", trace.ExecutionID(id), 2),
		storetest.Evaluation(run, id+"-3", "elsewhere", 3)}
}

// golden is a copy of a version's database with the spool beside it that it was written with.
func golden(t *testing.T, version int) string {
	t.Helper()
	if *update && version == SchemaVersion {
		writeGolden(t)
	}
	dir := fmt.Sprintf("testdata/v%d", version)
	path := filepath.Join(t.TempDir(), "db.sqlite")
	if err := os.CopyFS(path+".spool", os.DirFS(filepath.Join(dir, "spool"))); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "executions.sqlite"))
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// writeGolden writes the files of the newest version. Those of the versions before stay as they are.
func writeGolden(t *testing.T) {
	t.Helper()
	golden := fmt.Sprintf("testdata/v%d", SchemaVersion)
	path := filepath.Join(t.TempDir(), "executions.sqlite")
	db, sp := storetest.NewTape("golden-run", "golden"), storetest.NewTape("spooled-run", "spooled")
	payloads := append(storetest.Payloads()[:11:11], storetest.Payload{Name: "out of line", Bytes: bytes.Repeat([]byte("0123456789\n"), 7000)})
	s := reopen(t, path)
	appendTo(t, s, append([]store.Record{&store.Run{ID: "golden-run", Status: store.RunFinished, Owner: "m3 test"}}, db.Whole(payloads...)...)...)
	appendTo(t, s, goldenEvaluations("golden-run", "golden")...)
	s.Close()
	w := writeSpool(t, path, "spooled-run", append(sp.Whole(payloads...), goldenEvaluations("spooled-run", "spooled")...)...)
	w.Close()
	if err := os.RemoveAll(golden); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(golden, "spool"), os.DirFS(path+".spool")); err != nil {
		t.Fatal(err)
	}
	// The header names the machine's paths.
	file := filepath.Join(golden, "spool/spooled-run", filepath.Base(w.Path()))
	lines, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(file), "golden.jsonl"), bytes.Replace(lines, []byte(path), []byte("/golden/executions.sqlite"), 1), 0o600)
	}
	b, rerr := os.ReadFile(path)
	if err = errors.Join(err, rerr, os.Remove(file), os.WriteFile(filepath.Join(golden, "executions.sqlite"), b, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestGolden: what each version wrote is read by every later one, which brings the database to its own schema.
func TestGolden(t *testing.T) {
	t.Parallel()
	for version := 1; version <= SchemaVersion; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			s := reopen(t, golden(t, version))
			if got := s.Ingested(); got.Removed != 1 || got.Bad != 0 {
				t.Errorf("%+v", got)
			}
			for _, tape := range []*storetest.Tape{goldenTape("golden-run", "golden"), goldenTape("spooled-run", "spooled")} {
				checkTape(t, s, tape)
				info, err := s.Execution(context.Background(), tape.ID)
				if err != nil || !info.Complete || info.RunID != tape.RunID {
					t.Errorf("%+v, %v", info, err)
				}
				checkGoldenEvaluations(t, s, version, tape)
			}
		})
	}
}

// checkGoldenEvaluations: version 1 had none, and they can be added to what it wrote.
func checkGoldenEvaluations(t *testing.T, s *Store, version int, tape *storetest.Tape) {
	t.Helper()
	want := goldenEvaluations(tape.RunID, string(tape.ID))
	if version == 1 {
		if rows, err := s.Evaluations(context.Background(), nil); err != nil || tape.ID == "golden" && len(rows) != 0 {
			t.Errorf("evaluations of version 1: %+v, %v", rows, err)
		}
		appendTo(t, s, want...)
	}
	rows, err := s.Evaluations(context.Background(), &store.EvaluationQuery{RunID: tape.RunID})
	if err != nil {
		t.Fatal(err)
	}
	var list []eval.Result
	for _, rec := range want {
		list = append(list, rec.(*store.Evaluation).Result)
	}
	if diff := cmp.Diff(list, rows); diff != "" {
		t.Errorf("evaluations of %s (-want +got):\n%s", tape.RunID, diff)
	}
}

// TestViews: the tables for people.
func TestViews(t *testing.T) {
	t.Parallel()
	s := reopen(t, filepath.Join(t.TempDir(), "db.sqlite"))
	one, two := storetest.NewTape("r", "one"), storetest.NewTape("r", "two")
	one.TestID, two.Suite, two.TestID = "t", "", ""
	appendTo(t, s, &store.Test{ID: "t", RunID: "r", Package: "example.com/p", Name: "TestX/a b", Suite: "suite", Status: store.TestFailed})
	appendTo(t, s, one.Whole(storetest.Payloads()[0])...)
	appendTo(t, s, append([]store.Record{two.Open()}, two.Begin()...)...)
	var got []string
	err := s.query(context.Background(), func(rows *sql.Rows) error {
		cols := make([]sql.NullString, 14)
		ptrs := make([]any, len(cols))
		for i := range cols {
			ptrs[i] = &cols[i]
		}
		err := rows.Scan(ptrs...)
		var line []string
		for _, c := range cols {
			line = append(line, c.String)
		}
		got = append(got, strings.Join(line, "|"))
		return err
	}, `SELECT execution_id, run_id, suite_id, suite_name, case_id, package, test, test_status, kind, servers, created_at, finished_at, outcome, complete || '/' || event_count FROM executions`)
	want := []string{
		`one|r|1|suite|case of one|example.com/p|TestX/a b|failed|direct|["orders"]|2026-03-04T05:06:07.123456789Z|2026-03-04T05:06:07.125456789Z|completed|1/3`,
		`two|r|||case of two||||direct|["orders"]|2026-03-04T05:06:07.123456789Z|||0/1`,
	}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("executions (%v):\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var n int
	var method, server string
	err = s.readDB.QueryRow(`SELECT count(*), max(method), max(server) FROM events WHERE execution_id = 'one'`).Scan(&n, &method, &server)
	if err != nil || n != 3 || method != "tools/call" || server != "orders" {
		t.Errorf("events: %d, %q, %q, %v", n, method, server, err)
	}
}

// TestEvaluationView: one readable row for each evaluation, also before its execution has one.
func TestEvaluationView(t *testing.T) {
	t.Parallel()
	s := reopen(t, filepath.Join(t.TempDir(), "db.sqlite"))
	appendTo(t, s, storetest.NewTape("r", "e").Open(), storetest.Judged("r", "1", "e", 1), storetest.Evaluation("r", "3", "elsewhere", 3), storetest.Evaluation("r", "4", "", 4))
	again := storetest.Judged("r", "2", "e", 2)
	again.Required, again.Score, again.Rationale, again.Message = false, nil, "", ""
	appendTo(t, s, again)
	var got []string
	err := s.query(context.Background(), func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		got = append(got, line)
		return err
	}, `SELECT concat_ws('|', evaluation_id, run_id, suite_name, case_id, test_id, coalesce(execution_id, '-'), turn_id, evaluator, kind, subject_kind, status, coalesce(score, '-'),
		required, latest, message = 'line' || char(10) || 'line', created_at) FROM evaluations`)
	want := []string{
		"1|r|suite|case of e|test of 1|e|turn-1|answer.v1|judge|json|failed|0.3|1|0|1|2026-03-04T05:06:08.123456789Z",
		"2|r|suite|case of e|test of 2|e|turn-1|answer.v1|judge|json|failed|-|1|1|2026-03-04T05:06:09.123456789Z",
		"3|r|suite|case of elsewhere|test of 3|elsewhere||answer.v1|evaluator|json|passed|-|0|1|2026-03-04T05:06:10.123456789Z",
		"4|r|suite|case of |test of 4|-||answer.v1|evaluator|json|passed|-|0|1|2026-03-04T05:06:11.123456789Z",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
