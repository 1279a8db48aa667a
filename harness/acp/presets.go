package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/m3-go/m3/harness"
)

// providerID is how the presets call the model endpoint in an agent's own configuration, and keyVariable where they put its key.
const (
	providerID  = "m3"
	keyVariable = "MODEL_ENDPOINT_KEY"
)

// OpenCode is `opencode acp` of PATH. The model is spec.Model as opencode names it (provider/model). Without a test that wants to be asked it asks nothing.
//
// What it counts as usage is its last request to the model alone, and its cost the session's. It does not forward a server's request for input.
func OpenCode() Config {
	return Config{
		Command: "opencode", Args: []string{"acp"},
		Setup: setupOpenCode, Dialects: []harness.Dialect{harness.OpenAIChat},
		Naming: NamesJoined("", "_"), Labels: true, UsageScope: "step", Cost: true, Permissions: true,
		ContentKinds: []string{"image", "resource"},
		quirks:       quirks{instructions: true},
	}
}

func setupOpenCode(spec *harness.Spec) (map[string]string, error) {
	config := map[string]any{"autoupdate": false, "share": "disabled", "snapshot": false, "lsp": false, "formatter": false}
	if spec.Model != "" {
		config["model"], config["small_model"] = spec.Model, spec.Model
	}
	if e := spec.Endpoint; e != nil {
		id := providerID + "/" + e.Model
		config["model"], config["small_model"], config["enabled_providers"] = id, id, []string{providerID}
		config["provider"] = map[string]any{providerID: map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "m3",
			"options": map[string]any{"baseURL": e.BaseURL + "/v1", "apiKey": "{env:" + keyVariable + "}"},
			"models": map[string]any{e.Model: map[string]any{"name": e.Model, "tool_call": true, "reasoning": true,
				"limit": map[string]int{"context": 128000, "output": 8192}, "cost": map[string]int{"input": 0, "output": 0}}},
		}}
	}
	if spec.AskPermission {
		config["permission"] = map[string]string{"*": "ask"}
	}
	if spec.Instructions != "" {
		config["agent"] = map[string]any{"m3": map[string]string{"mode": "primary", "description": "m3", "prompt": spec.Instructions}}
		config["default_agent"] = "m3"
	}
	path := filepath.Join(spec.Home, "opencode.json")
	env := withKey(spec, map[string]string{"OPENCODE_CONFIG": path, "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}, keyVariable)
	return env, writeJSON(path, config)
}

// CodexACP is `codex-acp` of PATH (npm @agentclientprotocol/codex-acp). Its mode is workspace-write, in which it asks m3 and forwards a server's requests for input; its own default lets a
// hidden second model decide about every call, and in agent-full-access it declines every request for input by itself.
//
// What it counts as usage is a turn's. A failed model it reports as an answer: the driver looks through that.
func CodexACP() Config {
	return Config{
		Command: "codex-acp", Mode: "workspace-write",
		Setup: setupCodex, Dialects: []harness.Dialect{harness.OpenAIResponses},
		Naming: NamesInInput, JoinKey: "callId", Labels: true, UsageScope: "turn", Permissions: true,
		Elicitation: harness.Elicitation{Native: true, Form: true, URL: true}, ContentKinds: []string{"image", "resource"},
		quirks: quirks{failure: codexFailure},
	}
}

func setupCodex(spec *harness.Spec) (map[string]string, error) {
	home := filepath.Join(spec.Home, "codex")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	var b strings.Builder
	model := spec.Model
	if spec.Endpoint != nil {
		model = spec.Endpoint.Model
	}
	if model != "" {
		fmt.Fprintf(&b, "model = %s\n", tomlString(model))
	}
	if e := spec.Endpoint; e != nil {
		fmt.Fprintf(&b, "model_provider = %q\n\n[model_providers.%s]\nname = %q\nbase_url = %s\nwire_api = \"responses\"\nenv_key = %q\n", providerID, providerID, providerID, tomlString(e.BaseURL+"/v1"), keyVariable)
	}
	env := withKey(spec, map[string]string{"CODEX_HOME": home}, keyVariable)
	return env, os.WriteFile(filepath.Join(home, "config.toml"), []byte(b.String()), 0o600)
}

// tomlString is s as a basic string of TOML, whose escapes are those of JSON.
func tomlString(s string) string {
	b, _ := json.Marshal(s) // a string always can
	return string(b)
}

// codexFailure recognises the state of a thread whose turn failed.
func codexFailure(u object) (string, bool) {
	if u["sessionUpdate"].str() == "session_info_update" && u["_meta"].at("codex", "threadStatus", "type").str() == "systemError" {
		return "the thread reports a system error", true
	}
	return "", false
}

// ClaudeAgentACP is `claude-agent-acp` of PATH (npm @agentclientprotocol/claude-agent-acp). Its mode is default, in which it asks m3; its own default lets a classifier decide.
// The servers' tools are shown to the model at once, not behind a search.
//
// What it counts as usage is a turn's, without its hidden requests for titles; its cost is the list price of a model that it guesses.
func ClaudeAgentACP() Config {
	return Config{
		Command: "claude-agent-acp", Mode: "default",
		Setup: setupClaude, Dialects: []harness.Dialect{harness.AnthropicMessages},
		Naming: NamesJoined("mcp__", "__"), JoinKey: "claudecode/toolUseId", Labels: true, UsageScope: "turn", Cost: true, Permissions: true,
		Elicitation: harness.Elicitation{Native: true, Form: true, URL: true}, ContentKinds: []string{"image", "resource"},
		quirks: quirks{notice: claudeNotice},
	}
}

func setupClaude(spec *harness.Spec) (map[string]string, error) {
	home := filepath.Join(spec.Home, "claude")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	env := map[string]string{"CLAUDE_CONFIG_DIR": home, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"}
	model := spec.Model
	if e := spec.Endpoint; e != nil {
		model = e.Model
		env["ANTHROPIC_BASE_URL"] = e.BaseURL
	}
	if model != "" {
		env["ANTHROPIC_MODEL"], env["ANTHROPIC_SMALL_FAST_MODEL"] = model, model
	}
	return withKey(spec, env, "ANTHROPIC_API_KEY"), nil
}

// claudeNotice recognises the adapter's words about servers.
func claudeNotice(_ string, u object) (string, bool) {
	if u["_meta"].at("claudeCode", "kind").str() == "mcpServerStatus" {
		if u["_meta"].at("claudeCode", "status").str() == "failed" {
			return "server_failed", true
		}
		return "server_status", true
	}
	return "", false
}

// PiACP is `pi-acp` of PATH (npm pi-acp), which starts `pi` of PATH; PI_ACP_PI_COMMAND in Env names another. It takes a list of servers and drops it: opening it with a server fails with servers_dropped.
func PiACP() Config {
	return Config{
		Command: "pi-acp", Setup: setupPi,
		Dialects: []harness.Dialect{harness.OpenAIChat, harness.AnthropicMessages, harness.OpenAIResponses},
		Naming:   func(*Call, []string, *harness.Tools) Named { return Named{Builtin: true} },
		NoHTTP:   true, ContentKinds: []string{"image"},
		quirks: quirks{notice: piNotice},
	}
}

func setupPi(spec *harness.Spec) (map[string]string, error) {
	dir := filepath.Join(spec.Home, ".pi", "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	env := withKey(spec, map[string]string{"PI_CODING_AGENT_DIR": dir, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}, keyVariable)
	settings := map[string]any{"quietStartup": true}
	if provider, model, both := strings.Cut(spec.Model, "/"); both {
		settings["defaultProvider"], settings["defaultModel"] = provider, model
	}
	if e := spec.Endpoint; e != nil {
		settings["defaultProvider"], settings["defaultModel"] = providerID, e.Model
		if err := writeJSON(filepath.Join(dir, "models.json"), piModels(e)); err != nil {
			return nil, err
		}
	}
	return env, writeJSON(filepath.Join(dir, "settings.json"), settings)
}

// piModels is pi's models.json for an endpoint. Its base URL ends in /v1 but for Anthropic's dialect.
func piModels(e *harness.ModelEndpoint) any {
	api, base := "openai-completions", e.BaseURL+"/v1"
	switch e.Dialect {
	case harness.OpenAIResponses:
		api = "openai-responses"
	case harness.AnthropicMessages:
		api, base = "anthropic-messages", e.BaseURL
	}
	model := map[string]any{"id": e.Model, "name": e.Model, "reasoning": true, "input": []string{"text", "image"}, "contextWindow": 128000, "maxTokens": 8192,
		"cost": map[string]int{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
	return map[string]any{"providers": map[string]any{providerID: map[string]any{"baseUrl": base, "api": api, "apiKey": "$" + keyVariable, "models": []any{model}}}}
}

var piBanner = regexp.MustCompile(`^pi v\S+\n---\n`)

// piNotice recognises the banner that pi-acp sends as if it were the answer.
func piNotice(text string, _ object) (string, bool) {
	return "adapter_notice", piBanner.MatchString(text)
}

// withKey adds the endpoint's key under the name by which the agent finds it.
func withKey(spec *harness.Spec, env map[string]string, name string) map[string]string {
	if spec.Endpoint != nil {
		env[name] = spec.Endpoint.Key
	}
	return env
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", strconv.Quote(filepath.Base(path)), err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o600)
}
