package model_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/model"
)

// transcripts are requests of the real agents, which stand beside this repository.
const transcripts = "../../shared/harness/transcripts"

// captured is a request of a real agent.
type captured struct {
	Method, Path string
	Dir          string
	Headers      map[string]json.RawMessage
	Body         json.RawMessage
}

// header is one header, which the transcripts have as a text or as a list.
func (c captured) header(name string) string {
	for key, raw := range c.Headers {
		if !strings.EqualFold(key, name) {
			continue
		}
		var one string
		var many []string
		if json.Unmarshal(raw, &one) == nil {
			return one
		}
		if json.Unmarshal(raw, &many) == nil && len(many) > 0 {
			return many[0]
		}
	}
	return ""
}

// load reads the requests of one agent.
func load(t *testing.T, pattern string) []captured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(transcripts, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		if os.Getenv("M3_REQUIRE_SHARED") == "1" {
			t.Fatal("M3_REQUIRE_SHARED=1, and the transcripts of real agents are not beside this repository: " + transcripts)
		}
		t.Skip("the transcripts of real agents are not beside this repository: " + transcripts)
	}
	var out []captured
	for _, file := range files {
		out = append(out, loadFile(t, file)...)
	}
	return out
}

func loadFile(t *testing.T, file string) []captured {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []captured
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var c captured
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if c.Path == "" && c.Dir == "codex->provider" {
				c.Method, c.Path = http.MethodPost, "/v1/responses"
			}
			if c.Path != "" {
				out = append(out, c)
			}
		}
		if err != nil {
			return out
		}
	}
}

// dialectOf is the protocol of a captured request.
func dialectOf(c captured) harness.Dialect {
	for d, path := range paths {
		if strings.HasPrefix(c.Path, path) {
			return d
		}
	}
	return harness.AnthropicMessages // probes of Claude Code
}

func (r *rig) replay(c captured) reply {
	r.t.Helper()
	return r.do(c.Method, c.Path, string(c.Body), "X-Openai-Subagent", c.header("X-Openai-Subagent"))
}

// TestCapturedRequests gives the requests of the real agents to a provider: each is known for what it is, and only turns take steps.
func TestCapturedRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent, pattern string
		want           map[string]int
	}{
		{"opencode", "opencode/provider-requests.jsonl", map[string]int{"openai_chat turn": 5, "openai_chat title": 2}},
		{"pi", "pi/pi-provider-requests.jsonl", map[string]int{"openai_chat turn": 2, "openai_responses turn": 2, "anthropic_messages turn": 2}},
		{"codex 0.156.1", "codex/0.156.1/*.provider.jsonl", map[string]int{"openai_responses turn": 74}},
		{"codex 0.171.0", "codex/0.171.0/*.provider.jsonl", map[string]int{"openai_responses turn": 14}},
		{"claude code", "claude/*.provider.jsonl", map[string]int{"anthropic_messages turn": 71, "anthropic_messages probe": 18}},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			t.Parallel()
			got := map[string]int{}
			rigs := map[harness.Dialect]*rig{}
			for _, c := range load(t, tc.pattern) {
				d := dialectOf(c)
				if rigs[d] == nil {
					rigs[d] = open(t, d, model.Script{model.Say("fine").Forever()})
				}
				a := rigs[d].replay(c)
				x := rigs[d].last()
				got[fmt.Sprintf("%s %s", d, x.Role)]++
				if x.Role == model.RoleTurn && (a.status != http.StatusOK || !strings.HasPrefix(x.Step, "step 1 ")) || x.Role != model.RoleTurn && x.Step != "" {
					t.Errorf("%s: %d %s by %q", c.Path, a.status, a.body, x.Step)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests by dialect and role (-want +got):\n%s", diff)
			}
			for _, r := range rigs {
				r.followed()
			}
		})
	}
}

// TestCapturedConversations: conditions and tool names hold for what the real agents send.
func TestCapturedConversations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent, pattern string
		request        int // the one to look at
		servers        []string
		step           model.Step
		want           string // a part of the answer
	}{
		{"opencode", "opencode/provider-requests.jsonl", 1, []string{"calc"}, model.Call("calc:add", nil).When(model.Text("CALL calc_add"), model.System("You are opencode"), model.Lacks("calc:nosuch")), `"name":"calc_add"`},
		{"opencode after a tool", "opencode/provider-requests.jsonl", 2, []string{"calc"}, model.Call("calc:ask", nil).When(model.Result("unavailable tool"), model.Text("CALL calc_add")), `"name":"calc_ask"`},
		{"pi", "pi/pi-provider-requests.jsonl", 0, []string{"probe"}, model.Call("probe:echo", nil).When(model.Text("SAY hello"), model.System("operating inside pi"), model.Lacks("read")), `"name":"mcp__probe__echo"`},
		{"pi after a tool", "pi/pi-provider-requests.jsonl", 1, []string{"probe"}, model.Call("probe:sum", nil).When(model.Result("echo: hi"), model.Text("CALL echo"), model.Absent("SECRET")), `"name":"mcp__probe__sum"`},
		{"pi by messages", "pi/pi-provider-requests.jsonl", 3, []string{"probe"}, model.Call("probe:sum", nil).When(model.Result("elicited accept"), model.Text("CALL ask")), `"name":"mcp__probe__sum"`},
		{"pi by responses", "pi/pi-provider-requests.jsonl", 5, []string{"probe"}, model.Call("probe:sum", nil).When(model.Result("elicited accept"), model.Text("CALL ask"), model.System("operating inside pi")), `"name":"mcp__probe__sum"`},
		{"codex", "codex/0.171.0/echo_ns.provider.jsonl", 0, []string{"lab"}, model.Call("lab:echo", nil).When(model.Text("call echo"), model.System("coding agent running in the Codex CLI"), model.Offers("exec_command")), `"name":"echo","namespace":"mcp__lab"`},
		{"codex after a tool", "codex/0.171.0/echo_ns.provider.jsonl", 1, []string{"lab"}, model.Say("fine").When(model.Result(`{"echo":"hi"}`), model.Text("call echo")), `fine`},
		{"claude code", "claude/multi.332.provider.jsonl", 0, []string{"calc"}, model.Call("calc:add", nil).When(model.Text("add 2 and 3"), model.System("Claude Agent SDK"), model.Lacks("Bash")), `"name":"mcp__calc__add"`},
		{"claude code after a tool", "claude/multi.332.provider.jsonl", 1, []string{"calc"}, model.Call("calc:ask", nil).When(model.Result(`{"sum":5}`), model.Text("add 2 and 3")), `"name":"mcp__calc__ask"`},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			t.Parallel()
			c := load(t, tc.pattern)[tc.request]
			r := open(t, dialectOf(c), model.Script{tc.step}, func(p *harness.Provision) { p.Servers = tc.servers })
			if got := r.replay(c); got.status != http.StatusOK || !strings.Contains(string(r.last().Response), tc.want) {
				t.Errorf("answer %d %s, recorded %s, want %s", got.status, got.body, r.last().Response, tc.want)
			}
			r.followed()
		})
	}
}
