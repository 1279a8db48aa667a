package m3_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCLIPage: docs/cli.md names the commands of m3, their flags, their exit codes and their variables, and no others.
func TestCLIPage(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/cli.md")
	bin := t.TempDir()
	buildM3(t, bin)
	help := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "m3"), append(args, "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	sections := sectionsOf(text)
	var commands []string
	_, list, _ := strings.Cut(help(), "Available Commands:\n")
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) `).FindAllStringSubmatch(list, -1) {
		if m[1] != "help" {
			commands = append(commands, m[1])
		}
	}
	if len(commands) < 3 {
		t.Fatalf("commands %v: the search is broken", commands)
	}
	for name := range sections {
		if command, ok := strings.CutPrefix(name, "m3 "); ok && !slices.Contains(commands, command) {
			t.Errorf("docs/cli.md has a section %q, and there is no such command", name)
		}
	}
	for _, command := range commands {
		section, ok := sections["m3 "+command]
		if !ok {
			t.Errorf("docs/cli.md has no section \"m3 %s\"", command)
			continue
		}
		if strings.Contains(section, "(#naming-a-server)") {
			section += sections["Naming a server"]
		}
		if diff := cmp.Diff(flagsOf(`(?m)^ +(?:-\w, )?(--[a-z-]+)`, help(command)), flagsOf("(?m)^\\| `(--[a-z-]+)", section+"\n| `--help`")); diff != "" {
			t.Errorf("flags of m3 %s (-m3 --help +docs/cli.md):\n%s", command, diff)
		}
	}
	if diff := cmp.Diff(variables(t), firstCells(sections["Environment variables"], `M3_[A-Z_]+`)); diff != "" {
		t.Errorf("variables (-code +docs/cli.md):\n%s", diff)
	}
	codes := flagsOf(`(?m)^\texit\w+ += (\d+)`, page(t, "cmd/m3/main.go")+"\texitOK = 0\n")
	if diff := cmp.Diff(codes, firstCells(sections["Exit codes"], `\d+`)); diff != "" {
		t.Errorf("exit codes (-cmd/m3/main.go +docs/cli.md):\n%s", diff)
	}
}

// sectionsOf cuts a page at its headings of the second rank.
func sectionsOf(text string) map[string]string {
	sections := map[string]string{}
	for part := range strings.SplitSeq("\n"+text, "\n## ") {
		name, body, _ := strings.Cut(part, "\n")
		sections[strings.Trim(name, "`")] = body
	}
	return sections
}

func flagsOf(pattern, text string) []string {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// firstCells are the values of that pattern in the first column of a section's tables.
func firstCells(section, pattern string) []string {
	return flagsOf("(?m)^\\| `?("+pattern+")`? ", section)
}

// variables are m3's environment variables that the code reads or sets, but for those by which it speaks to itself.
func variables(t *testing.T) []string {
	found := map[string]bool{}
	goFiles(t, func(path string) {
		for _, m := range regexp.MustCompile(`"(M3_[A-Z_]+)"`).FindAllStringSubmatch(page(t, path), -1) {
			if !strings.HasPrefix(m[1], "M3_INTERNAL_") {
				found[m[1]] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}
