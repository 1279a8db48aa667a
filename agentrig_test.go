package m3_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// fakeDriver drives the agent that this test binary plays.
type fakeDriver struct {
	kind   string
	change func(c *harness.Capabilities)
	ignore bool // the agent takes its servers and never connects
	waits  bool // the driver waits until they were listed
	leave  bool // the agent ends once it is ready
	check  func() error
	open   func(spec *harness.Spec, host harness.Host) (harness.Session, error)

	mu      sync.Mutex
	specs   []harness.Spec
	prompts []harness.Prompt
	peak    int
	live    int
}

func (d *fakeDriver) Kind() string {
	if d.kind != "" {
		return d.kind
	}
	return "fake"
}

func (d *fakeDriver) Capabilities() harness.Capabilities {
	c := harness.Capabilities{MultiTurn: true, Cancel: true, StdioServers: true, HTTPServers: true, Permissions: true, Dialects: []harness.Dialect{harness.OpenAIChat},
		JoinKey: "fake/callId", ContentKinds: []string{"image"}}
	if d.change != nil {
		d.change(&c)
	}
	return c
}

func (d *fakeDriver) Check(context.Context) (harness.Installation, error) {
	if d.check != nil {
		if err := d.check(); err != nil {
			return harness.Installation{}, err
		}
	}
	exe, err := os.Executable()
	return harness.Installation{Executable: exe, Version: "1.0"}, err
}

func (d *fakeDriver) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	d.mu.Lock()
	d.specs = append(d.specs, *spec)
	d.live++
	d.peak = max(d.peak, d.live)
	d.mu.Unlock()
	if d.open != nil {
		return d.open(spec, host)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env := append(append([]string{}, spec.Env...), fakeAgentEnv+"=1", "GORACE=atexit_sleep_ms=0")
	for name, value := range spec.Credentials {
		env = append(env, name+"="+value)
	}
	p, err := host.Start(ctx, &harness.Command{Path: exe, Env: env, Dir: spec.Workspace, Role: "agent"})
	if err != nil {
		return nil, err
	}
	s := &fakeSession{d: d, host: host, p: p, words: make(chan fakeWord, 64), spec: *spec}
	go s.read()
	o := &fakeOpen{Ignore: d.ignore}
	if spec.Endpoint != nil {
		o.Model, o.Key = spec.Endpoint.BaseURL, spec.Endpoint.Key
	}
	for _, e := range spec.Servers {
		o.Servers = append(o.Servers, fakeServer{Name: e.Name, Command: e.Command, Args: e.Args, Env: e.Env, URL: e.URL})
	}
	s.order(fakeOrder{Open: o})
	if w, ok := s.next(ctx); !ok || !w.Ready {
		s.stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, harness.Errorf(harness.BlameAgent, "agent_crashed", "it ended while it started")
	}
	if d.leave {
		p.Stdin().Close()
	}
	for i := range spec.Servers {
		if !d.waits {
			break
		}
		if err := host.Served(ctx, spec.Servers[i].Name); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

type fakeSession struct {
	d     *fakeDriver
	host  harness.Host
	p     harness.Process
	spec  harness.Spec
	words chan fakeWord
	once  sync.Once

	mu sync.Mutex // on stdin
}

func (s *fakeSession) order(o fakeOrder) {
	b, _ := json.Marshal(o)
	s.host.Frame(trace.ClientToServer, trace.FramingLine, append(b, '\n'))
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.p.Stdin().Write(append(b, '\n')) // an agent that is gone says so on its output
}

func (s *fakeSession) read() {
	defer close(s.words)
	in := bufio.NewReader(s.p.Stdout())
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		s.host.Frame(trace.ServerToClient, trace.FramingLine, line)
		var w fakeWord
		if json.Unmarshal(line, &w) == nil {
			s.words <- w
		}
	}
}

func (s *fakeSession) next(ctx context.Context) (fakeWord, bool) {
	select {
	case w, ok := <-s.words:
		return w, ok
	case <-ctx.Done():
		return fakeWord{}, false
	}
}

func (s *fakeSession) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	s.d.mu.Lock()
	s.d.prompts = append(s.d.prompts, *p)
	s.d.mu.Unlock()
	s.order(fakeOrder{Prompt: &p.Text})
	wait := ctx
	for cancelled := false; ; {
		w, ok := s.next(wait)
		switch {
		case !ok && wait.Err() == nil:
			<-s.p.Exited()
			code, signal, _ := s.p.Exit()
			e := harness.Errorf(harness.BlameAgent, "agent_crashed", "it ended in the middle of a turn; its last words: %s", s.p.StderrTail())
			e.Details = map[string]any{"exit_code": code, "signal": signal}
			return nil, e
		case !ok && !cancelled:
			cancelled = true
			s.order(fakeOrder{Cancel: true})
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
		case !ok:
			return nil, ctx.Err()
		case w.Done:
			if err := s.host.Drain(ctx); err != nil {
				return nil, err
			}
			if w.Text != "" {
				s.host.Event(&harness.Message{Role: "assistant", Content: []trace.Content{{Type: "text", Text: w.Text}}, StopReason: w.Stop})
			}
			return &harness.Turn{Text: w.Text, StopReason: w.Stop}, nil
		case w.Blame != "":
			return nil, harness.Errorf(harness.Blame(w.Blame), w.Code, "the agent says %s", w.Code)
		default:
			s.word(ctx, &w)
		}
	}
}

// word passes on what the agent says in a turn.
func (s *fakeSession) word(ctx context.Context, w *fakeWord) {
	switch {
	case w.Call != nil:
		s.host.Event(&harness.ToolCall{ID: w.Call.ID, Server: trace.Observe(w.Call.Server), Tool: trace.Observe(w.Call.Tool), Name: w.Call.Server + "_" + w.Call.Tool, Arguments: trace.Observe(trace.JSON(w.Call.Args))})
	case w.Result != nil:
		status := trace.ToolSuccess
		if w.Result.Error != "" {
			status = trace.ToolError
		}
		s.host.Event(&harness.ToolResult{ID: w.Result.ID, Status: status})
	case w.Ask != "":
		kind, name, _ := strings.Cut(strings.TrimPrefix(w.Ask, "must:"), " ")
		server, tool, _ := strings.Cut(name, ":")
		s.order(fakeOrder{Answer: string(s.host.Permission(ctx, &harness.PermissionRequest{Kind: kind, Server: server, Tool: tool, Title: w.Ask}))})
	case w.Elicit != nil:
		var p struct{ Server, Key, Message, Schema, Operation string }
		_ = json.Unmarshal(w.Elicit, &p)
		r, err := s.host.Elicit(ctx, &harness.Prompted{Server: p.Server, Key: p.Key, Mode: "form", Message: p.Message, Schema: trace.JSON(`{"type":"object","properties":{"city":{"type":"string"}}}`), Operation: p.Operation})
		answer := "cancel"
		if err == nil {
			answer = string(r.Action)
		}
		s.order(fakeOrder{Answer: answer})
	}
}

func (s *fakeSession) stop() {
	s.once.Do(func() {
		s.p.Stop(3*time.Second, 250*time.Millisecond)
		for range s.words { // the reader ends with the process
		}
		s.d.mu.Lock()
		s.d.live--
		s.d.mu.Unlock()
	})
}

func (s *fakeSession) Close(context.Context) error {
	s.stop()
	return nil
}

// fakeAgents makes the agents of one selection of the driver.
func fakeAgents(t testing.TB, k *m3.Kit, d *fakeDriver, models ...m3.Model) *m3.Agent {
	t.Helper()
	agents, err := k.Agents([]m3.Selection{{Harness: d, Models: models}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return agents[0]
}

// agentPeer is a server with two tools, which it also lists.
func agentPeer() *peer {
	return &peer{versions: []string{legacy5}, handle: func(p *peer, m *message) bool {
		switch {
		case m.Method == "tools/list":
			p.result(m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}}]}`)
			return true
		case m.tool() == "env":
			b, _ := json.Marshal(os.Environ())
			p.result(m, `{"content":[{"type":"text","text":%q}]}`, b)
			return true
		}
		return fixtureTool(p, m)
	}}
}

// agentServers are a server of each kind, named calc.
func agentServers(t testing.TB) map[string]func() m3.Server {
	handler := peerHandler()
	return map[string]func() m3.Server{
		"stdio": func() m3.Server { s := fixture(t, "agent"); s.Name = "calc"; return s },
		"pipe":  func() m3.Server { return m3.PipeServer{Name: "calc", Serve: servePeer} },
		"http": func() m3.Server {
			srv := httptest.NewServer(handler)
			t.Cleanup(srv.Close)
			return m3.HTTPServer{Name: "calc", URL: srv.URL}
		},
		"handler": func() m3.Server { return m3.HandlerServer{Name: "calc", Handler: handler} },
	}
}

// servePeer is the server in this process.
func servePeer(_ context.Context, stream io.ReadWriteCloser) error {
	return agentPeer().serve(stream, stream)
}

// peerHandler is the server over HTTP, one peer a request.
func peerHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var out bytes.Buffer
		_ = agentPeer().serve(bytes.NewReader(append(body, '\n')), &out)
		if out.Len() == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out.Bytes())
	})
}
