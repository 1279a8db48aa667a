package memory

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/m3-go/m3/trace"
)

// unit is what is dropped at once: the payloads of one full chunk, or one blob.
type unit struct {
	log   *eventLog
	chunk *chunk
	blob  string
}

// drop drops the unit's payloads and returns by how much the log shrank.
func (u unit) drop() int64 {
	if u.chunk == nil {
		return u.log.dropBlob(u.blob)
	}
	return u.log.dropPayloads(u.chunk)
}

func (l *eventLog) dropBlob(sha256 string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.blobs[sha256]
	if !ok {
		return 0
	}
	delete(l.blobs, sha256)
	if l.lost == nil {
		l.lost = map[string]bool{}
	}
	l.lost[sha256] = true
	l.frames++
	l.size += int64(len(b))
	return int64(len(b))
}

// dropPayloads replaces a full chunk by one whose frames have no bytes. Readers that have the old one keep it.
func (l *eventLog) dropPayloads(old *chunk) int64 {
	frames, size := 0, int64(0)
	slim := &chunk{first: old.first, ends: make([]uint32, 0, len(old.ends))}
	for i := range old.ends {
		b := old.event(old.first + i)
		if ev, err := trace.DecodeEvent(l.id, b); err == nil && ev.Frame != nil && len(ev.Frame.Bytes) > 0 {
			frames++
			size += int64(len(ev.Frame.Bytes))
			slim.data = appendStripped(slim.data, &ev)
		} else {
			slim.data = append(slim.data, b...)
		}
		slim.ends = append(slim.ends, uint32(len(slim.data)))
	}
	if frames == 0 {
		return 0
	}
	slim.data = slices.Clip(slices.Clone(slim.data))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks[slices.Index(l.chunks, old)] = slim
	l.frames += frames
	l.size += size
	return old.size() - slim.size()
}

// appendStripped appends an event whose frame has lost its bytes: nothing kept, everything dropped. Its digest goes too,
// because it is that of the bytes kept.
func appendStripped(dst []byte, ev *trace.Event) []byte {
	f := *ev.Frame
	f.Dropped += f.Size
	f.Bytes, f.Size, f.SHA256, f.OutOfLine = nil, 0, "", false
	slim := *ev
	slim.Frame, slim.Redactions = &f, nil
	return trace.AppendEvent(dst, &slim)
}

// appendWithoutLost appends an event, without its reference to a blob when that was dropped.
func (l *eventLog) appendWithoutLost(dst, b []byte) ([]byte, error) {
	ev, err := trace.DecodeEvent(l.id, b)
	if err == nil && ev.Frame != nil && ev.Frame.OutOfLine && l.lost[ev.Frame.SHA256] {
		return appendStripped(dst, &ev), nil
	}
	return append(dst, b...), nil
}

// appendPartialEnd appends the execution.finished event with the limitation that says what was dropped.
func (l *eventLog) appendPartialEnd(dst, b []byte) ([]byte, error) {
	ev, err := trace.DecodeEvent(l.id, b)
	if err != nil {
		return dst, err
	}
	var f trace.Finished
	if err := ev.Payload.Decode(&f); err != nil {
		return dst, fmt.Errorf("memory: decode the end of execution %s: %w", l.id, err)
	}
	f.Limitations = append(f.Limitations, trace.Limitation{Code: "capture_incomplete",
		Message: fmt.Sprintf("the memory store's budget ran out: the bytes of the oldest %d frames (%d bytes) were dropped", l.frames, l.size)})
	if ev.Payload, err = json.Marshal(&f); err != nil {
		return dst, err
	}
	return trace.AppendEvent(dst, &ev), nil
}
