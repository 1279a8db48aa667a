package m3_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fakeAgentEnv makes the test binary an agent (see fakeDriver): it reads fakeOrder lines and writes fakeWord lines.
const fakeAgentEnv = "M3_ROOT_FAKE_AGENT"

// fakeOrder is what the driver tells the agent.
type fakeOrder struct {
	Open   *fakeOpen `json:"open,omitempty"`
	Prompt *string   `json:"prompt,omitempty"`
	Answer string    `json:"answer,omitempty"` // to a permission or a prompt for input
	Cancel bool      `json:"cancel,omitempty"`
}

// fakeOpen is what the agent starts with.
type fakeOpen struct {
	Servers []fakeServer `json:"servers"`
	Model   string       `json:"model"`  // URL of the provider
	Key     string       `json:"key"`    // for it
	Ignore  bool         `json:"ignore"` // the servers are taken and never connected to
}

type fakeServer struct {
	Name, Command, URL string
	Args, Env          []string
}

// fakeWord is what the agent says.
type fakeWord struct {
	Ready  bool            `json:"ready,omitempty"`
	Call   *fakeCall       `json:"call,omitempty"`   // about to be made
	Result *fakeCall       `json:"result,omitempty"` // made
	Ask    string          `json:"ask,omitempty"`    // permission, as kind:name
	Elicit json.RawMessage `json:"elicit,omitempty"` // a prompt for input
	Text   string          `json:"text,omitempty"`
	Done   bool            `json:"done,omitempty"` // the turn, with the text
	Stop   string          `json:"stop,omitempty"`
	Blame  string          `json:"blame,omitempty"` // the turn failed
	Code   string          `json:"code,omitempty"`
}

type fakeCall struct {
	ID, Server, Tool string
	Args             json.RawMessage
	Result           json.RawMessage
	Error            string
}

// fakeAgent is the agent's process.
type fakeAgent struct {
	mu       sync.Mutex
	out      *json.Encoder
	clients  map[string]*fakeClient
	model    string
	key      string
	answers  chan string
	cancels  chan struct{}
	calls    int
	workings sync.WaitGroup
}

// playFakeAgent is the agent's main.
func playFakeAgent() int {
	a := &fakeAgent{out: json.NewEncoder(os.Stdout), clients: map[string]*fakeClient{}, answers: make(chan string, 1), cancels: make(chan struct{}, 1)}
	fmt.Fprintln(os.Stderr, "the agent is up")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			for _, c := range a.clients {
				c.close()
			}
			return 0
		}
		var o fakeOrder
		if err := json.Unmarshal(line, &o); err != nil {
			fmt.Fprintln(os.Stderr, "no order:", err)
			return 4
		}
		switch {
		case o.Open != nil:
			a.open(o.Open)
		case o.Prompt != nil:
			a.workings.Go(func() { a.turn(*o.Prompt) })
		case o.Cancel:
			select {
			case a.cancels <- struct{}{}:
			default:
			}
		default:
			a.answers <- o.Answer
		}
	}
}

func (a *fakeAgent) say(w fakeWord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.out.Encode(w)
}

func (a *fakeAgent) open(o *fakeOpen) {
	a.model, a.key = o.Model, o.Key
	for _, s := range o.Servers {
		if o.Ignore {
			break
		}
		c := &fakeClient{}
		if err := c.connect(&s); err != nil {
			fmt.Fprintf(os.Stderr, "server %s: %v\n", s.Name, err) // as real agents do: the tools are just missing
			continue
		}
		a.clients[s.Name] = c
	}
	a.say(fakeWord{Ready: true})
}

// turn plays a message: commands, one a line.
func (a *fakeAgent) turn(text string) {
	select {
	case <-a.cancels: // of a turn that had ended
	default:
	}
	said := ""
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "call":
			said = a.call(rest)
		case "say":
			said = rest
			a.say(fakeWord{Text: rest})
		case "ask":
			a.say(fakeWord{Ask: rest})
			said = <-a.answers
			if said == "deny" && strings.HasPrefix(rest, "must:") {
				a.say(fakeWord{Blame: "policy", Code: "permission_refused"})
				return
			}
		case "elicit":
			a.say(fakeWord{Elicit: json.RawMessage(rest)})
			said = <-a.answers
		case "model":
			if code := a.askModel(rest); code != "" {
				a.say(fakeWord{Blame: "provider", Code: code})
				return
			}
		case "fail":
			blame, code, _ := strings.Cut(rest, " ")
			a.say(fakeWord{Blame: blame, Code: code})
			return
		case "write":
			name, content, _ := strings.Cut(rest, " ")
			_ = os.MkdirAll(filepath.Dir(name), 0o700)
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				said = err.Error()
			}
		case "remove":
			_ = os.Remove(rest)
		case "dump":
			said = a.dump()
		case "tools":
			said = strings.Join(a.clients[rest].tools, ",")
		case "crash":
			fmt.Fprintln(os.Stderr, "agent: out of luck")
			os.Exit(9)
		case "wait": // until it is cancelled
			<-a.cancels
			a.say(fakeWord{Done: true, Text: "interrupted", Stop: "cancelled"})
			return
		case "hang": // whatever happens
			signal.Ignore(syscall.SIGTERM)
			select {}
		case "child": // a process that outlives the agent, in a group of its own
			cmd := exec.Command("sleep", "600")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			_ = cmd.Start()
		}
	}
	a.say(fakeWord{Done: true, Text: said, Stop: "end_turn"})
}

// call plays "server:tool {arguments}".
func (a *fakeAgent) call(what string) string {
	name, args, _ := strings.Cut(what, " ")
	server, tool, _ := strings.Cut(name, ":")
	if args == "" {
		args = "{}"
	}
	a.calls++
	c := &fakeCall{ID: fmt.Sprintf("call-%d", a.calls), Server: server, Tool: tool, Args: json.RawMessage(args)}
	a.say(fakeWord{Call: c})
	if client := a.clients[server]; client == nil {
		c.Error = "there is no server " + server
	} else if result, err := client.request("tools/call", map[string]any{"name": tool, "arguments": c.Args, "_meta": map[string]any{"fake/callId": c.ID}}); err != nil {
		c.Error = err.Error()
	} else {
		c.Result = result
	}
	a.say(fakeWord{Result: c})
	if c.Error != "" {
		return "error: " + c.Error
	}
	return string(c.Result)
}

// askModel posts a request to the provider and returns a code when that fails.
func (a *fakeAgent) askModel(text string) string {
	if a.model == "" {
		return "provider_missing"
	}
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": []any{map[string]string{"role": "user", "content": text}}, "env": os.Environ(), "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "x"}}}})
	req, err := http.NewRequest(http.MethodPost, a.model+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "provider_unreachable"
	}
	req.Header.Set("Content-Type", "application/json")
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "provider_unreachable"
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return "provider_unauthorized"
	case res.StatusCode >= 400:
		return "provider_error"
	}
	return ""
}

// dump is everything that the agent sees of its surroundings: environment, home, workspace and what stands above that.
func (a *fakeAgent) dump() string {
	var b strings.Builder
	b.WriteString(strings.Join(os.Environ(), "\n"))
	dir, _ := os.Getwd()
	roots := []string{os.Getenv("HOME"), dir}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				content, _ := os.ReadFile(p)
				fmt.Fprintf(&b, "\n%s\n%s", p, content)
			}
			return nil
		})
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) { // where agents look for instructions
		for _, name := range []string{"AGENTS.md", "CLAUDE.md", ".env", "opencode.json"} {
			if content, err := os.ReadFile(filepath.Join(up, name)); err == nil {
				fmt.Fprintf(&b, "\n%s\n%s", filepath.Join(up, name), content)
			}
		}
		if up == filepath.Dir(up) {
			return b.String()
		}
	}
}

// fakeClient is an MCP client as small as can be.
type fakeClient struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	url     string
	session string
	next    int
	tools   []string
}

func (c *fakeClient) connect(s *fakeServer) error {
	if c.url = s.URL; c.url == "" {
		c.cmd = exec.Command(s.Command, s.Args...)
		c.cmd.Env = s.Env
		var err error
		if c.stdin, err = c.cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := c.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		c.stdout = bufio.NewReader(out)
		if err := c.cmd.Start(); err != nil {
			return err
		}
	}
	if _, err := c.request("initialize", map[string]any{"protocolVersion": legacy5, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "fake", "version": "1"}}); err != nil {
		return err
	}
	if err := c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return err
	}
	raw, err := c.request("tools/list", map[string]any{})
	if err != nil {
		return err
	}
	var list struct{ Tools []struct{ Name string } }
	err = json.Unmarshal(raw, &list)
	for _, t := range list.Tools {
		c.tools = append(c.tools, t.Name)
	}
	return err
}

func (c *fakeClient) send(m map[string]any) error {
	b, _ := json.Marshal(m)
	if c.url == "" {
		_, err := c.stdin.Write(append(b, '\n'))
		return err
	}
	_, err := c.post(b)
	return err
}

func (c *fakeClient) request(method string, params any) (json.RawMessage, error) {
	c.next++
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.next, "method": method, "params": params})
	var answer []byte
	var err error
	if c.url != "" {
		answer, err = c.post(b)
	} else if _, err = c.stdin.Write(append(b, '\n')); err == nil {
		answer, err = c.stdout.ReadBytes('\n')
	}
	if err != nil {
		return nil, err
	}
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s", m.Error.Message)
	}
	return m.Result, nil
}

// post sends a message over HTTP and returns the answer, of an event stream the last data.
func (c *fakeClient) post(b []byte) ([]byte, error) {
	req, err := http.NewRequest("POST", c.url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", legacy5)
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		return nil, fmt.Errorf("HTTP %d: %s (%v)", res.StatusCode, body, err)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return body, nil
	}
	var data []byte
	for line := range bytes.Lines(body) {
		if d, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = bytes.TrimSpace(d)
		}
	}
	return data, nil
}

func (c *fakeClient) close() {
	if c.cmd == nil {
		return
	}
	c.stdin.Close()
	timer := time.AfterFunc(3*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	timer.Stop()
}
