package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	checkBound = 20 * time.Second
	checkLine  = "m3 checks its shim\n"
)

// ShimError is an executable that cannot stand for a server.
type ShimError struct {
	Executable string
	// Printed is what it wrote to stdout besides what it was to pass on, cut to 400 bytes; empty when that is not the trouble.
	Printed string
	Stderr  string // its end
	Err     error  // what else went wrong; nil when it printed
}

// Error says what is wrong and what helps.
func (e *ShimError) Error() string {
	const remedy = "; set M3_SHIM to the path of the m3 executable, or of another program without that"
	if e.Printed != "" {
		return fmt.Sprintf("m3: an agent cannot be given %s as its server: when it starts, the init of some package prints %q to stdout, where only the server's messages may be. Move that out of init%s", e.Executable, e.Printed, remedy)
	}
	text := fmt.Sprintf("m3: an agent cannot be given %s as its server: started as m3's shim it did not work: %v", e.Executable, e.Err)
	if e.Stderr != "" {
		text += fmt.Sprintf("; its stderr ends with %q", e.Stderr)
	}
	return text + remedy
}

// Unwrap returns the cause.
func (e *ShimError) Unwrap() error { return e.Err }

// SelfCheck starts the executable as a shim, once, against an echo: what comes back must be what was sent and nothing else. Its errors are
// *[ShimError]. It takes as long as the executable needs to start, and 20 s at most.
func SelfCheck(ctx context.Context, executable string) error {
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	l, err := Listen("", "")
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- serveEcho(ctx, l) }()
	cmd := exec.CommandContext(ctx, executable)
	// Its environment is that of an endpoint: a variable of this process may be what makes an init print, or keeps it from it.
	cmd.Env = append(l.Env(), "PATH="+os.Getenv("PATH"), "HOME="+os.TempDir(), "TMPDIR="+os.TempDir())
	cmd.Stdin = strings.NewReader(checkLine)
	var out, stderr bounded
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.WaitDelay = time.Second
	runErr := cmd.Run()
	l.Close() // no shim came: nobody waits any more
	echoErr := <-served
	if ctx.Err() != nil && runErr != nil {
		runErr = fmt.Errorf("it was still running: %w", ctx.Err())
	}
	bad := &ShimError{Executable: executable, Stderr: stderr.end()}
	switch got := out.String(); {
	case got == checkLine && runErr == nil && echoErr == nil:
		return nil
	case got != checkLine && len(got) > 0 && echoErr == nil:
		bad.Printed = cut(strings.Replace(got, checkLine, "", 1))
		return bad
	case runErr != nil:
		bad.Err = runErr
	case errors.Is(echoErr, ErrClosed):
		bad.Err = errors.New("it ended without connecting: it is no program that has m3 in it")
	case echoErr != nil:
		bad.Err = echoErr
	default:
		bad.Err = errors.New("it passed nothing on")
	}
	return bad
}

// serveEcho is the server behind the check.
func serveEcho(ctx context.Context, l *Listener) error {
	a, _, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	stop := context.AfterFunc(ctx, func() { interrupt(a) })
	defer stop()
	_, err = io.Copy(struct{ io.Writer }{a}, struct{ io.Reader }{a})
	return err
}

// bounded keeps the beginning and the end of what is written to it.
type bounded struct{ bytes.Buffer }

// Write keeps 64 KiB.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 64<<10-b.Len()))])
	return len(p), nil
}

func (b *bounded) end() string {
	s := strings.TrimSpace(b.String())
	return s[max(0, len(s)-400):]
}

func cut(s string) string { return s[:min(len(s), 400)] }
