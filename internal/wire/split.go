package wire

import "bytes"

const (
	readBuffer   = 64 << 10
	keepBuffer   = 1 << 20   // a buffer that grew beyond this is given back
	roomFrom     = 256 << 10 // a frame larger than this gets room of its own
	tailSize     = 512
	defaultFrame = 64 << 20
)

// splitter cuts a stream into lines at 0x0A and nowhere else: not at CR, not at U+2028. Bytes are read into space, and frames come out of next,
// mostly as parts of the same buffer.
type splitter struct {
	max        int64
	buf        []byte
	start, end int   // what is read and not yet handed out
	seen       int   // buf[start:seen] holds no terminator
	offset     int64 // of buf[start], or of big's first byte, in the stream

	big     []byte // a frame that outgrew buf
	dropped int64  // its bytes over max
	tail    []byte // the last of those
	lent    bool   // big is the frame that was handed out last
	room    []byte // what big lies in, when it is large: see roomFor
	noRoom  bool   // there is none

	over func(kept, more []byte) // is told of what is dropped; may be nil
}

func newSplitter(max int64, buffer int) *splitter {
	if max <= 0 {
		max = defaultFrame
	}
	return &splitter{max: max, buf: make([]byte, buffer)}
}

// space returns where to read the next bytes to. It is never empty.
func (s *splitter) space() []byte {
	s.reclaim()
	switch {
	case s.end < len(s.buf):
	case s.start > 0:
		copy(s.buf, s.buf[s.start:s.end])
		s.seen, s.end, s.start = s.seen-s.start, s.end-s.start, 0
	default:
		s.spill(s.buf)
		s.start, s.end, s.seen = 0, 0, 0
	}
	return s.buf[s.end:]
}

// filled says that n bytes were read into space.
func (s *splitter) filled(n int) { s.end += n }

// next sets f's bytes, offset and drop count to those of the next whole frame, and reports whether there was one. They
// are valid until the next call.
func (s *splitter) next(f *Frame) bool {
	s.reclaim()
	i := bytes.IndexByte(s.buf[s.seen:s.end], '\n')
	if i < 0 {
		s.seen = s.end
		return false
	}
	stop := s.seen + i + 1
	line := s.buf[s.start:stop]
	s.start, s.seen = stop, stop
	if s.start == s.end {
		s.start, s.end, s.seen = 0, 0, 0
	}
	s.emit(f, line)
	return true
}

// rest sets f to what is left at the end of the stream, and reports whether anything is.
func (s *splitter) rest(f *Frame) bool {
	s.reclaim()
	line := s.buf[s.start:s.end]
	s.start, s.end, s.seen = 0, 0, 0
	if len(line) == 0 && len(s.big) == 0 {
		return false
	}
	s.emit(f, line)
	f.Partial = true
	return true
}

func (s *splitter) emit(f *Frame, line []byte) {
	switch {
	case len(s.big) > 0:
		s.spill(line)
		line, s.lent = s.big, true
	case int64(len(line)) > s.max:
		s.drop(line[:s.max], line[s.max:])
		line = line[:s.max]
	}
	f.Raw, f.Body = line, trimEnd(line)
	f.Offset, f.Dropped, f.Tail, f.Partial = s.offset, s.dropped, s.tail, false
	s.offset += int64(len(line)) + s.dropped
	s.dropped, s.tail = 0, nil
}

// reclaim takes big back from the frame that was made of it, or gives its memory up when it is large.
func (s *splitter) reclaim() {
	if !s.lent {
		return
	}
	s.lent, s.big = false, s.big[:0]
	if s.room != nil || cap(s.big) > keepBuffer {
		s.release()
	}
}

// release gives up the memory of a large frame. The frame that was handed out last is not valid any more.
func (s *splitter) release() {
	s.big, s.lent = nil, false
	if s.room != nil {
		giveBack(s.room)
		s.room = nil
	}
}

// spill moves b to the frame that does not fit into the buffer, up to the cap.
func (s *splitter) spill(b []byte) {
	keep := min(int64(len(b)), s.max-int64(len(s.big)))
	if s.room == nil && !s.noRoom && int64(len(s.big))+keep > roomFrom {
		if s.room = roomFor(s.max); s.room != nil {
			s.big = append(s.room, s.big...)
		}
		s.noRoom = s.room == nil
	}
	s.big = append(s.big, b[:keep]...)
	if keep < int64(len(b)) {
		s.drop(s.big, b[keep:])
	}
}

func (s *splitter) drop(kept, b []byte) {
	if s.over != nil {
		s.over(kept, b)
	}
	s.dropped += int64(len(b))
	s.tail = append(s.tail, b[max(0, len(b)-tailSize):]...)
	s.tail = bytes.Clone(s.tail[max(0, len(s.tail)-tailSize):])
}

// trimEnd cuts the terminator, "\n" or "\r\n".
func trimEnd(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
		if n > 1 && b[n-2] == '\r' {
			b = b[:n-2]
		}
	}
	return b
}
