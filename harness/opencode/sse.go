package opencode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/m3-go/m3/trace"
)

// maxEvent is the most that one server-sent event may have.
const maxEvent = 32 << 20

var errEventTooLarge = errors.New("an event has more than 32 MB")

// eventReader takes server-sent events apart. OpenCode sends data: lines alone.
type eventReader struct {
	r   *bufio.Reader
	raw []byte
}

// next returns one event as it came, its blank line included, and its data. Both are valid until the next call.
func (e *eventReader) next() (raw, data []byte, err error) {
	e.raw = e.raw[:0]
	for {
		start := len(e.raw)
		for {
			piece, err := e.r.ReadSlice('\n')
			if len(e.raw)+len(piece) > maxEvent {
				return nil, nil, errEventTooLarge
			}
			e.raw = append(e.raw, piece...)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, nil, eof(err, len(e.raw))
			}
		}
		line := bytes.TrimRight(e.raw[start:], "\r\n")
		if len(line) > 0 {
			continue
		}
		return e.raw, eventData(e.raw), nil
	}
}

// eof: a stream that ends in the middle of an event was cut.
func eof(err error, read int) error {
	if errors.Is(err, io.EOF) && read > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

func eventData(raw []byte) []byte {
	var data []byte
	lines := 0
	for line := range bytes.Lines(raw) {
		rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if !ok {
			continue
		}
		rest = bytes.TrimPrefix(rest, []byte(" "))
		if lines++; lines == 1 {
			data = rest
		} else {
			data = append(append(bytes.Clone(data), '\n'), rest...)
		}
	}
	return data
}

// subscribe opens the stream of events.
func (c *client) subscribe(ctx context.Context) (io.ReadCloser, error) {
	res, err := c.request(ctx, http.MethodGet, "/event", nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return nil, &statusError{http.MethodGet, "/event", res.StatusCode, b}
	}
	return res.Body, nil
}

// events hands the stream's events on until it ends.
func (c *client) events(body io.Reader, handle func(data []byte)) error {
	in := &eventReader{r: bufio.NewReaderSize(body, 64<<10)}
	for {
		raw, data, err := in.next()
		if err != nil {
			return err
		}
		c.host.Frame(trace.ServerToClient, trace.FramingSSE, raw)
		if len(data) > 0 {
			handle(data)
		}
	}
}
