package acpagent

import (
	"context"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine is the longest message that the agent takes from a server on stdio. The SDK's own limit for a command, 16 MiB, is less than some results have.
const maxLine = 64 << 20

// stopGrace is how long a server may take to end after the end of its input, and again after SIGTERM.
const stopGrace = 5 * time.Second

// command is mcp.CommandTransport with a limit of its own.
type command struct{ cmd *exec.Cmd }

// Connect starts the server.
func (c *command) Connect(ctx context.Context) (mcp.Connection, error) {
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	t := &mcp.IOTransport{Reader: io.NopCloser(out), Writer: &input{in, c.cmd}, MaxLineLength: maxLine}
	return t.Connect(ctx)
}

// input is a server's standard input. Its end is the server's.
type input struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close ends the server: by the end of its input, by SIGTERM, by SIGKILL.
func (i *input) Close() error {
	if err := i.WriteCloser.Close(); err != nil {
		return err
	}
	term := time.AfterFunc(stopGrace, func() { _ = i.cmd.Process.Signal(syscall.SIGTERM) })
	kill := time.AfterFunc(2*stopGrace, func() { _ = i.cmd.Process.Kill() })
	defer kill.Stop()
	defer term.Stop()
	return i.cmd.Wait()
}
