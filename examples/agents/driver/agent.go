package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tiny is the agent itself, as somebody else might have written it: it does what its prompts say. "SERVER TOOL ARGUMENTS" calls a tool and says what came back, "wait" waits to
// be cancelled, and "crash" ends it. It returns the exit code.
func Tiny() int {
	a := &tiny{out: json.NewEncoder(os.Stdout), servers: map[string]*mcp.ClientSession{}}
	if err := a.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "tiny:", err)
		return 1
	}
	return 0
}

type tiny struct {
	mu      sync.Mutex
	out     *json.Encoder
	servers map[string]*mcp.ClientSession
	cancel  context.CancelFunc
}

type message map[string]any

func (a *tiny) say(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.out.Encode(m) // who does not listen has gone, and closes the input too
}

func (a *tiny) run(ctx context.Context) error {
	if err := a.connect(ctx); err != nil {
		return err
	}
	a.say(message{"ready": true})
	var turns sync.WaitGroup
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			Prompt string
			Cancel bool
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		if m.Cancel {
			a.cancel()
			continue
		}
		turn, cancel := context.WithCancel(ctx)
		a.cancel = cancel
		turns.Go(func() { a.say(message{"end": a.turn(turn, m.Prompt)}) })
	}
	turns.Wait()
	for _, s := range a.servers {
		_ = s.Close()
	}
	return nil
}

// connect connects to the servers of the configuration.
func (a *tiny) connect(ctx context.Context) error {
	b, err := os.ReadFile(os.Getenv("TINY_CONFIG"))
	if err != nil {
		return err
	}
	var settings struct {
		Servers []struct {
			Name, Command string
			Args, Env     []string
		}
	}
	if err := json.Unmarshal(b, &settings); err != nil {
		return err
	}
	for _, s := range settings.Servers {
		cmd := exec.Command(s.Command, s.Args...)
		cmd.Env = s.Env
		session, err := mcp.NewClient(&mcp.Implementation{Name: "tiny", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			return err
		}
		a.servers[s.Name] = session
		if _, err := session.ListTools(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// turn answers a prompt, and returns why it ended.
func (a *tiny) turn(ctx context.Context, prompt string) string {
	switch prompt {
	case "wait":
		<-ctx.Done()
		return "cancelled"
	case "crash":
		fmt.Fprintln(os.Stderr, "tiny: as I was told")
		os.Exit(3)
	}
	words := strings.SplitN(prompt, " ", 3)
	session := a.servers[words[0]]
	if session == nil || len(words) != 3 {
		a.say(message{"say": "I do not understand."})
		return "stop"
	}
	args := json.RawMessage(words[2])
	a.say(message{"call": message{"id": "1", "server": words[0], "tool": words[1], "arguments": args}})
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: words[1], Arguments: args})
	if err != nil {
		a.say(message{"say": err.Error()})
		return "error"
	}
	status := "success"
	if result.IsError {
		status = "tool_error"
	}
	a.say(message{"result": message{"id": "1", "status": status, "result": result}})
	a.say(message{"say": result.Content[0].(*mcp.TextContent).Text})
	return "stop"
}
