package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// Arena is a [Log] in memory, for whoever builds a trace by hand: tests, importers, tools. The zero value is not usable; see [NewArena].
// It may be used from several goroutines.
type Arena struct {
	mu        sync.RWMutex
	parts     [][]byte
	at        chunks[place]
	blobs     map[string][]byte
	originals map[int][]byte
}

// place is where an encoded event lies: a part, and a range in it.
type place struct{ part, from, to int32 }

// arenaPart is the size of a part; an event that is larger gets a part of its own.
const arenaPart = 256 << 10

// NewArena returns an empty arena. Make a trace of it with [New]:
//
//	a := trace.NewArena()
//	a.Append(&trace.Event{Kind: trace.KindExecutionCreated, Payload: trace.JSON(`{"kind":"direct"}`)})
//	a.Append(&trace.Event{Kind: trace.KindExecutionFinished, Payload: trace.JSON(`{"outcome":"completed"}`)})
//	view, err := trace.New("example", a).View()
func NewArena() *Arena { return &Arena{blobs: map[string][]byte{}, originals: map[int][]byte{}} }

// Append encodes ev at the end and returns its sequence. It assigns the sequence, and, where they are zero, the frame's Size, WireSize and
// SHA256 from its bytes; everything else stands as given. Append keeps no reference to ev and does not change it.
func (a *Arena) Append(ev *Event) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := *ev
	e.Sequence = int64(a.at.len())
	if ev.Frame != nil {
		e.Frame = measured(ev.Frame)
	}
	a.append(AppendEvent(nil, &e))
	return e.Sequence
}

func measured(in *Frame) *Frame {
	f := *in
	if f.Bytes == nil {
		return &f
	}
	if f.Size == 0 {
		f.Size = int64(len(f.Bytes))
	}
	if f.WireSize == 0 {
		f.WireSize = f.Size + f.Dropped
	}
	if f.SHA256 == "" {
		f.SHA256 = digest(f.Bytes)
	}
	return &f
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// AppendEncoded appends an event as it was stored elsewhere, unchanged and unchecked.
func (a *Arena) AppendEncoded(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.append(b)
}

func (a *Arena) append(b []byte) {
	last := len(a.parts) - 1
	if last < 0 || len(a.parts[last])+len(b) > cap(a.parts[last]) {
		size := arenaPart
		if last < 0 {
			size = 4 << 10 // most arenas are small
		}
		a.parts = append(a.parts, make([]byte, 0, max(size, len(b))))
		last++
	}
	from := len(a.parts[last])
	a.parts[last] = append(a.parts[last], b...)
	a.at.push(place{int32(last), int32(from), int32(from + len(b))})
}

// PutBlob keeps bytes out of line and returns their digest, for a frame with OutOfLine set. It keeps a reference to b.
func (a *Arena) PutBlob(b []byte) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := digest(b)
	a.blobs[sum] = b
	return sum
}

// PutOriginal gives the bytes that event i had before redaction, as the log of a recording process has them.
func (a *Arena) PutOriginal(i int64, b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.originals[int(i)] = b
}

// Len is the number of events.
func (a *Arena) Len() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.at.len()
}

// AppendEvent appends the encoded event i to dst.
func (a *Arena) AppendEvent(dst []byte, i int) ([]byte, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if i < 0 || i >= a.at.len() {
		return dst, fmt.Errorf("trace: the arena has no event %d", i)
	}
	p := *a.at.at(i)
	return append(dst, a.parts[p.part][p.from:p.to]...), nil
}

// Blob returns the bytes kept under the digest.
func (a *Arena) Blob(sha256 string) ([]byte, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if b, ok := a.blobs[sha256]; ok {
		return b, nil
	}
	return nil, errors.New("trace: the arena has no blob " + sha256)
}

// HasBlob reports whether Blob would succeed.
func (a *Arena) HasBlob(sha256 string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.blobs[sha256]
	return ok
}

// Original returns what PutOriginal was given for event i.
func (a *Arena) Original(i int) ([]byte, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	b, ok := a.originals[i]
	return b, ok
}
