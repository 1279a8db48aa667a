package m3_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/trace"
)

const (
	newest  = "2026-07-28"
	legacy5 = "2025-11-25"
)

var versions = []string{newest, legacy5, "2025-06-18", "2025-03-26", "2024-11-05"}

// message is one JSON-RPC message, read as bytes.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// tool is the name of the tool that a tools/call is for.
func (m *message) tool() string {
	var p struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(m.Params, &p) // the tests say what is sent
	return p.Name
}

// peer is a server on raw bytes. What it does not script, it does as a well-behaved server would.
type peer struct {
	versions []string // that it speaks; nil: all
	handle   func(p *peer, m *message) bool

	mu   sync.Mutex
	out  io.Writer
	seen []message
	asks map[string]chan message // requests of its own
	said *sync.Cond
}

// serve reads messages until the stream ends.
func (p *peer) serve(in io.Reader, out io.Writer) error {
	p.mu.Lock()
	p.out, p.asks = out, map[string]chan message{}
	p.mu.Unlock()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("the client sent %q: %w", line, err)
		}
		p.note(&m)
		if p.handle == nil || !p.handle(p, &m) {
			p.behave(&m)
		}
	}
}

// note remembers the message and hands an answer to whoever asked.
func (p *peer) note(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, *m)
	if p.said != nil {
		p.said.Broadcast()
	}
	if asked := p.asks[string(m.ID)]; asked != nil && m.Method == "" {
		asked <- *m
	}
}

func (p *peer) speaks(v string) bool { return p.versions == nil || slices.Contains(p.versions, v) }

// behave answers as a server does that has tools.
func (p *peer) behave(m *message) {
	switch {
	case m.ID == nil || m.Method == "":
	case m.Method == "server/discover" && p.speaks(newest):
		list, _ := json.Marshal(p.versions)
		if p.versions == nil {
			list, _ = json.Marshal(versions)
		}
		p.result(m, `{"resultType":"complete","supportedVersions":%s,"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peer","version":"1"}}}`, list)
	case m.Method == "initialize":
		var want struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(m.Params, &want) // an empty one is answered with the server's own
		if !p.speaks(want.Version) || want.Version == newest {
			want.Version = p.versions[0]
		}
		p.result(m, `{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"},"instructions":"be kind"}`, want.Version)
	case m.Method == "tools/call":
		p.result(m, `{"resultType":"complete","content":[{"type":"text","text":%q}]}`, m.tool())
	case m.Method == "ping":
		p.result(m, `{}`)
	default:
		p.fail(m, "-32601", "no such method")
	}
}

// say writes a line as it is.
func (p *peer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *peer) result(m *message, format string, args ...any) {
	p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(format, args...))
}

func (p *peer) fail(m *message, code, text string) {
	p.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":%q}}`, m.ID, code, text)
}

// ask sends a request of the server's own and waits for the answer. It must not be called by handle, which would read it.
func (p *peer) ask(id, method, params string) message {
	answer := make(chan message, 1)
	p.mu.Lock()
	p.asks[id] = answer
	p.mu.Unlock()
	p.say(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	select {
	case m := <-answer:
		return m
	case <-time.After(20 * time.Second):
		return message{Error: json.RawMessage(`"the client never answered"`)}
	}
}

// got returns the messages of the method that came so far.
func (p *peer) got(method string) []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gotLocked(method)
}

func (p *peer) gotLocked(method string) []message {
	var found []message
	for _, m := range p.seen {
		if m.Method == method {
			found = append(found, m)
		}
	}
	return found
}

// await waits until n messages of the method have come.
func (p *peer) await(t *testing.T, method string, n int) []message {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said == nil {
		p.said = sync.NewCond(&p.mu)
	}
	expired := false
	defer time.AfterFunc(20*time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		expired = true
		p.said.Broadcast()
	}).Stop()
	for {
		if got := p.gotLocked(method); len(got) >= n {
			return got
		}
		if expired {
			t.Fatalf("the server was sent %d %s, want %d", len(p.gotLocked(method)), method, n)
		}
		p.said.Wait()
	}
}

// server is the peer as a PipeServer. One peer serves one client.
func (p *peer) server() m3.PipeServer {
	return m3.PipeServer{Name: "peer", Serve: func(_ context.Context, stream io.ReadWriteCloser) error { return p.serve(stream, stream) }}
}

// on makes a peer that answers the calls of some tools itself.
func on(tools map[string]func(p *peer, m *message)) *peer {
	return &peer{handle: func(p *peer, m *message) bool {
		if f := tools[m.tool()]; m.Method == "tools/call" && f != nil {
			f(p, m)
			return true
		}
		return false
	}}
}

// answers makes a peer that answers methods with fixed results.
func answers(results map[string]string) *peer {
	return &peer{handle: func(p *peer, m *message) bool {
		r, ok := results[m.Method]
		if ok {
			p.result(m, "%s", r)
		}
		return ok
	}}
}

// silent leaves calls of the tool "silent" without an answer.
func silent() *peer {
	return on(map[string]func(*peer, *message){"silent": func(*peer, *message) {}})
}

func old() *m3.DirectOptions { return &m3.DirectOptions{Protocol: legacy5} }

// finish closes the client and returns its view.
func finish(t *testing.T, c *m3.Client) trace.View {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := c.View()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// detailKeys are the details that errors may have. They hold names and numbers of m3's own, names of the test's, and the host.
var detailKeys = []string{"operation", "phase", "method", "error_kind", "protocol_code", "timeout_seconds", "exit_code", "signal", "tool", "kind", "feature", "host", "field", "reason", "round", "request_key", "request_keys", "expected", "unused", "branches", "rounds", "limit", "asked", "scripted"}

// wantError checks the type, the stable code and a part of the text of an error, also when it is wrapped.
func wantError[E interface {
	error
	Code() string
}](t *testing.T, err error, code, text string) E {
	t.Helper()
	var e E
	if !errors.As(fmt.Errorf("wrapped: %w", err), &e) {
		t.Fatalf("the error is a %T: %v; want %T", err, err, e)
	}
	if e.Code() != code {
		t.Errorf("code %q, want %q", e.Code(), code)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("the error does not say %q: %v", text, err)
	}
	details, _ := reflect.ValueOf(e).Elem().FieldByName("Details").Interface().(map[string]any)
	for key := range details {
		if !slices.Contains(detailKeys, key) {
			t.Errorf("a detail %q that nobody knows to hold no value", key)
		}
	}
	if strings.HasPrefix(err.Error(), "elicit: ") {
		return e
	}
	if n := strings.Count(err.Error(), "m3: "); n != 1 || !strings.HasPrefix(err.Error(), "m3: ") {
		t.Errorf("the error names m3 %d times: %v", n, err)
	}
	return e
}

// during runs f in the background and returns what it gives.
func during(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}
