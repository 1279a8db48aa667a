package m3_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/m3-go/m3"

// rooms is the import table of docs/architecture.md: a package imports only packages of m3 that stand above it. Packages on one
// line do not import each other.
var rooms = [][]string{
	{"internal/shim"},
	{"internal/stats"},
	{"trace"},
	{"elicit"},
	{"eval"},
	{"internal/aggregate"},
	{"internal/evidence"},
	{"internal/proc"},
	{"internal/oauth"},
	{"internal/wire"},
	{"internal/rpc"},
	{"internal/mcp"},
	{"internal/isolation"},
	{"internal/relay"},
	{"store"},
	{"internal/runner"},
	{"internal/judging"},
	{"store/memory", "store/spool"},
	{"store/sqlite"},
	{"harness"},
	{"harness/opencode"},
	{"model"},
	{"model/modelfile"},
	{"harness/acp"},
	{"harness/acp/acpagent"},
	{""}, // the root package, m3
	{"gosdk"},
	{"judge"},
	{"expect"},
	{"harness/harnesstest"},
	{"internal/catalog"},
	{"m3test"},
	{"internal/report"},
	{"internal/gotest"},
	{"internal/probe"},
	{"cmd/m3"},
}

// suites may import downwards: they exercise a seam.
var suites = []string{"store/storetest", "internal/wiretest", "internal/conformance", "internal/leaktest"}

type goPackage struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

// TestImportTable holds the architecture: data flows to the right, and nobody reaches back.
func TestImportTable(t *testing.T) {
	t.Parallel()
	rank := map[string]int{}
	for i, row := range rooms {
		for _, p := range row {
			rank[strings.TrimSuffix(module+"/"+p, "/")] = i
		}
	}
	seen := map[string]bool{}
	for _, p := range list(t, "list", "-json=ImportPath,Imports", "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.HasPrefix(name, "examples") || slices.Contains(suites, name) || strings.Contains(name, "testdata") || isFixture(name) {
			continue
		}
		seen[p.ImportPath] = true
		own, listed := rank[p.ImportPath]
		if !listed {
			t.Errorf("package %s is not in the import table: give it a room in architecture_test.go and docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if r, ours := rank[imp]; ours && r >= own {
				t.Errorf("%s imports %s, which does not stand above it in the import table", p.ImportPath, imp)
			} else if !ours && strings.HasPrefix(imp, module) {
				t.Errorf("%s imports %s, which is not in the import table", p.ImportPath, imp)
			}
		}
	}
	for p := range rank {
		if !seen[p] {
			t.Errorf("%s is in the import table and does not exist", p)
		}
	}
}

// isFixture tells programs that only tests run.
func isFixture(name string) bool {
	return slices.ContainsFunc([]string{"internal/proc/proctest", "internal/realtest", "internal/bench", "internal/endtoend", "internal/providertest"}, func(dir string) bool {
		return name == dir || strings.HasPrefix(name, dir+"/")
	})
}

// TestLinkedModules holds what a user's test binary may link: a short list, and no SQLite, CLI, YAML, TOML or web framework.
func TestLinkedModules(t *testing.T) {
	t.Parallel()
	library := []string{"github.com/google/uuid", "github.com/m3-go/m3", "github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text"}
	for _, tc := range []struct {
		pkg  string
		want []string
	}{
		{".", library},
		{"./judge", []string{"github.com/m3-go/m3"}},
		{"./model", []string{"github.com/m3-go/m3"}},
		{"./m3test", append([]string{"github.com/google/go-cmp"}, library...)},
		{"./expect", append([]string{"github.com/google/go-cmp"}, library...)},
	} {
		t.Run(tc.pkg, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range list(t, "list", "-deps", "-json=ImportPath,Module", tc.pkg) {
				if p.Module != nil && !slices.Contains(got, p.Module.Path) {
					got = append(got, p.Module.Path)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("modules linked by %s (-want +got):\n%s", tc.pkg, diff)
			}
		})
	}
}

// TestRootIsOptional: a program that imports only the root builds without SQLite, a judge or package testing (C11).
func TestRootIsOptional(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "list", "-deps", "-json=ImportPath", ".") {
		if p.ImportPath == "testing" || strings.Contains(p.ImportPath, "sqlite") || p.ImportPath == module+"/judge" || strings.HasSuffix(p.ImportPath, "/m3test") {
			t.Errorf("the root package links %s", p.ImportPath)
		}
	}
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestExportedNamesAreDocumented holds that every exported name has a doc comment.
func TestExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		undocumented(f, func(pos token.Pos, name string) {
			t.Errorf("%s: exported %s has no doc comment", fset.Position(pos), name)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were looked at: the walk is broken", files)
	}
}

func undocumented(f *ast.File, report func(token.Pos, string)) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && empty(d.Doc) && !conventional[d.Name.Name] {
				report(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && empty(d.Doc) && empty(s.Doc) {
						report(s.Pos(), s.Name.Name)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && empty(d.Doc) && empty(s.Doc) && empty(s.Comment) {
						report(s.Pos(), s.Names[0].Name)
					}
				}
			}
		}
	}
}

// conventional methods say nothing that their interface does not.
var conventional = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func empty(g *ast.CommentGroup) bool {
	if g == nil {
		return true
	}
	var p comment.Parser
	return len(p.Parse(g.Text()).Content) == 0
}

// TestFilesStaySmall: a file is about one noun, and is split by noun before it reaches 800 lines.
func TestFilesStaySmall(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := strings.Count(string(b), "\n"); n > 800 {
			t.Errorf("%s has %d lines: split it by noun", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
