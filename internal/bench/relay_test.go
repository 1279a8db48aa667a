package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/proc"
	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

// chain is a client's way to the echo server: straight, through a shim and two io.Copy in this process, or through a shim and the relay.
type chain struct {
	in     io.WriteCloser
	out    *bufio.Reader
	end    func()
	relay  *relay.Relay
	tape   *evidence.Tape
	events func() []trace.Event
	calls  int
}

// duplex is a server's two pipes as one stream.
type duplex struct{ *proc.Process }

func (d duplex) Read(b []byte) (int, error)  { return d.Stdout().Read(b) }
func (d duplex) Write(b []byte) (int, error) { return d.Stdin().Write(b) }
func (d duplex) CloseWrite() error           { return d.Stdin().Close() }
func (d duplex) Close() error                { d.End(nil); return nil }

func startEcho(b *testing.B) *proc.Process {
	b.Helper()
	p, err := proc.Start(b.Context(), &proc.Spec{Path: echoServer(b), Env: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.End(nil) })
	return p
}

func straight(b *testing.B) *chain {
	p := startEcho(b)
	return &chain{in: p.Stdin(), out: bufio.NewReader(p.Stdout()), end: func() { p.End(nil) }}
}

// shimmed starts a shim as an agent does, and has join connect it to a server.
func shimmed(b *testing.B, join func(a *relay.Agent, server duplex)) *chain {
	b.Helper()
	l, err := relay.Listen("", "")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = l.Env()
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	a, _, err := l.Accept(ctx)
	if err != nil {
		b.Fatal(err)
	}
	server := duplex{startEcho(b)}
	done := make(chan struct{})
	go func() { defer close(done); join(a, server); a.Close() }()
	end := func() { in.Close(); <-done; server.Close(); cmd.Wait() }
	return &chain{in: in, out: bufio.NewReader(out), end: end}
}

func copied(b *testing.B) *chain {
	return shimmed(b, func(a *relay.Agent, server duplex) {
		up := make(chan struct{})
		go func() { io.Copy(server.Stdin(), a.UnixConn); server.Stdin().Close(); close(up) }()
		io.Copy(a.UnixConn, server.Stdout())
		a.CloseWrite()
		<-up
	})
}

func relayed(b *testing.B, spool bool) *chain {
	b.Helper()
	sink := &countingSink{}
	var s evidence.Sink = sink
	if spool {
		f, err := os.CreateTemp(b.TempDir(), "events")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		sink.file = f
	}
	tape := evidence.NewTape("bench", s, nil, nil)
	r := relay.New(&relay.Config{Tape: tape, Server: "echo", Allow: func(tool string) bool { return tool == "echo" }})
	c := shimmed(b, func(a *relay.Agent, server duplex) {
		if err := r.Stream(b.Context(), a, server); err != nil {
			b.Error(err)
		}
	})
	c.relay, c.tape = r, tape
	c.events = func() []trace.Event { return sink.events(b) }
	return c
}

// countingSink keeps encoded events, and writes each of them to a file where it has one, as the spool does.
type countingSink struct {
	list [][]byte
	file *os.File
}

func (s *countingSink) AppendEvent(_ int64, _ trace.Kind, body []byte) error {
	s.list = append(s.list, slices.Clone(body))
	if s.file == nil {
		return nil
	}
	_, err := s.file.Write(body)
	return err
}

func (s *countingSink) PutBlob(string, []byte) error { return nil }

func (s *countingSink) events(b *testing.B) (out []trace.Event) {
	for _, body := range s.list {
		ev, err := trace.DecodeEvent("bench", body)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

const benchHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n"

// ask makes one exchange of lines and returns the time that it took.
func (c *chain) ask(b *testing.B, line string) time.Duration {
	start := time.Now()
	if _, err := io.WriteString(c.in, line); err != nil {
		b.Fatal(err)
	}
	answer, err := c.out.ReadSlice('\n')
	took := time.Since(start)
	if err != nil || len(answer) < 40 {
		b.Fatalf("%s: %q, %v", line, answer, err)
	}
	return took
}

func (c *chain) open(b *testing.B) *chain {
	c.ask(b, benchHello)
	io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	c.block(b, 200)
	return c
}

// block makes n calls, and returns their median.
func (c *chain) block(b *testing.B, n int) float64 {
	took := make([]float64, n)
	for i := range took {
		c.calls++
		took[i] = float64(c.ask(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"message number %d"}}}`+"\n", c.calls, i)))
	}
	return median(took)
}

// BenchmarkRelay measures what a shim and the relay, recording and restricting, add to a call over stdio, against what a bare chain of io.Copy through the
// same processes adds.
func BenchmarkRelay(b *testing.B) {
	for _, spool := range []bool{false, true} {
		name := "memory"
		if spool {
			name = "file"
		}
		b.Run(name, func(b *testing.B) {
			calls := setting("M3_BENCH_CALLS", 1000)
			direct, bare, full := straight(b).open(b), copied(b).open(b), relayed(b, spool).open(b)
			var ratio, extra, added []float64
			for range rounds() {
				d, c, r := direct.block(b, calls), bare.block(b, calls), full.block(b, calls)
				r2, c2, d2 := full.block(b, calls), bare.block(b, calls), direct.block(b, calls)
				d, c, r = (d+d2)/2, (c+c2)/2, (r+r2)/2
				ratio = append(ratio, (r-d)/(c-d))
				added = append(added, (r-d)/1e3)
				extra = append(extra, (c-d)/1e3)
			}
			b.ReportMetric(median(ratio), "added-ratio")
			b.ReportMetric(median(added), "µs-added")
			b.ReportMetric(median(extra), "µs-bare")
			b.ReportMetric(0, "ns/op")
			direct.end()
			bare.end()
			full.end()
			full.checkRelayed(b)
		})
	}
}

// checkRelayed holds that the relay recorded every frame: two a call, three of the handshake.
func (c *chain) checkRelayed(b *testing.B) {
	b.Helper()
	if err := c.relay.Close(); err != nil {
		b.Fatal(err)
	}
	n := map[trace.Kind]int{}
	for _, ev := range c.events() {
		n[ev.Kind]++
	}
	if n[trace.KindMCPRequest] != c.calls+1 || n[trace.KindMCPResponse] != c.calls+1 || n[trace.KindMCPNotification] != 1 || c.relay.Lost() != 0 || c.tape.Err() != nil {
		b.Errorf("recorded %v for %d calls, %d lost, %v", n, c.calls, c.relay.Lost(), c.tape.Err())
	}
}
