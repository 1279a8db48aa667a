package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/m3-go/m3/trace"
)

// pipes returns the four ends of two operating system pipes; they are closed when the test ends.
func pipes(t *testing.T) (r, serverOut, serverIn, w *os.File) {
	t.Helper()
	r, serverOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	serverIn, w, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{r, serverOut, serverIn, w} {
			f.Close()
		}
	})
	return r, serverOut, serverIn, w
}

func TestStreamFrames(t *testing.T) {
	t.Parallel()
	r, out, in, w := pipes(t)
	l := &journal{}
	s := NewStream(r, w, l, nil)
	if err := s.Send(t.Context(), message("1", `{"id":1}`)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 9)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "{\"id\":1}\n" {
		t.Fatalf("%q %v", got, err)
	}
	io.WriteString(out, "a\r\n\n{}\nhalf")
	out.Close()
	l.wait(t, "the end", func() bool { return len(l.closed) == 1 })
	want := []struct {
		raw, body string
		offset    int64
		partial   bool
	}{{"a\r\n", "a", 0, false}, {"\n", "", 3, false}, {"{}\n", "{}", 4, false}, {"half", "half", 7, true}}
	for i, f := range l.received {
		x := want[i]
		if string(f.Raw) != x.raw || string(f.Body) != x.body || f.Offset != x.offset || f.Partial != x.partial || f.Framing != trace.FramingLine || f.Direction != trace.ServerToClient || f.Time.IsZero() {
			t.Errorf("frame %d: %+v", i, f)
		}
	}
	if len(l.received) != 4 || !errors.Is(l.closed[0], io.EOF) {
		t.Errorf("%d frames, closed %v", len(l.received), l.closed)
	}
	if f := l.sent[0]; string(f.Raw) != "{\"id\":1}\n" || string(f.Body) != `{"id":1}` || f.Direction != trace.ClientToServer || f.Message == nil {
		t.Errorf("sent %+v", f)
	}
	if st := s.Stats(); st != (Stats{BytesRead: 11, BytesHanded: 11, BytesWritten: 9}) {
		t.Errorf("%+v", st)
	}
	if err := s.Send(t.Context(), message("2", `{}`)); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("send after the end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(l.closed) != 1 {
		t.Errorf("closed %d times", len(l.closed))
	}
}

// W-A14: the server stops to read. Neither the call nor Close may wait for it.
func TestStreamDeafServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"os pipe", "net.Pipe", "no deadlines"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := &journal{}
			var s Transport
			switch kind {
			case "os pipe":
				r, _, _, w := pipes(t)
				s = NewStream(r, w, l, &StreamConfig{CloseGrace: -1})
			case "net.Pipe":
				ours, theirs := net.Pipe()
				defer theirs.Close()
				s = NewStream(ours, ours, l, nil)
			default:
				r, _ := io.Pipe()
				_, w := io.Pipe()
				s = NewStream(r, w, l, &StreamConfig{CloseGrace: -1})
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			big := message("1", strings.Repeat("x", 200<<10))
			var we *WriteError
			if err := s.Send(ctx, big); !errors.As(err, &we) || !errors.Is(err, context.DeadlineExceeded) || we.Size != 200<<10+1 {
				t.Errorf("send: %v", err)
			}
			if kind == "os pipe" && (we.Written == 0 || !we.Broken) {
				t.Errorf("%+v", we)
			}
			// A second sender must not hang either, and in the first case the stream is known to be spoilt.
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := s.Send(ctx, message("2", "{}")); err == nil {
				t.Error("the second message went out")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("it took %v", d)
			}
			if len(l.closed) != 1 || l.closed[0] != nil {
				t.Errorf("closed: %v", l.closed)
			}
		})
	}
}

// A sender that waits for its turn is bounded by its own context.
func TestStreamTurn(t *testing.T) {
	t.Parallel()
	r, _, in, w := pipes(t)
	l := &journal{}
	s := NewStream(r, w, l, &StreamConfig{CloseGrace: -1})
	defer s.Close()
	first := make(chan error, 1)
	go func() { first <- s.Send(t.Context(), message("1", strings.Repeat("x", 1<<20))) }()
	l.wait(t, "the first message", func() bool { return len(l.sent) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var we *WriteError
	if err := s.Send(ctx, message("2", "{}")); !errors.As(err, &we) || we.Written != 0 || we.Broken || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting send: %v", err)
	}
	go io.Copy(io.Discard, in)
	if err := <-first; err != nil {
		t.Errorf("the first message: %v", err)
	}
	if len(l.sent) != 1 {
		t.Errorf("%d messages recorded as sent", len(l.sent))
	}
}

func TestStreamBrokenPipe(t *testing.T) {
	t.Parallel()
	r, _, in, w := pipes(t)
	l := &journal{}
	s := NewStream(r, w, l, &StreamConfig{CloseGrace: -1})
	defer s.Close()
	in.Close()
	var we *WriteError
	if err := s.Send(t.Context(), message("1", "{}")); !errors.As(err, &we) || !we.Broken || we.Written != 0 {
		t.Errorf("send: %v", err)
	}
	if err := s.Send(t.Context(), message("2", "{}")); !errors.Is(err, ErrClosed) {
		t.Errorf("second send: %v", err)
	}
}

// Close waits for the server's last words, but not for ever.
func TestStreamClose(t *testing.T) {
	t.Parallel()
	t.Run("last words", func(t *testing.T) {
		t.Parallel()
		r, out, in, w := pipes(t)
		l := &journal{}
		s := NewStream(r, w, l, nil)
		go func() {
			io.Copy(io.Discard, in)
			io.WriteString(out, "bye\n")
			out.Close()
		}()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(l.received) != 1 || len(l.closed) != 1 || l.closed[0] != nil {
			t.Errorf("%d frames, closed %v", len(l.received), l.closed)
		}
	})
	t.Run("a reader that cannot be ended", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r, feed := io.Pipe()
			l := &journal{}
			s := NewStream(struct{ io.Reader }{r}, nopWriter{}, l, nil)
			began := time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d != time.Second {
				t.Errorf("Close took %v", d)
			}
			io.WriteString(feed, "late\n")
			feed.Close()
			synctest.Wait()
			if len(l.received) != 0 || len(l.closed) != 1 {
				t.Errorf("%d frames after Close, closed %d times", len(l.received), len(l.closed))
			}
		})
	})
}

type nopWriter struct{}

func (nopWriter) Write(b []byte) (int, error) { return len(b), nil }
func (nopWriter) Close() error                { return nil }

// A 16 MiB line (W-A10) passes whole.
func TestStreamLongLine(t *testing.T) {
	t.Parallel()
	r, out, _, w := pipes(t)
	l := &journal{}
	s := NewStream(r, w, l, &StreamConfig{CloseGrace: -1})
	defer s.Close()
	line := append(bytes.Repeat([]byte("x"), 16<<20), '\n')
	go func() {
		out.Write(line)
		io.WriteString(out, "next\n")
	}()
	l.wait(t, "both lines", func() bool { return len(l.received) == 2 })
	if !bytes.Equal(l.received[0].Raw, line) || l.received[0].Dropped != 0 || string(l.received[1].Body) != "next" {
		t.Errorf("%d bytes", len(l.received[0].Raw))
	}
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

func TestStreamNoProgress(t *testing.T) {
	t.Parallel()
	l := &journal{}
	s := NewStream(stuckReader{}, nopWriter{}, l, nil)
	defer s.Close()
	l.wait(t, "the end", func() bool { return len(l.closed) == 1 })
	if !errors.Is(l.closed[0], io.ErrNoProgress) {
		t.Error(l.closed[0])
	}
}
