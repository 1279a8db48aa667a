package rpc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/rpc"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// open returns a connection over an in-memory pipe, its tape, and the server's end.
func open(t *testing.T, cfg rpc.Config) (*rpc.Conn, *evidence.Tape, *memory, net.Conn) {
	t.Helper()
	m := &memory{}
	tape := evidence.NewTape("x", m, nil, nil)
	cfg.Tape, cfg.Server, cfg.Connection = tape, "s", "c1"
	c := rpc.New(&cfg)
	ours, theirs := net.Pipe()
	c.Start(wire.NewStream(ours, ours, c, nil))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		theirs.Close()
	})
	return c, tape, m, theirs
}

func codes(tape *evidence.Tape) string {
	var out []string
	for _, f := range tape.Findings() {
		out = append(out, f.Code)
	}
	return strings.Join(out, " ")
}

// 64 callers at once get their own answers, and every byte is on the tape.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	c, tape, m, server := open(t, rpc.Config{})
	var log bytes.Buffer
	go func() {
		in := bufio.NewScanner(server)
		for in.Scan() {
			id := idOf(in.Bytes())
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"id":%s}}`+"\n", id, id)
			log.WriteString(line)
			io.WriteString(server, line)
		}
	}()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 10 {
				r, err := c.Call(t.Context(), &rpc.Request{Method: "tools/call", Params: callParams})
				if err != nil || string(r.Result) != fmt.Sprintf(`{"id":%s}`, r.ID) || r.Sent >= r.Received {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(m.raw(t), log.Bytes()) {
		t.Error("the tape does not hold the server's bytes")
	}
	if evs := m.all(t); len(evs) != 2*640 || len(tape.Findings()) != 0 {
		t.Errorf("%d events, findings %s", len(evs), codes(tape))
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
	_, err := c.Call(t.Context(), &rpc.Request{Method: "x"})
	var ce *rpc.CallError
	if !errors.As(err, &ce) || ce.Kind != rpc.KindTransport || !errors.Is(err, wire.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
}

// W-A14: a server that reads nothing fails the call by its own time; what went out is told, and the session is over.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	m := &memory{}
	tape := evidence.NewTape("x", m, nil, nil)
	c := rpc.New(&rpc.Config{Tape: tape, Server: "s", Connection: "c1"})
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inR.Close()
	defer outW.Close()
	c.Start(wire.NewStream(outR, inW, c, &wire.StreamConfig{CloseGrace: -1}))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Call(ctx, &rpc.Request{Method: "tools/call", Params: []byte(`{"x":"` + strings.Repeat("x", 200<<10) + `"}`)})
	var ce *rpc.CallError
	if !errors.As(err, &ce) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if codes(tape) != "write-failed" || !strings.Contains(tape.Findings()[0].Message, "of 204") {
		t.Errorf("findings: %v", tape.Findings())
	}
	select {
	case <-c.Done():
	case <-time.After(5 * time.Second):
		t.Error("half a message went out, and the session goes on")
	}
}

// The server's cancellation ends the context of its request; the end of the connection ends the others.
func TestIncomingIsCancelled(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 2)
	c, _, m, server := open(t, rpc.Config{Request: func(ctx context.Context, in *rpc.Incoming) {
		<-ctx.Done()
		ended <- string(in.ID) + string(in.Params)
	}})
	io.WriteString(server, `{"jsonrpc":"2.0","id":"a","method":"roots/list","params":{"n":1}}`+"\n"+`{"jsonrpc":"2.0","id":"b","method":"roots/list"}`+"\n")
	io.WriteString(server, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"x","requestId":"a"}}`+"\n")
	if got := <-ended; got != `"a"{"n":1}` {
		t.Error(got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := <-ended; got != `"b"` {
		t.Error(got)
	}
	if evs := m.all(t); evs[2].Kind != trace.KindMCPCancelRequested {
		t.Errorf("%v", evs[2].Kind)
	}
}

func TestIDInUse(t *testing.T) {
	t.Parallel()
	c, _, m, server := open(t, rpc.Config{})
	go io.Copy(io.Discard, server)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, &rpc.Request{Method: "a", ID: "7", NoCancel: true})
		first <- err
	}()
	m.until(t, "the first call", func() bool { return m.sent() == 1 })
	if _, err := c.Call(t.Context(), &rpc.Request{Method: "b", ID: "7"}); err == nil || !strings.Contains(err.Error(), "in use by a") {
		t.Error(err)
	}
	go func() { _, _ = c.Call(ctx, &rpc.Request{Method: "c", NoCancel: true}) }()
	m.until(t, "the second call", func() bool { return m.sent() == 2 })
	if id := m.all(t)[1].RPCID; id != "8" {
		t.Errorf("the next id is %s", id)
	}
	cancel()
	var ce *rpc.CallError
	if err := <-first; !errors.As(err, &ce) || ce.Kind != rpc.KindCancelled || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A context that has ended already sends nothing.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	c, _, m, _ := open(t, rpc.Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the test is over"))
	_, err := c.Call(ctx, &rpc.Request{Method: "a"})
	var ce *rpc.CallError
	if !errors.As(err, &ce) || ce.Kind != rpc.KindCancelled || !strings.Contains(err.Error(), "the test is over") || m.len() != 0 {
		t.Errorf("%v, %d events", err, m.len())
	}
}

// Cancel replaces the notification.
func TestCancelHook(t *testing.T) {
	t.Parallel()
	asked := make(chan trace.RPCID, 1)
	c, _, m, server := open(t, rpc.Config{Cancel: func(id trace.RPCID) { asked <- id }})
	go io.Copy(io.Discard, server)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, &rpc.Request{Method: "a"}); err == nil {
		t.Error("no error")
	}
	if id := <-asked; id != "1" {
		t.Error(id)
	}
	for _, ev := range m.all(t) {
		if ev.Kind == trace.KindMCPCancelRequested {
			t.Error("a notification went out as well")
		}
	}
}

// Deep nesting is a finding, and past what can be decoded it fails the call.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 1000, 20000} {
		c, tape, _, server := open(t, rpc.Config{})
		go func() {
			in := bufio.NewScanner(server)
			in.Scan()
			fmt.Fprintf(server, `{"jsonrpc":"2.0","id":1,"result":{"a":%s%s}}`+"\n", strings.Repeat("[", n), strings.Repeat("]", n))
			io.Copy(io.Discard, server)
		}()
		_, err := c.Call(t.Context(), &rpc.Request{Method: "a"})
		if (err != nil) != (n > 10000) || (codes(tape) == "deep-nesting") != (n > 512) {
			t.Errorf("%d levels: %v, findings %q", n, err, codes(tape))
		}
	}
}
