package wire

import (
	"bytes"
	"strconv"
	"time"
)

// event is one block of an event stream: all bytes up to and including its blank line.
type event struct {
	raw     []byte // blank lines before it and comments included
	data    []byte // its data lines, joined with 0x0A; nil when it has none
	name    string // its event field; empty is message
	id      string
	hasID   bool
	retry   time.Duration // 0: none
	dropped int64
	tail    []byte
	partial bool // the stream ended before the blank line
}

// sseParser cuts an event stream into blocks. Lines end with LF, CRLF or a lone CR (WHATWG HTML, 9.2.5). Its zero value with a max is ready.
type sseParser struct {
	max     int64
	buf     []byte // a block that did not come in one piece
	dropped int64
	tail    []byte

	inLine  bool // the current line has bytes
	content bool // the current block has a line that is not blank
	afterCR bool // the last byte ended a line and was CR: an LF now belongs to it
	begun   bool // the stream's first block was seen: a byte order mark may only stand before that

	joined []byte
	ev     event

	over func(kept, more []byte) // is told of what is dropped; may be nil
}

// feed takes the next bytes and calls fn with each block that they complete. The block is valid during the call.
func (p *sseParser) feed(b []byte, fn func(*event)) {
	lf := -1 // the next LF at or after i, -1 when it must be looked up, len(b) when there is none
	from := 0
	for i := 0; i < len(b); {
		if p.afterCR {
			p.afterCR = false
			if b[i] == '\n' {
				i++
				continue
			}
		}
		if lf < i {
			lf = indexFrom(b, i, '\n')
		}
		end := i + indexFrom(b[i:lf], 0, '\r')
		if end > i {
			p.inLine, p.content = true, true
		}
		if end == len(b) {
			break
		}
		p.afterCR = b[end] == '\r'
		if i = end + 1; p.afterCR && i < len(b) && b[i] == '\n' {
			p.afterCR = false
			i++
		}
		blank := !p.inLine
		p.inLine = false
		if blank && p.content {
			p.block(b[from:i], false, fn)
			from = i
		}
	}
	p.keep(b[from:])
}

// indexFrom returns the position of c in b at or after i, len(b) when there is none.
func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}

// end calls fn with what is left when the stream is over, if anything is.
func (p *sseParser) end(fn func(*event)) {
	if len(p.buf) > 0 || p.dropped > 0 {
		p.block(nil, p.content, fn) // blank lines alone are no half event
	}
}

// keep adds b to the block in hand, up to the cap.
func (p *sseParser) keep(b []byte) {
	n := max(0, min(int64(len(b)), p.max-int64(len(p.buf))))
	p.buf = append(p.buf, b[:n]...)
	if over := b[n:]; len(over) > 0 {
		if p.over != nil {
			p.over(p.buf, over)
		}
		p.dropped += int64(len(over))
		p.tail = append(p.tail, over[max(0, len(over)-tailSize):]...)
		p.tail = bytes.Clone(p.tail[max(0, len(p.tail)-tailSize):])
	}
}

// block finishes the block in hand with b as its last bytes.
func (p *sseParser) block(b []byte, partial bool, fn func(*event)) {
	if len(p.buf) > 0 || int64(len(b)) > p.max {
		p.keep(b)
		b = p.buf
	}
	p.ev = event{raw: b, dropped: p.dropped, tail: p.tail, partial: partial}
	p.fields(b)
	fn(&p.ev)
	p.dropped, p.tail, p.content, p.inLine = 0, nil, false, false
	if p.buf = p.buf[:0]; cap(p.buf) > keepBuffer {
		p.buf = nil
	}
	if p.joined = p.joined[:0]; cap(p.joined) > keepBuffer {
		p.joined = nil
	}
}

// fields reads the lines of a block.
func (p *sseParser) fields(b []byte) {
	if !p.begun {
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		p.begun = true
	}
	lines, lf := 0, -1
	for i := 0; i < len(b); {
		if lf < i {
			lf = indexFrom(b, i, '\n')
		}
		end := i + indexFrom(b[i:lf], 0, '\r')
		if name, value, ok := field(b[i:end]); ok {
			if string(name) == "data" {
				p.data(value, lines)
				lines++
			} else {
				p.ev.set(name, value)
			}
		}
		i = end + 1 // the LF of a CRLF makes one more line, which is blank
	}
}

// data adds a data line to the event; n lines came before it.
func (p *sseParser) data(value []byte, n int) {
	switch n {
	case 0:
		p.ev.data = value
		return
	case 1:
		p.joined = append(p.joined[:0], p.ev.data...)
	}
	p.joined = append(append(p.joined, '\n'), value...)
	p.ev.data = p.joined
}

// field splits a line. A blank line and a comment have none.
func field(line []byte) (name, value []byte, ok bool) {
	if len(line) == 0 || line[0] == ':' {
		return nil, nil, false
	}
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return line, line[len(line):], true
	}
	value = line[i+1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return line[:i], value, true
}

func (e *event) set(name, value []byte) {
	switch string(name) {
	case "event":
		e.name = ""
		if string(value) != "message" {
			e.name = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id, e.hasID = string(value), true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
}
