package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const (
	httpBuffer    = 32 << 10
	maxHead       = 256 << 10
	maxChunkLine  = 4 << 10
	maxTrailer    = 64 << 10
	unknownLength = -1
)

// errMore says that bytes must be read before there is anything to return.
var errMore = errors.New("wire: more bytes needed")

// answer reads one HTTP/1.1 answer from bytes that are pushed into it. Unlike the readers of net/http it can be left in the middle, when
// a deadline ends a read, and taken up again, and it gives the body out without copying it.
type answer struct {
	buf        []byte
	start, end int

	head     *bufio.Reader // used again for each head
	bytes    bytes.Reader
	searched int // of the unread bytes, for the end of the head

	left  int64 // of the body, or of the chunk; unknownLength: to the end of the connection
	chunk chunkState
	total int64 // bytes of the body so far
}

type chunkState uint8

const (
	notChunked chunkState = iota
	chunkSize
	chunkData
	chunkEnd
	chunkTrailer
	chunkDone
)

// space returns where to read to.
func (a *answer) space() []byte {
	switch {
	case a.buf == nil:
		a.buf = make([]byte, httpBuffer)
	case a.start == a.end:
		a.start, a.end = 0, 0
		if len(a.buf) > httpBuffer {
			a.buf = make([]byte, httpBuffer)
		}
	case a.end == len(a.buf) && a.start > 0:
		a.end = copy(a.buf, a.buf[a.start:a.end])
		a.start = 0
	case a.end == len(a.buf):
		a.buf = append(a.buf, make([]byte, len(a.buf))...)
	}
	return a.buf[a.end:]
}

func (a *answer) filled(n int)   { a.end += n }
func (a *answer) unread() []byte { return a.buf[a.start:a.end] }

// readHead returns the head of the answer, or errMore. The response has no body to read from.
func (a *answer) readHead() (*http.Response, error) {
	b := a.unread()
	from := max(0, a.searched-3)
	n := headLength(b[from:])
	a.searched = len(b)
	if n < 0 {
		if len(b) > maxHead {
			return nil, fmt.Errorf("the answer's HTTP headers are over %d bytes", maxHead)
		}
		if len(b) >= 5 && !bytes.HasPrefix(b, []byte("HTTP/")) {
			return nil, errNotHTTP
		}
		return nil, errMore
	}
	n += from
	a.searched = 0
	a.bytes.Reset(b[:n])
	if a.head == nil {
		a.head = bufio.NewReaderSize(&a.bytes, 1<<10)
	} else {
		a.head.Reset(&a.bytes)
	}
	resp, err := http.ReadResponse(a.head, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotHTTP, err)
	}
	a.start += n
	if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		return a.readHead() // 100 Continue, 103 Early Hints
	}
	a.total = 0
	a.chunk, a.left = notChunked, resp.ContentLength
	switch {
	case len(resp.TransferEncoding) > 0:
		a.chunk = chunkSize
	case resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified:
		a.left = 0
	}
	return resp, nil
}

var errNotHTTP = errors.New("the answer is no HTTP")

// headLength returns the length of the head at the start of b, its blank line included, or -1.
func headLength(b []byte) int {
	n := -1
	if i := bytes.Index(b, []byte("\n\r\n")); i >= 0 {
		n = i + 3
		b = b[:i+1]
	}
	if i := bytes.Index(b, []byte("\n\n")); i >= 0 {
		n = i + 2
	}
	return n
}

// readBody returns the next part of the body, and whether it is the last. The part is valid until space is called. It returns errMore when
// there is nothing yet. atEOF says that the connection has ended.
func (a *answer) readBody(atEOF bool) (part []byte, last bool, err error) {
	switch {
	case a.chunk != notChunked:
		part, last, err = a.readChunk()
	case a.left == 0:
		return nil, true, nil
	default:
		part = a.unread()
		if a.left != unknownLength {
			part = part[:min(int64(len(part)), a.left)]
			a.left -= int64(len(part))
			last = a.left == 0
		} else {
			last = atEOF
		}
		a.start += len(part)
		if len(part) == 0 && !last {
			err = errMore
		}
	}
	a.total += int64(len(part))
	if err == errMore && atEOF {
		err = a.cut()
	}
	return part, last, err
}

// cut is the error of a body that ended before its end.
func (a *answer) cut() error {
	if a.chunk != notChunked {
		return fmt.Errorf("the body was cut off after %d bytes, before its last chunk: %w", a.total, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the body was cut off after %d of %d bytes: %w", a.total, a.total+a.left, io.ErrUnexpectedEOF)
}

// progress tells how far the body is, for an error.
func (a *answer) progress() string {
	if a.chunk == notChunked && a.left >= 0 {
		return fmt.Sprintf("%d of %d bytes of the body", a.total, a.total+a.left)
	}
	return fmt.Sprintf("%d bytes of the body", a.total)
}

// readChunk returns the next part of a chunked body. Parts end where chunks end.
func (a *answer) readChunk() ([]byte, bool, error) {
	for {
		switch a.chunk {
		case chunkSize:
			line, err := a.line(maxChunkLine)
			if err != nil {
				return nil, false, err
			}
			if a.left, err = parseChunkSize(line); err != nil {
				return nil, false, err
			}
			a.chunk = chunkData
			if a.left == 0 {
				a.chunk = chunkTrailer
			}
		case chunkData:
			part := a.unread()
			part = part[:min(int64(len(part)), a.left)]
			if len(part) == 0 {
				return nil, false, errMore
			}
			a.start += len(part)
			if a.left -= int64(len(part)); a.left > 0 {
				return part, false, nil
			}
			a.chunk = chunkEnd
			return part, a.skipEnd(), nil
		case chunkEnd:
			line, err := a.line(2)
			if err != nil {
				return nil, false, err
			}
			if len(line) > 0 {
				return nil, false, fmt.Errorf("the body's chunks are broken: %q after a chunk", line)
			}
			a.chunk = chunkSize
		case chunkTrailer:
			line, err := a.line(maxTrailer)
			if err != nil {
				return nil, false, err
			}
			if len(line) == 0 {
				a.chunk = chunkDone
			}
		default:
			return nil, true, nil
		}
	}
}

// skipEnd reports whether the chunk just read is followed by the end of the body, where that is in the buffer already: then the last part
// can be known as the last.
func (a *answer) skipEnd() bool {
	end := []byte("\r\n0\r\n\r\n")
	if !bytes.HasPrefix(a.unread(), end) {
		return false
	}
	a.start += len(end)
	a.chunk = chunkDone
	return true
}

// line returns the next line without its end.
func (a *answer) line(max int) ([]byte, error) {
	b := a.unread()
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(b) > max {
			return nil, fmt.Errorf("the body's chunks are broken: a line of more than %d bytes", max)
		}
		return nil, errMore
	}
	a.start += i + 1
	return bytes.TrimSuffix(b[:i], []byte("\r")), nil
}

func parseChunkSize(line []byte) (int64, error) {
	size, _, _ := strings.Cut(string(line), ";")
	size = strings.TrimSpace(size)
	n, err := strconv.ParseUint(size, 16, 63)
	if err != nil || len(size) > 16 {
		return 0, fmt.Errorf("the body's chunks are broken: chunk size %.40q", line)
	}
	return int64(n), nil
}
