package opencode

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// OpenCode calls a server's tool KEY_TOOL, in which every character but [A-Za-z0-9_-] is replaced by "_". Two tools of one name are one for it: the later wins, silently. So that
// a name has one reading, a server whose alias goes on where another's ends (a_b beside a) gets a key of its own, and tools of a server that the test names must stay apart.

// taken are names of OpenCode's own that a server's tool could get.
var taken = []string{"apply_patch", "plan_enter", "plan_exit", "external_directory", "doom_loop"}

// names tells tools apart.
type names struct {
	keys    map[string]string            // alias → key in the configuration
	aliases map[string]string            // key → alias
	tools   map[string]map[string]string // alias → the name that OpenCode gives a tool → the tool, of those that are allowed by name
	all     bool
}

// mangled is what OpenCode makes of a server's or a tool's name.
func mangled(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

// newNames gives each server its key. Tools that the test allows and that would have one name are an error of the test.
func newNames(servers []harness.Endpoint, tools harness.Tools) (*names, *harness.Error) {
	n := &names{keys: map[string]string{}, aliases: map[string]string{}, tools: map[string]map[string]string{}, all: tools.All}
	var late []string
	for _, s := range slices.SortedStableFunc(slices.Values(servers), func(a, b harness.Endpoint) int { return cmp.Compare(len(a.Name), len(b.Name)) }) {
		if n.free(s.Name) {
			n.give(s.Name, s.Name)
		} else {
			late = append(late, s.Name)
		}
	}
	for _, alias := range late {
		n.give(alias, n.substitute(alias))
	}
	if tools.All {
		return n, nil
	}
	for _, alias := range slices.Sorted(maps.Keys(tools.Allowed)) {
		own := map[string]string{}
		for _, tool := range tools.Allowed[alias] {
			name := mangled(tool)
			if other, twice := own[name]; twice && other != tool {
				return nil, harness.Errorf(harness.BlameTest, "tools_ambiguous", "the tools %q and %q of server %s have one name for OpenCode, %s, so that only one of them can be offered: allow one",
					other, tool, alias, n.name(alias, tool))
			}
			own[name] = tool
		}
		n.tools[alias] = own
	}
	return n, nil
}

// free reports whether a key can be given: none of its tools' names may be read as another server's, or as OpenCode's own.
func (n *names) free(key string) bool {
	key = mangled(key)
	for other := range n.aliases {
		if key == other || strings.HasPrefix(key, other+"_") || strings.HasPrefix(other, key+"_") {
			return false
		}
	}
	return !slices.ContainsFunc(taken, func(own string) bool { return strings.HasPrefix(own, key+"_") })
}

// substitute is a key for an alias that is not free.
func (n *names) substitute(alias string) string {
	plain := strings.ReplaceAll(mangled(alias), "_", "-")
	if n.free(plain) {
		return plain
	}
	for i := 2; ; i++ {
		if key := plain + "-" + strconv.Itoa(i); n.free(key) {
			return key
		}
	}
}

func (n *names) give(alias, key string) {
	key = mangled(key)
	n.keys[alias], n.aliases[key] = key, alias
}

// name is what OpenCode calls a tool.
func (n *names) name(alias, tool string) string { return n.keys[alias] + "_" + mangled(tool) }

// read takes a name apart. The server is known by its key; the tool is when the test names it, or when nothing in the name can have been replaced. Ours is false for a name
// that is no server's.
func (n *names) read(name string) (server, tool trace.Observation[string], ours bool) {
	for key, alias := range n.aliases {
		rest, ok := strings.CutPrefix(name, key+"_")
		if !ok || rest == "" {
			continue
		}
		server = trace.Observe(alias)
		if own, named := n.tools[alias][rest]; named {
			return server, trace.Observe(own), true
		}
		if !strings.Contains(rest, "_") {
			return server, trace.Observe(rest), true
		}
		return server, trace.Absent[string](trace.NotEmitted, trace.ReasonProviderDidNotEmit), true
	}
	return server, tool, false
}
