package m3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

// A session with 100,000 findings keeps the first thousand and counts the rest; its calls go on, and every answer to nothing is in the trace.
func TestHundredThousandFindings(t *testing.T) {
	t.Parallel()
	const answers = 100_000
	server := m3.PipeServer{Name: "inventive", Serve: func(_ context.Context, s io.ReadWriteCloser) error {
		p := silent()
		p.handle = func(p *peer, m *message) bool {
			if m.Method == "tools/call" {
				var b bytes.Buffer
				for i := range answers {
					fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":"never-%d","result":{}}`+"\n", i)
				}
				p.say("%s", bytes.TrimSuffix(b.Bytes(), []byte("\n")))
			}
			return false
		}
		return p.serve(s, s)
	}}
	kit := newKit(t, m3.Config{})
	client := connect(t, kit, server, old())
	if _, err := client.CallTool(t.Context(), "echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(client.Findings()); n != 1000 {
		t.Errorf("%d findings are kept while the session lives", n)
	}
	view := finish(t, client)
	found := client.Findings()
	if len(found) != 1001 || view.Findings().Len() != 1001 {
		t.Fatalf("%d findings, %d in the view", len(found), view.Findings().Len())
	}
	if last := found[1000]; last.Code != "findings-truncated" || !strings.HasPrefix(last.Message, fmt.Sprint(answers-1000)+" more findings") {
		t.Errorf("the last finding is %+v", last)
	}
	if n := bytes.Count(rawOf(t, kit, client), []byte(`"id":"never-`)); n != answers || view.Completeness() != trace.Complete {
		t.Errorf("%d answers to nothing in a %s trace", n, view.Completeness())
	}
}

// rawOf is every byte of the server's in the stored trace.
func rawOf(t *testing.T, kit *m3.Kit, client *m3.Client) (raw []byte) {
	t.Helper()
	tr, err := kit.Store().Trace(context.Background(), client.ExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range tr.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Frame != nil && ev.Frame.Direction == trace.ServerToClient {
			raw = append(raw, ev.Frame.Bytes...)
		}
	}
	return raw
}

// floodVariable makes this test binary a server that never stops to write to stderr.
const floodVariable = "M3_ROOT_FLOOD"

// serveFlood answers a call with the number of bytes that it has got rid of.
func serveFlood() {
	var wrote atomic.Int64
	go func() {
		block := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 600)
		for {
			n, err := os.Stderr.Write(block)
			if wrote.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	p := silent()
	p.handle = func(p *peer, m *message) bool {
		if m.Method == "tools/call" {
			p.result(m, `{"content":[{"type":"text","text":"%d"}]}`, wrote.Load())
		}
		return m.Method == "tools/call"
	}
	_ = p.serve(os.Stdin, os.Stdout)
}

// A server that floods stderr at full speed, for the whole of its life, costs its calls nothing but time: they are answered, the trace keeps a bounded part and
// counts the rest.
func TestStderrFloodAtFullSpeed(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kit := newKit(t, m3.Config{})
	client := connect(t, kit, m3.StdioServer{Name: "flood", Command: exe, Env: map[string]string{floodVariable: "1"}}, old())
	const most = 16 << 20 // bytes that are kept
	for wrote := 0; wrote < 3*most; {
		res, err := client.CallTool(t.Context(), "echo", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if wrote, err = strconv.Atoi(res.Text()); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
	view, err := client.View()
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, m := range view.RawMessages().All() {
		if m.Source == "process_stderr" {
			kept += int(m.SizeBytes)
		}
	}
	floods := 0
	for _, f := range client.Findings() {
		if f.Code == "stderr-flood" {
			floods++
		}
	}
	if floods != 1 || kept == 0 || kept > most {
		t.Errorf("%d findings, %d bytes of stderr are kept", floods, kept)
	}
}
