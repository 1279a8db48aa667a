package m3_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The pages are tests' inputs: what they name must exist, what exists must be named, and what they show must happen.

// pages are README.md and everything in docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) < 5 {
		t.Fatalf("pages %v, %v", names, err)
	}
	text := map[string]string{}
	for _, name := range append(names, "README.md") {
		text[name] = page(t, name)
	}
	return text
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// codeBlock is one fenced block of a page.
type codeBlock struct {
	lang string
	file string // the path that the line before it names, as in "`server/main.go`:"
	text string
}

var fence = regexp.MustCompile("(?ms)(?:^`([^`\n]+)`:\n+)?^```(\\w*)\n(.*?)^```$")

func blocks(text string) []codeBlock {
	var all []codeBlock
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		all = append(all, codeBlock{lang: m[2], file: m[1], text: m[3]})
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// TestLinks: every relative link of the pages leads to a file that is there, and to a heading that it has.
func TestLinks(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
				continue
			}
			if anchor != "" && (info.IsDir() || !slices.Contains(anchors(page(t, target)), anchor)) {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
}

// anchors are the headings' names as GitHub makes them.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1])))
	}
	return all
}

// TestREADME: it is short, and its test is the quickstart example.
func TestREADME(t *testing.T) {
	t.Parallel()
	text := page(t, "README.md")
	if n := strings.Count(text, "\n"); n >= 80 {
		t.Errorf("README.md has %d lines, want less than 80", n)
	}
	for _, b := range blocks(text) {
		if b.lang != "go" {
			continue
		}
		if diff := cmp.Diff(page(t, "examples/quickstart/quickstart_test.go"), b.text); diff != "" {
			t.Errorf("README.md shows another test than examples/quickstart (-example +README):\n%s", diff)
		}
	}
}

// TestExamplesExist: every example and page about direct testing that the seeds name has its counterpart (C64).
func TestExamplesExist(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"internal/exampleserver", "quickstart", "concurrent", "resources", "contracts", "chained", "lifecycle", "traceview", "http",
		"elicitation", "assertions", "evaluations", "judge", "aggregation", "agents", "agents/program", "agents/driver"} {
		tests, err := filepath.Glob(filepath.Join("examples", name, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Errorf("examples/%s has no tests (%v)", name, err)
		}
	}
	for _, name := range []string{"getting-started", "concepts", "http", "elicitation", "elicitation-reference", "evaluations"} {
		page(t, "docs/"+name+".md")
	}
}

// TestArchitectureTable: docs/architecture.md has the rooms of the import table, in its order.
func TestArchitectureTable(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, row := range rooms {
		for _, p := range row {
			if p == "" {
				p = "m3"
			}
			want = append(want, p)
		}
	}
	for line := range strings.Lines(page(t, "docs/architecture.md")) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " |")
		for name := range strings.SplitSeq(cell, ", ") {
			got = append(got, strings.Trim(strings.TrimSuffix(name, " (root)"), "`"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the packages of the import table (-architecture_test.go +docs/architecture.md):\n%s", diff)
	}
}

// buildM3 builds the command.
func buildM3(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "m3"), "./cmd/m3").CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/m3: %v\n%s", err, out)
	}
}

// userModule makes dir a module of a user of this m3, which needs nothing that is not here.
func userModule(t *testing.T, dir, path string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(tool|module) .*$`).ReplaceAllString(page(t, "go.mod"), "")
	text = fmt.Sprintf("module %s\n%s\nrequire github.com/m3-go/m3 v0.0.0\nreplace github.com/m3-go/m3 => %q\n", path, text, root)
	writeFile(t, filepath.Join(dir, "go.mod"), text)
	writeFile(t, filepath.Join(dir, "go.sum"), page(t, "go.sum"))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCodeCompiles: every Go block of a page that is a whole file compiles, tests of it included.
func TestCodeCompiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	userModule(t, dir, "example.test/pages")
	n := 0
	for name, text := range pages(t) {
		for _, b := range blocks(text) {
			if b.lang != "go" || !regexp.MustCompile(`(?m)^package \w+$`).MatchString(b.text) || strings.HasPrefix(b.file, "server/") {
				continue
			}
			n++
			file := "page.go"
			if strings.Contains(b.text, `"testing"`) {
				file = "page_test.go"
			}
			where := strings.TrimSuffix(filepath.Base(name), ".md")
			writeFile(t, filepath.Join(dir, fmt.Sprintf("%s%d", strings.ReplaceAll(strings.ToLower(where), "-", ""), n), file), b.text)
		}
	}
	if n < 3 {
		t.Fatalf("%d whole files in the pages: the search is broken", n)
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// TestGettingStarted does what docs/getting-started.md says, and compares what it says with what happens. In its console blocks a line
// that begins with $ is a command, and what follows is its output, in which ids, times and numbers of processes may differ.
func TestGettingStarted(t *testing.T) {
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	buildM3(t, bin)
	userModule(t, dir, "example.com/shipping")
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "M3_") || strings.HasPrefix(kv, "GOFLAGS=") })
	env = append(env, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "NO_COLOR=1")
	last := "" // the execution that was named last
	commands := 0
	for _, b := range blocks(page(t, "docs/getting-started.md")) {
		if b.lang == "go" && b.file != "" {
			writeFile(t, filepath.Join(dir, b.file), b.text)
			continue
		}
		if b.lang != "console" {
			continue
		}
		for _, step := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			line, want, _ := strings.Cut(strings.TrimSuffix(step, "\n"), "\n")
			if commands == 0 {
				buildBeforehand(t, dir, env)
			}
			commands++
			cmd := exec.CommandContext(t.Context(), "sh", "-c", executionID.ReplaceAllString(line, last))
			cmd.Dir, cmd.Env = dir, env
			out, _ := cmd.CombinedOutput() // what failing looks like is a part of the page
			if ids := executionID.FindAllString(string(out), -1); len(ids) > 0 && !strings.Contains(line, "show") {
				last = ids[0]
			}
			if diff := cmp.Diff(normal(want, dir), normal(string(out), dir)); diff != "" {
				t.Errorf("%s (-page +happened):\n%s\n%s", line, diff, out)
			}
		}
	}
	if commands < 6 {
		t.Errorf("%d commands: the search is broken", commands)
	}
}

// buildBeforehand lets go run keep the page's server, so that what is compared afterwards is what m3 says of a server that starts, and not how long a loaded machine
// needs to compile the SDK: m3 waits 3 s for the first answer of a server, and takes one that says nothing for an older one, as the page does not show.
func buildBeforehand(t *testing.T, dir string, env []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./server") // it ends with its input, which is empty
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the server of the page: %v\n%s", err, out)
	}
}

var (
	executionID = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	varying     = regexp.MustCompile(`\d+(\.\d+)?(ms|µs|s)\b|\(pid \d+\)|gotest-[0-9a-f]{16}`)
)

// normal takes out of a text what differs from run to run.
func normal(text, dir string) []string {
	text = strings.ReplaceAll(text, dir, "/path/to/shipping")
	text = varying.ReplaceAllString(executionID.ReplaceAllString(text, "ID"), "N")
	var lines []string
	for line := range strings.Lines(text) {
		// On a loaded machine even a good server may need longer than the half second that it is given.
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.Contains(line, "ignores-eof") {
			lines = append(lines, line)
		}
	}
	return lines
}

// goFiles yields the product's own files: no tests, examples, fixtures and benchmarks.
func goFiles(t *testing.T, yield func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples" || isFixture(path) || slices.Contains(suites, path) || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			yield(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
