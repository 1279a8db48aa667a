package relay_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/internal/relay"
	"github.com/m3-go/m3/trace"
)

const (
	askInit  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"7"}}}`
	sayInit  = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"calc","version":"1.2"}}}`
	askList  = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	sayList  = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","inputSchema":{}}, {"name":"drop","inputSchema":{}},{"name":"sub","inputSchema":{}}],"nextCursor":"p2"}}`
	askAdd   = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}`
	sayAdd   = `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"1"}]}}`
	askDrop  = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"drop","arguments":{}}}`
	sayDrop  = `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"Unknown tool: drop"}}`
	initDone = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// TestStreamBytes: whatever passes, both sides get exactly the bytes, and the tape has them.
func TestStreamBytes(t *testing.T) {
	t.Parallel()
	big := `{"jsonrpc":"2.0","id":9,"result":{"x":"` + strings.Repeat("é", 8<<20) + `"}}` + "\n"
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	for name, text := range map[string]string{
		"message":          askInit + "\n",
		"CRLF":             askInit + "\r\n" + initDone + "\r\n",
		"blank lines":      "\n\n" + initDone + "\n \n",
		"no JSON":          "hello\n{broken\n",
		"no line end":      initDone + "\n{\"jsonrpc\":\"2.0\",\"id\":4",
		"last without":     initDone,
		"invalid UTF-8":    "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}\n",
		"lone CR, U+2028":  "{\"a\":\r1}\n{\"a\":\"\u2028\"}\n",
		"NUL":              "\x00\x00\n",
		"batch":            "[" + initDone + "," + askList + "]\n",
		"duplicate keys":   `{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}` + "\n",
		"deep":             strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "\n",
		"16 MiB":           big,
		"noise":            string(noise),
		"nothing":          "",
		"many":             strings.Repeat(initDone+"\n", 500),
		"id of every type": `{"jsonrpc":"2.0","id":null,"method":"a"}` + "\n" + `{"jsonrpc":"2.0","id":[1],"method":"a"}` + "\n" + `{"jsonrpc":"2.0","id":1e400,"method":"a"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, relay.Config{})
			w := r.stream(t.Context())
			var group sync.WaitGroup
			got := map[*net.UnixConn][]byte{}
			var mu sync.Mutex
			for _, c := range []*net.UnixConn{w.agent, w.server} {
				group.Go(func() { io.WriteString(c, text); c.CloseWrite() })
				group.Go(func() {
					b, _ := io.ReadAll(c)
					mu.Lock()
					got[c] = b
					mu.Unlock()
				})
			}
			group.Wait()
			if err := w.wait(t); err != nil {
				t.Error(err)
			}
			for side, c := range map[string]*net.UnixConn{"agent": w.agent, "server": w.server} {
				// The server's end may cut what the agent still says off, never the other way.
				if b := got[c]; string(b) != text && (side == "agent" || !strings.HasPrefix(text, string(b))) {
					t.Errorf("the %s got %d bytes, want %d", side, len(b), len(text))
				}
			}
			events := r.events()
			if b := bytesOf(events, trace.ServerToClient); string(b) != text {
				t.Errorf("%d bytes of the server were recorded, want %d", len(b), len(text))
			}
			checkKept(t, events)
		})
	}
}

// checkKept: every byte that was read is on the tape.
func checkKept(t *testing.T, events []trace.Event) {
	t.Helper()
	last := of(events, trace.KindTransportDisconnected)
	if len(last) != 1 {
		t.Fatalf("%d disconnections were recorded", len(last))
	}
	frames := int64(0)
	for _, ev := range events {
		if ev.Frame != nil && ev.Kind != trace.KindMCPFiltered {
			frames += int64(len(ev.Frame.Bytes))
		}
	}
	var p struct {
		Read int64 `json:"bytes_read"`
		Kept int64 `json:"bytes_kept"`
	}
	decode(t, last[0].Payload, &p)
	if p.Read != p.Kept || p.Kept != frames {
		t.Errorf("%d bytes read, %d kept, %d in frames", p.Read, p.Kept, frames)
	}
}

// TestStreamEvents: the frames of a session are the events that a direct client leaves.
func TestStreamEvents(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	turn := trace.TurnID("t1")
	var seen []relay.Frame
	r := newRig(t, relay.Config{
		Scope: func() (trace.SessionID, trace.TurnID) { mu.Lock(); defer mu.Unlock(); return "s1", turn },
		Observe: func(f *relay.Frame) {
			g := *f
			g.Body = bytes.Clone(f.Body)
			seen = append(seen, g)
		},
	})
	w := r.stream(t.Context())
	exchange := func(ask, answer string) {
		say(t, w.agent, ask)
		if got := hear(t, w.server); got != ask {
			t.Errorf("the server got %s", got)
		}
		if answer == "" {
			return
		}
		say(t, w.server, answer)
		if got := hear(t, w.agent); got != answer {
			t.Errorf("the agent got %s", got)
		}
	}
	exchange(askInit, sayInit)
	exchange(initDone, "")
	select {
	case <-r.Listed():
		t.Error("listed before it was")
	default:
	}
	exchange(askList, sayList)
	<-r.Listed()
	say(t, w.agent, askAdd)
	hear(t, w.server)
	mu.Lock()
	turn = "t2"
	mu.Unlock()
	say(t, w.server, `{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{}}`)
	hear(t, w.agent)
	exchange(`{"jsonrpc":"2.0","id":"e","result":{"action":"cancel"}}`, sayAdd)
	w.agent.Close()
	if _, err := w.server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the agent's end came as %v", err)
	}
	w.server.Close()
	if err := w.wait(t); err != nil {
		t.Error(err)
	}

	events := r.events()
	var got []string
	for _, ev := range events {
		line := string(ev.Kind)
		if ev.Frame != nil {
			line += " " + string(ev.Frame.Direction) + " " + ev.Method + " " + string(ev.RPCID) + " " + string(ev.TurnID) + " " + string(ev.Phase)
		}
		got = append(got, line)
		if ev.Server != "calc" || ev.ConnectionID != "calc-1" {
			t.Errorf("%s is of %s %s", ev.Kind, ev.Server, ev.ConnectionID)
		}
	}
	want := []string{
		"transport.connected",
		"mcp.request client_to_server initialize 1 t1 initialization",
		"mcp.response server_to_client  1 t1 initialization",
		"mcp.initialized",
		"mcp.notification client_to_server notifications/initialized  t1 initialization",
		"mcp.request client_to_server tools/list 2 t1 mcp_call",
		"mcp.response server_to_client  2 t1 mcp_call",
		"mcp.request client_to_server tools/call 3 t1 mcp_call",
		`mcp.request server_to_client elicitation/create "e" t2 mcp_call`,
		`mcp.response client_to_server  "e" t2 mcp_call`,
		"mcp.response server_to_client  3 t1 mcp_call",
		"transport.disconnected",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	checkKept(t, events)
	if len(seen) != 9 || seen[8].Method != "tools/call" || string(seen[8].Body) != sayAdd || seen[8].Sequence != events[10].Sequence || seen[8].ID != "3" {
		t.Errorf("observed: %+v", seen)
	}
	conn := r.Connections()[0]
	if conn.Protocol != "2025-06-18" || conn.Client != "agent" || conn.ClientVersion != "7" || conn.Calls != 1 || conn.Denied != 0 || conn.Initialized.IsZero() || conn.Listed.IsZero() || conn.Closed.IsZero() {
		t.Errorf("connection: %+v", conn)
	}
	if !conn.Opened.Before(conn.Initialized) || !conn.Initialized.Before(conn.Listed) || !conn.Listed.Before(conn.Closed) {
		t.Errorf("the times of %+v are not in order", conn)
	}
}

// TestStreamOverCap: a frame over the cap passes whole; its beginning is kept, and the rest counted.
func TestStreamOverCap(t *testing.T) {
	t.Parallel()
	for _, size := range []int{99, 100, 101, 1000, 100_000, 5_000_000} {
		r := newRig(t, relay.Config{MaxFrame: 100})
		w := r.stream(t.Context())
		text := strings.Repeat("a", size-1) + "\n" + initDone + "\n"
		go func() { io.WriteString(w.agent, text); w.agent.CloseWrite() }()
		got, err := io.ReadAll(w.server)
		w.server.Close()
		if err != nil || string(got) != text {
			t.Errorf("%d: the server got %d bytes of %d, %v", size, len(got), len(text), err)
		}
		if err := w.wait(t); err != nil {
			t.Error(err)
		}
		first := of(r.events(), trace.KindMCPMalformed)[0]
		if kept := int64(min(size, 100)); int64(len(first.Frame.Bytes)) != kept || first.Frame.Dropped != int64(size)-kept {
			t.Errorf("%d: kept %d, dropped %d", size, len(first.Frame.Bytes), first.Frame.Dropped)
		}
	}
}

// TestStreamEnds: each way for a stream to end ends both sides.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	ends := func(t *testing.T, c net.Conn) {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("the other side did not end: %v", err)
		}
	}
	t.Run("half-closed agent still gets answers", func(t *testing.T) {
		t.Parallel()
		w := newRig(t, relay.Config{}).stream(t.Context())
		say(t, w.agent, askAdd)
		w.agent.CloseWrite()
		hear(t, w.server)
		ends(t, w.server)
		time.Sleep(2 * 500 * time.Millisecond) // longer than the last words of a server whose agent is gone
		say(t, w.server, sayAdd)
		if got := hear(t, w.agent); got != sayAdd {
			t.Errorf("got %s", got)
		}
		w.server.Close()
		ends(t, w.agent)
		if err := w.wait(t); err != nil {
			t.Error(err)
		}
	})
	t.Run("server dies", func(t *testing.T) {
		t.Parallel()
		w := newRig(t, relay.Config{}).stream(t.Context())
		w.server.Close()
		ends(t, w.agent)
		if err := w.wait(t); err != nil {
			t.Error(err)
		}
	})
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		w := newRig(t, relay.Config{}).stream(ctx)
		cancel()
		ends(t, w.agent)
		ends(t, w.server)
		if err := w.wait(t); err != context.Canceled {
			t.Errorf("got %v", err)
		}
	})
	t.Run("relay closes while nobody reads", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, relay.Config{})
		w := r.stream(t.Context())
		go io.Copy(w.agent, strings.NewReader(strings.Repeat(initDone+"\n", 100_000)))
		go io.Copy(w.server, strings.NewReader(strings.Repeat(initDone+"\n", 100_000)))
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		w.wait(t)
		if err := r.Stream(t.Context(), w.agent, w.server); err != relay.ErrClosed {
			t.Errorf("a closed relay: %v", err)
		}
	})
	t.Run("server without half-close", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, relay.Config{})
		agent, a := pair(t)
		server, s := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- r.Stream(t.Context(), a, s) }()
		go func() { io.WriteString(agent, askAdd+"\n"); agent.CloseWrite() }()
		hear(t, server)
		say(t, server, sayAdd)
		if got := hear(t, agent); got != sayAdd {
			t.Errorf("got %s", got)
		}
		ends(t, server)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
