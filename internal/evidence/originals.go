package evidence

import "github.com/m3-go/m3/trace"

// originals keeps the bytes of redacted frames as they were, in memory only, within a budget: the oldest go first.
type originals struct {
	budget int64
	used   int64
	bytes  map[int64][]byte
	order  []int64
}

func (o *originals) put(seq int64, b []byte) {
	if b == nil || int64(len(b)) > o.budget {
		return
	}
	for o.used+int64(len(b)) > o.budget {
		oldest := o.order[0]
		o.order = o.order[1:]
		o.used -= int64(len(o.bytes[oldest]))
		delete(o.bytes, oldest)
	}
	if o.bytes == nil {
		o.bytes = map[int64][]byte{}
	}
	o.bytes[seq] = b
	o.order = append(o.order, seq)
	o.used += int64(len(b))
}

// Log returns base together with the originals of this process ([trace.Originals]). Those that were too many for the
// budget are not there; views then show the redacted bytes.
func (t *Tape) Log(base trace.Log) trace.Log { return tapeLog{base, t} }

type tapeLog struct {
	trace.Log
	t *Tape
}

// HasBlob asks the base, and tries where the base cannot tell.
func (l tapeLog) HasBlob(sha256 string) bool {
	if f, ok := l.Log.(trace.BlobFinder); ok {
		return f.HasBlob(sha256)
	}
	_, err := l.Blob(sha256)
	return err == nil
}

// Original returns the bytes of event i before redaction. They must not be changed.
func (l tapeLog) Original(i int) ([]byte, bool) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	b, ok := l.t.originals.bytes[int64(i)]
	return b, ok
}
