package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnv(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     map[string]string
	}{
		{"plain", "A=1\nB= two words \n", map[string]string{"A": "1", "B": "two words"}},
		{"comments and blanks", "# x\n\n  # y\nA=1 # why\nB=a#b\nC=#all\n", map[string]string{"A": "1", "B": "a#b", "C": ""}},
		{"export", "export A=1\n  export  B=2\nexported=3\n", map[string]string{"A": "1", "B": "2", "exported": "3"}},
		{"quotes", `A='$x \n "q"'` + "\n" + `B="a\n\"b\"\t\\ \$x \q" # c`, map[string]string{"A": `$x \n "q"`, "B": "a\n\"b\"\t\\ $x \\q"}},
		{"no interpolation", "A=${B}$C\n", map[string]string{"A": "${B}$C"}},
		{"the last one holds", "A=1\nA=2", map[string]string{"A": "2"}},
		{"crlf and bom", "\ufeffA=1\r\nB=2\r\n", map[string]string{"A": "1", "B": "2"}},
		{"equals in the value", "A=b=c==\n", map[string]string{"A": "b=c=="}},
		{"empty", "A=\nB=''\nC=\"\"", map[string]string{"A": "", "B": "", "C": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseEnv(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseEnvErrorsHoldNoValue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hunter2":                 "line 1 is not NAME=VALUE",
		"A=1\n\n=hunter2":         "line 3 is not NAME=VALUE",
		"1A=hunter2":              "line 1 is not NAME=VALUE",
		"A-B=hunter2":             "line 1 is not NAME=VALUE",
		"A='hunter2":              "the value of A has no closing quote on its line",
		`A="hunter2\"`:            "the value of A has no closing quote on its line",
		"A='hunter2' hunter2":     "the value of A goes on after its closing quote",
		"A=hunter2\x00":           "the value of A holds a NUL byte",
		"A='x'\nB=\"hunter2\nC=1": "line 2: the value of B has no closing quote",
	} {
		_, err := parseEnv(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v, want %q and no value", in, err, want)
		}
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add("A=1\nexport B=\"x\\n\" # c\nC='y'")
	f.Fuzz(func(t *testing.T, in string) {
		vars, err := parseEnv(in)
		if err != nil {
			return
		}
		for name, value := range vars {
			if !envName(name) || strings.ContainsRune(value, 0) {
				t.Fatalf("%q=%q came out of %q", name, value, in)
			}
		}
	})
}
