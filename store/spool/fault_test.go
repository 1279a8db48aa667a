package spool_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/store/storetest"
	"github.com/m3-go/m3/trace"
)

// A disk that is full for a while: what cannot be written is an error that names the file and the reason, what was acknowledged stays readable, and what
// comes when there is room again is kept.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("only Linux has /dev/full")
	}
	defer full.Close()
	db := filepath.Join(t.TempDir(), "db")
	s := open(t, db, "r")
	tape := storetest.NewTape("r", "e")
	appendAll(t, s, append([]store.Record{tape.Open()}, tape.Begin()...)...)
	kept := tape.Frame([]byte("kept\n"))
	appendAll(t, s, kept...)
	reserve := filepath.Join(filepath.Dir(s.Path()), "."+strings.TrimSuffix(filepath.Base(s.Path()), ".jsonl")+".reserve")
	more := tape.Frame([]byte("more\n"))
	file := s.SwapFile(full)
	for _, recs := range [][]store.Record{more, {&store.Execution{ID: "other", RunID: "r"}}} {
		if err := s.Append(context.Background(), recs...); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "write to "+s.Path()) {
			t.Errorf("Append on a full disk: %v", err)
		}
	}
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the room that is kept for ends was not given up: %v", err)
	}
	s.SwapFile(file)
	appendAll(t, s, more...)
	appendAll(t, s, tape.End(trace.OutcomeCompleted, "")...)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	tr, err := reopen(t, db).Trace(context.Background(), "e")
	if err != nil || tr.Len() != 4 || !tr.Finalized() {
		t.Errorf("reopened: %v, %v", tr, err)
	}
}

// The room that is kept for ends is there while the store is open, and goes with it.
func TestReserve(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "db"), "r")
	find := func() []string {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), ".*.reserve"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	names := find()
	if len(names) != 1 {
		t.Fatalf("reserves %v", names)
	}
	if info, err := os.Stat(names[0]); err != nil || info.Size() < 16<<10 {
		t.Errorf("%v, %v", info, err)
	}
	if err := s.Close(); err != nil || len(find()) != 0 {
		t.Errorf("left after Close (%v): %v", err, find())
	}
}

// A spool that somebody deletes under its writer is noticed at the next thing that begins or ends, and at Close at the latest; what was recorded stays readable in the
// process.
func TestDeleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		act  func(s *taped) error
	}{
		{"an end", func(s *taped) error {
			return s.Append(context.Background(), s.tape.End(trace.OutcomeCompleted, "")...)
		}},
		{"a test", func(s *taped) error {
			return s.Append(context.Background(), &store.Test{ID: "t", RunID: "r"})
		}},
		{"Close", func(s *taped) error { return s.Close() }},
	} {
		s := openTaped(t)
		if err := os.RemoveAll(filepath.Dir(s.Path())); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(context.Background(), s.tape.Frame([]byte("more\n"))...); err != nil {
			t.Errorf("%s: an event alone is not worth a look: %v", c.name, err)
		}
		if err := c.act(s); err == nil || !strings.Contains(err.Error(), s.Path()+" was deleted while it was recorded into") {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "Close" {
			continue
		}
		tr, err := s.Trace(context.Background(), "e")
		if err != nil || tr.Len() != 2 {
			t.Errorf("%s: what was recorded: %v, %v", c.name, tr, err)
		}
		if err := s.Append(context.Background(), &store.Test{ID: "t2", RunID: "r"}); err == nil {
			t.Errorf("%s: something was acknowledged afterwards", c.name)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: it was told already: %v", c.name, err)
		}
	}
}

// taped is a spool with an execution that has begun.
type taped struct {
	*spool.Store
	tape *storetest.Tape
}

func openTaped(t *testing.T) *taped {
	t.Helper()
	s := &taped{open(t, filepath.Join(t.TempDir(), "db"), "r"), storetest.NewTape("r", "e")}
	appendAll(t, s.Store, append([]store.Record{s.tape.Open()}, s.tape.Begin()...)...)
	return s
}
