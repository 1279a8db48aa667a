package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/m3-go/m3/internal/conformance"
)

// asM3 makes the test binary m3 itself, for the tests that need a real process outside a script.
const asM3 = "M3_TEST_AS_M3"

// asSilent makes it a server that opens and closes the file named, and then says nothing.
const asSilent = "M3_TEST_AS_SILENT"

// asSlow makes it a server whose tool sleep takes a minute.
const asSlow = "M3_TEST_AS_SLOW"

func TestMain(m *testing.M) {
	if os.Getenv(asSlow) != "" {
		serveSlowly()
		os.Exit(0)
	}
	if ready := os.Getenv(asSilent); ready != "" {
		if err := os.WriteFile(ready, nil, 0o600); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Minute)
	}
	if os.Getenv(asM3) != "" {
		conformance.Child()
		main()
	}
	testscript.Main(conformance.Wrap(m), map[string]func(){
		"m3":         func() { conformance.Child(); main() },
		"mcpserver":  serve,
		"mcpbanner":  func() { fmt.Println("Shipping server 1.2 listening"); serve() },
		"mcpexit":    func() { fmt.Fprintln(os.Stderr, "config.yaml: no such file"); os.Exit(3) },
		"mcpsilent":  func() { time.Sleep(time.Minute) },
		"mcphostile": func() { fmt.Fprintln(os.Stderr, "\x1b]0;owned\x07 bye"); os.Exit(4) },
	})
}

// serve serves on stdin and stdout.
func serve() {
	if err := shippingServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func serveSlowly() {
	s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "sleep"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// shippingServer has something of everything that inspect lists.
func shippingServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shipping", Version: "1.2.0"}, &mcp.ServerOptions{Instructions: "Ask for quotes."})
	type in struct {
		WeightKG float64 `json:"weight_kg"`
		City     string  `json:"city,omitempty"`
	}
	type out struct {
		Price float64 `json:"price"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "quote", Description: "Quote a shipment.\nIn euros."}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, out, error) {
		if a.WeightKG <= 0 {
			return nil, out{}, fmt.Errorf("weight_kg must be positive, got %v", a.WeightKG)
		}
		return nil, out{Price: 3 * a.WeightKG}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "env", Description: "Print a variable."}, func(_ context.Context, _ *mcp.CallToolRequest, a struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Name + "=" + os.Getenv(a.Name)}}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	s.AddResource(&mcp.Resource{URI: "file:///rates", Name: "rates"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return s
}

// recordedModule makes the folder of a script, where it has one of that name, a module that uses the m3 of this tree.
func recordedModule(root, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(mod), "module github.com/m3-go/m3\n", "module example.test/recorded\n", 1)
	text, _, _ = strings.Cut(text, "\ntool ")
	text += "\nrequire github.com/m3-go/m3 v0.0.0\n\nreplace github.com/m3-go/m3 => " + root + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	goEnv := map[string]string{}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOROOT"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		goEnv[name] = strings.TrimSpace(string(out))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			for name, value := range goEnv {
				e.Setenv(name, value)
			}
			e.Setenv("GOFLAGS", "")
			e.Values["provider"] = &scriptProvider{}
			e.Setenv(conformance.EnvSchemas, os.Getenv(conformance.EnvSchemas))
			e.Setenv(conformance.EnvLog, os.Getenv(conformance.EnvLog))
			return recordedModule(root, filepath.Join(e.WorkDir, "recorded"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"json": jsonCommand, "latest": latestCommand, "show": showCommand,
			"baseline": baselineCommand,
			"jsonl":    jsonlCommand, "commands": commandsCommand, "provider": providerCommand, "reached": reachedCommand, "verdicts": verdictsCommand},
	})
}
