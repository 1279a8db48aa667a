package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestCompare plays testdata/compare.txtar: for each case the tools before and after, and the lines of the comparison, both ways.
func TestCompare(t *testing.T) {
	t.Parallel()
	a, err := txtar.ParseFile(filepath.Join("testdata", "compare.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	var names []string
	for _, f := range a.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if part == "before" {
			names = append(names, name)
		}
		files[f.Name] = string(f.Data)
	}
	got := txtar.Archive{Comment: a.Comment}
	for _, name := range names {
		before, after := parse(t, name, files[name+"/before"]), parse(t, name, files[name+"/after"])
		forth, back := Text(Compare(before, after)), Text(Compare(after, before))
		if changes := Compare(before, before); len(changes) > 0 {
			t.Errorf("%s: the same catalogue differs from itself:\n%s", name, Text(changes))
		}
		for part, text := range map[string]string{"forth": forth, "back": back} {
			if diff := cmp.Diff(files[name+"/"+part], text); diff != "" && os.Getenv("M3_UPDATE") != "1" {
				t.Errorf("%s %s (-want +got):\n%s", name, part, diff)
			}
		}
		for _, f := range []struct{ part, text string }{{"before", files[name+"/before"]}, {"after", files[name+"/after"]}, {"forth", forth}, {"back", back}} {
			got.Files = append(got.Files, txtar.File{Name: name + "/" + f.part, Data: []byte(f.text)})
		}
	}
	if len(names) < 40 {
		t.Errorf("%d cases", len(names))
	}
	if os.Getenv("M3_UPDATE") == "1" {
		if err := os.WriteFile(filepath.Join("testdata", "compare.txtar"), txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// parse reads one tool a line.
func parse(t *testing.T, name, text string) *Catalog {
	t.Helper()
	var tools [][]byte
	for line := range strings.Lines(text) {
		tools = append(tools, []byte(line))
	}
	c, err := New("calc", tools)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func TestLockFile(t *testing.T) {
	t.Parallel()
	c := parse(t, "lock", `{"name":"b","inputSchema":{"type":"object","maximum":1e400,"x":9007199254740993},"y":null}
{"name":"a","description":"<&>","annotations":{"readOnlyHint":true}}`)
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "format": "m3.lock.v1",
  "server": "calc",
  "tools": [
    {
      "annotations": {
        "readOnlyHint": true
      },
      "description": "<&>",
      "name": "a"
    },
    {
      "inputSchema": {
        "maximum": 1e400,
        "type": "object",
        "x": 9007199254740993
      },
      "name": "b",
      "y": null
    }
  ]
}
`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
	again, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if changes := Compare(c, again); len(changes) != 0 {
		t.Errorf("written and read, it differs:\n%s", Text(changes))
	}
}

func TestBadLockFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{``, "it is no lock file: EOF"},
		{`[]`, "it is no lock file: json: cannot unmarshal array"},
		{`{"format":"m3.lock.v2","server":"","tools":[]}`, `its format is "m3.lock.v2", and this m3 reads "m3.lock.v1"`},
		{`{"format":"m3.lock.v1","servers":""}`, `unknown field "servers"`},
		{`{"format":"m3.lock.v1","server":"","tools":[{"name":"a"},7]}`, "tool 2: it is no JSON object"},
		{`{"format":"m3.lock.v1","server":"","tools":[{"title":"a"}]}`, "tool 1: it has no name"},
		{`{"format":"m3.lock.v1","server":"","tools":[]} x`, "there is more after"},
		{"<<<<<<< HEAD\n{}", "it is no lock file: invalid character"},
	} {
		if _, err := Decode([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"name":"a","inputSchema":{"$ref":"#/$defs/x","$defs":{"x":{"items":{"$ref":"#"}}}}}`), []byte(`{"name":"a","inputSchema":{"properties":{"a":false}}}`))
	f.Add([]byte(`{"name":"a","inputSchema":{"enum":[1,null]}}`), []byte(`{"name":"a","inputSchema":null}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		before, err1 := New("s", [][]byte{a})
		after, err2 := New("s", [][]byte{b})
		if err1 != nil || err2 != nil {
			return
		}
		if changes := Compare(before, before); len(changes) > 0 {
			t.Errorf("%s differs from itself:\n%s", a, Text(changes))
		}
		Compare(before, after)
		text, err := before.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if changes := Compare(before, again); len(changes) > 0 {
			t.Errorf("%s is not %s:\n%s", a, text, Text(changes))
		}
	})
}
