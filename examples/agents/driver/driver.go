// Package driver is a driver for an agent that m3 does not know: docs/driver-authors.md goes through it step by step. The agent, tiny, is in agent.go.
package driver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Config says how tiny is run.
type Config struct {
	// Executable is the program: a path, or a name that is looked up in PATH. Empty: tiny.
	Executable string
}

type driver struct{ cfg Config }

// New returns the driver.
func New(cfg Config) harness.Driver { return &driver{cfg} }

// Kind is the stored word of the agent.
func (d *driver) Kind() string { return "tiny" }

// Capabilities says what is true, and nothing more: what is declared is tested, and what is not declared is refused before anything starts.
func (d *driver) Capabilities() harness.Capabilities {
	return harness.Capabilities{MultiTurn: true, Cancel: true, StdioServers: true, NoBuiltins: true}
}

// Check looks for the program and starts no conversation.
func (d *driver) Check(context.Context) (harness.Installation, error) {
	name := cmp.Or(d.cfg.Executable, "tiny")
	path, err := exec.LookPath(name)
	if err != nil {
		return harness.Installation{}, &harness.UnavailableError{Kind: d.Kind(), Reason: "executable_missing", Message: fmt.Sprintf("tiny: %q is not there: install it, or set Config.Executable", name)}
	}
	return harness.Installation{Executable: path, Version: "1"}, nil
}

// Open writes the agent's configuration, starts it, and waits until it has connected to its servers.
func (d *driver) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	settings, err := json.Marshal(map[string]any{"servers": spec.Servers})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(spec.Home, "tiny.json") // in its own home, which is removed afterwards: never in the workspace
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return nil, &harness.Error{Blame: harness.BlameHarness, Code: "setup_failed", Message: "tiny's configuration was not written: " + err.Error(), Err: err}
	}
	env := append(spec.Env[:len(spec.Env):len(spec.Env)], "TINY_CONFIG="+file) // nothing else is inherited
	proc, err := host.Start(ctx, &harness.Command{Path: cmp.Or(d.cfg.Executable, "tiny"), Env: env, Dir: spec.Workspace, Role: "agent"})
	if err != nil {
		return nil, err
	}
	s := &session{spec: spec, host: host, proc: proc, lines: make(chan []byte)}
	go s.read()
	if err := s.ready(ctx); err != nil {
		_ = s.Close(ctx) // after an error nothing of the agent is left
		return nil, err
	}
	return s, nil
}

// session is one conversation.
type session struct {
	spec  *harness.Spec
	host  harness.Host
	proc  harness.Process
	lines chan []byte // closed at the end of the agent's output
}

// line is one message of the agent's protocol.
type line struct {
	Ready bool
	Say   string
	Call  *struct {
		ID, Server, Tool string
		Arguments        json.RawMessage
	}
	Result *struct {
		ID     string
		Status trace.ToolCallStatus
		Result trace.ToolResult
	}
	End string
}

// read records each line of the agent as it came, before anybody looks at it.
func (s *session) read() {
	defer close(s.lines)
	for r := bufio.NewReader(s.proc.Stdout()); ; {
		b, err := r.ReadBytes('\n')
		if len(b) > 0 {
			s.host.Frame(trace.ServerToClient, trace.FramingLine, b)
			s.lines <- b
		}
		if err != nil {
			return
		}
	}
}

func (s *session) write(message map[string]any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	s.host.Frame(trace.ClientToServer, trace.FramingLine, b)
	_, err = s.proc.Stdin().Write(b) // a failure is an agent that is gone, which the end of its output tells better
	return err
}

// ready waits for the agent, and then for what only the wire can say: that the tools of every server were really listed for it.
func (s *session) ready(ctx context.Context) error {
	for {
		l, err := s.next(ctx)
		if err != nil {
			return err
		}
		if l.Ready {
			break
		}
	}
	for i := range s.spec.Servers {
		if err := s.host.Served(ctx, s.spec.Servers[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// next is the next message. What is no message is the agent's fault, and so is its end.
func (s *session) next(ctx context.Context) (*line, error) {
	select {
	case b, ok := <-s.lines:
		if !ok {
			return nil, s.gone()
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return nil, harness.Errorf(harness.BlameAgent, "agent_protocol", "tiny wrote what is no message: %.80q", b)
		}
		return &l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *session) gone() error {
	<-s.proc.Exited()
	code, signal, _ := s.proc.Exit()
	e := harness.Errorf(harness.BlameAgent, "agent_crashed", "tiny ended (exit code %d): %s", code, s.proc.StderrTail())
	e.Details = map[string]any{"exit_code": code, "signal": signal}
	return e
}

// Send is one turn.
func (s *session) Send(ctx context.Context, p *harness.Prompt) (*harness.Turn, error) {
	_ = s.write(map[string]any{"prompt": p.Text})
	turn, cancelled := &harness.Turn{}, false
	for {
		l, err := s.next(ctx)
		if ctx.Err() != nil && !cancelled { // ask it to stop, and hear it out for a moment
			cancelled = true
			_ = s.write(map[string]any{"cancel": true})
			grace, end := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.spec.CancelGrace, 2*time.Second))
			defer end()
			ctx = grace
			if err != nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		s.tell(l, turn)
		if l.End != "" {
			turn.StopReason = l.End
			return turn, s.host.Drain(ctx) // what passed on the wire is recorded before the turn is over
		}
	}
}

// tell records what the agent says, in its own words: it pairs nothing, completes nothing, and guesses nothing.
func (s *session) tell(l *line, turn *harness.Turn) {
	switch {
	case l.Say != "":
		turn.Text = l.Say
		s.host.Event(&harness.Message{Role: "assistant", Content: []trace.Content{{Type: "text", Text: l.Say}}})
	case l.Call != nil:
		s.host.Event(&harness.ToolCall{ID: l.Call.ID, Server: trace.Observe(l.Call.Server), Tool: trace.Observe(l.Call.Tool), Name: l.Call.Server + "/" + l.Call.Tool,
			Arguments: trace.Observe(trace.JSON(l.Call.Arguments))})
	case l.Result != nil:
		s.host.Event(&harness.ToolResult{ID: l.Result.ID, Status: l.Result.Status, Result: trace.Observe(l.Result.Result)})
	}
}

// Close ends the agent by the end of its input, and waits for it.
func (s *session) Close(context.Context) error {
	s.proc.Stop(2*time.Second, time.Second)
	for range s.lines { // the reader ends with the output
	}
	return nil
}
