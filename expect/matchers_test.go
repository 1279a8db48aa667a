package expect_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/expect"
	"github.com/m3-go/m3/trace"
)

// elsewhere are the exported functions that are no matcher and no option of one, with the tests that are about them.
var elsewhere = map[string]string{
	"That":       "TestToolCall",
	"Require":    "TestRequireStops",
	"Group":      "TestGroup",
	"Eventually": "TestEventually",
	"Observe":    "TestObserver",
}

// TestEveryMatcherHasARow: a matcher or an option that is added needs its row, in which it really is used, and the page its example.
func TestEveryMatcherHasARow(t *testing.T) {
	t.Parallel()
	rows := newWorld(t).rows()
	uses := usesInRows(t)
	page, err := os.ReadFile("../docs/matchers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for name, kind := range exported(t) {
		short := strings.TrimPrefix(name, "Expectation.")
		if !regexp.MustCompile(`\b` + short + `\b`).Match(page) {
			t.Errorf("docs/matchers.md does not name %s", short)
		}
		if kind != "func" {
			continue
		}
		if test, ok := elsewhere[name]; ok {
			if !slices.Contains(testNames(t), test) {
				t.Errorf("%s is to be shown by %s, which is not there", name, test)
			}
			continue
		}
		found[name] = true
		r, ok := rows[name]
		if !ok {
			t.Errorf("%s has no row", name)
			continue
		}
		if !uses[name][short] {
			t.Errorf("the row of %s does not use it", name)
		}
		if len(r.holds) == 0 || len(r.fails) == 0 || (len(r.unknown) == 0) == (r.always == "") {
			t.Errorf("the row of %s is not complete: it needs what holds, what fails, and what cannot be told or why there is no such thing", name)
		}
	}
	for name := range rows {
		if !found[name] {
			t.Errorf("there is a row for %s, which the package does not export", name)
		}
	}
	if len(found) < 50 {
		t.Errorf("%d matchers and options: the search is broken", len(found))
	}
}

// exported lists what the package exports, functions and methods of Expectation as "func", all else by its kind.
func exported(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	each(t, func(n string) bool { return !strings.HasSuffix(n, "_test.go") }, func(f *ast.File) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name, ok := d.Name.Name, d.Name.IsExported()
				if d.Recv != nil {
					on, isPointer := d.Recv.List[0].Type.(*ast.StarExpr)
					ok = ok && isPointer && on.X.(*ast.Ident).Name == "Expectation"
					name = "Expectation." + name
				}
				if ok {
					all[name] = "func"
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							all[s.Name.Name] = "type"
						}
					case *ast.ValueSpec:
						if s.Names[0].IsExported() {
							all[s.Names[0].Name] = "value"
						}
					}
				}
			}
		}
	})
	return all
}

// usesInRows finds the names that each row's expressions select.
func usesInRows(t *testing.T) map[string]map[string]bool {
	t.Helper()
	uses := map[string]map[string]bool{}
	each(t, func(n string) bool { return strings.HasPrefix(n, "rows") }, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			lit, ok := kv.Key.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			used := map[string]bool{}
			ast.Inspect(kv.Value, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					used[n.Sel.Name] = true
				case *ast.Ident: // the shorthands of the table
					used[shorthands[n.Name]] = true
				}
				return true
			})
			uses[strings.Trim(lit.Value, "`\"")] = used
			return true
		})
	})
	return uses
}

// shorthands are the functions of the table that stand for a matcher.
var shorthands = map[string]string{"call": "ToolCall", "structured": "StructuredContent", "asking": "Elicitation", "failing": "Error", "outcome": "Outcome", "capability": "Capability",
	"entries": "Entries", "finding": "Finding", "none": "NoFindings"}

func each(t *testing.T, want func(name string) bool, yield func(*ast.File)) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !want(name) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		yield(f)
	}
}

func testNames(t *testing.T) (names []string) {
	t.Helper()
	each(t, func(n string) bool { return strings.HasSuffix(n, "_test.go") }, func(f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names = append(names, fn.Name.Name)
			}
		}
	})
	return names
}

// asked asks once, and returns the message and what was recorded.
func ask(t *testing.T, tr try) (held bool, f *fakeT, c *expect.Check) {
	t.Helper()
	f = &fakeT{name: t.Name() + "/asked"}
	var checks []*expect.Check
	stop := expect.Observe(f, &expect.Observer{Checked: func(c *expect.Check) { checks = append(checks, c) }, Command: func(id trace.ExecutionID) string { return "m3 show " + string(id) }})
	defer stop()
	held = tr.check(expect.That(f, tr.subject))
	if len(checks) != 1 {
		t.Fatalf("%d checks were recorded, want 1: %+v", len(checks), checks)
	}
	c = checks[0]
	text := strings.Join(f.errors, "\n")
	if c.Message != text || held != (text == "") || f.stopped {
		t.Errorf("held = %v, recorded %q, reported %q", held, c.Message, text)
	}
	if c.Matcher == "" || c.Title == "" || c.Test != f.name || c.Began.IsZero() || c.SubjectKind == "" || c.Arguments != nil && !json.Valid(c.Arguments) {
		t.Errorf("the record is not complete: %+v", c)
	}
	if len(text) > 13_000 {
		t.Errorf("the message has %d bytes", len(text))
	}
	return held, f, c
}

// TestMatchers asks everything of the table: what holds holds, what does not fails with the golden message, what cannot be told is neither, wrong arguments
// are something else, and an open execution is refused, whatever is asked. Each is recorded once, with its status.
func TestMatchers(t *testing.T) {
	t.Parallel()
	rows := newWorld(t).rows()
	messages := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		t.Run(name, func(t *testing.T) {
			for i, tr := range r.holds {
				held, f, c := ask(t, tr)
				if !held || c.Status != eval.Passed {
					t.Errorf("number %d does not hold (%s): %q", i, c.Status, f.errors)
				}
			}
			for i, tr := range r.fails {
				held, f, c := ask(t, tr)
				if held || c.Status != eval.Failed || !strings.Contains(f.errors[0], ": did not hold\n") {
					t.Errorf("number %d that fails: held = %v (%s): %q", i, held, c.Status, f.errors)
					continue
				}
				messages[fmt.Sprintf("%s %d", name, i+1)] = f.errors[0]
			}
			for state, tr := range r.unknown {
				held, f, c := ask(t, tr)
				if held || c.Status != eval.Inconclusive || !strings.Contains(f.errors[0], ": cannot tell\n") {
					t.Errorf("%s: held = %v (%s): %q", state, held, c.Status, f.errors)
					continue
				}
				messages[name+" "+state] = f.errors[0]
			}
			for part, tr := range r.misuse {
				held, f, c := ask(t, tr)
				if held || c.Status != eval.Error || !strings.Contains(f.errors[0], ": wrong use\n") || !strings.Contains(f.errors[0], part) {
					t.Errorf("held = %v (%s): %q, want wrong use: %s", held, c.Status, f.errors, part)
				}
			}
			for _, tr := range append(slices.Clone(r.holds), r.fails...) {
				held, f, c := ask(t, try{running{}, tr.check})
				if held || c.Status != eval.Error || !strings.Contains(f.errors[0], ": not finalized\n    the execution is still open: close it first") {
					t.Errorf("an open execution: held = %v (%s): %q", held, c.Status, f.errors)
				}
			}
		})
	}
	golden(t, "testdata/messages.txt", messages)
}

// golden compares texts with a file of sections; with M3_UPDATE=1 it writes the file.
func golden(t *testing.T, path string, texts map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "== %s\n%s\n\n", name, texts[name])
	}
	if os.Getenv("M3_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("messages (-%s +now; M3_UPDATE=1 rewrites it):\n%s", path, diff)
	}
}
