package m3

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/m3-go/m3/harness"
)

// Model is what a [Selection] says of the model: [ModelName], or one that brings its own provider (model.Scripted).
type Model = harness.Model

// ModelName is a model by the name that the agent knows it by.
func ModelName(name string) Model { return namedModel(name) }

type namedModel string

func (m namedModel) ModelName() string { return string(m) }

// Selection says which agent is to run, and with which models. It is a value that opens nothing; see [Kit.Agents].
type Selection struct {
	// Harness is a driver: opencode.New(opencode.Config{}).
	Harness harness.Driver
	// Models are the models, each an agent of its own. Empty: the one that the agent itself chooses, where its driver allows that.
	Models []Model
	// Name tells selections of the same kind apart; trimmed. Empty: the kind.
	Name string
	// CredentialEnv gives the agent secrets by reference: the variable that the agent expects, and the variable of the test's environment that
	// holds the value, which must be set when an action starts. Nothing else of the environment reaches the agent, but for what the driver's configuration
	// names by reference (an ACP manifest), which is resolved in the same way.
	CredentialEnv map[string]string
	// Instructions, if set, is a system prompt in place of the agent's own, where it has such a thing.
	Instructions string
}

// Agent is one selected agent: a kind with a model, for one trial. It holds nothing open, and may be used from several goroutines.
type Agent struct {
	kit          *Kit
	driver       harness.Driver
	found        *installed
	kind, name   string
	model        Model // nil: the agent's own choice
	trial        int
	credentials  map[string]string
	instructions string
}

// Kind is the stored word of the agent: opencode, claude_code, codex, pi, acp.
func (a *Agent) Kind() string { return a.kind }

// Model is the name of the model, empty for the agent's own choice.
func (a *Agent) Model() string {
	if a.model == nil {
		return ""
	}
	return a.model.ModelName()
}

// Name is that of the selection: the kind, unless it has one of its own.
func (a *Agent) Name() string { return a.name }

// Trial counts from 1.
func (a *Agent) Trial() int { return a.trial }

// Config is what results are grouped by: kind:model, and :name when that is not the kind. It is the metadata harness_config of every execution.
func (a *Agent) Config() string {
	s := a.kind + ":" + a.Model()
	if a.name != a.kind {
		s += ":" + a.name
	}
	return s
}

// Agents expands selections into agents: each with each of its models, and that for each trial, in this order. It starts nothing, reads nothing and
// looks nothing up. What is wrong with a selection is a *[ValidationError], what its driver cannot do an *[UnsupportedError].
func (k *Kit) Agents(selections []Selection, trials int) ([]*Agent, error) {
	if err := k.usable(); err != nil {
		return nil, err
	}
	switch {
	case trials < 1:
		return nil, validationf("Agents: trials is %d: at least 1 is needed", trials)
	case len(selections) == 0:
		return nil, validationf("Agents: there is no selection: name one agent at least")
	}
	var agents []*Agent
	seen := map[string]bool{}
	for i := range selections {
		some, err := k.expand(&selections[i], trials)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			key := a.kind + "\x00" + a.name + "\x00" + a.Model()
			if a.trial == 1 && seen[key] {
				return nil, validationf("Agents: %s is selected twice: give one of them a Name of its own", a.Config())
			}
			seen[key] = true
		}
		agents = append(agents, some...)
	}
	return agents, nil
}

// expand checks one selection and makes its agents.
func (k *Kit) expand(s *Selection, trials int) ([]*Agent, error) {
	if s.Harness == nil || isNilPointer(s.Harness) {
		return nil, validationf("Agents: a selection has no Harness: set it to a driver, such as opencode.New(opencode.Config{})")
	}
	kind := s.Harness.Kind()
	name := orElse(strings.TrimSpace(s.Name), kind)
	if !word.MatchString(kind) {
		return nil, validationf("Agents: the driver %T says that its kind is %q, which is no word", s.Harness, kind)
	}
	if err := checkLabel("Agents: the name of a selection", name); err != nil {
		return nil, err
	}
	credentials := s.references()
	if err := checkCredentialEnv(kind, credentials); err != nil {
		return nil, err
	}
	models := s.Models
	if len(models) == 0 {
		models = []Model{nil}
	}
	can := s.Harness.Capabilities()
	found := &installed{}
	agents := make([]*Agent, 0, len(models)*trials)
	for _, m := range models {
		if err := checkModel(name, m, &can, len(s.Models) == 0); err != nil {
			return nil, err
		}
		for trial := 1; trial <= trials; trial++ {
			agents = append(agents, &Agent{kit: k, driver: s.Harness, found: found, kind: kind, name: name, model: m, trial: trial,
				credentials: credentials, instructions: s.Instructions})
		}
	}
	return agents, nil
}

// references are the secrets that the selection gives its agent by reference, and those that the driver's own configuration names; the selection's word counts.
func (s *Selection) references() map[string]string {
	all := map[string]string{}
	if d, ok := s.Harness.(harness.CredentialReferrer); ok {
		maps.Copy(all, d.CredentialEnv())
	}
	maps.Copy(all, s.CredentialEnv)
	return all
}

// word is what kinds, aliases and the like are made of.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// identifier is the name of an environment variable as shells have it.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkLabel: it is stored, shown in one line and typed into filters.
func checkLabel(what, text string) error {
	switch {
	case utf8.RuneCountInString(text) > 256:
		return validationf("%s has %d characters, at most 256 are allowed", what, utf8.RuneCountInString(text))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return validationf("%s (%.40q) holds a control character", what, text)
	}
	return nil
}

func checkModel(selection string, m Model, can *harness.Capabilities, none bool) error {
	switch {
	case none && can.ModelRequired:
		return validationf("Agents: %s needs a model: set Models of the selection", selection)
	case none:
		return nil
	case m == nil || isNilPointer(m):
		return validationf("Agents: a model of %s is nil", selection)
	case strings.TrimSpace(m.ModelName()) == "":
		return validationf("Agents: a model of %s has no name", selection)
	}
	if err := checkLabel("Agents: the name of a model of "+selection, m.ModelName()); err != nil {
		return err
	}
	if _, provided := m.(harness.ProvidedModel); provided && len(can.Dialects) == 0 {
		return &UnsupportedError{Message: fmt.Sprintf("Agents: %s cannot be pointed at a model provider, so %q cannot bring one: name a model of its own with m3.ModelName", selection, m.ModelName()),
			Details: map[string]any{"feature": "provided_model", "harness": selection}}
	}
	return nil
}

// reservedVariables are what m3 itself sets for every agent.
var reservedVariables = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "NO_COLOR"}

// checkCredentialEnv: names only, and none that m3 or its own access owns (spec/behaviour.md 5.11).
func checkCredentialEnv(kind string, env map[string]string) error {
	for _, target := range slices.Sorted(maps.Keys(env)) {
		source := env[target]
		switch {
		case !identifier.MatchString(target):
			return validationf("Agents: CredentialEnv of %s: %.40q is not the name of an environment variable", kind, target)
		case !identifier.MatchString(source): // it may be a value, which is not shown
			return validationf("Agents: CredentialEnv of %s: what %s refers to is not the name of an environment variable: give the name of the variable that holds the value, never the value", kind, target)
		case source == "M3_ACCESS_TOKEN":
			return validationf("Agents: CredentialEnv of %s: M3_ACCESS_TOKEN is m3's own and is given to no agent", kind)
		case slices.Contains(reservedVariables, target) || strings.HasPrefix(target, "XDG_") || strings.HasPrefix(target, "M3_INTERNAL_"):
			return validationf("Agents: CredentialEnv of %s: %s is set by m3 itself and can be no credential", kind, target)
		}
	}
	return nil
}
