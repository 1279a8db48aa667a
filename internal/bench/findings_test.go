package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// inventive answers each call, after as many answers to nothing as the call asks for.
func inventive(_ context.Context, stream io.ReadWriteCloser) error {
	in, out := bufio.NewReader(stream), bufio.NewWriterSize(stream, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the client is closed
		}
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ Findings int } }
		}
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if req.ID == nil {
			continue
		}
		for i := range req.Params.Arguments.Findings {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"never-%d","result":{}}`+"\n", i)
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"inventive","version":"1"},"content":[]}}`+"\n", req.ID)
		if out.Flush() != nil {
			return nil
		}
	}
}

// BenchmarkFindings measures a session with 100,000 findings, recorded into a spool, against one with 1,000, which are all kept: what one costs that is only counted,
// and by how much the live heap has grown in the end.
func BenchmarkFindings(b *testing.B) {
	const most = 100_000
	var each, grew []float64
	for range min(rounds(), 5) {
		small := session(b, 1000)
		large := session(b, most)
		each = append(each, float64(large.cost.wall.Microseconds())/most/(float64(small.cost.wall.Microseconds())/1000))
		grew = append(grew, float64(large.grew)-float64(small.grew))
	}
	b.ReportMetric(median(each), "time-ratio")
	b.ReportMetric(median(grew)/most, "B/finding")
	b.ReportMetric(0, "ns/op")
}

type found struct {
	cost cost
	grew uint64
}

func session(b *testing.B, findings int) found {
	b.Helper()
	kit, err := m3.New(m3.Config{Store: spoolStore(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer kit.Close()
	client, err := kit.Direct(b.Context(), m3.PipeServer{Name: "inventive", Serve: inventive}, &m3.DirectOptions{Protocol: "2025-11-25"})
	if err != nil {
		b.Fatal(err)
	}
	before := live()
	var f found
	f.cost = measure(func() {
		if _, err := client.CallTool(b.Context(), "invent", m3.Args{"findings": findings}, nil); err != nil {
			b.Fatal(err)
		}
	})
	f.grew = max(live(), before) - before
	if err := client.Close(); err != nil {
		b.Fatal(err)
	}
	checkFindings(b, client, findings)
	return f
}

// checkFindings holds that the kept findings are there, the others are counted, and every frame is in the trace.
func checkFindings(b *testing.B, client *m3.Client, findings int) {
	b.Helper()
	view, err := client.View()
	if err != nil {
		b.Fatal(err)
	}
	want, counted := min(findings, 1000), 0
	for _, f := range client.Findings() {
		if f.Code == "findings-truncated" {
			if _, err := fmt.Sscan(f.Message, &counted); err != nil {
				b.Error(err)
			}
		}
	}
	if kept := view.Findings().Len(); kept-min(counted, 1) != want || want+counted != findings {
		b.Errorf("%d findings are kept and %d counted, of %d", kept, counted, findings)
	}
	if n := view.RawMessages().Len(); n < findings || view.Completeness() != trace.Complete {
		b.Errorf("%d frames in a %s trace, want more than %d", n, view.Completeness(), findings)
	}
}
