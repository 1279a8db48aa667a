package m3_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// goNames are the exported names of a package: Name, Type.Method, Type.Field. Those of an embedded type of the same package are the type's own.
func goNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names, embeds := map[string]bool{}, map[string][]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			declaredNames(decl, names, embeds)
		}
	}
	for typ, embedded := range embeds {
		for name := range names {
			if owner, member, ok := strings.Cut(name, "."); ok && slices.Contains(embedded, owner) {
				names[typ+"."+member] = true
			}
		}
	}
	return names
}

func declaredNames(decl ast.Decl, names map[string]bool, embeds map[string][]string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names[id.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				typeMembers(s, names, embeds)
			}
		}
	}
}

func typeMembers(s *ast.TypeSpec, names map[string]bool, embeds map[string][]string) {
	var list *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			names[s.Name.Name+"."+id.Name] = true
		}
		if len(field.Names) == 0 {
			embeds[s.Name.Name] = append(embeds[s.Name.Name], receiver(field.Type))
		}
	}
}

// receiver is the name of a type, of a pointer to it, or of an instance of it.
func receiver(typ ast.Expr) string {
	switch x := typ.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}

var (
	pythonRow = regexp.MustCompile(`(?m)^\| (.+) \|$`)
	goName    = regexp.MustCompile("`[*\\[\\]&]*([a-z][a-z0-9]*)\\.([A-Z]\\w*(?:\\.[A-Z]\\w*)?)")
	comesWith = regexp.MustCompile(`comes with \w+$`)
)

// TestFromPython: docs/from-python.md names what exists. A row that ends with "comes with …" names what does not exist yet: when it does, the words go.
func TestFromPython(t *testing.T) {
	t.Parallel()
	packages := map[string]string{"m3": ".", "sqlite": "store/sqlite", "memory": "store/memory", "spool": "store/spool"}
	known := map[string]map[string]bool{}
	checked := 0
	for _, m := range pythonRow.FindAllStringSubmatch(page(t, "docs/from-python.md"), -1) {
		cells := strings.Split(m[1], " | ")
		var absent []string
		all := goName.FindAllStringSubmatch(strings.Join(cells[1:], " | "), -1)
		for _, name := range all {
			dir := name[1]
			if dir == "json" || dir == "context" || dir == "errors" {
				continue // Go's own
			}
			if packages[dir] != "" {
				dir = packages[dir]
			}
			if known[dir] == nil {
				known[dir] = goNames(t, dir)
			}
			if !known[dir][name[2]] {
				absent = append(absent, name[1]+"."+name[2])
			}
		}
		checked += len(all)
		switch later := comesWith.FindString(m[1]); {
		case later == "" && len(absent) > 0:
			t.Errorf("%s: there is no %s", m[1], strings.Join(absent, ", "))
		case later != "" && len(absent) == 0:
			t.Errorf("%s: all of it exists: take %q away", m[1], later)
		}
	}
	if checked < 250 {
		t.Errorf("only %d names: the search is broken", checked)
	}
}

// inventory are the numbered names of the elicitation document.
var inventory = []string{"ElicitationPlan", "ElicitationResponse", "FormElicitationRequest", "UrlElicitationRequest", "PendingElicitationRound", "expect_form", "maybe_form",
	"expect_url", "maybe_url", "sequence", "optional", "one_of", "round_of", "ElicitationExpectationError", "ElicitationRoundLimitError", "ManagedInputError",
	"ManagedInputConflict", "ManagedInputValidationError", "ManagedInputStateError", "ManagedInputRecoveryError", "elicitation", "elicitation_round_limit",
	"allow_input_required", "agent.run", "agent.submit", "AgentSession", "ExecutionHandle.pending_elicitation", "ExecutionHandle.respond_elicitation",
	"AsyncExecutionHandle.pending_elicitation", "AsyncExecutionHandle.respond_elicitation", "ElicitationEntry", "ProtocolCallAttempt", "ToolCallAttempt",
	"TraceView.elicitations", "ToolCallEntry.attempts"}

// TestFromPythonInventory: each of the 35 numbers has its row, with its Python and its Go name.
func TestFromPythonInventory(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/from-python.md")
	for i, name := range inventory {
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\| `%s\\b[^|]* \\| [^|]*`[*a-z0-9]+\\.[A-Z][^|]*`.* \\|$", i+1, regexp.QuoteMeta(name)))
		if len(row.FindAllString(text, -1)) != 1 {
			t.Errorf("docs/from-python.md has not one row %d for %s", i+1, name)
		}
	}
}

// TestElicitationReference: docs/elicitation-reference.md names every exported name of package elicit.
func TestElicitationReference(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/elicitation-reference.md")
	for name := range goNames(t, "elicit") {
		owner, member, ok := strings.Cut(name, ".")
		if !ast.IsExported(owner) || ok && !ast.IsExported(member) || conventional[member] {
			continue
		}
		if !ok {
			member = owner
		}
		if !regexp.MustCompile("`[^`\n]*\\b" + member + "\\b[^`\n]*`").MatchString(text) {
			t.Errorf("docs/elicitation-reference.md lacks %s", name)
		}
	}
}

// TestOneValidationSentinel: a plan's error is the root's validation error, so that one errors.Is serves for all.
func TestOneValidationSentinel(t *testing.T) {
	t.Parallel()
	plan := elicit.Sequence(elicit.Form("").Accept(elicit.Content{}))
	if err := plan.Err(); !errors.Is(err, m3.ErrValidation) || !errors.Is(err, trace.ErrValidation) {
		t.Errorf("%v is no m3.ErrValidation", err)
	}
	if err := error(&m3.ValidationError{}); !errors.Is(err, trace.ErrValidation) {
		t.Errorf("%v is no trace.ErrValidation", err)
	}
}

// TestElicitIsPure: package elicit can open nothing: neither it nor what it links has the network or processes.
func TestElicitIsPure(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "list", "-deps", "-json=ImportPath", "./elicit") {
		if p.ImportPath == "net" || p.ImportPath == "os/exec" || strings.HasPrefix(p.ImportPath, "net/") && p.ImportPath != "net/netip" {
			t.Errorf("package elicit links %s", p.ImportPath)
		}
	}
}
