package acp

import (
	"maps"
	"slices"

	"github.com/m3-go/m3/harness"
)

// Config says which agent is driven, and what is known about it. What is not known stays zero: the driver then says less, never more. The presets ([OpenCode], [CodexACP],
// [ClaudeAgentACP], [PiACP]) are values of it that a test may change.
type Config struct {
	// Manifest is the agent as an m3.harness.v1 file describes it. Nil: Command, Args and CredentialEnv. With one, these three must be empty.
	Manifest *Manifest
	// Command is the agent's program: an absolute path, or a name that is looked up in PATH.
	Command string
	Args    []string
	// Env are variables for the agent that are no secrets, beside the minimal environment that every agent gets. They win over what Setup gives.
	Env map[string]string
	// CredentialEnv gives the agent secrets by reference: the name of the variable that it expects, and the name of the one that m3 takes it from.
	CredentialEnv map[string]string

	// Mode is the id of the session's mode, set before the first prompt ("default", "workspace-write"). One that the agent does not offer is an error of the test.
	Mode string
	// Options are the session's configuration options by id, each a string or a bool, set before the first prompt. One that the agent does not offer, or a value that it does not
	// take, is an error of the test.
	Options map[string]any
	// AuthMethod, if set, is the id of the agent's method of authentication that is called before the session is made.
	AuthMethod string

	// Setup prepares the agent's own files below spec.Home and returns the variables that it needs: how it is pointed at spec.Endpoint, which model, whether it asks. Nil: none of these can be done, and Dialects must
	// be empty.
	Setup func(spec *harness.Spec) (map[string]string, error)
	// Dialects are the model protocols that Setup can point the agent at, the preferred first.
	Dialects []harness.Dialect

	// Naming takes the name of a tool call apart. Nil: server and tool are not told.
	Naming Naming
	// JoinKey is the member of the MCP request's _meta in which the agent puts the id of its call; "" for none.
	JoinKey string
	// Labels: every chunk of the agent's own text has a messageId, so that one without is a notice of its adapter. False: chunks without an id are notices only in a turn that has some with.
	Labels bool
	// UsageScope is what the usage in the answer to a prompt counts: "step" (the last request to the model), "turn", "session"; "" when it is not known.
	UsageScope string
	// Cost: the agent reports what a session has cost so far.
	Cost bool
	// NoHTTP: the agent does not take servers by URL.
	NoHTTP bool
	// Permissions: the agent asks before tool calls, or can be made to by Mode or Setup.
	Permissions bool
	// Elicitation is how far the agent forwards a server's request for input. It is declared to the agent only when the test can answer.
	Elicitation harness.Elicitation
	// ContentKinds are the types of content blocks that the agent takes beside text. Every agent takes "resource_link".
	ContentKinds []string
	// ConnectsLate: the agent connects to its servers when it is first prompted, so that nothing can be waited for before that.
	ConnectsLate bool

	quirks quirks
}

// quirks are what only a preset knows.
type quirks struct {
	// notice recognises a chunk of text that is no answer, by its update.
	notice func(text string, update object) (code string, yes bool)
	// failure recognises a turn that failed behind an end_turn.
	failure func(update object) (reason string, yes bool)
	// instructions says that Setup passes spec.Instructions on.
	instructions bool
}

// driver implements harness.Driver.
type driver struct{ cfg Config }

// New returns the driver of the agent that cfg describes. A configuration that cannot work is refused by [harness.Driver.Check] and [harness.Driver.Open], which
// say what is wrong with it. The driver keeps a copy of cfg.
func New(cfg Config) harness.Driver {
	cfg.Args = slices.Clone(cfg.Args)
	cfg.Env = maps.Clone(cfg.Env)
	cfg.Options = maps.Clone(cfg.Options)
	cfg.Dialects = slices.Clone(cfg.Dialects)
	cfg.ContentKinds = slices.Clone(cfg.ContentKinds)
	cfg.CredentialEnv = maps.Clone(cfg.CredentialEnv)
	if m := cfg.Manifest; m != nil {
		cfg.Manifest = m.clone()
	}
	return &driver{cfg}
}

// Kind is "acp", whatever the agent.
func (d *driver) Kind() string { return "acp" }

// CredentialEnv implements [harness.CredentialReferrer]: the secrets that the manifest or the configuration names.
func (d *driver) CredentialEnv() map[string]string {
	if d.cfg.Manifest != nil {
		return d.cfg.Manifest.References()
	}
	return maps.Clone(d.cfg.CredentialEnv)
}

// Capabilities says what is known of the agent.
func (d *driver) Capabilities() harness.Capabilities {
	kinds := slices.Clone(d.cfg.ContentKinds)
	if !slices.Contains(kinds, "resource_link") {
		kinds = append(kinds, "resource_link")
	}
	return harness.Capabilities{
		MultiTurn: true, Cancel: true, StdioServers: true, HTTPServers: !d.cfg.NoHTTP,
		Permissions: d.cfg.Permissions, Elicitation: d.cfg.Elicitation, Streaming: true, Reasoning: true,
		Usage: d.cfg.UsageScope != "", Cost: d.cfg.Cost,
		ContentKinds: kinds, Dialects: slices.Clone(d.cfg.Dialects), JoinKey: d.cfg.JoinKey,
	}
}

// command is what is started.
func (d *driver) command() (path string, args []string) {
	if m := d.cfg.Manifest; m != nil {
		return m.Command, m.Args
	}
	return d.cfg.Command, d.cfg.Args
}

// validate says what is wrong with the configuration.
func (d *driver) validate() *harness.Error {
	c := &d.cfg
	if c.Manifest != nil {
		if c.Command != "" || len(c.Args) > 0 || len(c.CredentialEnv) > 0 {
			return harness.Errorf(harness.BlameTest, "option_unknown", "acp.Config: give a Manifest, or Command, Args and CredentialEnv, not both")
		}
		if err := c.Manifest.Validate(); err != nil {
			return &harness.Error{Blame: harness.BlameTest, Code: "option_unknown", Message: err.Error(), Err: err}
		}
	} else if c.Command == "" {
		return harness.Errorf(harness.BlameTest, "option_unknown", "acp.Config: Command is empty: name the agent's program, or give a Manifest")
	}
	for id, v := range c.Options {
		switch v.(type) {
		case string, bool:
		default:
			return harness.Errorf(harness.BlameTest, "option_unknown", "acp.Config: option %q is a %T: give a string or a bool", id, v)
		}
	}
	for name := range d.CredentialEnv() {
		if _, both := c.Env[name]; both {
			return harness.Errorf(harness.BlameTest, "option_unknown", "acp.Config: %s is both in Env and a reference: secrets are given by reference only", name)
		}
	}
	return nil
}
