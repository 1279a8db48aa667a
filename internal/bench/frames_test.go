package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// frameServerEnv makes this test binary the server of the frames.
const frameServerEnv = "M3_BENCH_FRAME_SERVER"

// serveFrames answers each call with a frame of as many bytes as it asks for, made at the first call of that size.
func serveFrames() int {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriterSize(os.Stdout, 1<<20)
	made := map[int]string{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0 // the client is closed
		}
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ Bytes int } }
		}
		if err := json.Unmarshal(line, &req); err != nil {
			return 1
		}
		if req.ID == nil {
			continue
		}
		result := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"frames","version":"1"}}`
		if n := req.Params.Arguments.Bytes; req.Method == "tools/call" {
			if made[n] == "" {
				made[n] = `{"content":[{"type":"text","text":"` + strings.Repeat(frameText, n/len(frameText)) + `"}]}`
			}
			result = made[n]
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
		if out.Flush() != nil {
			return 0
		}
	}
}

// frameText is what a frame is full of: text with the odd escape, as results have it.
const frameText = `A line of text as a tool may say it, with \"quotes\", a tab\t and an end.\n`

func frameServer(tb testing.TB) m3.Server {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return m3.StdioServer{Name: "frames", Command: exe, Env: map[string]string{frameServerEnv: "1"}}
}

func frameClient(tb testing.TB, st store.Store) (*m3.Kit, *m3.Client) {
	tb.Helper()
	kit, err := m3.New(m3.Config{Store: st})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { kit.Close() })
	client, err := kit.Direct(tb.Context(), frameServer(tb), &m3.DirectOptions{Protocol: "2025-11-25"})
	if err != nil {
		tb.Fatal(err)
	}
	return kit, client
}

func callFrame(tb testing.TB, client *m3.Client, bytes int) {
	tb.Helper()
	res, err := client.CallTool(tb.Context(), "frame", m3.Args{"bytes": bytes}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if n := len(res.Raw); n < bytes*95/100 || n > bytes+1000 {
		tb.Fatalf("a result of %d bytes, want about %d", n, bytes)
	}
}

// frameSizes are those of the promise, in MiB.
var frameSizes = []int{1, 4, 16}

// BenchmarkFrames measures calls whose answers are frames of 1, 4 and 16 MiB, recorded into a spool: what a MiB costs in the large ones, compared with the
// small ones of the same run. That ratio is 1 when time grows linearly.
func BenchmarkFrames(b *testing.B) {
	kit, client := frameClient(b, spoolStore(b))
	calls := 0
	block := func(mib int) cost {
		return measure(func() {
			for range 16 / mib { // the same number of bytes
				callFrame(b, client, mib<<20)
				calls++
			}
		})
	}
	for _, mib := range frameSizes {
		block(mib)
	}
	wall, cpu := map[int][]float64{}, map[int][]float64{}
	for range rounds() {
		first := block(1)
		for _, mib := range frameSizes[1:] {
			c := block(mib)
			wall[mib] = append(wall[mib], float64(c.wall)/float64(first.wall))
			cpu[mib] = append(cpu[mib], float64(c.cpu)/float64(first.cpu))
		}
		wall[1] = append(wall[1], float64(first.wall.Microseconds())/16)
		cpu[1] = append(cpu[1], float64(first.cpu.Microseconds())/16)
	}
	for _, mib := range frameSizes[1:] {
		b.ReportMetric(median(wall[mib]), fmt.Sprintf("time-ratio-%dMiB", mib))
		b.ReportMetric(median(cpu[mib]), fmt.Sprintf("cpu-ratio-%dMiB", mib))
	}
	b.ReportMetric(median(wall[1]), "µs/MiB")
	b.ReportMetric(median(cpu[1]), "cpu-µs/MiB")
	b.ReportMetric(0, "ns/op")
	checkFrames(b, kit, client, calls)
}

// checkFrames holds that nothing was lost: every answer is in the trace, whole, and can be read back with its digest.
func checkFrames(tb testing.TB, kit *m3.Kit, client *m3.Client, calls int) {
	tb.Helper()
	if err := client.Close(); err != nil {
		tb.Fatal(err)
	}
	view, err := client.View()
	if err != nil {
		tb.Fatal(err)
	}
	if view.ToolCalls().Len() != calls || view.Completeness() != trace.Complete {
		tb.Errorf("%d calls in a %s trace, want %d in a complete one", view.ToolCalls().Len(), view.Completeness(), calls)
	}
	large := 0
	for _, m := range view.RawMessages().All() {
		if m.SizeBytes < 900<<10 || m.EvidenceRef == nil {
			continue
		}
		large++
		ev, err := kit.ReadRawEvidence(tb.Context(), *m.EvidenceRef, m.SizeBytes)
		if err != nil || int64(len(ev.Bytes)) != m.SizeBytes || ev.Truncated {
			tb.Errorf("frame of %d bytes: %d read, %v", m.SizeBytes, len(ev.Bytes), err)
		}
	}
	if large != calls {
		tb.Errorf("%d large frames, want %d", large, calls)
	}
}

// BenchmarkFrameMemory measures by how much the resident memory of a process grows at most while it makes one call whose answer is a frame of 1, 4 or
// 16 MiB, as a multiple of the frame: the result that the caller gets is in it.
func BenchmarkFrameMemory(b *testing.B) {
	if _, err := os.Stat("/proc/self/clear_refs"); err != nil {
		b.Skip("only Linux tells the peak of a part of a process's life")
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, mib := range frameSizes {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			var times []float64
			for range min(rounds(), 5) {
				cmd := exec.Command(exe, "-test.run=^TestFrameMemoryChild$", "-test.v")
				cmd.Env = append(os.Environ(), fmt.Sprintf("M3_BENCH_FRAME_MIB=%d", mib))
				out, err := cmd.CombinedOutput()
				_, rest, found := strings.Cut(string(out), "GREW ")
				if err != nil || !found {
					b.Fatalf("%v\n%s", err, out)
				}
				grew, err := strconv.Atoi(strings.Fields(rest)[0])
				if err != nil {
					b.Fatal(err)
				}
				times = append(times, float64(grew)/float64(mib<<20))
			}
			b.ReportMetric(median(times), "×frame")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestFrameMemoryChild is the process that is measured; it runs only when its parent asks for it.
func TestFrameMemoryChild(t *testing.T) {
	mib, err := strconv.Atoi(os.Getenv("M3_BENCH_FRAME_MIB"))
	if err != nil {
		t.Skip("runs as the child of BenchmarkFrameMemory")
	}
	kit, client := frameClient(t, spoolStore(t))
	callFrame(t, client, 100<<10) // what is there once, is there
	runtime.GC()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		t.Fatal(err)
	}
	before := statusKB(t, "VmRSS:")
	res, err := client.CallTool(t.Context(), "frame", m3.Args{"bytes": mib << 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("GREW %d\n", (statusKB(t, "VmHWM:")-before)<<10)
	runtime.KeepAlive(res)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if view, err := client.View(); err != nil || view.Completeness() != trace.Complete {
		t.Errorf("%s, %v", view.Completeness(), err)
	}
	_ = kit
}

// statusKB is a line of the process's status, in KiB.
func statusKB(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), name)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
