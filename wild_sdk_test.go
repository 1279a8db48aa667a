package m3_test

//lint:file-ignore SA1019 sampling is deprecated in the newest protocol only, and the wild cases play older ones.

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/m3-go/m3"
)

const (
	// sdkPatience bounds an operation of go-sdk's client, which has no deadlines of its own; sdkStart its handshake.
	sdkPatience = 1500 * time.Millisecond
	sdkStart    = 4 * time.Second
)

// playSDK plays the session with go-sdk's client. What takes longer than its patience hangs.
func (w *wildCase) playSDK(t *testing.T, p *played, transport string) *session {
	t.Helper()
	s := &session{}
	tr, closing := sdkTransport(t, p, transport)
	defer closing()
	opts := &mcp.ClientOptions{}
	if w.sampling {
		opts.CreateMessageHandler = func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil
		}
	}
	if w.plan != nil { // the cases have plans of one leaf
		opts.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			r := w.plan.Response()
			return &mcp.ElicitResult{Action: string(r.Action), Content: r.Content}, nil
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts)
	var cs *mcp.ClientSession
	life, end := context.WithCancel(context.Background()) // an event stream of HTTP+SSE lives as long as the context of Connect
	defer end()
	err := bounded(sdkStart, func(context.Context) (err error) {
		cs, err = client.Connect(life, tr, nil)
		return err
	})
	s.add("connect", "", sdkCode(err))
	if err != nil {
		return s
	}
	for _, step := range w.steps {
		verb, rest, _ := strings.Cut(step, " ")
		if verb == "settle" {
			d, _ := time.ParseDuration(rest) // parsed once already
			time.Sleep(d)
			continue
		}
		err := bounded(min(sdkPatience, w.timeout), func(ctx context.Context) error { return doSDK(ctx, cs, verb, rest) })
		s.add(verb, "", sdkCode(err))
	}
	_ = bounded(time.Second, func(context.Context) error { return cs.Close() }) // closing is not what is compared
	return s
}

// sdkTransport connects go-sdk's client to the server.
func sdkTransport(t *testing.T, p *played, transport string) (mcp.Transport, func()) {
	t.Helper()
	switch transport {
	case "stdio":
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); p.w.ServeStream(far) }()
		return &mcp.IOTransport{Reader: near, Writer: near}, func() { near.Close(); <-done }
	case "process":
		s := p.server.(m3.StdioServer)
		cmd := exec.Command(s.Command)
		cmd.Env = append(os.Environ(), rulesVariable+"="+p.rules)
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: 300 * time.Millisecond}, func() {
			if cmd.Process != nil {
				cmd.Process.Kill()
			}
		}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: p.url}, func() {}
	}
	return &mcp.StreamableClientTransport{Endpoint: p.url, MaxRetries: -1}, func() {}
}

// bounded runs fn and leaves it behind when it does not heed its context.
func bounded(d time.Duration, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(d + 200*time.Millisecond):
		return context.DeadlineExceeded
	}
}

// sdkCode is what became of an operation: nothing tells more of its errors than their text.
func sdkCode(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), context.DeadlineExceeded.Error()):
		return "hangs"
	}
	return "error"
}

func doSDK(ctx context.Context, cs *mcp.ClientSession, verb, rest string) error {
	tool, args, _ := strings.Cut(rest, " ")
	if args == "" {
		args = "{}"
	}
	call := func() (string, error) {
		_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		return "", err
	}
	var err error
	switch verb {
	case "list":
		_, err = cs.ListTools(ctx, nil)
	case "listall":
		n := 0
		for _, e := range cs.Tools(ctx, nil) {
			if err = e; err != nil || n > 1000 {
				break
			}
			n++
		}
		if n > 1000 {
			err = context.DeadlineExceeded // it would go on for ever
		}
	case "call":
		_, err = call()
	case "progress":
		params := &mcp.CallToolParams{Name: tool}
		params.SetProgressToken("token")
		_, err = cs.CallTool(ctx, params)
	case "both":
		_, err = twice(call)
	case "cancel":
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
		_, err = cs.CallTool(sub, &mcp.CallToolParams{Name: tool})
	case "ping":
		err = cs.Ping(ctx, nil)
	}
	return err
}
