package spool

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// blockLen is the number of places in a block: index growth never copies more than one.
const blockLen = 512

// maxGap is how many sequence numbers may be missing before one that is appended. A caller that could not append an event
// may go on; one that sends nonsense must not make us allocate for it.
const maxGap = 1 << 20

// place is where an event's body stands in the spool: 16 bytes are all that memory keeps of an event.
type place struct {
	off   int64
	n     uint32 // 0: never appended
	coded bool   // in base64
}

// eventLog is the trace.Log of one execution in the process that writes it.
type eventLog struct {
	s  *Store
	id trace.ExecutionID

	// next and finished are what the writer knows, ahead of what was written; under the store's lock.
	next     int64
	finished bool

	mu     sync.RWMutex
	blocks [][]place
	n      int
}

// check is called under the store's lock.
func (l *eventLog) check(r *store.Event) error {
	switch gap := r.Sequence - l.next; {
	case l.finished:
		return fmt.Errorf("spool: event %d of execution %s comes after its end", r.Sequence, l.id)
	case gap < 0:
		return fmt.Errorf("spool: event %d of execution %s is already there", r.Sequence, l.id)
	case gap > maxGap:
		return fmt.Errorf("spool: event %d of execution %s comes after event %d", r.Sequence, l.id, l.next-1)
	}
	return nil
}

// put notes where event seq stands.
func (l *eventLog) put(seq int64, p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for int64(l.n) < seq {
		l.push(place{})
	}
	l.push(p)
}

func (l *eventLog) push(p place) {
	if l.n%blockLen == 0 {
		// The first block grows as it is used: most executions are short.
		capacity := blockLen
		if l.n == 0 {
			capacity = 8
		}
		l.blocks = append(l.blocks, make([]place, 0, capacity))
	}
	b := &l.blocks[len(l.blocks)-1]
	*b = append(*b, p)
	l.n++
}

// Len is that of [trace.Log].
func (l *eventLog) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.n
}

// AppendEvent is that of [trace.Log]: it reads the event back from the spool.
func (l *eventLog) AppendEvent(dst []byte, i int) ([]byte, error) {
	p, err := l.place(i)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, int(p.n))[:start+int(p.n)]
	if _, err := l.s.f.ReadAt(dst[start:], p.off); err != nil {
		return dst[:start], l.s.readError(err)
	}
	if !p.coded {
		return dst, nil
	}
	n, err := base64.StdEncoding.Decode(dst[start:], dst[start:])
	return dst[:start+n], err
}

func (l *eventLog) place(i int) (place, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if i < 0 || i >= l.n {
		return place{}, fmt.Errorf("spool: no event %d in an execution of %d", i, l.n)
	}
	p := l.blocks[i/blockLen][i%blockLen]
	if p.n == 0 {
		return place{}, fmt.Errorf("spool: event %d was never stored", i)
	}
	return p, nil
}

// HasBlob reports whether the store wrote the blob.
func (l *eventLog) HasBlob(sha256 string) bool { return l.s.hasBlob(sha256) }

// Blob is that of [trace.Log].
func (l *eventLog) Blob(sha256 string) ([]byte, error) {
	if !l.s.hasBlob(sha256) {
		return nil, fmt.Errorf("%w: blob %s", store.ErrNotFound, sha256)
	}
	b, err := os.ReadFile(filepath.Join(l.s.dir, blobsDir, sha256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: blob %s: its file is gone", store.ErrNotFound, sha256)
	}
	return b, err
}

// readError names what was closed under a reader.
func (s *Store) readError(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return store.ErrClosed
	}
	return fmt.Errorf("spool: read back: %w", err)
}
