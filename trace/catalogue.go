package trace

import "strings"

// catalogue is every tool that was seen on the wire: called, refused or listed.
type catalogue struct {
	tools []toolName
	has   map[toolName]bool
	found map[toldNames][]toolName
}

func (c *catalogue) add(t toolName) {
	if c.has == nil {
		c.has, c.found = map[toolName]bool{}, map[toldNames][]toolName{}
	}
	if !c.has[t] {
		c.has[t] = true
		c.tools = append(c.tools, t)
	}
}

// find returns the tools that an agent may mean.
func (c *catalogue) find(t toldNames) (out []toolName) {
	if out, ok := c.found[t]; ok {
		return out
	}
	for _, tool := range c.tools {
		if t.server != "" && t.server != tool.server || t.tool != "" && t.tool != tool.tool || t.name != "" && !names(t.name, tool) {
			continue
		}
		out = append(out, tool)
	}
	if c.found != nil {
		c.found[t] = out
	}
	return out
}

// names reports whether an agent's name of a tool can mean that tool: it is the tool's name, or server and tool with a separator between, also
// behind a word of its own (calc_add, calc.add, mcp__calc__add). What agents do not allow in a name they replace.
func names(name string, t toolName) bool {
	name, server, tool := flatName(name), flatName(t.server), flatName(t.tool)
	if name == tool {
		return true
	}
	for _, sep := range [...]string{"_", "__"} {
		if prefix, ok := strings.CutSuffix(name, server+sep+tool); ok {
			word, ok := strings.CutSuffix(prefix, sep)
			if prefix == "" || ok && word != "" && !strings.Contains(word, "_") {
				return true
			}
		}
	}
	return false
}

// flatName replaces everything but ASCII letters and digits.
func flatName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, s)
}
