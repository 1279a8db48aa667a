package m3

import (
	"slices"
	"strings"

	"github.com/m3-go/m3/harness"
)

// ToolSelection is which tools of its servers an agent may use. The zero value is all of them. What is not selected is neither listed to the agent nor
// passed on when it calls it.
type ToolSelection struct {
	limited bool
	names   []string // server:tool, as given
}

// NoTools selects no tool of any server.
var NoTools = ToolSelection{limited: true}

// OnlyTools selects tools by server and tool: "shipping:book_shipment". A name without a server, a name twice, and a server that the action does not have
// are *[ValidationError] when the action is started. Without names it is [NoTools].
func OnlyTools(names ...string) ToolSelection {
	return ToolSelection{limited: true, names: slices.Clone(names)}
}

// All reports whether nothing is left out.
func (s ToolSelection) All() bool { return !s.limited }

// Names are the names that [OnlyTools] was given.
func (s ToolSelection) Names() []string { return slices.Clone(s.names) }

// resolve checks the names against the aliases of an action.
func (s ToolSelection) resolve(operation string, aliases []string) (harness.Tools, error) {
	if !s.limited {
		return harness.Tools{All: true}, nil
	}
	t := harness.Tools{Allowed: map[string][]string{}}
	for _, name := range s.names {
		server, tool, qualified := strings.Cut(name, ":")
		switch {
		case !qualified || server == "" || tool == "":
			return t, validationf("%s: the tool %q is not qualified: write server:tool", operation, name)
		case !slices.Contains(aliases, server):
			return t, validationf("%s: the tool %q is of a server that the action does not have: it has %s", operation, name, strings.Join(aliases, ", "))
		case slices.Contains(t.Allowed[server], tool):
			return t, validationf("%s: the tool %q is named twice", operation, name)
		}
		t.Allowed[server] = append(t.Allowed[server], tool)
	}
	return t, nil
}

// allows reports whether a tool may be used.
func allows(t *harness.Tools, server, tool string) bool {
	return t.All || slices.Contains(t.Allowed[server], tool)
}
