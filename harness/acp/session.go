package acp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// protocolVersion is the version of ACP that this package speaks. An agent that answers another is refused: some answer version 2, which is another protocol, when asked for more than 1.
const protocolVersion = 1

// The bounds of the end of an agent. Codex needs 2 s after the end of its input.
const (
	closeWait   = 2 * time.Second
	eofWait     = 3 * time.Second
	termWait    = time.Second
	defaultWait = 2 * time.Second // Spec.CancelGrace
)

// session implements harness.Session.
type session struct {
	cfg     *Config
	spec    *harness.Spec
	host    harness.Host
	proc    harness.Process
	conn    *conn
	servers []string
	elicits bool
	prompt  object // promptCapabilities

	closes   bool // the agent has session/close
	override bool // session/new takes a system prompt in place of the agent's own

	mu      sync.Mutex
	id      string
	turn    *turn
	cost    object // the last usage_update's
	startup string // what the agent said of a server that did not start
	broken  *harness.Error

	closing sync.Once
}

// Check looks for the agent's program and the variables of its references. It starts nothing: which version of the protocol an agent speaks is known when it is opened.
func (d *driver) Check(context.Context) (harness.Installation, error) {
	if err := d.validate(); err != nil {
		return harness.Installation{}, &harness.UnavailableError{Kind: d.Kind(), Reason: "configuration", Message: err.Message}
	}
	command, _ := d.command()
	path, err := exec.LookPath(command)
	if err != nil {
		return harness.Installation{}, &harness.UnavailableError{Kind: d.Kind(), Reason: "executable_missing",
			Message: fmt.Sprintf("acp_executable_missing: %s is not there, or not executable: install it, or give its path as Command", command)}
	}
	if missing := missingVariables(d.CredentialEnv(), os.LookupEnv); len(missing) > 0 {
		return harness.Installation{}, &harness.UnavailableError{Kind: d.Kind(), Reason: "environment_missing",
			Message: "acp_environment_missing: not set: " + strings.Join(missing, ", ")}
	}
	return harness.Installation{Executable: path, Runtime: map[string]string{"protocol_version": fmt.Sprint(protocolVersion)}}, nil
}

// Open starts the agent, shakes hands, makes the session with its servers, sets mode and options, and waits until the servers were listed.
func (d *driver) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	env, err := d.environment(spec)
	if err != nil {
		return nil, err
	}
	path, args := d.command()
	proc, err := host.Start(ctx, &harness.Command{Path: path, Args: args, Env: env, Dir: spec.Workspace, Role: "agent"})
	if err != nil {
		return nil, startError(path, err)
	}
	s := &session{cfg: &d.cfg, spec: spec, host: host, proc: proc, elicits: spec.Elicitation && (d.cfg.Elicitation.Form || d.cfg.Elicitation.URL)}
	for i := range spec.Servers {
		s.servers = append(s.servers, spec.Servers[i].Name)
	}
	s.conn = newConn(s, proc.Stdout(), proc.Stdin())
	if err := s.open(ctx); err != nil {
		s.abandon()
		return nil, err
	}
	return s, nil
}

func startError(path string, err error) *harness.Error {
	if e, ok := errors.AsType[*harness.Error](err); ok {
		return e
	}
	return &harness.Error{Blame: harness.BlameHarness, Code: "executable_missing", Message: fmt.Sprintf("the agent %s did not start: %v", path, err), Err: err}
}

// environment is what the agent gets: the minimal environment, what Setup says, literals, and the secrets by reference.
func (d *driver) environment(spec *harness.Spec) ([]string, error) {
	if spec.Endpoint != nil && !slices.Contains(d.cfg.Dialects, spec.Endpoint.Dialect) {
		return nil, harness.Errorf(harness.BlameTest, "option_unknown", "acp: this agent cannot be pointed at a model endpoint of dialect %q", spec.Endpoint.Dialect)
	}
	vars := map[string]string{}
	for _, kv := range spec.Env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	if d.cfg.Setup != nil {
		more, err := d.cfg.Setup(spec)
		if err != nil {
			return nil, &harness.Error{Blame: harness.BlameHarness, Code: "setup_failed", Message: fmt.Sprintf("the agent's configuration was not written: %v", err), Err: err}
		}
		maps.Copy(vars, more)
	}
	maps.Copy(vars, d.cfg.Env)
	for _, name := range slices.Sorted(maps.Keys(d.CredentialEnv())) {
		if _, given := spec.Credentials[name]; !given {
			return nil, harness.Errorf(harness.BlameTest, "environment_missing", "acp_environment_missing: %s, which the agent gets from %s, was not resolved", name, d.CredentialEnv()[name])
		}
	}
	maps.Copy(vars, spec.Credentials)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}

// open shakes hands and makes the session.
func (s *session) open(ctx context.Context) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if s.cfg.AuthMethod != "" {
		if _, err := s.conn.call(ctx, "authenticate", map[string]string{"methodId": s.cfg.AuthMethod}); err != nil {
			return s.failed(ctx, "authenticate", err)
		}
	}
	made, err := s.newSession(ctx)
	if err != nil {
		return err
	}
	if err := s.configure(ctx, made); err != nil {
		return err
	}
	if s.spec.Instructions != "" && !s.cfg.quirks.instructions && !s.override {
		s.host.Event(&harness.Notice{Code: "instructions_unsupported", Message: "the agent takes no instructions: it runs with its own system prompt"})
	}
	return s.ready(ctx)
}

func (s *session) initialize(ctx context.Context) error {
	capabilities := map[string]any{
		"fs":       map[string]bool{"readTextFile": false, "writeTextFile": false},
		"terminal": false,
		"session":  map[string]any{"configOptions": map[string]any{"boolean": struct{}{}}},
	}
	if s.elicits {
		modes := map[string]any{}
		if s.cfg.Elicitation.Form {
			modes["form"] = struct{}{}
		}
		if s.cfg.Elicitation.URL {
			modes["url"] = struct{}{}
		}
		capabilities["elicitation"] = modes
	}
	answer, err := s.conn.call(ctx, "initialize", map[string]any{
		"protocolVersion": protocolVersion, "clientCapabilities": capabilities,
		"clientInfo": map[string]string{"name": "m3", "title": "m3", "version": "1"},
	})
	if err != nil {
		return s.failed(ctx, "initialize", err)
	}
	a := answer.obj()
	if string(a["protocolVersion"]) != "1" {
		return harness.Errorf(harness.BlameAgent, "version_unknown", "the agent answered protocol version %.40s: m3 speaks %d", raw(a["protocolVersion"]), protocolVersion)
	}
	identity := a["agentInfo"]
	s.host.Event(harness.Facts{"protocol_version": fact(protocolVersion), "agent_identity": factOr(identity),
		"usage": trace.Absent[trace.JSON](trace.Unsupported, trace.ReasonHarnessUnsupported)})
	can := a["agentCapabilities"]
	s.closes = !can.at("sessionCapabilities", "close").null()
	s.override = !can.at("sessionCapabilities", "systemPrompt", "mode", "override").null()
	s.prompt = can.at("promptCapabilities").obj()
	return s.reachable(can.at("mcpCapabilities", "http"))
}

func factOr(v raw) trace.Observation[trace.JSON] {
	if v == nil {
		return notEmitted[trace.JSON]()
	}
	return trace.Observe(v.json())
}

// reachable refuses endpoints by URL to an agent that does not take them.
func (s *session) reachable(http raw) error {
	for i := range s.spec.Servers {
		if e := &s.spec.Servers[i]; e.URL != "" && string(http) != "true" {
			return harness.Errorf(harness.BlameTest, "option_unknown", "the agent takes no server by URL (mcpCapabilities.http), and %s is one", e.Name)
		}
	}
	return nil
}

// pair is how ACP writes variables and headers.
type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (s *session) newSession(ctx context.Context) (object, error) {
	servers := []any{}
	for i := range s.spec.Servers {
		servers = append(servers, mcpServer(&s.spec.Servers[i]))
	}
	params := map[string]any{"cwd": s.spec.Workspace, "mcpServers": servers}
	if text := s.spec.Instructions; text != "" && s.override && !s.cfg.quirks.instructions {
		params["systemPrompt"] = map[string]any{"mode": "override", "content": []any{map[string]string{"type": "text", "text": text}}}
	}
	answer, err := s.conn.call(ctx, "session/new", params)
	if err != nil {
		return nil, s.failed(ctx, "session/new", err)
	}
	made := answer.obj()
	id := made["sessionId"].str()
	if id == "" {
		return nil, harness.Errorf(harness.BlameAgent, "agent_protocol", "the agent answered session/new without a sessionId")
	}
	s.mu.Lock()
	s.id = id
	s.mu.Unlock()
	return made, nil
}

// mcpServer is an endpoint as session/new takes it: a stdio server has no type, and env and headers are there even when empty.
func mcpServer(e *harness.Endpoint) any {
	if e.URL != "" {
		headers := []pair{}
		for _, name := range slices.Sorted(maps.Keys(e.Header)) {
			headers = append(headers, pair{name, e.Header[name]})
		}
		return map[string]any{"type": "http", "name": e.Name, "url": e.URL, "headers": headers}
	}
	env, args := []pair{}, e.Args
	for _, kv := range e.Env {
		name, value, _ := strings.Cut(kv, "=")
		env = append(env, pair{name, value})
	}
	if args == nil {
		args = []string{}
	}
	return map[string]any{"name": e.Name, "command": e.Command, "args": args, "env": env}
}

// ready waits until the tools of every server were listed for the agent. That it took the list of servers proves nothing.
func (s *session) ready(ctx context.Context) error {
	if s.cfg.ConnectsLate {
		return nil
	}
	for _, name := range s.servers {
		err := s.host.Served(ctx, name)
		if err == nil {
			continue
		}
		e, told := errors.AsType[*harness.Error](err)
		if told && e.Code != "servers_dropped" && e.Code != "agent_crashed" { // what the agent said, or left behind, tells more than these
			return e
		}
		if e := s.gone(ctx); e != nil {
			return e
		}
		s.mu.Lock()
		said := s.startup
		s.mu.Unlock()
		if said != "" {
			return &harness.Error{Blame: harness.BlameServer, Code: "server_failed", Message: fmt.Sprintf("server %s was not reached; the agent says: %s", name, said), Err: err}
		}
		if told {
			return e
		}
		return &harness.Error{Blame: harness.BlameAgent, Code: "servers_dropped", Err: err,
			Message: fmt.Sprintf("the agent accepted server %s, but its tools were never listed: %v", name, err)}
	}
	return nil
}

// abandon ends an agent whose session could not be made.
func (s *session) abandon() {
	s.proc.Stop(eofWait, termWait)
	s.conn.end(errClosed)
	s.conn.wait()
}

var errClosed = errors.New("the session is closed")

// Close ends the session in the agent's way where it has one, then its input, then the agent.
func (s *session) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.mu.Lock()
		orderly := s.closes && s.turn == nil && s.broken == nil
		s.mu.Unlock()
		if orderly {
			ctx, cancel := context.WithTimeout(ctx, closeWait)
			defer cancel()
			_, err := s.conn.call(ctx, "session/close", map[string]string{"sessionId": s.id})
			if err != nil {
				s.host.Event(&harness.Notice{Code: "close_failed", Message: err.Error()})
			}
		}
		s.abandon()
	})
	return nil
}
