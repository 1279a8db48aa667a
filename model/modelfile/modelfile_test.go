package modelfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/m3-go/m3/model"
	"github.com/m3-go/m3/model/modelfile"
	"github.com/m3-go/m3/trace"
)

const booking = `# The model of the booking test.
- call: calc:add
  args: {a: 2, b: 30000000000000000001, c: 1.50, hex: 0x10, date: 2026-11-30, none: ~, yes: "no", list: [true, -1e3]}
  when: {text: add, offers: [calc:add]}
- &again
  calls:
    - {tool: calc:add, args: {a: 1}}
    - {raw: calc_secret}
  times: 2
- say: |
    The answer
    is 5.
  usage: {input: 120, output: 30, cache_read: 20}
  after: 10ms
- fault: {kind: hang}
  times: forever
`

const wanted = `[{"when":{"text":["add"],"offers":["calc:add"]},"call":"calc:add","args":{"a":2,"b":30000000000000000001,"c":1.50,"hex":16,"date":"2026-11-30","none":null,"yes":"no","list":[true,-1e3]}},` +
	`{"times":2,"calls":[{"tool":"calc:add","args":{"a":1}},{"raw":"calc_secret"}]},` +
	`{"after":"10ms","say":"The answer\nis 5.\n","usage":{"input":120,"output":30,"cache_read":20}},{"times":"forever","fault":{"kind":"hang"}}]`

// TestParse: YAML becomes the script that it says, with every number as it is written.
func TestParse(t *testing.T) {
	t.Parallel()
	script, err := modelfile.Parse("booking.yaml", []byte(booking))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, string(b)); diff != "" {
		t.Errorf("script (-want +got):\n%s", diff)
	}
	text, err := modelfile.ToJSON("booking.yaml", []byte(booking))
	if err != nil {
		t.Fatal(err)
	}
	handed, err := model.ParseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(handed); err != nil || string(again) != wanted {
		t.Errorf("handed on as JSON: %v %s", err, again)
	}
}

// TestLoad reads both kinds of files.
func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": booking, "a.json": wanted, "a": booking} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		script, err := modelfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(script); err != nil || string(b) != wanted {
			t.Errorf("%s: %v %s", name, err, b)
		}
	}
	if _, err := modelfile.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	broken := filepath.Join(dir, "b.json")
	if err := os.WriteFile(broken, []byte(`- say: x`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := modelfile.Load(broken); err == nil || !strings.HasPrefix(err.Error(), broken+": ") {
		t.Errorf("YAML in a JSON file: %v", err)
	}
}

// TestErrors name the file, the line and the trouble.
func TestErrors(t *testing.T) {
	t.Parallel()
	bomb := "- &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		bomb += "- &" + string(rune('b'+i)) + " [" + strings.Repeat("*"+string(rune('a'+i))+",", 9) + "*" + string(rune('a'+i)) + "]\n"
	}
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "s.yaml: it is empty: a script is a list of steps"},
		{"a comment alone", "# nothing\n", "s.yaml: it is empty: a script is a list of steps"},
		{"no YAML", "- say: x\n- say: [\n", "s.yaml:2: it is not YAML: did not find expected node content"},
		{"tab", "- say: x\n\tcall: y\n", "s.yaml:2: it is not YAML: "},
		{"a mapping", "say: x\n", "s.yaml:1: script: it is not a list of steps: an object does not belong there"},
		{"unknown member", "- say: x\n- sya: x\n", `s.yaml:2: step 2: there is no member "sya"`},
		{"invalid", "- say: x\n\n- calls:\n    - {tool: calc:add}\n    - {tool: add}\n", `s.yaml:5: step 2, calls[1].tool: "add" is not of the form server:tool; a name as the agent offers it is a raw one`},
		{"invalid condition", "- say: x\n  when:\n    text: ''\n", "s.yaml:3: step 1, when.text: it names nothing"},
		{"twice", "- say: x\n  say: y\n", `s.yaml:2: the member "say" is there twice`},
		{"a number as a name", "- say: x\n  1: y\n", `s.yaml:2: a name is text: write "1" in quotes`},
		{"merge", "- &a {say: x}\n- {<<: *a}\n", `s.yaml:2: a name is text: write "<<" in quotes`},
		{"infinity", "- call: a:b\n  args: {x: .inf}\n", `s.yaml:2: ".inf" is no number that JSON has`},
		{"binary", "- say: !!binary aGk=\n", "s.yaml:1: a script has no value of type !!binary"},
		{"own type", "- say: !cook hi\n", "s.yaml:1: a script has no value of type !cook"},
		{"two documents", "- say: x\n---\n- say: y\n", "a second document follows: a script is one"},
		{"alias to nothing", "- *a\n", "s.yaml: it is not YAML: unknown anchor 'a' referenced"},
		{"bomb", bomb, "with its aliases it is larger than 16 MiB"},
		{"deep", strings.Repeat("[", 5000), "s.yaml"},
		{"itself", "- &a [*a]\n", "s.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script, err := modelfile.Parse("s.yaml", []byte(tc.text))
			var fe *modelfile.Error
			if script != nil || !errors.As(err, &fe) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error\n%v, want\n%s", err, tc.want)
			}
		})
	}
	_, err := modelfile.Parse("s.yaml", []byte("- think: x\n"))
	var se *model.ScriptError
	if !errors.Is(err, trace.ErrValidation) || !errors.As(err, &se) || se.Step != 1 {
		t.Errorf("an invalid script is %v", err)
	}
}

// FuzzParse: no text makes the reader panic, and what it accepts package model accepts as JSON.
func FuzzParse(f *testing.F) {
	for _, s := range []string{booking, wanted, "- *a", "- &a [*a]", "- {<<: 1}", "- say: 0x_f", "- say: .nan", "? [a]\n: b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := modelfile.ToJSON("f.yaml", b)
		if err != nil {
			return
		}
		if _, err := model.ParseScript(text); err != nil {
			t.Fatalf("%v of %s of %s", err, text, b)
		}
	})
}
