// Command tiny is an MCP server of the tests that starts in no time. Its argument says how it behaves.
package main

import (
	"os"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/endtoend/rawserver"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "silent" { // never answers, and does not end with its input
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	s, err := rawserver.Stdio("-")
	if err != nil {
		os.Exit(1)
	}
	s.Tools = map[string]rawserver.Tool{
		"echo": func(s *rawserver.Server, c *rawserver.Call) { s.Text(c.ID, string(c.Arguments)) },
		"die": func(*rawserver.Server, *rawserver.Call) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // to oneself it is always allowed
			select {}
		},
	}
	if s.Serve() != nil {
		os.Exit(1)
	}
}
