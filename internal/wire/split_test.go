package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/wiretest"
)

// cut feeds data in pieces of n bytes to a splitter and returns its frames.
func cut(data []byte, n, buffer int, max int64) []Frame {
	s := newSplitter(max, buffer)
	var out []Frame
	take := func(f *Frame) {
		c := *f
		c.Raw, c.Body, c.Tail = bytes.Clone(f.Raw), bytes.Clone(f.Body), bytes.Clone(f.Tail)
		out = append(out, c)
	}
	var f Frame
	for len(data) > 0 {
		k := copy(s.space(), data[:min(n, len(data))])
		s.filled(k)
		data = data[k:]
		for s.next(&f) {
			take(&f)
		}
	}
	if s.rest(&f) {
		take(&f)
	}
	return out
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		name, data string
		max        int64
		want       []string // "offset body+dropped" with p for partial
	}{
		{"nothing", "", 0, nil},
		{"lines", "a\nbc\n", 0, []string{"0 a+0", "2 bc+0"}},
		{"blank and crlf", "\n\r\na\r\n\r", 0, []string{"0 +0", "1 +0", "3 a+0", "6 \r+0p"}},
		{"lone cr and U+2028 end nothing", "a\rb\u2028c\n", 0, []string{"0 a\rb\u2028c+0"}},
		{"partial", "a\nb", 0, []string{"0 a+0", "2 b+0p"}},
		{"longer than the buffer", long + "\n" + long + "y\nz\n", 0, []string{"0 " + long + "+0", "101 " + long + "y+0", "203 z+0"}},
		{"over the cap", long + "\nb\n" + long, 40, []string{"0 " + long[:40] + "+61", "101 b+0", "103 " + long[:40] + "+60p"}},
		{"over the cap, in the buffer", "12345\n6\n", 3, []string{"0 123+3", "6 6+0"}},
	} {
		for n := 1; n < 130; n += 7 {
			var got []string
			for _, f := range cut([]byte(c.data), n, 16, c.max) {
				s := fmt.Sprintf("%d %s+%d", f.Offset, f.Body, f.Dropped)
				if f.Partial {
					s += "p"
				}
				got = append(got, s)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s in pieces of %d: %q, want %q", c.name, n, got, c.want)
			}
		}
	}
}

func TestSplitterTail(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("a", 5000) + `"id":7}` + "\n"
	for _, buffer := range []int{16, 1000, 1 << 16} {
		fs := cut([]byte(data), 700, buffer, 10)
		if len(fs) != 1 || len(fs[0].Tail) != tailSize || !bytes.HasSuffix([]byte(data), fs[0].Tail) {
			t.Errorf("buffer %d: %d frames, tail %q", buffer, len(fs), fs[0].Tail)
		}
	}
}

func TestSplitterGivesBigBuffersBack(t *testing.T) {
	t.Parallel()
	s := newSplitter(0, 1<<10)
	var f Frame
	line := append(bytes.Repeat([]byte("x"), 4<<20), '\n')
	for len(line) > 0 {
		n := copy(s.space(), line)
		s.filled(n)
		line = line[n:]
	}
	if !s.next(&f) || len(f.Raw) != 4<<20+1 {
		t.Fatalf("%d bytes", len(f.Raw))
	}
	s.space()
	if s.big != nil {
		t.Errorf("%d bytes kept", cap(s.big))
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\n\r\nbc"), uint8(1), uint8(3), uint8(16))
	f.Add(bytes.Repeat([]byte("ab\n"), 40), uint8(7), uint8(0), uint8(5))
	wiretest.Seed(f, func(sent []byte) { f.Add(sent, uint8(7), uint8(0), uint8(16)) })
	f.Fuzz(func(t *testing.T, data []byte, n, max, buffer uint8) {
		var all, want [][]byte
		for _, fr := range cut(data, int(n)+1, int(buffer)+1, int64(max)) {
			if max > 0 && len(fr.Raw) > int(max) {
				t.Fatalf("%d bytes over the cap of %d", len(fr.Raw), max)
			}
			line := data[fr.Offset:]
			line = line[:len(fr.Raw)+int(fr.Dropped)]
			if !bytes.HasPrefix(line, fr.Raw) || !bytes.HasSuffix(line, fr.Tail) {
				t.Fatalf("frame %q at %d is not %q", fr.Raw, fr.Offset, line)
			}
			all = append(all, line)
		}
		for _, l := range bytes.SplitAfter(data, []byte{'\n'}) {
			if len(l) > 0 {
				want = append(want, l)
			}
		}
		if fmt.Sprintf("%q", all) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q, want %q", all, want)
		}
	})
}

// Large frames have room of their own, which is given back as soon as the frame is; what stands before and after them is whole.
func TestLargeFrames(t *testing.T) {
	t.Parallel()
	var stream, want []byte
	var sizes []int
	for i, n := range []int{10, roomFrom - 1, roomFrom + 1, 10, 3 << 20, 5 << 20, 1, keepBuffer, keepBuffer + 1, 2 << 20} {
		line := append(bytes.Repeat([]byte{byte('a' + i)}, n), '\n')
		stream, sizes = append(stream, line...), append(sizes, n+1)
	}
	last := bytes.Repeat([]byte("z"), 2<<20) // without a terminator
	stream = append(stream, last...)
	s := newSplitter(4<<20, readBuffer)
	var f Frame
	frames, dropped := 0, int64(0)
	take := func() {
		want = append(want, f.Raw...)
		if f.Dropped > 0 {
			dropped += f.Dropped
			want = append(want, bytes.Repeat(f.Raw[:1], int(f.Dropped)-1)...)
			want = append(want, '\n')
		} else if !f.Partial && len(f.Raw) != sizes[frames] {
			t.Errorf("frame %d has %d bytes, want %d", frames, len(f.Raw), sizes[frames])
		}
		frames++
	}
	for rest := stream; len(rest) > 0; {
		space := s.space()
		if s.room != nil && len(s.big) == 0 {
			t.Error("room is kept without a frame")
		}
		n := copy(space, rest)
		rest = rest[n:]
		s.filled(n)
		for s.next(&f) {
			take()
		}
	}
	if !s.rest(&f) || !f.Partial || len(f.Raw) != len(last) {
		t.Errorf("the rest has %d bytes", len(f.Raw))
	}
	take()
	s.release()
	if s.room != nil || s.big != nil {
		t.Error("room is kept after the end")
	}
	if frames != len(sizes)+1 || dropped != 1<<20+1 || !bytes.Equal(want, stream) {
		t.Errorf("%d frames, %d bytes dropped, %d bytes of %d", frames, dropped, len(want), len(stream))
	}
}
