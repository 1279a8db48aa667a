package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// TestMain fails when a test leaves a goroutine or a socket behind.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines were left behind:\n"+left)
		code = 1
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "m3-*")); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "sockets were left behind:", left)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func leaked() (left string) {
	for range 100 {
		left = ""
		buf := make([]byte, 1<<20)
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "/internal/relay.") {
				left += g + "\n\n"
			}
		}
		if left == "" {
			break
		}
		time.Sleep(20 * time.Millisecond) // what has just been closed needs a moment to end
	}
	return left
}

// sink is a tape's memory. It can stand still, and be full.
type sink struct {
	mu     sync.Mutex
	events [][]byte
	blobs  map[string][]byte
	gate   chan struct{} // not nil: appending waits until it is closed
	full   bool
}

func (s *sink) AppendEvent(_ int64, _ trace.Kind, body []byte) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return fmt.Errorf("write: no space left on device")
	}
	s.events = append(s.events, bytes.Clone(body))
	return nil
}

func (s *sink) PutBlob(sha string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return fmt.Errorf("write: no space left on device")
	}
	if s.blobs == nil {
		s.blobs = map[string][]byte{}
	}
	s.blobs[sha] = bytes.Clone(data)
	return nil
}

// rig is a relay with its tape.
type rig struct {
	*relay.Relay
	t    *testing.T
	sink *sink
	tape *evidence.Tape
}

func newRig(t *testing.T, cfg relay.Config) *rig {
	t.Helper()
	s := &sink{}
	tape := evidence.NewTape("x1", s, nil, nil)
	cfg.Tape, cfg.Server = tape, "calc"
	r := &rig{relay.New(&cfg), t, s, tape}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// only allows these tools.
func only(tools ...string) func(string) bool {
	return func(tool string) bool {
		for _, ok := range tools {
			if ok == tool {
				return true
			}
		}
		return false
	}
}

// events returns what is recorded, with the bytes of the frames.
func (r *rig) events() []trace.Event {
	r.t.Helper()
	if err := r.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	var out []trace.Event
	for _, b := range r.sink.events {
		ev, err := trace.DecodeEvent("x1", b)
		if err != nil {
			r.t.Fatal(err)
		}
		if ev.Frame != nil && ev.Frame.OutOfLine {
			ev.Frame.Bytes = r.sink.blobs[ev.Frame.SHA256]
		}
		out = append(out, ev)
	}
	return out
}

// of returns the events of some kinds.
func of(events []trace.Event, kinds ...trace.Kind) (out []trace.Event) {
	for _, ev := range events {
		for _, k := range kinds {
			if ev.Kind == k {
				out = append(out, ev)
			}
		}
	}
	return out
}

// bytesOf joins the frames of one direction, as far as they were received.
func bytesOf(events []trace.Event, dir trace.Direction) []byte {
	var b []byte
	for _, ev := range events {
		if ev.Frame != nil && ev.Frame.Direction == dir && ev.Kind != trace.KindMCPFiltered {
			b = append(b, ev.Frame.Bytes...)
		}
	}
	return b
}

// pair returns the two ends of a stream with half-close and deadlines, as a shim's socket has.
func pair(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.UnixConn), s.(*net.UnixConn)
}

// wired is a relayed connection: what the agent and the server hold of it.
type wired struct {
	agent, server *net.UnixConn
	err           chan error
}

func (r *rig) stream(ctx context.Context) *wired {
	r.t.Helper()
	agent, a := pair(r.t)
	server, s := pair(r.t)
	w := &wired{agent, server, make(chan error, 1)}
	go func() { w.err <- r.Stream(ctx, a, s); a.Close(); s.Close() }()
	return w
}

// wait returns how the stream ended.
func (w *wired) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.err:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the stream did not end")
		return nil
	}
}

// say writes, and reads a line from the other end.
func say(t *testing.T, from io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(from, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear reads one line.
func hear(t *testing.T, from net.Conn) string {
	t.Helper()
	from.SetReadDeadline(time.Now().Add(30 * time.Second))
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := from.Read(b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// silent fails when the other side has anything to say before it closes; the caller has closed its own side.
func silent(t *testing.T, from io.Reader) {
	t.Helper()
	if b, err := io.ReadAll(from); err != nil || len(b) > 0 {
		t.Errorf("there came %q, %v", b, err)
	}
}
