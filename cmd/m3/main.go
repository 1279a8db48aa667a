// Command m3 tests MCP servers from the command line: it runs go test and keeps what the tests saw (m3 test), looks at one
// server (m3 inspect, m3 call), and shows a stored execution (m3 show).
//
// It is a thin user of the module's packages: each command is one file here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3/internal/report"
)

func main() {
	wd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "m3: "+err.Error())
		os.Exit(exitUsage)
	}
	c := &cli{in: os.Stdin, out: os.Stdout, err: os.Stderr, dir: wd}
	os.Exit(c.run(context.Background(), os.Args[1:]))
}

// The exit codes that are m3's own. m3 test passes those of go test through.
const (
	exitServer      = 1   // the server's fault, or a tool's error
	exitBlocked     = 1   // of m3 test: a required evaluation did not pass or is missing
	exitUsage       = 2   // usage or operation
	exitHangup      = 129 // SIGHUP
	exitInterrupted = 130 // Ctrl-C
	exitTerminated  = 143 // SIGTERM
)

// cli is where a command reads and writes.
type cli struct {
	in       io.Reader
	out, err io.Writer
	dir      string // the working directory
	args     []string
	patience time.Duration // with a locked database; 0: lockPatience
}

// exitError ends m3 with a code; what there was to say has been said.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// hintError is an error with what to do about it. Hints are the command line's alone: no library error has one.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hint makes an error of usage or operation with a hint.
func hint(hint, format string, args ...any) error {
	return &hintError{err: fmt.Errorf(format, args...), hint: hint}
}

func (c *cli) run(ctx context.Context, args []string) int {
	c.args = args
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var done *exitError
	var hinted *hintError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &done):
		return done.code
	case errors.As(err, &hinted):
		c.fail(err.Error(), hinted.hint)
	case strings.HasPrefix(err.Error(), "unknown command"):
		c.fail(err.Error(), "m3 --help lists the commands")
	default:
		c.fail(err.Error(), "")
	}
	return exitUsage
}

// fail prints an error, and a hint below it.
func (c *cli) fail(message, hint string) {
	fmt.Fprintln(c.err, "m3: "+report.Clean(strings.TrimPrefix(message, "m3: ")))
	if hint != "" {
		fmt.Fprintln(c.err, "hint: "+report.Clean(hint))
	}
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "m3",
		Short:             "Test MCP servers, and keep the evidence",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Version:           versionText(),
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &hintError{err: err, hint: cmd.CommandPath() + " --help lists the flags"}
	})
	root.AddCommand(c.testCommand(), c.inspectCommand(), c.callCommand(), c.probeCommand(), c.lockCommand(), c.showCommand(), c.versionCommand())
	return root
}
