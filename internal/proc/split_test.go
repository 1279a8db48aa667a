package proc

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// chunks is a reader that returns a few bytes at a time.
type chunks struct {
	b    []byte
	most int
	rnd  *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.rnd.IntN(c.most))], c.b)
	c.b = c.b[n:]
	return n, nil
}

// FuzzSplit checks that lines, however they arrive, come out whole, and the tail is the end of them.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), uint16(3), uint64(1))
	f.Add(bytes.Repeat([]byte("0123456789"), 20_000), uint16(5000), uint64(2))
	f.Add([]byte(strings.Repeat(strings.Repeat("x", 65535)+"\n", 3)), uint16(65535), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, most uint16, seed uint64) {
		var all, line []byte
		var tail tail
		ends := 0
		split(&chunks{in, int(most) + 1, rand.New(rand.NewPCG(seed, 0))}, &tail, func(b []byte, end LineEnd) {
			all, line = append(all, b...), append(line, b...)
			nl := bytes.IndexByte(b, '\n')
			switch {
			case len(b) == 0 || len(b) > maxPiece:
				t.Errorf("piece of %d bytes", len(b))
			case end == LineComplete && nl != len(b)-1, end != LineComplete && nl >= 0:
				t.Errorf("end %d, but newline at %d of %d", end, nl, len(b))
			case end == LineContinued && len(b) != maxPiece:
				t.Errorf("continued after %d bytes", len(b))
			}
			if end != LineContinued {
				ends++
			}
		})
		if !bytes.Equal(all, in) {
			t.Fatalf("%d bytes out, %d in", len(all), len(in))
		}
		if want := len(bytes.SplitAfter(in, []byte("\n"))); ends != want && ends != want-1 {
			t.Errorf("%d lines, want %d", ends, want)
		}
		if s := tail.String(); !bytes.HasSuffix(in, []byte(s)) || len(s) > tailSize || len(in) <= tailSize && len(s) != len(in) {
			t.Errorf("tail of %d bytes for %d", len(s), len(in))
		}
	})
}

func TestTail(t *testing.T) {
	t.Parallel()
	var tl tail
	tl.add([]byte(strings.Repeat("a", 100) + "\n"))
	tl.add([]byte(strings.Repeat(strings.Repeat("b", 1023)+"\n", 64)))
	if s := tl.String(); s != strings.Repeat(strings.Repeat("b", 1023)+"\n", 63) {
		t.Errorf("a cut tail starts at a line: %d bytes, %.40q", len(s), s)
	}
	tl.add(bytes.Repeat([]byte("c"), 3*tailSize))
	if s := tl.String(); s != strings.Repeat("c", tailSize) {
		t.Errorf("a line longer than the tail is cut: %d bytes", len(s))
	}
}
