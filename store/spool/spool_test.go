package spool_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/sqlite"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) *storetest.Subject {
		db := filepath.Join(t.TempDir(), "db.sqlite")
		s := open(t, db, "r")
		return &storetest.Subject{
			Store: s,
			Reopen: func(t *testing.T) store.Reader {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return reopen(t, db)
			},
			Second: func(t *testing.T) store.Recorder { return open(t, db, "r") },
		}
	})
}

func open(t testing.TB, db, run string) *spool.Store {
	t.Helper()
	s, err := spool.Open(context.Background(), &spool.Config{Database: db, RunID: run, Package: "example.com/p", Version: "v0.0.0-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t *testing.T, db string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func appendAll(t testing.TB, s *spool.Store, recs ...store.Record) {
	t.Helper()
	if err := s.Append(context.Background(), recs...); err != nil {
		t.Fatal(err)
	}
}

func TestLayoutOnDisk(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "sub", "db.sqlite")
	s := open(t, db, "2026/03 ../run")
	tape := storetest.NewTape("2026/03 ../run", "e")
	appendAll(t, s, tape.Whole(storetest.Payloads()...)...)
	if dir := filepath.Dir(filepath.Dir(s.Path())); dir != db+".spool" || !strings.HasSuffix(s.Path(), ".jsonl") {
		t.Errorf("the spool is %s, want it in a directory under %s.spool", s.Path(), db)
	}
	b, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	h, err := spool.ParseHeader(line)
	if err != nil || h.RunID != "2026/03 ../run" || h.PID != os.Getpid() || h.Database != db || h.Package != "example.com/p" || h.Version != "v0.0.0-test" || time.Since(h.Started) > time.Minute {
		t.Errorf("header %+v, %v", h, err)
	}
	blobs := 0
	err = filepath.WalkDir(db+".spool", func(path string, d fs.DirEntry, err error) error {
		info, ierr := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if ierr == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		if filepath.Base(filepath.Dir(path)) == "blobs" {
			blobs++
		}
		return errors.Join(err, ierr)
	})
	if err != nil || blobs != 2 {
		t.Errorf("%d blobs, want 2 (%v)", blobs, err)
	}
}

func TestRunDirectories(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, run := range []string{"r", "..", ".", "../..", "a/b", "a b", "a%2Fb", ".hidden", "é", strings.Repeat("x", 5000), strings.Repeat("x", 5001), "-", "blobs"} {
		d := spool.RunDir(run)
		if d == "" || strings.HasPrefix(d, ".") || strings.ContainsAny(d, "/\\") || len(d) > 200 {
			t.Errorf("the directory of run %.20q is %q", run, d)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("runs %.20q and %.20q have one directory", run, other)
		}
		seen[d] = run
	}
}

// TestOneWrite counts what goes to the kernel: an Append is one write, whatever is in it, and a blob one file more.
func TestOneWrite(t *testing.T) {
	t.Parallel()
	var writes []int64
	s, err := spool.Open(context.Background(), &spool.Config{Database: filepath.Join(t.TempDir(), "db"), RunID: "r", AfterWrite: func(n int64) { writes = append(writes, n) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tape := storetest.NewTape("r", "e")
	large := make([]byte, 100<<10)
	for _, step := range []struct {
		recs []store.Record
		want int // writes so far
	}{
		{nil, 1},
		{append([]store.Record{&store.Run{ID: "r"}, tape.Open()}, tape.Begin()...), 2},
		{tape.Frame([]byte("a\n")), 3},
		{tape.Frame(large), 5},
		{tape.Frame(large), 6}, // known already
		{tape.End(trace.OutcomeCompleted, ""), 7},
	} {
		appendAll(t, s, step.recs...)
		if len(writes) != step.want || writes[len(writes)-1] != int64(step.want) {
			t.Errorf("writes %v, want %d", writes, step.want)
		}
	}
}

// TestFailedWrite: what could not be written is not there, and the file is still whole.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "db")
	s := open(t, db, "r")
	tape := storetest.NewTape("r", "e")
	appendAll(t, s, append([]store.Record{tape.Open()}, tape.Begin()...)...)
	readOnly, err := os.Open(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	end := tape.End(trace.OutcomeCompleted, "")
	file := s.SwapFile(readOnly)
	err = s.Append(context.Background(), append(end, &store.Execution{ID: "other", RunID: "r"})...)
	s.SwapFile(file)
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EBADF) {
		t.Fatalf("Append on a file that cannot be written: %v", err)
	}
	info, err := s.Execution(context.Background(), "e")
	if err != nil || info.EventCount != 1 || info.Finished != nil {
		t.Errorf("after the failed write: %+v, %v", info, err)
	}
	if _, err := s.Execution(context.Background(), "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an execution that was not written is there: %v", err)
	}
	appendAll(t, s, end...)
	s.Close()
	tr, err := reopen(t, db).Trace(context.Background(), "e")
	if err != nil || tr.Len() != 2 || !tr.Finalized() {
		t.Errorf("reopened: %v, %v", tr, err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		cfg  *spool.Config
		want string
	}{
		{"nil", nil, "Database and RunID"},
		{"no run", &spool.Config{Database: file}, "RunID"},
		{"relative", &spool.Config{Database: "db.sqlite", RunID: "r"}, `"db.sqlite" must be absolute`},
		{"below a file", &spool.Config{Database: filepath.Join(file, "db.sqlite"), RunID: "r"}, "not a directory"},
		{"read-only directory", &spool.Config{Database: readOnlyDir(t) + "/db.sqlite", RunID: "r"}, "cannot record beside"},
	} {
		s, err := spool.Open(context.Background(), tt.cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

// readOnlyDir returns a directory in which nothing can be made. Root may write in most.
func readOnlyDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		dir := filepath.Join(t.TempDir(), "read-only")
		if err := os.Mkdir(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if runtime.GOOS != "linux" {
		t.Skip("no directory that root cannot write in")
	}
	return "/proc/self"
}

// TestSweep: the blobs of a run stay while one of its writers lives, and everything goes with the last.
func TestSweep(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "db.sqlite")
	one, two := open(t, db, "r"), open(t, db, "r")
	large := storetest.Payload{Name: "large", Bytes: make([]byte, 100<<10)}
	a, b := storetest.NewTape("r", "a"), storetest.NewTape("r", "b")
	appendAll(t, one, a.Whole(large)...)
	appendAll(t, two, b.Whole(large)...)
	one.Close()
	st := reopen(t, db)
	if _, err := os.Stat(one.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spool of a writer that is gone is there: %v", err)
	}
	if ev, err := two.ReadRawEvidence(context.Background(), b.Ref(1), 0); err != nil || len(ev.Bytes) != 100<<10 {
		t.Errorf("the living writer has lost its blob: %v", err)
	}
	two.Close()
	if _, err := st.Ingest(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(db + ".spool"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spool directory is left: %v", err)
	}
	third := open(t, db, "r") // and it can be made again
	appendAll(t, third, &store.Run{ID: "r"})
}

// TestMemoryPerEvent is not parallel: it measures the whole heap.
func TestMemoryPerEvent(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"), "r")
	tape := storetest.NewTape("r", "e")
	appendAll(t, s, tape.Open())
	const events = 100_000
	ev := &store.Event{ExecutionID: "e", Kind: "finding", Body: []byte(`{"seq":0,"kind":"finding","time_ns":1}`)}
	before := heap()
	for i := range int64(events) {
		ev.Sequence = i
		appendAll(t, s, ev)
	}
	if per := float64(heap()-before) / events; per > 24 {
		t.Errorf("%.1f bytes of live heap an event, want at most 24", per)
	}
	runtime.KeepAlive(s)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "db"), "r")
	tape := storetest.NewTape("r", "e")
	appendAll(b, s, tape.Open())
	rec := tape.Frame(bytes.Repeat([]byte("x"), 150))[0].(*store.Event)
	ctx := context.Background()
	seq := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		rec.Sequence = seq
		seq++
		if err := s.Append(ctx, rec); err != nil {
			b.Fatal(err)
		}
	}
}
