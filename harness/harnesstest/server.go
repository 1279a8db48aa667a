package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/harness"
)

const serverName = "suite"

// arrival is one call that reached the server.
type arrival struct{ tool, text string }

// server is the counting server: its log is what really arrived.
type server struct {
	mu      sync.Mutex
	log     []arrival
	arrived chan string
}

type input struct {
	A    int    `json:"a,omitempty"`
	B    int    `json:"b,omitempty"`
	Text string `json:"text,omitempty"`
}

func newServer() *server { return &server{arrived: make(chan string, 64)} }

func (s *server) note(tool, text string) {
	s.mu.Lock()
	s.log = append(s.log, arrival{tool, text})
	s.mu.Unlock()
	s.arrived <- tool
}

func (s *server) tools() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, a := range s.log {
		names = append(names, a.tool)
	}
	return names
}

func (s *server) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, a := range s.log {
		texts = append(texts, a.text)
	}
	return texts
}

// pipe is the server for an action.
func (s *server) pipe() m3.Server {
	return m3.PipeServer{Name: serverName, Serve: func(ctx context.Context, stream io.ReadWriteCloser) error {
		srv := mcp.NewServer(&mcp.Implementation{Name: serverName, Version: "1"}, nil)
		s.add(srv, "add", func(_ context.Context, in input) (string, error) {
			b, err := json.Marshal(in.A + in.B)
			return string(b), err
		})
		s.add(srv, "echo", func(_ context.Context, in input) (string, error) { return "got it", nil })
		s.add(srv, "fail", func(context.Context, input) (string, error) { return "", errors.New("failed on purpose") })
		s.add(srv, "late", func(ctx context.Context, _ input) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(500 * time.Millisecond): // slow is what the tool is for
				return "late", nil
			}
		})
		s.add(srv, "stuck", func(ctx context.Context, _ input) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		s.add(srv, "die", func(context.Context, input) (string, error) { return "", stream.Close() })
		return srv.Run(ctx, &mcp.IOTransport{Reader: stream, Writer: stream})
	}}
}

func (s *server) add(srv *mcp.Server, name string, f func(context.Context, input) (string, error)) {
	mcp.AddTool(srv, &mcp.Tool{Name: name, Description: name}, func(ctx context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		s.note(name, in.Text)
		text, err := f(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

// watched is the driver, and the processes that it starts.
type watched struct {
	harness.Driver
	mu   sync.Mutex
	pids []int
	told []harness.Tools
}

// tools are the restrictions that the driver was told.
func (w *watched) tools() []harness.Tools {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *watched) Open(ctx context.Context, spec *harness.Spec, host harness.Host) (harness.Session, error) {
	w.mu.Lock()
	w.told = append(w.told, spec.Tools)
	w.mu.Unlock()
	return w.Driver.Open(ctx, spec, &watchedHost{host, w})
}

// CredentialEnv passes on what the driver refers to.
func (w *watched) CredentialEnv() map[string]string {
	if r, refers := w.Driver.(harness.CredentialReferrer); refers {
		return r.CredentialEnv()
	}
	return nil
}

type watchedHost struct {
	harness.Host
	w *watched
}

func (h *watchedHost) Start(ctx context.Context, c *harness.Command) (harness.Process, error) {
	p, err := h.Host.Start(ctx, c)
	if err == nil {
		h.w.mu.Lock()
		h.w.pids = append(h.w.pids, p.PID())
		h.w.mu.Unlock()
	}
	return p, err
}

// kill ends the agent as a crash would.
func (w *watched) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pid := range w.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one that is gone is what is wanted
	}
}

// left are the processes that still run.
func (w *watched) left() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.pids), func(pid int) bool { return syscall.Kill(pid, 0) != nil })
}
