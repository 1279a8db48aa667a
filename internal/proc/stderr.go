package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	minPiece = 4 << 10
	maxPiece = 64 << 10 // the longest piece of a line that is handed over
	tailSize = 64 << 10
)

// LineEnd says how a piece of stderr ends.
type LineEnd uint8

// The ways in which a piece of stderr ends.
const (
	LineComplete  LineEnd = iota // with its newline, which is part of the bytes
	LineContinued                // after 64 KiB: the line goes on in the next piece
	LineCut                      // where stderr ended, without a newline
)

// drain reads stderr until it ends or is given up, and closes drained.
func (p *Process) drain(line func([]byte, LineEnd)) {
	defer close(p.drained)
	if line == nil {
		line = func([]byte, LineEnd) {}
	}
	split(&p.stderr, &p.tail, line)
}

// drainPipe reads a pipe whose other end may be held by somebody who never closes it.
type drainPipe struct {
	file   *os.File
	caught chan struct{} // closed when catchUp was obeyed
	last   atomic.Bool   // giveUp was called
	held   atomic.Bool   // and was needed: the other end was open, and nothing more in the pipe

	once  sync.Once // for caught
	hurry int       // bytes that are still to be read without waiting
}

// pipeBytes is the most that a pipe holds on any system with its defaults; Linux lets a process have 1 MiB.
const pipeBytes = 1 << 20

// catchUp makes the reader take what is in the pipe at this moment, however little of the processor it gets, and then
// close caught.
func (d *drainPipe) catchUp() { d.file.SetReadDeadline(time.Unix(1, 0)) }

// giveUp does the same, and then ends the reading.
func (d *drainPipe) giveUp() {
	d.last.Store(true)
	d.catchUp()
}

// Read reads as a file does, but obeys catchUp and giveUp, of which it learns by the deadline.
func (d *drainPipe) Read(b []byte) (int, error) {
	for {
		if d.hurry > 0 {
			n, err := d.readNow(b)
			d.hurry -= n
			if err != syscall.EAGAIN {
				return n, err
			}
			d.hurry = 0
			d.once.Do(func() { close(d.caught) })
			if d.last.Load() {
				d.held.Store(true)
				return 0, io.EOF
			}
		}
		n, err := d.file.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		d.file.SetReadDeadline(time.Time{})
		d.hurry = pipeBytes
	}
}

// readNow reads what is there, or returns EAGAIN.
func (d *drainPipe) readNow(b []byte) (n int, err error) {
	conn, err := d.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	for {
		outer := conn.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), b)
			return true
		})
		switch {
		case errors.Is(outer, os.ErrDeadlineExceeded): // told once more
			d.file.SetReadDeadline(time.Time{})
		case outer != nil:
			return 0, outer
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// split reads r to its end, or to an error, and hands on line after line. It reads as fast as line returns.
func split(r io.Reader, t *tail, line func([]byte, LineEnd)) {
	buf := make([]byte, minPiece)
	held := 0 // bytes of the last, unfinished line, at the start of buf
	for {
		n, err := r.Read(buf[held:])
		t.add(buf[held : held+n])
		rest := lines(buf[:held+n], held, line)
		held = copy(buf, rest)
		switch {
		case err != nil:
			if held > 0 {
				line(buf[:held], LineCut)
			}
			return
		case held == maxPiece:
			line(buf, LineContinued)
			held = 0
		case held == len(buf) || n == len(buf) && n < maxPiece:
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// lines hands on the complete lines of b and returns the rest. The first seen bytes are known to have no newline.
func lines(b []byte, seen int, line func([]byte, LineEnd)) []byte {
	for {
		n := bytes.IndexByte(b[seen:], '\n')
		if n < 0 {
			return b
		}
		line(b[:seen+n+1], LineComplete)
		b, seen = b[seen+n+1:], 0
	}
}

// tail keeps the end of a stream. The zero value is empty and ready.
type tail struct {
	mu  sync.Mutex
	b   []byte // up to twice tailSize, so that most additions only append
	cut bool   // something was left out before b
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailSize {
		t.b = t.b[:copy(t.b, t.b[len(t.b)-tailSize:])]
		t.cut = true
	}
}

// String returns at most tailSize bytes. It starts at a line when the beginning is missing, so that no half of a secret
// stands there which redaction would not know; only a single longer line is cut in its middle.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, cut := t.b, t.cut
	if len(b) > tailSize {
		b, cut = b[len(b)-tailSize:], true
	}
	if n := bytes.IndexByte(b, '\n'); cut && n >= 0 && n+1 < len(b) {
		b = b[n+1:]
	}
	return string(b)
}
