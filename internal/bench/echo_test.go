package bench

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/store/spool"
	"github.com/m3-go/m3/trace"
)

const protocol = "2026-07-28"

var echoBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "m3-bench-")
	if err != nil {
		return "", err
	}
	binDir = dir
	bin := filepath.Join(dir, "echoserver")
	out, err := exec.Command("go", "build", "-o", bin, "./echoserver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

var binDir string

func TestMain(m *testing.M) {
	if os.Getenv(frameServerEnv) != "" {
		os.Exit(serveFrames())
	}
	code := m.Run()
	if binDir != "" {
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

func echoServer(b testing.TB) string {
	b.Helper()
	bin, err := echoBinary()
	if err != nil {
		b.Fatal(err)
	}
	return bin
}

// serveHTTP starts the echo server as a process of its own, so that this process's CPU is the client's.
func serveHTTP(b testing.TB) string {
	b.Helper()
	cmd := exec.Command(echoServer(b), "-http")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func sdkSession(b testing.TB, transport mcp.Transport) *mcp.ClientSession {
	b.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), transport, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != protocol {
		b.Fatalf("the SDK's client speaks %s, want %s: the two sides would not do the same work", got, protocol)
	}
	return session
}

func m3Client(b testing.TB, server m3.Server, st store.Store) (*m3.Kit, *m3.Client) {
	b.Helper()
	kit, err := m3.New(m3.Config{Store: st})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { kit.Close() })
	client, err := kit.Direct(b.Context(), server, &m3.DirectOptions{Protocol: protocol})
	if err != nil {
		b.Fatal(err)
	}
	return kit, client
}

// calls makes n calls, spread over the given number of goroutines, and counts them.
func spread(n, parallel int, call func(i int) error) error {
	if parallel == 1 {
		for i := range n {
			if err := call(i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	errs := make(chan error, parallel)
	for range parallel {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					errs <- nil
					return
				}
				if err := call(i); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	var first error
	for range parallel {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func text(i int) string { return fmt.Sprintf("message number %d", i) }

func benchEcho(b *testing.B, parallel int, server m3.Server, transport mcp.Transport, st store.Store) {
	sdk := sdkSession(b, transport)
	kit, client := m3Client(b, server, st)
	ctx := b.Context()
	made := 0
	ours := func(n int) {
		made += n
		if err := spread(n, parallel, func(i int) error { return echoM3(ctx, client, i) }); err != nil {
			b.Fatal(err)
		}
	}
	theirs := func(n int) {
		if err := spread(n, parallel, func(i int) error { return echoSDK(ctx, sdk, i) }); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, setting("M3_BENCH_CALLS", 1000), ours, theirs)
	checkComplete(b, kit, client, made)
}

func echoM3(ctx context.Context, client *m3.Client, i int) error {
	res, err := client.CallTool(ctx, "echo", m3.Args{"text": text(i)}, nil)
	if err != nil {
		return err
	}
	if res.IsError || !strings.Contains(string(res.StructuredContent), text(i)) {
		return fmt.Errorf("wrong answer: %s", res.Raw)
	}
	return nil
}

func echoSDK(ctx context.Context, session *mcp.ClientSession, i int) error {
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text(i)}})
	if err != nil {
		return err
	}
	if res.IsError || res.StructuredContent == nil {
		return fmt.Errorf("wrong answer: %v", res)
	}
	return nil
}

// checkComplete holds that nothing was lost: two frames a call and the handshake, and random frames with the digests that the view
// gives for them.
func checkComplete(b testing.TB, kit *m3.Kit, client *m3.Client, calls int) {
	b.Helper()
	if err := client.Close(); err != nil {
		b.Fatal(err)
	}
	view, err := client.View()
	if err != nil {
		b.Fatal(err)
	}
	if got := view.Completeness(); got != trace.Complete {
		b.Errorf("the trace is %s: %v", got, view.Limitations())
	}
	if got := view.ToolCalls().Len(); got != calls {
		b.Errorf("the view has %d tool calls, want %d", got, calls)
	}
	frames, handshake, lists := 0, 0, 0
	raw := view.RawMessages()
	for _, m := range raw.All() {
		switch {
		case m.Source != "mcp" || m.SizeBytes == 0 || m.Own: // its own: the tools, for the headers of 2026-07-28
		case m.Method == "tools/call" || m.Method == "":
			frames++
		case m.Method == "tools/list": // m3's own, once over HTTP: which arguments go into headers
			lists++
		default:
			handshake++
		}
	}
	// server/discover is one request (counted by its method) and one response (without one).
	if frames+handshake != 2*calls+2 || lists > 2 {
		b.Errorf("%d frames, want 2 × %d calls + 2 of the handshake; and %d of lists, want at most one", frames+handshake, calls, lists)
	}
	for range 100 {
		m := raw.At(rand.IntN(raw.Len()))
		if m.EvidenceRef == nil {
			continue
		}
		if _, err := kit.ReadRawEvidence(b.Context(), *m.EvidenceRef, 0); err != nil {
			b.Errorf("frame %d: %v", m.SequenceStart, err)
		}
	}
}

func spoolStore(b testing.TB) store.Store {
	b.Helper()
	st, err := spool.Open(b.Context(), &spool.Config{Database: filepath.Join(b.TempDir(), "bench.sqlite"), RunID: "bench", Package: "bench", Version: m3.Version})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

func stdio(b testing.TB) (m3.Server, mcp.Transport) {
	bin := echoServer(b)
	return m3.StdioServer{Name: "echo", Command: bin}, &mcp.CommandTransport{Command: exec.Command(bin)}
}

func httpPair(b testing.TB) (m3.Server, mcp.Transport) {
	url := serveHTTP(b)
	return m3.HTTPServer{Name: "echo", URL: url}, &mcp.StreamableClientTransport{Endpoint: url}
}

// BenchmarkEcho measures tools/call, m3 with full capture against the SDK's bare client on the same server and protocol.
func BenchmarkEcho(b *testing.B) {
	for _, tc := range []struct {
		name     string
		parallel int
		pair     func(testing.TB) (m3.Server, mcp.Transport)
		spool    bool
	}{
		{"stdio", 1, stdio, false},
		{"stdio-spool", 1, stdio, true},
		{"http", 1, httpPair, false},
		{"http-spool", 1, httpPair, true},
		{"stdio-64", 64, stdio, false},
		{"http-64", 64, httpPair, false},
	} {
		b.Run(tc.name, func(b *testing.B) {
			server, transport := tc.pair(b)
			var st store.Store
			if tc.spool {
				st = spoolStore(b)
			}
			benchEcho(b, tc.parallel, server, transport, st)
		})
	}
}
