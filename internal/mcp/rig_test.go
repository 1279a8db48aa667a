package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3/internal/evidence"
	"github.com/m3-go/m3/internal/wire"
	"github.com/m3-go/m3/trace"
)

// rig records what happens and starts servers in this process.
type rig struct {
	t    *testing.T
	tape *evidence.Tape

	mu     sync.Mutex
	events []trace.Event
	dials  int
	left   sync.WaitGroup // servers that run
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	r.tape = evidence.NewTape("x", r, evidence.NewRedactor(nil), nil)
	t.Cleanup(r.left.Wait)
	return r
}

// AppendEvent keeps an event.
func (r *rig) AppendEvent(_ int64, _ trace.Kind, body []byte) error {
	ev, err := trace.DecodeEvent("x", body)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
	return nil
}

// PutBlob is not needed: these tests look at small frames.
func (r *rig) PutBlob(string, []byte) error { return nil }

func (r *rig) all() []trace.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// message is a JSON-RPC message on the tape.
type message struct {
	ID, Params, Result, Error json.RawMessage
	Method                    string
	received                  bool
	raw                       []byte
	event                     trace.Event
}

func (r *rig) messages() []message {
	var list []message
	for _, ev := range r.all() {
		if ev.Frame == nil {
			continue
		}
		var m message
		if json.Unmarshal(body(ev.Frame), &m) != nil {
			continue
		}
		m.received, m.raw, m.event = ev.Frame.Direction == trace.ServerToClient, body(ev.Frame), ev
		list = append(list, m)
	}
	return list
}

func body(f *trace.Frame) []byte {
	if f.Framing != trace.FramingSSE {
		return f.Bytes
	}
	var b []byte
	for line := range bytes.Lines(f.Bytes) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			b = append(b, data...)
		}
	}
	return b
}

// sent lists the methods that m3 sent, in order.
func (r *rig) sent() []string {
	var list []string
	for _, m := range r.messages() {
		if !m.received && m.Method != "" {
			list = append(list, m.Method)
		}
	}
	return list
}

func (r *rig) codes() []string {
	var list []string
	for _, f := range r.tape.Findings() {
		list = append(list, f.Code)
	}
	return list
}

// finding returns the one finding with the code.
func (r *rig) finding(code string) trace.Finding {
	r.t.Helper()
	var found []trace.Finding
	for _, f := range r.tape.Findings() {
		if f.Code == code {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%d findings %s, want one; there are %v", len(found), code, r.codes())
	}
	return found[0]
}

func (r *rig) noFindings() {
	r.t.Helper()
	if f := r.tape.Findings(); len(f) > 0 {
		r.t.Errorf("findings about a server that did nothing wrong: %+v", f)
	}
}

// server is the far side of a pipe. It ends when in does.
type server func(in io.Reader, out io.WriteCloser)

// config returns a Config whose connections are pipes to the servers, in turn; the last one serves all that follow.
func (r *rig) config(servers ...server) *Config {
	return &Config{Tape: r.tape, Server: "s", ClientName: "test", ClientVersion: "1", Dial: func(_ context.Context, h wire.Handler) (trace.ConnectionID, wire.Transport, error) {
		r.mu.Lock()
		serve := servers[min(r.dials, len(servers)-1)]
		r.dials++
		id := trace.ConnectionID("c" + strconv.Itoa(r.dials))
		r.mu.Unlock()
		toServer, fromClient := net.Pipe()
		toClient, fromServer := net.Pipe()
		r.left.Add(1)
		go func() {
			defer r.left.Done()
			serve(toServer, fromServer)
			_ = fromServer.Close()
			_ = toServer.Close() // a write to a server that is gone fails
		}()
		return id, wire.NewStream(toClient, fromClient, h, nil), nil
	}}
}

func (r *rig) dialed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials
}

// connect opens a session that is closed with the test, after which every message that m3 sent is checked.
func (r *rig) connect(cfg *Config) *Session {
	r.t.Helper()
	s, err := Connect(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatalf("%v\nsent %v", err, r.sent())
	}
	r.t.Cleanup(func() {
		_ = s.Close()
		r.checkSent(s.Protocol())
	})
	return s
}

// refused is a connect that must fail, with all the words in its message.
func (r *rig) refused(cfg *Config, words ...string) *ConnectError {
	r.t.Helper()
	s, err := Connect(r.t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		r.t.Fatalf("connected in %s", s.Protocol())
	}
	r.checkSent("")
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.t.Errorf("the error lacks %q: %v", w, err)
		}
	}
	ce, ok := err.(*ConnectError)
	if !ok {
		r.t.Fatalf("error of type %T: %v", err, err)
	}
	return ce
}

// talk is a scripted server: it calls fn for every line, which answers with say.
func talk(fn func(m *message, say func(format string, args ...any))) server {
	return func(in io.Reader, out io.WriteCloser) {
		say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}`)
				continue
			}
			fn(&m, say)
		}
		_, _ = io.Copy(io.Discard, in)
	}
}

const serverInfo = `"serverInfo":{"name":"byte-server","version":"0"}`

// legacyServer answers initialize with the version that offer returns, and everything else by fn (which may be nil).
func legacyServer(offer func(asked string) string, fn func(m *message, say func(string, ...any))) server {
	return talk(func(m *message, say func(string, ...any)) {
		switch {
		case m.Method == "initialize":
			var p struct{ ProtocolVersion string }
			_ = json.Unmarshal(m.Params, &p)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},%s}}`, m.ID, offer(p.ProtocolVersion), serverInfo)
		case m.Method == "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		case fn != nil:
			fn(m, say)
		}
	})
}

// speaks offers the asked version when it is among its own, else its first.
func speaks(versions ...string) func(string) string {
	return func(asked string) string {
		if slices.Contains(versions, asked) {
			return asked
		}
		return versions[0]
	}
}

// modernServer answers server/discover and leaves the rest to fn.
func modernServer(fn func(m *message, say func(string, ...any))) server {
	return talk(func(m *message, say func(string, ...any)) {
		if m.Method == "server/discover" {
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"byte-server","version":"0"}}}}`, m.ID)
			return
		}
		fn(m, say)
	})
}
