package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) *storetest.Subject {
		path := filepath.Join(t.TempDir(), "dir", "a?b#c%20 d&e.sqlite")
		s := reopen(t, path)
		return &storetest.Subject{
			Store: s,
			Reopen: func(t *testing.T) store.Reader {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return reopen(t, path)
			},
			Second: func(t *testing.T) store.Recorder { return reopen(t, path) },
		}
	})
}

func reopen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}
