package m3_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/rpc"
)

// listed is a row of docs/findings.md.
type listed struct{ severity, clause, meaning string }

// TestFindingsPage: docs/findings.md lists every code of a finding that the code can give, with its severity, and no other.
func TestFindingsPage(t *testing.T) {
	t.Parallel()
	rows := map[string]listed{}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (\\w+) \\| (.*?) \\| (.*?) \\|$")
	for _, m := range row.FindAllStringSubmatch(page(t, "docs/findings.md"), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("docs/findings.md lists %s twice", m[1])
		}
		rows[m[1]] = listed{m[2], m[3], m[4]}
	}
	codes := findingCodes(t)
	for code, severity := range codes {
		switch got, ok := rows[code]; {
		case !ok:
			t.Errorf("docs/findings.md lacks %s (%s)", code, severity)
		case severity != "" && got.severity != severity:
			t.Errorf("docs/findings.md calls %s %s, want %s", code, got.severity, severity)
		case got.meaning == "":
			t.Errorf("docs/findings.md does not say what %s means", code)
		}
	}
	for code := range rows {
		if _, ok := codes[code]; !ok {
			t.Errorf("docs/findings.md lists %s, which nothing gives", code)
		}
	}
	for _, k := range rpc.Findings {
		want := listed{string(k.Severity), k.Clause, k.Meaning}
		if got := rows[string(k.Code)]; got != want {
			t.Errorf("docs/findings.md has %+v for %s, want %+v", got, k.Code, want)
		}
	}
}

var findingCode = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

// findingCodes finds the codes in the code, with their severities where they stand beside them: the table of internal/rpc, literals of
// trace.Finding, arguments of functions called find, and what checks return or set.
func findingCodes(t *testing.T) map[string]string {
	t.Helper()
	codes := map[string]string{}
	for _, k := range rpc.Findings {
		codes[string(k.Code)] = string(k.Severity)
	}
	goFiles(t, func(path string) {
		if strings.HasPrefix(path, "internal/rpc/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, part := range findingParts(n) {
				noteCodes(codes, part)
			}
			return true
		})
	})
	if len(codes) < len(rpc.Findings)+10 {
		t.Fatalf("%d codes: the search is broken", len(codes))
	}
	return codes
}

// findingParts are the expressions of a node among which a code, and mostly its severity, stand.
func findingParts(n ast.Node) [][]ast.Expr {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if nameOf(n.Type) != "Finding" {
			return nil
		}
		var parts []ast.Expr
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && (nameOf(kv.Key) == "Code" || nameOf(kv.Key) == "Severity") {
				parts = append(parts, kv.Value)
			}
		}
		return [][]ast.Expr{parts}
	case *ast.CallExpr:
		switch nameOf(n.Fun) {
		case "find", "findRequest":
			return [][]ast.Expr{n.Args}
		case "findings": // adds what is wrong to the code
			var all [][]ast.Expr
			for _, arg := range n.Args[min(1, len(n.Args)):] {
				if code, ok := stringOf(arg); ok && findingCode.MatchString(code) {
					for _, suffix := range []string{"-incomplete", "-invalid"} {
						all = append(all, []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(code + suffix)}, ast.NewIdent("SeverityError")})
					}
				}
			}
			return all
		}
	case *ast.ReturnStmt:
		if len(n.Results) == 3 && strings.HasPrefix(nameOf(n.Results[1]), "Severity") {
			return [][]ast.Expr{n.Results}
		}
	case *ast.AssignStmt:
		if nameOf(n.Lhs[0]) == "Code" {
			return [][]ast.Expr{n.Rhs[:1]}
		}
	}
	return nil
}

func noteCodes(codes map[string]string, parts []ast.Expr) {
	severity := ""
	for _, e := range parts {
		if s, ok := strings.CutPrefix(nameOf(e), "Severity"); ok {
			severity = strings.ToLower(s)
		}
	}
	for _, e := range parts {
		if code, ok := stringOf(e); ok && findingCode.MatchString(code) {
			codes[code] = severity
			return // the first is the code, the others may be messages and clauses
		}
	}
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func stringOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
