package opencode

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/harness"
)

const (
	endpointProvider = "m3"                  // the id of the provider of a model that brings its own
	keyVariable      = "MODEL_ENDPOINT_KEY"  // holds its key
	ownAgent         = "m3"                  // the id of the agent with the selection's instructions
	unreachable      = "http://127.0.0.1:9/" // the discard port: nothing listens
)

// quiet are the variables by which OpenCode keeps to itself. npm_config_registry stops the installation of @opencode-ai/plugin in the background, which none of the others does.
var quiet = []string{
	"OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_CLAUDE_CODE=1", "OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
	"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_PURE=1", "OPENCODE_DB=:memory:", "npm_config_registry=" + unreachable,
}

// environment is that of the process. The password is of m3's own connection to it.
func environment(spec *harness.Spec, config, password string) []string {
	env := slices.Concat(spec.Env, quiet, []string{"OPENCODE_CONFIG=" + config, "OPENCODE_SERVER_USERNAME=" + username, "OPENCODE_SERVER_PASSWORD=" + password})
	for _, name := range slices.Sorted(maps.Keys(spec.Credentials)) {
		env = append(env, name+"="+spec.Credentials[name])
	}
	if spec.Endpoint != nil {
		env = append(env, keyVariable+"="+spec.Endpoint.Key, "OPENCODE_DISABLE_MODELS_FETCH=1")
	}
	return env
}

// modelRef is a model as OpenCode names it.
type modelRef struct {
	ProviderID string `json:"providerID"`
	ModelID    string `json:"modelID"`
}

// model takes the selection's model apart.
func (d *driver) model(spec *harness.Spec) (modelRef, *harness.Error) {
	if e := spec.Endpoint; e != nil {
		if e.Dialect != harness.OpenAIChat {
			return modelRef{}, harness.Errorf(harness.BlameHarness, "dialect_unknown", "OpenCode is pointed at providers in the dialect %s only, and this one speaks %s", harness.OpenAIChat, e.Dialect)
		}
		id := e.Model
		if id == "" {
			id = spec.Model
		}
		return modelRef{endpointProvider, id}, nil
	}
	provider, id, ok := strings.Cut(spec.Model, "/")
	if !ok {
		provider, id = d.cfg.Provider, spec.Model
	}
	if provider == "" || id == "" {
		return modelRef{}, harness.Errorf(harness.BlameTest, "model_unknown", "the model %q names no provider: write provider/model, or set Config.Provider", spec.Model)
	}
	return modelRef{provider, id}, nil
}

// settings is the configuration file.
func (d *driver) settings(spec *harness.Spec, m modelRef, n *names) ([]byte, error) {
	cfg := map[string]any{"lsp": false, "formatter": false}
	maps.Copy(cfg, d.cfg.Options)
	maps.Copy(cfg, map[string]any{
		"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "snapshot": false,
		"model": m.ProviderID + "/" + m.ModelID, "small_model": m.ProviderID + "/" + m.ModelID,
		"mcp": d.servers(spec, n), "permission": d.permissions(spec, n),
	})
	if spec.Endpoint != nil {
		cfg["enabled_providers"] = []string{endpointProvider}
		cfg["provider"] = map[string]any{endpointProvider: provider(spec.Endpoint, m)}
	}
	if spec.Instructions != "" {
		agents, _ := cfg["agent"].(map[string]any)
		agents = maps.Clone(agents)
		if agents == nil {
			agents = map[string]any{}
		}
		agents[ownAgent] = map[string]any{"mode": "primary", "description": "the agent under test", "prompt": spec.Instructions}
		cfg["agent"], cfg["default_agent"] = agents, ownAgent
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(cfg); err != nil {
		return nil, err
	}
	return literal(b.Bytes()), nil
}

// keyReference stands for the key until the rest is literal.
const keyReference = "{m3-key}"

// literal keeps OpenCode from replacing {env:…} and {file:…} in what is the test's own text: it looks for them in the file's text, before that is read as JSON.
func literal(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("{env:"), []byte(`\u007benv:`))
	b = bytes.ReplaceAll(b, []byte("{file:"), []byte(`\u007bfile:`))
	return bytes.ReplaceAll(b, []byte(`"`+keyReference+`"`), []byte(`"{env:`+keyVariable+`}"`))
}

// provider is a model's own provider. Its prices are not known, so that there are none.
func provider(e *harness.ModelEndpoint, m modelRef) map[string]any {
	return map[string]any{
		"npm": "@ai-sdk/openai-compatible", "name": "m3", // the package is part of the program
		"options": map[string]any{"baseURL": e.BaseURL + "/v1", "apiKey": keyReference, "timeout": false, "headerTimeout": false},
		"models": map[string]any{m.ModelID: map[string]any{"name": m.ModelID, "tool_call": true, "reasoning": true, "attachment": true,
			"modalities": map[string]any{"input": []string{"text", "image"}, "output": []string{"text"}}, "limit": map[string]any{"context": 200000, "output": 8192}}},
	}
}

// servers is the member mcp.
func (d *driver) servers(spec *harness.Spec, n *names) map[string]any {
	timeout := d.cfg.ToolTimeout
	if timeout == 0 {
		timeout = 10 * time.Minute
	}
	out := map[string]any{}
	for _, s := range spec.Servers {
		server := map[string]any{"enabled": true, "timeout": max(timeout.Milliseconds(), 1)}
		if s.URL != "" {
			server["type"], server["url"], server["oauth"] = "remote", s.URL, false
			if len(s.Header) > 0 {
				server["headers"] = s.Header
			}
		} else {
			env := map[string]string{}
			for _, v := range s.Env {
				name, value, _ := strings.Cut(v, "=")
				env[name] = value
			}
			server["type"], server["command"], server["environment"] = "local", append([]string{s.Command}, s.Args...), env
		}
		out[n.keys[s.Name]] = server
	}
	return out
}

// rule is one line of permissions; of those that match the last counts.
type rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     string `json:"action"`
}

// rules are the tools that may be used, in OpenCode's words. doom_loop is its question after three equal calls in a row: equal calls are the test's business.
func (d *driver) rules(tools *harness.Tools, ask bool, n *names) []rule {
	allow := "allow"
	if ask {
		allow = "ask"
	}
	out := []rule{{"*", "*", "deny"}, {"doom_loop", "*", "allow"}}
	for _, name := range d.cfg.Builtins {
		out = append(out, rule{name, "*", allow})
	}
	for _, alias := range slices.Sorted(maps.Keys(n.keys)) {
		if tools.All {
			out = append(out, rule{n.keys[alias] + "_*", "*", allow})
			continue
		}
		for _, tool := range slices.Sorted(slices.Values(tools.Allowed[alias])) {
			out = append(out, rule{n.name(alias, tool), "*", allow})
		}
	}
	return out
}

// ordered is an object whose members keep their order, which counts.
type ordered []rule

// MarshalJSON writes the rules as the member permission.
func (o ordered) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, r := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(r.Permission)
		if err != nil {
			return nil, err
		}
		b = append(append(b, name...), `:"`+r.Action+`"`...)
	}
	return append(b, '}'), nil
}

func (d *driver) permissions(spec *harness.Spec, n *names) ordered {
	return d.rules(&spec.Tools, spec.AskPermission, n)
}

// writeSettings puts the configuration file below the home, for its owner alone: it holds the servers' tokens.
func writeSettings(home string, b []byte) (string, error) {
	path := filepath.Join(home, "opencode.json")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return path, err
}
