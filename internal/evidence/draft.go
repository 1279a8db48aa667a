package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/m3-go/m3/trace"
)

// draft is an event on its way, with the memory that it needs. The encoding is made outside of the lock with sequence and
// offset 0, behind some room, and its beginning is written anew under the lock.
type draft struct {
	ev       trace.Event
	frame    trace.Frame
	original []byte // a copy, when something was redacted
	buf      []byte
	head     int // length of the beginning, in buf from headroom on
}

// headroom is more than the beginning of an encoded event can grow by.
const headroom = 64

// maxDraft is how large a buffer is kept for the next event.
const maxDraft = 256 << 10

func (d *draft) set(ev *trace.Event) {
	d.ev = *ev
	if ev.Frame != nil {
		d.frame = *ev.Frame
		d.ev.Frame = &d.frame
	}
}

func (d *draft) keepOriginal(b []byte) {
	if len(d.ev.Redactions) > 0 {
		d.original = bytes.Clone(b)
	}
}

func (d *draft) reset() {
	d.ev, d.frame, d.original = trace.Event{}, trace.Frame{}, nil
	if cap(d.buf) > maxDraft {
		d.buf = nil
	}
}

// encode works out the frame's size, digest and place, and encodes the event. Blob is the size over which a frame goes out
// of line; 0: none does.
func (d *draft) encode(blob int) {
	if d.ev.Frame != nil {
		sum := sha256.Sum256(d.frame.Bytes)
		var digits [2 * sha256.Size]byte
		hex.Encode(digits[:], sum[:])
		d.frame.SHA256 = string(digits[:])
		d.frame.Size = int64(len(d.frame.Bytes))
		d.frame.OutOfLine = blob > 0 && len(d.frame.Bytes) > blob
	}
	d.ev.Sequence, d.ev.Offset = 0, 0
	d.buf = append(d.buf[:0], make([]byte, headroom)...)
	d.head = len(appendHead(d.buf, &d.ev)) - headroom
	d.buf = trace.AppendEvent(d.buf, &d.ev)
}

// appendHead appends what an encoded event begins with, as [trace.AppendEvent] writes it.
func appendHead(dst []byte, ev *trace.Event) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, ev.Sequence, 10)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, ev.Kind...)
	dst = append(dst, `","time_ns":`...)
	dst = strconv.AppendInt(dst, ev.Time.UnixNano(), 10)
	dst = append(dst, `,"offset_ns":`...)
	return strconv.AppendInt(dst, int64(ev.Offset), 10)
}

// finish returns the encoded event with its sequence and offset.
func (d *draft) finish(seq int64, offset time.Duration) []byte {
	var room [256]byte
	old := appendHead(room[:0], &d.ev)
	d.ev.Sequence, d.ev.Offset = seq, offset
	if !bytes.HasPrefix(d.buf[headroom:], old) { // the encoding is another one than appendHead knows
		d.buf = trace.AppendEvent(d.buf[:0], &d.ev)
		return d.buf
	}
	head := appendHead(room[:0], &d.ev)
	from := headroom + len(old) - len(head)
	copy(d.buf[from:], head)
	return d.buf[from:]
}
