package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// offered is a tool as a request offers it.
type offered struct{ namespace, name string }

// String is the name, with its namespace.
func (o offered) String() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// namer finds the tools of a script among those that an agent offers.
type namer struct {
	servers []string // the aliases of the execution's servers
	rule    func(server, tool string) string
}

// ambiguousError says that a name may mean more than one tool.
type ambiguousError struct{ msg string }

func (e *ambiguousError) Error() string { return e.msg }

func isAmbiguous(err error) bool {
	var a *ambiguousError
	return errors.As(err, &a)
}

// find looks for what the script names: "server:tool", or a name as it is offered.
func (n *namer) find(name string, tools []offered) (offered, error) {
	server, own, ok := strings.Cut(name, ":")
	if !ok {
		return one(name, tools, func(o offered) bool { return o.name == name || o.String() == name })
	}
	if len(n.servers) > 0 && !slices.Contains(n.servers, server) {
		return offered{}, fmt.Errorf("the tool %s is of a server that the execution does not have; it has %s", name, strings.Join(n.servers, ", "))
	}
	if n.rule != nil {
		if want := n.rule(server, own); want != "" {
			return one(name, tools, func(o offered) bool { return o.is(want) })
		}
	}
	return n.guess(name, server, own, tools)
}

// is compares a tool with the one name that a driver gives it, in which a namespace comes first.
func (o offered) is(want string) bool {
	if o.namespace == "" {
		return o.name == want
	}
	rest, ok := strings.CutPrefix(want, o.namespace)
	if !ok {
		return false
	}
	return rest == o.name || slices.ContainsFunc(separators, func(sep string) bool { return rest == sep+o.name })
}

// guess reads every offered name as agents make them of a server and a tool: exactly first, then with the characters that agents replace.
func (n *namer) guess(name, server, own string, tools []offered) (offered, error) {
	for _, fold := range []func(string) string{func(s string) string { return s }, underscored} {
		hits := matching(tools, func(o offered) bool {
			s, ts := n.read(o, server, fold)
			return fold(s) == fold(server) && slices.ContainsFunc(ts, func(t string) bool { return fold(t) == fold(own) })
		})
		if len(hits) > 0 {
			return only(name, hits)
		}
	}
	for _, o := range tools { // a name that is this tool's in one reading, and another tool's in the reading of the longest alias
		s, ts := n.read(o, server, underscored)
		if o.namespace == "" && s != "" && slices.Contains(joined(server, own), strings.TrimPrefix(o.name, "mcp__")) {
			return offered{}, &ambiguousError{fmt.Sprintf("the name %s, which the request offers, may mean the tool %s or the tool %s:%s; call it by its raw name", o, name, s, ts[0])}
		}
	}
	if len(n.servers) == 1 { // an agent with one server may offer its tools without a prefix
		if hits := matching(tools, func(o offered) bool { return o.namespace == "" && o.name == own }); len(hits) > 0 {
			return only(name, hits)
		}
	}
	return offered{}, missing(name, tools)
}

// separators stand between a server and a tool, the longest first.
var separators = []string{"__", "_", ".", "/", ":", "-"}

func joined(server, tool string) []string {
	var out []string
	for _, sep := range separators {
		out = append(out, server+sep+tool, underscored(server)+sep+underscored(tool))
	}
	return out
}

// read takes an offered name apart: the longest alias that it begins with is the server, and what follows each possible separator may be the tool.
func (n *namer) read(o offered, asked string, fold func(string) string) (server string, own []string) {
	aliases := n.servers
	if len(aliases) == 0 {
		aliases = []string{asked}
	}
	if o.namespace != "" {
		for _, a := range aliases {
			if ns := withoutMCP(o.namespace, a, fold); fold(ns) == fold(a) {
				return a, []string{o.name}
			}
		}
		return "", nil
	}
	best := -1
	for _, a := range aliases {
		name := withoutMCP(o.name, a, fold)
		if len(a) <= best || len(name) <= len(a) || fold(name[:len(a)]) != fold(a) {
			continue
		}
		var readings []string
		for _, sep := range separators {
			if rest, ok := strings.CutPrefix(name[len(a):], sep); ok && rest != "" {
				readings = append(readings, rest)
			}
		}
		if readings != nil {
			server, own, best = a, readings, len(a)
		}
	}
	return server, own
}

// withoutMCP leaves out the prefix that agents put before the server's name, unless the alias begins with it.
func withoutMCP(name, alias string, fold func(string) string) string {
	for _, prefix := range []string{"mcp__", "mcp_", "mcp.", "mcp/"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !strings.HasPrefix(fold(alias), fold(prefix)) {
			return rest
		}
	}
	return name
}

// underscored replaces what agents do not allow in a name.
func underscored(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

func matching(tools []offered, match func(offered) bool) []offered {
	var hits []offered
	for _, o := range tools {
		if match(o) {
			hits = append(hits, o)
		}
	}
	return hits
}

func one(name string, tools []offered, match func(offered) bool) (offered, error) {
	hits := matching(tools, match)
	if len(hits) == 0 {
		return offered{}, missing(name, tools)
	}
	return only(name, hits)
}

func only(name string, hits []offered) (offered, error) {
	if len(hits) > 1 {
		return offered{}, &ambiguousError{fmt.Sprintf("the tool %s may be any of those that the request offers as %s; call one by its raw name", name, list(hits))}
	}
	return hits[0], nil
}

func missing(name string, tools []offered) error {
	if len(tools) == 0 {
		return fmt.Errorf("the tool %s is not offered: the request offers no tools", name)
	}
	return fmt.Errorf("the tool %s is not offered; the request offers %s", name, list(tools))
}

func list(tools []offered) string {
	const most = 40
	var names []string
	for _, o := range tools[:min(len(tools), most)] {
		names = append(names, o.String())
	}
	if len(tools) > most {
		names = append(names, fmt.Sprintf("and %d more", len(tools)-most))
	}
	return strings.Join(names, ", ")
}
