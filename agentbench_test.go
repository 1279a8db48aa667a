package m3_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// instant is an agent without a process, so that what is measured is the kit.
type instant struct{ host harness.Host }

func (s instant) Send(_ context.Context, p *harness.Prompt) (*harness.Turn, error) {
	s.host.Frame(trace.ClientToServer, trace.FramingLine, []byte(`{"prompt":"x"}`+"\n"))
	s.host.Event(&harness.Message{Role: "assistant", Content: []trace.Content{{Type: "text", Text: p.Text}}})
	return &harness.Turn{Text: p.Text}, nil
}

func (s instant) Close(context.Context) error { return nil }

// BenchmarkAgentExecution is one action of an agent that costs nothing, with a server in this process: what the kit itself takes for home, workspace, relay,
// trace and their ends. cpu-ms/op is the processor time of the whole process.
func BenchmarkAgentExecution(b *testing.B) {
	k, err := m3.New(m3.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	d := &fakeDriver{open: func(_ *harness.Spec, host harness.Host) (harness.Session, error) { return instant{host}, nil }}
	a := fakeAgents(b, k, d)
	run := func() {
		if _, err := a.Run(context.Background(), "x", &m3.RunOptions{Server: m3.PipeServer{Name: "calc", Serve: servePeer}, Tools: m3.NoTools}); err != nil {
			b.Fatal(err)
		}
	}
	run() // the shim's check is once a process
	before := cpuTime()
	b.ResetTimer()
	for range b.N {
		run()
	}
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
