package opencode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
)

// Tested is the version that the tests run. Others of the same major version are accepted.
const Tested = "1.18.33"

// Config says how OpenCode is run. The zero value is what most tests want.
type Config struct {
	// Executable is the program: a path, or a name that is looked up in PATH. Empty: opencode.
	Executable string
	// Provider is the id of the provider of models that are named without one: with "anthropic", the model "claude-sonnet-4-5" is
	// "anthropic/claude-sonnet-4-5". It is not used for models that bring their own provider.
	Provider string
	// Retries is how often OpenCode may ask a provider that failed again. It waits 2 s, 4 s, 8 s, 16 s and 30 s before, and gives up by itself after 5. 0: the turn fails at the first failure.
	Retries int
	// Builtins are OpenCode's own tools that the agent may use ("read", "bash", "webfetch"), by the names of its permissions. None: the servers' tools alone.
	Builtins []string
	// ToolTimeout is how long OpenCode waits for each answer of a server. 0: 10 minutes, so that the action's own deadline decides.
	ToolTimeout time.Duration
	// StartTimeout is how long OpenCode may take until it listens. 0: 30 s.
	StartTimeout time.Duration
	// Options are further members of OpenCode's configuration file, by their names: "provider", "agent", "compaction". Those that m3 sets itself are refused.
	Options map[string]any
}

// driver implements harness.Driver.
type driver struct{ cfg Config }

// New returns the driver. It does no I/O; what is wrong with cfg is said by [harness.Driver.Check] and [harness.Driver.Open]. The driver keeps a copy of cfg.
func New(cfg Config) harness.Driver {
	cfg.Builtins = slices.Clone(cfg.Builtins)
	cfg.Options = maps.Clone(cfg.Options)
	return &driver{cfg}
}

// Kind is "opencode".
func (d *driver) Kind() string { return "opencode" }

// Capabilities says what OpenCode can do.
func (d *driver) Capabilities() harness.Capabilities {
	return harness.Capabilities{
		MultiTurn: true, Cancel: true, StdioServers: true, HTTPServers: true, NativeTools: true, NoBuiltins: len(d.cfg.Builtins) == 0, Permissions: true,
		Streaming: true, Reasoning: true, Usage: true, Cost: true, ContentKinds: []string{"image"}, Dialects: []harness.Dialect{harness.OpenAIChat}, ModelRequired: true,
	}
}

// owned are the members of the configuration file that Options cannot have.
var owned = []string{"mcp", "permission", "tools", "autoupdate", "share", "snapshot", "model", "small_model", "plugin", "default_agent", "instructions", "server"}

// validate says what is wrong with the configuration.
func (d *driver) validate() *harness.Error {
	c := &d.cfg
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		if slices.Contains(owned, name) {
			return harness.Errorf(harness.BlameTest, "option_unknown", "opencode.Config: Options has %q, which m3 sets itself", name)
		}
	}
	switch {
	case c.Retries < 0:
		return harness.Errorf(harness.BlameTest, "option_unknown", "opencode.Config: Retries is %d: 0 or more are possible", c.Retries)
	case c.ToolTimeout < 0 || c.StartTimeout < 0:
		return harness.Errorf(harness.BlameTest, "option_unknown", "opencode.Config: a timeout is negative")
	case strings.Contains(c.Provider, "/"):
		return harness.Errorf(harness.BlameTest, "option_unknown", "opencode.Config: Provider is %q: give the id of the provider alone", c.Provider)
	}
	for _, name := range c.Builtins {
		if !word.MatchString(name) {
			return harness.Errorf(harness.BlameTest, "option_unknown", "opencode.Config: the built-in tool %q is no name of one", name)
		}
	}
	return nil
}

var word = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// executable finds the program.
func (d *driver) executable() (string, error) {
	name := d.cfg.Executable
	if name == "" {
		name = "opencode"
	}
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &harness.UnavailableError{Kind: "opencode", Reason: "executable_missing",
			Message: fmt.Sprintf("opencode: %q is not there: install it (npm install -g opencode-ai@%s) or set Config.Executable", name, Tested)}
	}
	return path, nil
}

// version is what --version says: the number alone, in a line of its own.
var version = regexp.MustCompile(`(?m)^v?(\d+)\.(\d+)\.(\d+)(?:[-+][0-9A-Za-z.+-]+)?\r?$`)

// probeBound is how long --version may take: on a cold disk the program's 180 MB are read.
const probeBound = 20 * time.Second

// Check finds the program and asks for its version. Even --version writes into the home, so that it gets an empty one.
func (d *driver) Check(ctx context.Context) (harness.Installation, error) {
	if e := d.validate(); e != nil {
		return harness.Installation{}, e
	}
	path, err := d.executable()
	if err != nil {
		return harness.Installation{}, err
	}
	home, err := os.MkdirTemp("", "m3-opencode-")
	if err != nil {
		return harness.Installation{}, &harness.Error{Blame: harness.BlameHarness, Code: "home_failed", Message: "opencode: no directory for its version check: " + err.Error(), Err: err}
	}
	defer func() { _ = os.RemoveAll(home) }()
	bounded, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	out, err := probe(bounded, path, home)
	m := version.FindStringSubmatch(out)
	switch {
	case ctx.Err() != nil:
		return harness.Installation{}, ctx.Err()
	case err != nil:
		return harness.Installation{}, unknown("opencode: %s --version failed: %v", path, err)
	case m == nil:
		return harness.Installation{}, unknown("opencode: %s --version says %.80q, which is no version", path, out)
	case m[1] != "1":
		return harness.Installation{}, unknown("opencode: %s is version %s: m3 knows version 1 (tested with %s)", path, strings.TrimSpace(m[0]), Tested)
	}
	return harness.Installation{Executable: path, Version: strings.TrimSpace(m[0]), Runtime: map[string]string{"dialect": "legacy", "tested": Tested}}, nil
}

func unknown(format string, args ...any) error {
	return &harness.UnavailableError{Kind: "opencode", Reason: "version_unknown", Message: fmt.Sprintf(format, args...)}
}

// probe runs the program for its version.
func probe(ctx context.Context, path, home string) (string, error) {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Dir, cmd.Env = home, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home,
		"XDG_CACHE_HOME=" + home, "XDG_STATE_HOME=" + home}, quiet...)
	cmd.WaitDelay = time.Second
	out := &head{max: 4096}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err != nil && out.text() != "" {
		err = fmt.Errorf("%w: %.200s", err, out.text())
	}
	return out.text(), err
}

// head keeps the beginning of what is written.
type head struct {
	max int
	b   []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), h.max-len(h.b))]...)
	return len(p), nil
}

func (h *head) text() string { return strings.TrimSpace(string(h.b)) }
