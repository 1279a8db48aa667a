package opencode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/harness/opencode"
)

func wantBlame(t *testing.T, err error, blame harness.Blame, code, text string) *harness.Error {
	t.Helper()
	var e *harness.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v (%T), want the blame %s, %s", err, err, blame, code)
	}
	if e.Blame != blame || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("%s, %s: %s; want %s, %s with %q", e.Blame, e.Code, e.Message, blame, code, text)
	}
	return e
}

// TestOpenFailures: what can be wrong before the first message, each with its blame; nothing stays open.
func TestOpenFailures(t *testing.T) {
	t.Parallel()
	answer := func(path string, status int, body string) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path != path {
				return false
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	for name, tc := range map[string]struct {
		change func(f *fakeServe)
		blame  harness.Blame
		code   string
		text   string
	}{
		"it ends at once": {func(f *fakeServe) {
			f.lines, f.proc.tail = "nothing\n", "boom"
			f.proc.die(7, "")
		}, harness.BlameAgent, "agent_crashed", "with exit code 7; its last words: boom"},
		"it refuses its configuration": {func(f *fakeServe) {
			f.lines, f.proc.tail = "nothing\n", "Error: Configuration is invalid at x"
			f.proc.die(1, "")
		}, harness.BlameHarness, "configuration_refused", "Configuration is invalid"},
		"it never says where": {func(f *fakeServe) {
			f.lines, f.cfg.StartTimeout = "opencode server listening on http://example.test:1\n", 50*time.Millisecond
		}, harness.BlameAgent, "agent_timeout", "50ms"},
		"it closes its output": {func(f *fakeServe) {
			f.lines, f.silent = "nothing\n", true
		}, harness.BlameAgent, "agent_protocol", "closed its output"},
		"nobody listens": {func(f *fakeServe) { f.lines = "opencode server listening on http://127.0.0.1:1\n" }, harness.BlameAgent, "agent_protocol", "refused"},
		"a server failed": {func(f *fakeServe) { f.mcp = `{"calc":{"status":"failed","error":"Connection closed"}}` }, harness.BlameServer, "server_failed",
			"server calc is failed for OpenCode: Connection closed"},
		"a server wants a login": {func(f *fakeServe) { f.mcp = `{"calc":{"status":"needs_auth"}}` }, harness.BlameServer, "server_failed", "needs_auth"},
		"a server is dropped":    {func(f *fakeServe) { f.mcp = `{"other":{"status":"connected"}}` }, harness.BlameAgent, "servers_dropped", "server calc"},
		"its state is nonsense":  {func(f *fakeServe) { f.mcp = `[1` }, harness.BlameAgent, "agent_protocol", "GET /mcp"},
		"the server's tools are not listed": {func(f *fakeServe) { f.host.Serving = func(string) error { return errors.New("no connection") } }, harness.BlameServer, "server_failed",
			"no connection"},
		"the kit blames": {func(f *fakeServe) {
			f.host.Serving = func(string) error { return harness.Errorf(harness.BlameAgent, "servers_dropped", "it never connected") }
		}, harness.BlameAgent, "servers_dropped", "never connected"},
		"no events":            {func(f *fakeServe) { f.over = answer("/event", 503, "no") }, harness.BlameAgent, "agent_protocol", "HTTP 503"},
		"no session":           {func(f *fakeServe) { f.over = answer("/session", 400, `{"name":"BadRequest"}`) }, harness.BlameAgent, "agent_protocol", "HTTP 400"},
		"a session without id": {func(f *fakeServe) { f.over = answer("/session", 200, `{"id":"../x"}`) }, harness.BlameAgent, "agent_protocol", "../x"},
		"a redirect":           {func(f *fakeServe) { f.over = answer("/mcp", 302, "") }, harness.BlameAgent, "agent_protocol", "HTTP 302"},
		"another dialect":      {func(f *fakeServe) { f.spec.Endpoint.Dialect = harness.AnthropicMessages }, harness.BlameHarness, "dialect_unknown", "anthropic_messages"},
		"no provider":          {func(f *fakeServe) { f.spec.Endpoint, f.spec.Model = nil, "gpt" }, harness.BlameTest, "model_unknown", "provider/model"},
		"tools of one name": {func(f *fakeServe) {
			f.spec.Tools = harness.Tools{Allowed: map[string][]string{"calc": {"get.sum", "get_sum"}}}
		}, harness.BlameTest, "tools_ambiguous",
			"calc_get_sum"},
		"an option of m3's":   {func(f *fakeServe) { f.cfg.Options = map[string]any{"mcp": nil} }, harness.BlameTest, "option_unknown", `"mcp"`},
		"an option as func":   {func(f *fakeServe) { f.cfg.Options = map[string]any{"agent": func() {}} }, harness.BlameTest, "option_unknown", "JSON"},
		"a negative number":   {func(f *fakeServe) { f.cfg.Retries = -1 }, harness.BlameTest, "option_unknown", "Retries"},
		"a negative duration": {func(f *fakeServe) { f.cfg.ToolTimeout = -1 }, harness.BlameTest, "option_unknown", "timeout"},
		"a provider's path":   {func(f *fakeServe) { f.cfg.Provider = "a/b" }, harness.BlameTest, "option_unknown", "Provider"},
		"a tool's pattern":    {func(f *fakeServe) { f.cfg.Builtins = []string{"*"} }, harness.BlameTest, "option_unknown", "built-in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			tc.change(f)
			s, err := f.try()
			if s != nil {
				t.Fatal("there is a session")
			}
			wantBlame(t, err, tc.blame, tc.code, tc.text)
			if len(f.host.Commands()) > 0 && f.proc.stops != 1 {
				t.Errorf("the process was stopped %d times", f.proc.stops)
			}
			if f.asked("GET /config") > 0 {
				t.Error("the configuration was asked for: it shows keys")
			}
		})
	}
}

// TestOpenDeadline: the end of the context ends the opening, wherever it is.
func TestOpenDeadline(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/mcp", "/event", "/session"} {
		t.Run("at "+path, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			if path == "" {
				f.lines = "nothing\n"
			}
			f.over = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Path != path {
					return false
				}
				select {
				case <-r.Context().Done():
				case <-release:
				}
				return true
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			s, err := opencode.New(f.cfg).Open(ctx, f.spec, f.host)
			if s != nil || !errors.Is(err, context.DeadlineExceeded) || f.proc.stops != 1 {
				t.Errorf("%v, %v, stopped %d times", s, err, f.proc.stops)
			}
		})
	}
}

// TestSettings: the command, its environment and its configuration file.
func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.mcp = `{"calc":{"status":"connected"},"web":{"status":"connected"}}`
	f.spec.Servers = []harness.Endpoint{{Name: "calc", Command: "/bin/shim", Args: []string{"-x"}, Env: []string{"A=b=c", "T={env:SECRET}"}}, {Name: "web", URL: "http://127.0.0.1:2/mcp", Header: map[string]string{"X-Token": "t"}}}
	f.spec.Tools = harness.Tools{Allowed: map[string][]string{"calc": {"get.sum", "add"}}}
	f.spec.AskPermission = true
	f.spec.Instructions = `Say "hi" {file:/etc/passwd} <b>`
	f.spec.Credentials = map[string]string{"OTHER_KEY": "v"}
	f.cfg.Builtins, f.cfg.ToolTimeout = []string{"read"}, 1500*time.Millisecond
	f.cfg.Options = map[string]any{"agent": map[string]any{"title": map[string]any{"disable": true}}, "compaction": map[string]any{"auto": false}}
	f.open()
	c := f.host.Commands()[0]
	if got := strings.Join(c.Args, " "); got != "serve --hostname 127.0.0.1 --port 0" || c.Dir != f.spec.Workspace || c.Role != "agent" {
		t.Errorf("%q in %s as %s", got, c.Dir, c.Role)
	}
	config := filepath.Join(f.spec.Home, "opencode.json")
	env := "\n" + strings.Join(c.Env, "\n") + "\n"
	for _, want := range []string{"HOME=" + f.spec.Home, "OPENCODE_CONFIG=" + config, "OTHER_KEY=v", "MODEL_ENDPOINT_KEY=key", "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DB=:memory:", "npm_config_registry=http://127.0.0.1:9/"} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("the environment has no %s", want)
		}
	}
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Contains(s, "{file:") || strings.Count(s, "{env:") != 1 || strings.Contains(s, `"key"`) || !strings.Contains(s, `"permission":{"*":"deny","doom_loop":"allow","read":"ask","calc_add":"ask","calc_get_sum":"ask"}`) {
		t.Errorf("the configuration is\n%s", s)
	}
	var got struct {
		MCP map[string]struct {
			Type, URL   string
			Command     []string
			Environment map[string]string
			Headers     map[string]string
			OAuth       *bool
			Timeout     int
		}
		Agent        map[string]struct{ Prompt string }
		DefaultAgent string `json:"default_agent"`
		Compaction   struct{ Auto *bool }
		Provider     map[string]struct {
			Options struct{ BaseURL, APIKey string }
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	calc, web := got.MCP["calc"], got.MCP["web"]
	if calc.Type != "local" || fmt.Sprint(calc.Command) != "[/bin/shim -x]" || calc.Environment["A"] != "b=c" || calc.Environment["T"] != "{env:SECRET}" || calc.Timeout != 1500 {
		t.Errorf("the local server is %+v", calc)
	}
	if web.Type != "remote" || web.URL != "http://127.0.0.1:2/mcp" || web.Headers["X-Token"] != "t" || web.OAuth == nil || *web.OAuth {
		t.Errorf("the remote server is %+v", web)
	}
	if got.Agent["m3"].Prompt != f.spec.Instructions || got.DefaultAgent != "m3" || got.Compaction.Auto == nil || len(got.Agent) != 2 {
		t.Errorf("the agents are %+v", got)
	}
	if p := got.Provider["m3"].Options; p.BaseURL != "http://127.0.0.1:1/v1" || p.APIKey != "{env:MODEL_ENDPOINT_KEY}" {
		t.Errorf("the provider is %+v", p)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestLiveModel: a model of a real provider is named by its provider, and gets what the test's credentials give it.
func TestLiveModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ model, provider, wantProvider, wantModel string }{
		{"anthropic/claude", "", "anthropic", "claude"}, {"claude", "anthropic", "anthropic", "claude"}, {"openrouter/meta/llama", "x", "openrouter", "meta/llama"},
	} {
		f := newFake(t)
		f.spec.Endpoint, f.spec.Model, f.cfg.Provider = nil, tc.model, tc.provider
		s := f.open()
		if _, err := s.Send(t.Context(), &harness.Prompt{Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"model":{"providerID":%q,"modelID":%q}`, tc.wantProvider, tc.wantModel); f.asked("POST /session/ses_1/message {"+want) != 1 {
			t.Errorf("%s: the message was sent as %v", tc.model, f.requests)
		}
		if env := strings.Join(f.host.Commands()[0].Env, "\n"); strings.Contains(env, "MODEL_ENDPOINT_KEY") || strings.Contains(env, "MODELS_FETCH") {
			t.Errorf("the environment is that of a scripted model:\n%s", env)
		}
	}
}

// TestCheck: a program that is not there, that is no OpenCode, and that is of another version.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, reason, text string }{
		"missing":     {"", "executable_missing", "npm install"},
		"another":     {"#!/bin/sh\necho 2.0.1\n", "version_unknown", "2.0.1"},
		"none":        {"#!/bin/sh\necho no version here\n", "version_unknown", "no version here"},
		"failing":     {"#!/bin/sh\necho it broke >&2; exit 3\n", "version_unknown", "it broke"},
		"of this one": {"#!/bin/sh\necho 1.19.0\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "opencode")
			if tc.script != "" {
				if err := os.WriteFile(path, []byte(tc.script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			found, err := opencode.New(opencode.Config{Executable: path}).Check(t.Context())
			var u *harness.UnavailableError
			switch {
			case tc.reason == "":
				if err != nil || found.Version != "1.19.0" || found.Executable != path {
					t.Errorf("%+v, %v", found, err)
				}
			case !errors.As(err, &u) || u.Reason != tc.reason || !strings.Contains(u.Message, tc.text):
				t.Errorf("%v, want %s with %q", err, tc.reason, tc.text)
			}
		})
	}
	if _, err := exec.LookPath("opencode"); err != nil {
		if _, err := opencode.New(opencode.Config{}).Check(t.Context()); err == nil {
			t.Error("nothing is there, and it was found")
		}
	}
}
