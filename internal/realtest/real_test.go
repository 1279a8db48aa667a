package realtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/internal/conformance"
	"github.com/m3-go/m3/m3test"
	"github.com/m3-go/m3/trace"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(calcVariable); how != "" {
		os.Exit(playCalc(how))
	}
	m3test.Main(conformance.Wrap(m), &m3test.Config{Suite: "real servers"})
}

// tools is where .ci/real-tools put the servers.
func tools(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("M3_REAL_TOOLS")
	if dir != "" {
		return dir
	}
	if os.Getenv("M3_REQUIRE_REAL") == "1" {
		t.Fatal("M3_REQUIRE_REAL=1, and M3_REAL_TOOLS is not set: run . .ci/real-tools first")
	}
	t.Skip("the real servers are not installed: run . .ci/real-tools from the repository's root, then this test again")
	return ""
}

// verdict collects what a check found wrong. It is not the test, so that a check can be seen to fail.
type verdict struct{ wrong []string }

func (v *verdict) expect(holds bool, format string, args ...any) {
	if !holds {
		v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
	}
}

// call expects that a tool succeeds and that its text holds want.
func (v *verdict) call(t *testing.T, c *m3.Client, tool string, args m3.Args, want string) *m3.ToolCallResult {
	res, err := c.CallTool(t.Context(), tool, args, nil)
	if err != nil {
		v.expect(false, "%s: %v", tool, err)
		return &m3.ToolCallResult{}
	}
	v.expect(!res.IsError, "%s: tool error: %s", tool, res.Text())
	v.expect(strings.Contains(res.Text(), want), "%s: text %q has no %q", tool, res.Text(), want)
	return res
}

// inspect expects what every one of these servers must show: a name, and the tools listed in whole.
func (v *verdict) inspect(t *testing.T, c *m3.Client, name string, tools ...string) {
	i := c.Initialization()
	v.expect(i.ServerName == name, "server name %q, want %q", i.ServerName, name)
	all, err := c.ListAllTools(t.Context(), nil)
	if err != nil {
		v.expect(false, "list tools: %v", err)
		return
	}
	have := map[string]bool{}
	for _, tool := range all {
		have[tool.Name] = true
		v.expect(tool.Malformed == "" && json.Valid(tool.InputSchema), "tool %s: no usable input schema", tool.Name)
	}
	for _, tool := range tools {
		v.expect(have[tool], "tool %s is not listed", tool)
	}
}

type realServer struct {
	name  string
	start func(t *testing.T, tools string) (command string, args []string, env map[string]string)
	check func(t *testing.T, v *verdict, c *m3.Client, dir string)
	// defect is a text of the server's, and what it is replaced by to see the check fail.
	defect [2]string
}

func npm(name string) func(*testing.T, string) (string, []string, map[string]string) {
	return func(_ *testing.T, tools string) (string, []string, map[string]string) {
		return filepath.Join(tools, "npm/node_modules/.bin", name), nil, nil
	}
}

func checkEverything(t *testing.T, v *verdict, c *m3.Client, _ string) {
	v.inspect(t, c, "mcp-servers/everything", "echo", "get-sum", "trigger-long-running-operation")
	v.call(t, c, "echo", m3.Args{"message": "hi"}, "Echo: hi")
	v.call(t, c, "get-sum", m3.Args{"a": 2, "b": 3}, "The sum of 2 and 3 is 5.")
	weather := v.call(t, c, "get-structured-content", m3.Args{"location": "New York"}, "")
	var out struct {
		Temperature json.Number `json:"temperature"`
	}
	v.expect(weather.Decode(&out) == nil && out.Temperature != "", "structured content: %s", weather.StructuredContent)
	resources, err := c.ListAllResources(t.Context(), nil)
	v.expect(err == nil && len(resources) > 0, "resources: %d, %v", len(resources), err)
	if len(resources) > 0 {
		doc, err := c.ReadResource(t.Context(), resources[0].URI, nil)
		v.expect(err == nil && doc.Text() != "", "read %s: %v", resources[0].URI, err)
	}
	templates, err := c.ListAllResourceTemplates(t.Context(), nil)
	v.expect(err == nil && len(templates) == 2, "templates: %d, %v", len(templates), err)
	prompts, err := c.ListAllPrompts(t.Context(), nil)
	v.expect(err == nil && len(prompts) > 0, "prompts: %d, %v", len(prompts), err)
	prompt, err := c.GetPrompt(t.Context(), "args-prompt", map[string]string{"city": "Pune"}, nil)
	v.expect(err == nil && strings.Contains(string(prompt.Raw), "Pune"), "prompt: %v", err)
	var steps int
	_, err = c.CallTool(t.Context(), "trigger-long-running-operation", m3.Args{"duration": 0.2, "steps": 2}, &m3.CallOptions{Progress: func(m3.Progress) { steps++ }})
	v.expect(err == nil && steps >= 1, "progress: %d notifications, %v", steps, err)
}

var servers = []realServer{
	{
		name: "everything", start: npm("mcp-server-everything"), check: checkEverything, defect: [2]string{"The sum of 2 and 3 is 5.", "The sum of 2 and 3 is 6."},
	},
	{
		name: "filesystem",
		start: func(t *testing.T, tools string) (string, []string, map[string]string) {
			dir := workDir(t)
			if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(tools, "npm/node_modules/.bin/mcp-server-filesystem"), []string{dir}, nil
		},
		check: func(t *testing.T, v *verdict, c *m3.Client, dir string) {
			v.inspect(t, c, "secure-filesystem-server", "read_text_file", "list_directory", "write_file")
			v.call(t, c, "read_text_file", m3.Args{"path": filepath.Join(dir, "a.txt")}, "hello")
			v.call(t, c, "list_directory", m3.Args{"path": dir}, "[FILE] a.txt")
			outside, err := c.CallTool(t.Context(), "read_text_file", m3.Args{"path": "/etc/hostname"}, nil)
			v.expect(err == nil && outside.IsError, "a file outside the allowed directory was read: %v", err)
		},
		defect: [2]string{"hello", "HELLO"},
	},
	{
		name: "memory",
		start: func(t *testing.T, tools string) (string, []string, map[string]string) {
			return filepath.Join(tools, "npm/node_modules/.bin/mcp-server-memory"), nil, map[string]string{"MEMORY_FILE_PATH": filepath.Join(workDir(t), "memory.json")}
		},
		check: func(t *testing.T, v *verdict, c *m3.Client, _ string) {
			v.inspect(t, c, "memory-server", "create_entities", "read_graph")
			v.call(t, c, "create_entities", m3.Args{"entities": []any{m3.Args{"name": "Ada", "entityType": "person", "observations": []string{"likes engines"}}}}, "Ada")
			v.call(t, c, "read_graph", nil, "likes engines")
		},
		defect: [2]string{"likes engines", "likes trains"},
	},
	{
		name: "time",
		start: func(_ *testing.T, tools string) (string, []string, map[string]string) {
			return filepath.Join(tools, "python/bin/mcp-server-time"), []string{"--local-timezone", "UTC"}, nil
		},
		check: func(t *testing.T, v *verdict, c *m3.Client, _ string) {
			v.inspect(t, c, "mcp-time", "get_current_time", "convert_time")
			v.call(t, c, "get_current_time", m3.Args{"timezone": "UTC"}, `"timezone": "UTC"`)
			v.call(t, c, "convert_time", m3.Args{"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "T21:00:00+09:00")
		},
		defect: [2]string{"T21:00:00+09:00", "T20:00:00+09:00"},
	},
	{
		name: "git",
		start: func(t *testing.T, tools string) (string, []string, map[string]string) {
			dir := workDir(t)
			for _, args := range [][]string{{"init", "-q", dir}, {"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.test", "commit", "-q", "--allow-empty", "-m", "the first commit"}} {
				if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v\n%s", args, err, out)
				}
			}
			return filepath.Join(tools, "python/bin/mcp-server-git"), []string{"--repository", dir}, nil
		},
		check: func(t *testing.T, v *verdict, c *m3.Client, dir string) {
			v.inspect(t, c, "mcp-git", "git_status", "git_log")
			v.call(t, c, "git_status", m3.Args{"repo_path": dir}, "nothing to commit")
			v.call(t, c, "git_log", m3.Args{"repo_path": dir}, "the first commit")
		},
		defect: [2]string{"the first commit", "another commit"},
	},
}

var dirs sync.Map // test name → its work directory

func workDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dirs.Store(t.Name(), dir)
	return dir
}

func dirOf(t *testing.T) string {
	dir, _ := dirs.Load(t.Name())
	s, _ := dir.(string)
	return s
}

// TestRealStdio: the server over stdio, every byte captured.
func TestRealStdio(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			command, args, env := s.start(t, tools(t))
			v := runCheck(t, s, m3.StdioServer{Name: s.name, Command: command, Args: args, Env: env})
			for _, w := range v.wrong {
				t.Error(w)
			}
		})
	}
}

// TestRealStdioPlanted: the same check on the same server with a planted defect fails.
func TestRealStdioPlanted(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			command, args, env := s.start(t, tools(t))
			tampered := append([]string{s.defect[0], s.defect[1], command}, args...)
			v := runCheck(t, s, m3.StdioServer{Name: s.name, Build: "./tamper", Args: tampered, Env: env})
			if len(v.wrong) == 0 {
				t.Errorf("the check held although the server's %q was replaced by %q: it cannot fail", s.defect[0], s.defect[1])
			}
		})
	}
}

func runCheck(t *testing.T, s realServer, server m3.Server) *verdict {
	client := m3test.Direct(t, server, nil)
	v := &verdict{}
	s.check(t, v, client, dirOf(t))
	view := m3test.Finish(t, client)
	v.expect(view.Completeness() == trace.Complete, "the trace is %s: %v", view.Completeness(), view.Limitations())
	return v
}

// everythingHTTP starts server-everything over streamable HTTP and returns its URL.
func everythingHTTP(t *testing.T) string {
	command, _, _ := npm("mcp-server-everything")(t, tools(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	cmd := exec.Command(command, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	said := bufio.NewReader(out)
	for {
		line, err := said.ReadString('\n')
		if strings.Contains(line, "listening") {
			break
		}
		if err != nil {
			t.Fatalf("server-everything ended before it listened: %v", err)
		}
	}
	go io.Copy(io.Discard, said)
	return "http://127.0.0.1:" + port + "/mcp"
}

// TestRealHTTP: server-everything over streamable HTTP, and the same with a planted defect.
func TestRealHTTP(t *testing.T) {
	s := servers[0]
	target := everythingHTTP(t)
	t.Run("everything", func(t *testing.T) {
		for _, w := range runCheck(t, s, m3.HTTPServer{Name: s.name, URL: target}).wrong {
			t.Error(w)
		}
	})
	t.Run("planted", func(t *testing.T) {
		if v := runCheck(t, s, m3.HTTPServer{Name: s.name, URL: tamperingProxy(t, target, s.defect)}); len(v.wrong) == 0 {
			t.Error("the check held although the answers were tampered with: it cannot fail")
		}
	})
}

func tamperingProxy(t *testing.T, target string, defect [2]string) string {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = u.Scheme, u.Host, u.Host
		},
		ModifyResponse: func(r *http.Response) error {
			r.Body = &tamperingBody{body: r.Body, defect: defect}
			return nil
		},
		FlushInterval: -1,
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// tamperingBody replaces the text in what passes; both texts have the same length, and each read holds a whole event.
type tamperingBody struct {
	body   io.ReadCloser
	defect [2]string
}

func (b *tamperingBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	copy(p, bytes.ReplaceAll(p[:n], []byte(b.defect[0]), []byte(b.defect[1])))
	return n, err
}

func (b *tamperingBody) Close() error { return b.body.Close() }

// TestRealWrappers: servers started through npx and go run, which put processes of their own in between, are ended whole.
func TestRealWrappers(t *testing.T) {
	dir := tools(t)
	for _, tc := range []struct {
		name   string
		server m3.StdioServer
	}{
		{"npx", m3.StdioServer{Name: "npx", Command: "npx", Args: []string{"--no-install", "mcp-server-everything"}, Dir: filepath.Join(dir, "npm")}},
		{"go-run", m3.StdioServer{Name: "go-run", Command: "go", Args: []string{"run", "../bench/echoserver"}, Inherit: []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "GOPROXY"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := m3test.Direct(t, tc.server, nil)
			if _, err := client.ListAllTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			view := m3test.Finish(t, client)
			p := view.Processes().At(0)
			pid, ok := p.PID.Get()
			if !ok || p.Ended == "" {
				t.Fatalf("the process's end was not recorded: %+v", p)
			}
			if runtime.GOOS == "linux" {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
					t.Errorf("the wrapper's process %d is still there", pid)
				}
			}
			if len(p.Survivors) > 0 {
				t.Logf("ended by the mark: %v", p.Survivors)
			}
		})
	}
}
