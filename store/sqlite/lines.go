package sqlite

import (
	"bytes"
	"io"
)

const readAhead = 256 << 10

// lineReader reads whole lines from off up to size, where the file ended when taking in began.
type lineReader struct {
	f      io.ReaderAt
	off    int64 // of the next line
	size   int64
	buf    []byte
	lo, hi int // what was read and not yet handed out: the bytes from off on
}

// done reports whether nothing is left to read.
func (r *lineReader) done() bool { return r.off >= r.size }

// rest is how many bytes stand after the last whole line.
func (r *lineReader) rest() int64 { return max(0, r.size-r.off) }

// next returns the next whole line without its newline; it is valid until the next call. ok is false at the end.
func (r *lineReader) next() (line []byte, ok bool, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(r.buf[r.lo+searched:r.hi], '\n'); i >= 0 {
			i += searched
			line = r.buf[r.lo : r.lo+i : r.lo+i]
			r.lo += i + 1
			r.off += int64(i) + 1
			return line, true, nil
		}
		searched = r.hi - r.lo
		if more, err := r.fill(); !more {
			return nil, false, err
		}
	}
}

// fill reads on. It reports false at the end, and with an error.
func (r *lineReader) fill() (bool, error) {
	have := r.hi - r.lo
	want := min(r.size-r.off-int64(have), int64(max(readAhead, have)))
	if want <= 0 {
		return false, nil
	}
	if need := have + int(want); need > len(r.buf) {
		buf := make([]byte, need)
		copy(buf, r.buf[r.lo:r.hi])
		r.buf = buf
	} else {
		copy(r.buf, r.buf[r.lo:r.hi])
	}
	r.lo, r.hi = 0, have
	n, err := r.f.ReadAt(r.buf[have:have+int(want)], r.off+int64(have))
	r.hi += n
	if n == 0 && err == io.EOF {
		err = nil // shorter than it was
	}
	return n > 0, err
}
