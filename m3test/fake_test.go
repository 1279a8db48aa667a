package m3test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
)

// fakeT is a test that m3test does not know from a real one.
type fakeT struct {
	name     string
	ctx      context.Context
	deadline time.Time
	dir      string

	mu       sync.Mutex
	cleanups []func()
	failed   bool
	skipped  bool
	messages []string
	attrs    []string
	out      bytes.Buffer
	over     bool // the test has ended: nothing may be written any more
}

func (f *fakeT) Helper()                     {}
func (f *fakeT) Name() string                { return f.name }
func (f *fakeT) Context() context.Context    { return f.ctx }
func (f *fakeT) ArtifactDir() string         { return f.dir }
func (f *fakeT) Output() io.Writer           { return fakeOutput{f} }
func (f *fakeT) Deadline() (time.Time, bool) { return f.deadline, !f.deadline.IsZero() }

type fakeOutput struct{ f *fakeT }

func (o fakeOutput) Write(b []byte) (int, error) {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	if o.f.over {
		panic("output after the test")
	}
	return o.f.out.Write(b)
}

func (f *fakeT) Cleanup(c func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, c)
}

func (f *fakeT) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fakeT) Skipped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.skipped
}

func (f *fakeT) FailNow() {
	f.mu.Lock()
	f.failed = true
	f.mu.Unlock()
	runtime.Goexit()
}

func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	f.FailNow()
}

func (f *fakeT) Skipf(format string, args ...any) {
	f.mu.Lock()
	f.skipped = true
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
	f.mu.Unlock()
	runtime.Goexit()
}

func (f *fakeT) Attr(key, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attrs = append(f.attrs, key+" "+value)
}

// run runs body as a test: to its end, or to what ends it, and then its clean-ups.
func run(t *testing.T, name string, body func(f *fakeT)) *fakeT {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &fakeT{name: name, ctx: ctx, dir: t.TempDir()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cancel()
			for len(f.cleanups) > 0 {
				last := f.cleanups[len(f.cleanups)-1]
				f.cleanups = f.cleanups[:len(f.cleanups)-1]
				last()
			}
		}()
		body(f)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("the fake test %s does not end", name)
	}
	f.over = true
	return f
}

// fixture answers initialize and every call but that of the tool hang, and says something on its way.
func fixture() m3.PipeServer {
	return m3.PipeServer{Name: "fixture", Serve: func(_ context.Context, stream io.ReadWriteCloser) error {
		lines := bufio.NewScanner(stream)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Name string }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				return err
			}
			answer := `"error":{"code":-32601,"message":"no such method"}`
			switch {
			case m.ID == nil || m.Params.Name == "hang":
				continue
			case m.Method == "initialize":
				answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fixture","version":"1"}}`
			case m.Method == "tools/call":
				answer = `"result":{"content":[{"type":"text","text":"ok"}]}`
			}
			if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
				return err
			}
		}
		return lines.Err()
	}}
}

// says reports whether one of the test's messages contains all the parts.
func (f *fakeT) says(parts ...string) bool {
	return slices.ContainsFunc(f.messages, func(m string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(m, p) })
	})
}
