// Package opencode drives OpenCode (https://opencode.ai), the unmodified binary, as `opencode serve`: one process an execution, one session in it, loopback HTTP with a
// stream of events.
//
//	selection := m3.Selection{Harness: opencode.New(opencode.Config{}), Models: []m3.Model{m3.ModelName("anthropic/claude-sonnet-4-5")}}
//
// The process has a home of its own and nothing but its configuration there; a project's opencode.json, AGENTS.md and CLAUDE.md are not read. It has no tools but those of the servers under
// test, unless [Config.Builtins] names some. A provider that fails is not tried again unless [Config.Retries] says so: a test wants to know.
//
// OpenCode speaks MCP 2025-11-25 and declares no elicitation. See docs/opencode.md for everything that it does in its own way.
package opencode
