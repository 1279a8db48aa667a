package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness/acp"
	"github.com/m3-go/m3/harness/acp/acpagent"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// agentBinary is the scripted ACP agent, as a program of its own.
var agentBinary = sync.OnceValues(func() (string, error) {
	if _, err := echoBinary(); err != nil { // it makes the directory
		return "", err
	}
	bin := filepath.Join(binDir, "scriptedagent")
	if out, err := exec.Command("go", "build", "-o", bin, "../../examples/scriptedagent").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

func scriptedAgent(b testing.TB) string {
	b.Helper()
	bin, err := agentBinary()
	if err != nil {
		b.Fatal(err)
	}
	return bin
}

// oneTurn is what the agent does in its turn: one call, and an answer that shows what came back.
var oneTurn = &acpagent.Script{Turns: [][]acpagent.Step{{
	{Call: &acpagent.Call{Server: "echo", Tool: "echo", Arguments: json.RawMessage(`{"text":"message"}`)}},
	{Say: "It says {{result}}."},
}}}

// bareScript is what somebody without m3 would write: it starts the agent with the server's own command, speaks the four messages of ACP, and reads the answer.
type bareScript struct {
	agent, server, script string
}

func newBareScript(b testing.TB) *bareScript {
	b.Helper()
	text, err := json.Marshal(oneTurn)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "script.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return &bareScript{scriptedAgent(b), echoServer(b), path}
}

// run is one execution. It returns the agent's text.
func (s *bareScript) run(dir string) (string, error) {
	cmd := exec.Command(s.agent)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, acpagent.Variable + "=@" + s.script}
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines, said := bufio.NewReader(out), ""
	for id, ask := range []string{
		`"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}`,
		fmt.Sprintf(`"method":"session/new","params":{"cwd":%q,"mcpServers":[{"name":"echo","command":%q,"args":[],"env":[]}]}`, dir, s.server),
		`"method":"session/prompt","params":{"sessionId":"scripted-1","prompt":[{"type":"text","text":"say it"}]}`,
		`"method":"session/close","params":{"sessionId":"scripted-1"}`,
	} {
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", id, ask); err != nil {
			return "", err
		}
		text, err := readAnswer(lines, id)
		if err != nil {
			return "", err
		}
		said += text
	}
	in.Close()
	return said, cmd.Wait()
}

// readAnswer reads up to the answer to a request, and returns the text that the agent said on the way.
func readAnswer(r *bufio.Reader, id int) (said string, err error) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return "", err
		}
		var m struct {
			ID     *int
			Error  json.RawMessage
			Params struct {
				Update struct {
					SessionUpdate string
					Content       json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return "", err
		}
		switch {
		case m.Error != nil:
			return "", fmt.Errorf("request %d: %s", id, m.Error)
		case m.ID != nil && *m.ID == id:
			return said, nil
		case m.Params.Update.SessionUpdate == "agent_message_chunk":
			var c struct{ Text string }
			if err := json.Unmarshal(m.Params.Update.Content, &c); err != nil {
				return "", err
			}
			said += c.Text
		}
	}
}

// agentRuns runs the same through m3.
type agentRuns struct {
	kit    *m3.Kit
	agent  *m3.Agent
	server m3.Server
}

func newAgentRuns(b testing.TB, st store.Store) *agentRuns {
	b.Helper()
	kit, err := m3.New(m3.Config{Store: st})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { kit.Close() })
	agents, err := kit.Agents([]m3.Selection{{Harness: acp.New(acpagent.Config(scriptedAgent(b), oneTurn))}}, 1)
	if err != nil {
		b.Fatal(err)
	}
	return &agentRuns{kit: kit, agent: agents[0], server: m3.StdioServer{Name: "echo", Command: echoServer(b)}}
}

func (a *agentRuns) run(ctx context.Context) (*m3.Result, error) {
	result, err := a.agent.Run(ctx, "say it", &m3.RunOptions{Server: a.server})
	if err != nil {
		return nil, err
	}
	if !strings.Contains(result.Text(), "message") {
		return nil, fmt.Errorf("wrong answer: %q", result.Text())
	}
	return result, nil
}

// whole holds that the evidence of an execution is complete: the call on both tapes, the same, and every frame of MCP and ACP.
func whole(r *m3.Result) error {
	view := r.View()
	if view.Completeness() != trace.Complete || len(view.Limitations()) > 0 {
		return fmt.Errorf("the trace is %s: %v", view.Completeness(), view.Limitations())
	}
	calls := view.ToolCalls()
	if calls.Len() != 1 || calls.At(0).Correlation != trace.Correlated || calls.At(0).ToolStatus != trace.ToolSuccess || len(calls.At(0).Conflicts) > 0 {
		return fmt.Errorf("%d calls: %+v", calls.Len(), calls.At(0))
	}
	mcp, acp := 0, 0
	for _, ev := range r.Trace.Events() {
		switch {
		case ev.Frame == nil:
		case ev.Kind == trace.KindAgentFrame:
			acp++
		default:
			mcp++
		}
	}
	// MCP: handshake, tools/list, tools/call. ACP: four requests and answers, and what the agent tells meanwhile.
	if mcp < 6 || acp < 11 {
		return fmt.Errorf("%d frames of MCP and %d of ACP", mcp, acp)
	}
	return nil
}

// BenchmarkAgent measures recorded executions of one turn, four at a time, against a bare script that starts the same agent and the same server.
// kit-cpu is the processor time of this process alone, which is the kit's: agents, servers and shims are others.
func BenchmarkAgent(b *testing.B) {
	for _, spool := range []bool{false, true} {
		name := "memory"
		if spool {
			name = "spool"
		}
		b.Run(name, func(b *testing.B) {
			var st store.Store
			if spool {
				st = spoolStore(b)
			}
			benchAgent(b, st)
		})
	}
}

func benchAgent(b *testing.B, st store.Store) {
	const atOnce = 4
	ours, bare := newAgentRuns(b, st), newBareScript(b)
	var kept atomic.Pointer[m3.Result]
	n := setting("M3_BENCH_AGENTS", 100)
	full := func() cost {
		return measure(func() {
			err := spread(n, atOnce, func(int) error {
				r, err := ours.run(b.Context())
				kept.Store(r)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := whole(kept.Load()); err != nil {
				b.Error(err)
			}
		})
	}
	script := func() cost {
		dir := b.TempDir()
		return measure(func() {
			err := spread(n, atOnce, func(int) error {
				said, err := bare.run(dir)
				if err == nil && !strings.Contains(said, "message") {
					err = fmt.Errorf("wrong answer: %q", said)
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
	full()
	script()
	var ratio, cpu, wall, bareCPU []float64
	for range min(rounds(), 5) { // of 200 executions a side each
		x, y := full(), script()
		y, x = y.plus(script()), x.plus(full())
		ratio = append(ratio, float64(x.wall)/float64(y.wall))
		cpu = append(cpu, x.cpu.Seconds()*1e3/float64(2*n))
		bareCPU = append(bareCPU, y.cpu.Seconds()*1e3/float64(2*n))
		wall = append(wall, x.wall.Seconds()*1e3/float64(2*n))
	}
	b.ReportMetric(median(ratio), "time-ratio")
	b.ReportMetric(median(cpu), "kit-cpu-ms")
	b.ReportMetric(median(bareCPU), "script-cpu-ms")
	b.ReportMetric(median(wall), "ms/execution")
	b.ReportMetric(0, "ns/op")
}
