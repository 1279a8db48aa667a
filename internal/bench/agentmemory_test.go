package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/trace"
)

// The sizes of the promise about memory: a line of the agent's, and the result of a tool.
const (
	bigLine   = 6 << 20
	bigResult = 24 << 20
	mostRSS   = 200 << 20
)

// TestAgentMemoryChild is the process that is measured; it runs only when its parent asks for it.
func TestAgentMemoryChild(t *testing.T) {
	agent := os.Getenv("M3_BENCH_AGENT")
	if agent == "" {
		t.Skip("runs as the child of BenchmarkAgentMemory")
	}
	script := &acpagent.Script{Turns: [][]acpagent.Step{{
		{Say: strings.Repeat("A line of text. ", bigLine/16)},
		{Call: &acpagent.Call{Server: "frames", Tool: "frame", Hidden: os.Getenv("M3_BENCH_TELLS") == "", Arguments: json.RawMessage(fmt.Sprintf(`{"bytes":%d}`, bigResult))}},
		{Say: "That was large."},
	}}}
	kit, err := m3.New(m3.Config{Store: spoolStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Close()
	agents, err := kit.Agents([]m3.Selection{{Harness: acp.New(acpagent.Config(agent, script))}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	result, err := agents[0].Run(t.Context(), "be large", &m3.RunOptions{Server: frameServer(t)})
	if err != nil {
		t.Fatal(err)
	}
	var u syscall.Rusage // before the check, which reads everything back
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(figures{PeakRSS: u.Maxrss * 1024})
	fmt.Printf("FIGURES %s\n", b)
	if os.Getenv("M3_BENCH_TELLS") == "" {
		checkLarge(t, kit, result, trace.WireOnly, 1)
	} else {
		checkLarge(t, kit, result, trace.Correlated, 2) // from the server to the agent, and from the agent to the kit
	}
}

// checkLarge holds that everything is there, whole: the agent's line, and the result as often as it passed.
func checkLarge(t *testing.T, kit *m3.Kit, result *m3.Result, correlation trace.Correlation, results int) {
	t.Helper()
	view := result.View()
	if view.Completeness() != trace.Complete || len(view.Limitations()) > 0 {
		t.Errorf("the trace is %s: %v", view.Completeness(), view.Limitations())
	}
	calls := view.ToolCalls()
	if calls.Len() != 1 || calls.At(0).Correlation != correlation || len(calls.At(0).Conflicts) > 0 {
		t.Fatalf("%d calls: %s, %d conflicts", calls.Len(), calls.At(0).Correlation, len(calls.At(0).Conflicts))
	}
	if n := len(calls.At(0).Result.Value.Text()); n < bigResult*9/10 {
		t.Errorf("the result has %d bytes", n)
	}
	if result.Text() != "That was large." {
		t.Errorf("the answer is %.100q", result.Text())
	}
	large := map[string]int{}
	for _, m := range view.RawMessages().All() {
		if m.SizeBytes < bigLine || m.EvidenceRef == nil {
			continue
		}
		if m.SizeBytes > bigResult {
			large["result"]++
		} else {
			large["line"]++
		}
		e, err := kit.ReadRawEvidence(t.Context(), *m.EvidenceRef, m.SizeBytes)
		if err != nil || e.Truncated || int64(len(e.Bytes)) != m.SizeBytes {
			t.Errorf("a frame of %d bytes: %d read, %v", m.SizeBytes, len(e.Bytes), err)
		}
	}
	if large["result"] != results || large["line"] != 1 {
		t.Errorf("large frames %v", large)
	}
}

// BenchmarkAgentMemory measures the peak of the resident memory of a process that runs an agent which says a line of 6 MiB and gets a result of 24 MiB. In the
// second case the agent tells m3 that result in full, as well, so that it passes twice, and is compared; nothing is promised of that.
func BenchmarkAgentMemory(b *testing.B) {
	for _, tells := range []bool{false, true} {
		name, env := "result", []string{"M3_BENCH_AGENT=" + scriptedAgent(b)}
		if tells {
			name, env = "result-told", append(env, "M3_BENCH_TELLS=1")
		}
		b.Run(name, func(b *testing.B) {
			f := childOf(b, "TestAgentMemoryChild", env...)
			b.ReportMetric(float64(f.PeakRSS)/1e6, "peak-MB")
			b.ReportMetric(0, "ns/op")
			if f.PeakRSS > mostRSS && !tells {
				b.Errorf("the process had %d MB at its peak, promised are 200", f.PeakRSS/1e6)
			}
		})
	}
}
