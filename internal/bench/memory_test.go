package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"context"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// figures is what a child process reports of itself.
type figures struct {
	PeakRSS   int64 // bytes
	LiveStart uint64
	LiveEarly uint64 // after the first quarter of the calls
	LiveEnd   uint64
	Calls     int
}

// echoPipe answers tools/call by hand, so that the memory measured is m3's and not a server's in the same process.
func echoPipe(_ context.Context, stream io.ReadWriteCloser) error {
	dec := json.NewDecoder(stream)
	for {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if err := dec.Decode(&req); err != nil {
			return nil // the stream ended: the client is closed
		}
		if req.ID == nil {
			continue
		}
		result := `{"resultType":"complete","ttlMs":0,"cacheScope":"public","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		if req.Method == "tools/call" {
			result = fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"ok"}],"structuredContent":%s}`, req.Params.Arguments)
		}
		if _, err := fmt.Fprintf(stream, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result); err != nil {
			return nil
		}
	}
}

// TestMemoryChild is the process that is measured; it runs only when its parent asks for it.
func TestMemoryChild(t *testing.T) {
	mode := os.Getenv("M3_BENCH_MEMORY")
	if mode == "" {
		t.Skip("runs as the child of BenchmarkMemory")
	}
	calls := setting("M3_BENCH_MEMORY_CALLS", 100_000)
	var st store.Store
	if mode == "spool" {
		st = spoolStore(t)
	}
	kit, client := m3Client(t, m3.PipeServer{Name: "echo", Serve: echoPipe}, st)
	f := figures{Calls: calls, LiveStart: live()}
	for i := range calls {
		if err := echoM3(t.Context(), client, i); err != nil {
			t.Fatal(err)
		}
		if i == calls/4-1 {
			f.LiveEarly = live()
		}
	}
	f.LiveEnd = live()
	checkMemoryView(t, kit, client, calls)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	f.PeakRSS = u.Maxrss * 1024
	b, _ := json.Marshal(f)
	fmt.Printf("FIGURES %s\n", b)
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func checkMemoryView(t *testing.T, kit *m3.Kit, client *m3.Client, calls int) {
	t.Helper()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	view, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	if view.ToolCalls().Len() != calls || view.Completeness() != trace.Complete {
		t.Fatalf("%d calls in a %s trace, want %d in a complete one", view.ToolCalls().Len(), view.Completeness(), calls)
	}
	raw := view.RawMessages()
	for range 100 {
		m := raw.At(rand.IntN(raw.Len()))
		if m.EvidenceRef == nil {
			continue
		}
		if _, err := kit.ReadRawEvidence(t.Context(), *m.EvidenceRef, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func child(b *testing.B, mode string, calls int) figures {
	b.Helper()
	return childOf(b, "TestMemoryChild", "M3_BENCH_MEMORY="+mode, fmt.Sprintf("M3_BENCH_MEMORY_CALLS=%d", calls))
}

// childOf runs one test of this binary in a process of its own, and returns what it reports.
func childOf(b *testing.B, test string, env ...string) figures {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, rest, found := strings.Cut(line, "FIGURES "); found {
			var f figures
			if err := json.Unmarshal([]byte(rest), &f); err != nil {
				b.Fatal(err)
			}
			return f
		}
	}
	b.Fatalf("the child reported no figures:\n%s", out)
	return figures{}
}

// BenchmarkMemory measures a process that makes 100,000 calls, and what a call adds to the live heap under the spool.
func BenchmarkMemory(b *testing.B) {
	calls := setting("M3_BENCH_MEMORY_CALLS", 100_000)
	for _, mode := range []string{"spool", "memory"} {
		b.Run(mode, func(b *testing.B) {
			f := child(b, mode, calls)
			b.ReportMetric(float64(f.PeakRSS)/1e6, "peak-MB")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("growth-spool", func(b *testing.B) {
		f := child(b, "spool", 2*calls)
		b.ReportMetric((float64(f.LiveEnd)-float64(f.LiveEarly))/float64(f.Calls-f.Calls/4), "B/call")
		b.ReportMetric(0, "ns/op")
	})
}
