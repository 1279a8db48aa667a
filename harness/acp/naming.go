package acp

import (
	"strings"

	"github.com/m3-go/m3/harness"
	"github.com/m3-go/m3/trace"
)

// Call is a tool call as an agent tells it so far: its first message with everything that later ones replaced.
type Call struct {
	ID    string
	Title string
	Name  string     // the member "name", which some agents have besides the title
	Kind  string     // read, edit, delete, move, search, execute, think, fetch, switch_mode, other
	Input trace.JSON // rawInput
	Meta  trace.JSON // _meta
}

// Named is a call's name taken apart.
type Named struct {
	// Server is the alias and Tool the server's own name. Both are empty when the call is a server's and the name can be read in more than one way.
	Server, Tool string
	// Arguments are the tool's, nil when they are the whole Input.
	Arguments trace.JSON
	// Builtin: the call is for a tool of the agent itself.
	Builtin bool
}

// Naming takes apart what an agent calls a server's tool. It gives names only when there is one way to read them. Servers are the aliases, tools what the test allows.
type Naming func(c *Call, servers []string, tools *harness.Tools) Named

// NamesInInput is the naming of agents that say the parts apart in rawInput: {"server":…,"tool":…,"arguments":…}. A call without these is one of the agent's own.
func NamesInInput(c *Call, servers []string, _ *harness.Tools) Named {
	in := raw(c.Input).obj()
	server, tool := in["server"].str(), in["tool"].str()
	if server == "" || tool == "" {
		return Named{Builtin: true}
	}
	args := in["arguments"]
	if args == nil {
		args = raw("{}")
	}
	return Named{Server: server, Tool: tool, Arguments: args.json()}
}

// NamesJoined is the naming of agents that make one name of prefix, server, separator and tool: NamesJoined("mcp__", "__") reads mcp__calc__add, NamesJoined("", "_") reads calc_add. What
// stands in the name of several servers (a_b_c of the servers a and a_b) is told apart by what the test allows, else not at all. A name of no known server is one of the agent's own tools.
func NamesJoined(prefix, separator string) Naming {
	return func(c *Call, servers []string, tools *harness.Tools) Named {
		name := c.Name
		if name == "" {
			name = c.Title
		}
		rest, ours := strings.CutPrefix(name, prefix)
		var found []Named
		for _, s := range servers {
			if tool, ok := strings.CutPrefix(rest, s+separator); ours && ok && tool != "" {
				found = append(found, Named{Server: s, Tool: tool})
			}
		}
		switch len(found) {
		case 0:
			return Named{Builtin: true}
		case 1:
			return Named{Server: found[0].Server, Tool: original(found[0], tools)}
		}
		return onlyAllowed(found, tools)
	}
}

// onlyAllowed picks the one reading that the test allows.
func onlyAllowed(found []Named, tools *harness.Tools) Named {
	if tools == nil || tools.All {
		return Named{}
	}
	var fits []Named
	for _, n := range found {
		for _, tool := range tools.Allowed[n.Server] {
			if tool == n.Tool || mangled(tool) == n.Tool {
				fits = append(fits, Named{Server: n.Server, Tool: tool})
			}
		}
	}
	if len(fits) != 1 {
		return Named{}
	}
	return fits[0]
}

// original is the server's own name of a tool whose name an agent may have mangled, as far as the test names its tools.
func original(n Named, tools *harness.Tools) string {
	if tools == nil || tools.All {
		return n.Tool
	}
	var fits []string
	for _, tool := range tools.Allowed[n.Server] {
		if tool == n.Tool {
			return tool
		}
		if mangled(tool) == n.Tool {
			fits = append(fits, tool)
		}
	}
	if len(fits) == 1 {
		return fits[0]
	}
	return n.Tool
}

// mangled is a name as agents make it fit for a model's function.
func mangled(tool string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
}
