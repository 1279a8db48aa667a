package exampleserver_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/m3-go/m3"
	"github.com/m3-go/m3/examples/internal/exampleserver"
	"github.com/m3-go/m3/gosdk"
	"github.com/m3-go/m3/m3test"
)

// The server is deterministic: two of them answer the same calls with the same bytes.
func TestSameAnswersEveryTime(t *testing.T) {
	t.Parallel()
	ask := func() (answers [][]byte) {
		client := m3test.Direct(t, gosdk.Server(exampleserver.Name, exampleserver.New), nil)
		for _, call := range []struct {
			tool string
			args m3.Args
		}{
			{"echo", m3.Args{"text": "hello"}},
			{"add", m3.Args{"a": 1, "b": 2}},
			{"quote", m3.Args{"weight_kg": 2}},
			{"normalize_customer", m3.Args{"name": "Asha", "email": "asha@example.test"}},
			{"create_order", m3.Args{"customer_id": "cust-asha", "item": "parcel", "quantity": 1}},
			{"get_order", m3.Args{"order_id": "order-1"}},
			{"fail", nil},
			{"bad_output", nil},
		} {
			r, err := client.CallTool(t.Context(), call.tool, call.args, nil)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, r.Raw)
		}
		return answers
	}
	first, second := ask(), ask()
	for i := range first {
		if !bytes.Equal(first[i], second[i]) {
			t.Errorf("call %d: %s, and then %s", i, first[i], second[i])
		}
	}
}

// It needs no network and no model: what it imports is the SDK, and of the standard library nothing that dials or draws lots.
func TestNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			switch path, _ := strconv.Unquote(imp.Path.Value); {
			case path == "net", path == "net/url", strings.Contains(path, "rand"), strings.Contains(path, "os/exec"):
				t.Errorf("%s imports %s", name, path)
			case strings.Contains(path, ".") && path != "github.com/modelcontextprotocol/go-sdk/mcp":
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
