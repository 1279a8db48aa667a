package spool

import (
	"os"

	"github.com/m3-go/m3/store"
)

// AppendEventLine is appendEvent without what the index needs.
func AppendEventLine(dst []byte, r *store.Event) []byte {
	dst, _, _, _ = appendEvent(dst, r)
	return dst
}

// RunDir is runDir.
var RunDir = runDir

// SwapFile makes the store write to another file and returns the one that it had.
func (s *Store) SwapFile(f *os.File) *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.f
	s.f = f
	return old
}
