package memory

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sort"
	"sync"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

const (
	firstChunk = 4 << 10
	lastChunk  = 256 << 10
	// maxGap is how many sequence numbers may be missing before one that is appended. A caller that could not append an event
	// may go on; one that sends nonsense must not make us allocate for it.
	maxGap = 1 << 20
)

// chunk is a piece of the arena. It grows within the capacity of its data while it is the last of its log; afterwards it
// never changes: dropping payloads replaces it.
type chunk struct {
	first int // the sequence of its first event
	data  []byte
	ends  []uint32 // of each event in data; one that was never appended is empty
}

func (c *chunk) size() int64 { return int64(cap(c.data)) + int64(4*cap(c.ends)) }

func (c *chunk) event(i int) []byte {
	i -= c.first
	start := uint32(0)
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.data[start:c.ends[i]]
}

// eventLog is the trace.Log of one execution: an append-only arena.
type eventLog struct {
	id trace.ExecutionID

	mu       sync.RWMutex
	chunks   []*chunk
	n        int
	finished bool
	blobs    map[string][]byte
	lost     map[string]bool // blobs that were dropped
	// frames and size count what was dropped, for the limitation.
	frames int
	size   int64
}

// append appends an event. It returns the chunks that became full thereby, and by how much the log grew.
func (l *eventLog) append(r *store.Event) (full []*chunk, grown int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(r); err != nil {
		return nil, 0, err
	}
	c := l.last()
	if c == nil || cap(c.data)-len(c.data) < len(r.Body) {
		if c != nil {
			full = append(full, c)
		}
		c = &chunk{first: l.n, data: allocate(max(len(r.Body), l.nextChunk()))}
		c.own()
		l.chunks = append(l.chunks, c)
		grown += int64(cap(c.data))
	}
	before := cap(c.ends)
	for ; int64(l.n) < r.Sequence; l.n++ {
		c.ends = append(c.ends, uint32(len(c.data)))
	}
	c.data = append(c.data, r.Body...)
	c.ends = append(c.ends, uint32(len(c.data)))
	l.n++
	grown += int64(4 * (cap(c.ends) - before))
	if r.Kind == trace.KindExecutionFinished {
		l.finished = true
		tight := &chunk{first: c.first, data: slices.Clone(c.data), ends: slices.Clone(c.ends)}
		l.chunks[len(l.chunks)-1] = tight
		full, grown = append(full, tight), grown+tight.size()-c.size()
	}
	return full, grown, nil
}

func (l *eventLog) check(r *store.Event) error {
	switch gap := r.Sequence - int64(l.n); {
	case l.finished:
		return fmt.Errorf("memory: event %d of execution %s comes after its end", r.Sequence, l.id)
	case gap < 0:
		return fmt.Errorf("memory: event %d of execution %s is already there", r.Sequence, l.id)
	case gap > maxGap:
		return fmt.Errorf("memory: event %d of execution %s comes after event %d", r.Sequence, l.id, l.n-1)
	}
	return nil
}

func (l *eventLog) last() *chunk {
	if len(l.chunks) == 0 {
		return nil
	}
	return l.chunks[len(l.chunks)-1]
}

// nextChunk doubles from firstChunk up to lastChunk.
func (l *eventLog) nextChunk() int {
	return firstChunk << min(len(l.chunks), bits.Len(lastChunk/firstChunk)-1)
}

// putBlob reports whether the blob was new.
func (l *eventLog) putBlob(r *store.Blob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.blobs[r.SHA256]; ok {
		return false
	}
	if l.blobs == nil {
		l.blobs = map[string][]byte{}
	}
	l.blobs[r.SHA256] = bytes.Clone(r.Data)
	delete(l.lost, r.SHA256)
	return true
}

// partial reports whether something was dropped.
func (l *eventLog) partial() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.frames > 0
}

// Len is that of [trace.Log].
func (l *eventLog) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.n
}

// AppendEvent is that of [trace.Log]. What has lost its payload says so.
func (l *eventLog) AppendEvent(dst []byte, i int) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if i < 0 || i >= l.n {
		return dst, fmt.Errorf("memory: no event %d in an execution of %d", i, l.n)
	}
	at := sort.Search(len(l.chunks), func(k int) bool { return l.chunks[k].first > i }) - 1
	c := l.chunks[at]
	defer runtime.KeepAlive(c)
	b := c.event(i)
	switch {
	case len(b) == 0:
		return dst, fmt.Errorf("memory: event %d was never stored", i)
	case l.frames == 0:
		return append(dst, b...), nil
	case l.finished && i == l.n-1:
		return l.appendPartialEnd(dst, b)
	case len(l.lost) > 0:
		return l.appendWithoutLost(dst, b)
	}
	return append(dst, b...), nil
}

// HasBlob reports whether Blob would succeed.
func (l *eventLog) HasBlob(sha256 string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.blobs[sha256]
	return ok
}

// Blob is that of [trace.Log].
func (l *eventLog) Blob(sha256 string) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	b, ok := l.blobs[sha256]
	if !ok {
		return nil, fmt.Errorf("%w: blob %s", store.ErrNotFound, sha256)
	}
	return b, nil
}

// pin returns the log itself while the execution is open. Of a finished one it returns a copy that shares all bytes and
// keeps them: a trace that somebody holds never changes, also when the store drops its payloads afterwards.
func (l *eventLog) pin() trace.Log {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.finished {
		return l
	}
	return &eventLog{id: l.id, chunks: slices.Clone(l.chunks), n: l.n, finished: true, blobs: maps.Clone(l.blobs),
		lost: maps.Clone(l.lost), frames: l.frames, size: l.size}
}
