package conformance

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/m3-go/m3/trace"
)

// Section compares text with the section of docs/conformance.md between the comments "BEGIN name" and "END name". With update it writes
// text there instead. The error names the section and how to bring it up to date.
func Section(name, text string, update bool) error {
	return PageSection("docs/conformance.md", name, text, update)
}

// PageSection is [Section] for any page, named from the module's root.
func PageSection(page, name, text string, update bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(page))
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- BEGIN "+name+" -->\n", "<!-- END "+name+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		return fmt.Errorf("%s has no section %s", page, name)
	case old == text:
		return nil
	case update:
		return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
	}
	return fmt.Errorf("the section %s of %s is out of date; run the test with M3_UPDATE=1. It should be:\n%s", name, page, text)
}

// ClientTable is the table of the definitions by which m3's messages were checked.
func (c *Checker) ClientTable() string {
	var b strings.Builder
	b.WriteString("| version | definition | mutants refused |\n| --- | --- | --- |\n")
	for _, u := range c.Uses() {
		if u.Direction == trace.ClientToServer {
			fmt.Fprintf(&b, "| %s | `%s` | %d of %d |\n", u.Protocol, u.Definition, u.Caught, u.Mutants)
		}
	}
	return b.String()
}

// ServerReport is what a real server sent in one version: the definitions, and what they or the prose refuse, once each with its count.
func (c *Checker) ServerReport(server, protocol string) string {
	var defs []string
	for _, u := range c.Uses() {
		// Which notifications come is a matter of time; they are checked, but not listed.
		if u.Direction == trace.ServerToClient && strings.HasSuffix(u.Definition, "Result") {
			defs = append(defs, u.Definition)
		}
	}
	var b strings.Builder
	wrong := c.serverProblems()
	fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", server, protocol, strings.Join(defs, ", "), cmp.Or(strings.Join(wrong, "<br>"), "none"))
	return b.String()
}

// instance takes what differs from run to run out of a problem's text.
var instance = regexp.MustCompile(`jsonschema validation failed with '[^']*' - |/\d+(/|')`)

// serverProblems lists the kinds of problems of a server's messages, sorted.
func (c *Checker) serverProblems() []string {
	count := map[string]int{}
	var order []string
	for _, p := range c.Problems() {
		if p.Direction != trace.ServerToClient {
			continue
		}
		text := instance.ReplaceAllStringFunc(p.Text, func(s string) string {
			if strings.HasPrefix(s, "/") {
				return "/N" + s[len(s)-1:]
			}
			return ""
		})
		key := cmp.Or(p.Definition, "prose") + ": " + strings.ReplaceAll(text[:min(len(text), 300)], "|", "\\|")
		if count[key]++; count[key] == 1 {
			order = append(order, key)
		}
	}
	slices.Sort(order)
	return order
}
