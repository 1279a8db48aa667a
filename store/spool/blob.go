package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/m3-go/m3/store"
)

func (s *Store) hasBlob(sha256 string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.blobs[sha256]
	return ok
}

// putBlob writes a blob's file, unless this or another process of the run did. A name that is there is whole: it was renamed to.
// It is called under the store's lock.
func (s *Store) putBlob(r *store.Blob) error {
	if _, ok := s.blobs[r.SHA256]; ok {
		return nil
	}
	if _, err := s.log(r.ExecutionID); err != nil {
		return err
	}
	path := s.file.Blob(r.SHA256)
	if info, err := os.Lstat(path); err != nil || info.Size() != int64(len(r.Data)) {
		if err := writeFile(path, r.Data); err != nil {
			return fmt.Errorf("spool: write blob: %w", err)
		}
		s.count()
	}
	s.blobs[r.SHA256] = struct{}{}
	return nil
}

// writeFile puts data under path in one step. Nothing is synced, like the spool itself.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".*.tmp") // 0600
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(dir, ".*.tmp")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
