package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// readAnswer reads an answer that comes in pieces of n bytes, and then ends.
func readAnswer(data []byte, n int) (status int, body []byte, rest int, err error) {
	var a answer
	feed := func() bool {
		if len(data) == 0 {
			return false
		}
		k := copy(a.space(), data[:min(n, len(data))])
		a.filled(k)
		data = data[k:]
		return true
	}
	var resp *http.Response
	for {
		if resp, err = a.readHead(); err == nil {
			break
		}
		if err != errMore || !feed() {
			return 0, nil, 0, err
		}
	}
	eof := false
	for {
		part, last, err := a.readBody(eof)
		body = append(body, part...)
		if last {
			return resp.StatusCode, body, len(a.unread()) + len(data), nil
		}
		if err == errMore {
			eof = !feed()
			continue
		}
		if err != nil {
			return resp.StatusCode, body, 0, err
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data string
		status     int
		body, err  string
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", ""},
		{"empty", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "", ""},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", ""},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200, "a", ""},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", ""},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\n", 200, "hello, world!!!", ""},
		{"cut length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 200, "hello", "cut off after 5 of 9 bytes"},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", 200, "hello", "cut off after 5 bytes"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 200, "", "chunk size"},
		{"bad chunk end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 200, "a", "broken"},
		{"no HTTP", "SSH-2.0-x\r\n", 0, "", "no HTTP"},
		{"bad status", "HTTP/1.1 abc\r\n\r\n", 0, "", "no HTTP"},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHead/6+10), 0, "", "headers are over"},
	} {
		for _, n := range []int{1, 3, 17, 1 << 20} {
			if n == 1 && len(c.data) > 1<<16 {
				continue
			}
			status, body, _, err := readAnswer([]byte(c.data), n)
			if status != c.status || string(body) != c.body || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s in pieces of %d: %d %q %v", c.name, n, status, body, err)
			}
		}
	}
}

func TestAnswerLongChunkLine(t *testing.T) {
	t.Parallel()
	data := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 1<<20)
	if _, _, _, err := readAnswer([]byte(data), 4096); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), uint8(1))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), uint8(3))
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, uint8(3)) })
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		status, body, _, err := readAnswer(data, int(n)+1)
		if err != nil || status < 200 || status == 304 || status == 101 {
			return
		}
		// net/http must agree with whatever was accepted.
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		for err == nil && resp.StatusCode < 200 {
			return
		}
		if err != nil {
			t.Fatalf("accepted what net/http does not: %v", err)
		}
		want, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Skip("net/http is stricter about chunk extensions and trailers:", err)
		}
		if resp.StatusCode != status || !bytes.Equal(body, want) {
			t.Fatalf("%d %q, net/http: %d %q", status, body, resp.StatusCode, want)
		}
	})
}
