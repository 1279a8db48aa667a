package m3_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// promised are the ids of the acceptance list that hold so far.
var promised = strings.Fields(`C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C16 C17 C18 C19 C20 C21 C22 C23 C24 C25 C26 C31 C37 C39 C40 C41 C42 C43 C44 C45 C46 C47 C48 C49 C50 C51 C55 C58 C59 C60 C61 C63 C64 E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E11 E12 E13 E14 E15 E16 E17 E18 E19 E20 E21 E22 E24 E25 E26 E28 E29 E30 E31 E32 E33 E34 E35 E36 E40 E41 L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12 L13 L14 L15 L21 L22 L23 L24 L25 L26 L31 L32 L33 L34 L35 L36 L37 L38 L39 L40 L41 L42 L43 L44 L45 L46 L49 L55 L56 L57 L58 L59 L60 L61 L62 L63 L64 L65 L66`)

var (
	promiseRow = regexp.MustCompile(`(?m)^\| ([CEL]\d+) \| ([^|]+) \| ([^|]+) \|$`)
	shownBy    = regexp.MustCompile("`([\\w/]+)\\.((?:Test|Example|Fuzz)\\w+)((?:/[^`]+)?)`")
)

// TestAcceptancePage: docs/acceptance.md names, for every id that is to hold, tests that exist.
func TestAcceptancePage(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, m := range promiseRow.FindAllStringSubmatch(page(t, "docs/acceptance.md"), -1) {
		ids = append(ids, m[1])
		tests := shownBy.FindAllStringSubmatch(m[3], -1)
		if len(tests) == 0 || len(tests) != strings.Count(m[3], "`")/2 {
			t.Errorf("%s: not all of %q is a test, written as `package.TestName`", m[1], m[3])
		}
		for _, test := range tests {
			if why := missing(t, test[1], test[2], strings.TrimPrefix(test[3], "/")); why != "" {
				t.Errorf("%s is shown by %s: %s", m[1], test[0], why)
			}
		}
	}
	slices.Sort(ids)
	want := slices.Sorted(slices.Values(promised))
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("ids (-promised +docs/acceptance.md):\n%s", diff)
	}
}

// missing says why a test cannot be found in the files of its package; empty when it is there.
func missing(t *testing.T, pkg, test, sub string) string {
	t.Helper()
	dir := pkg
	if pkg == "m3" {
		dir = "."
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return "the package has no tests"
	}
	for _, file := range files {
		text := page(t, file)
		if !regexp.MustCompile(`(?m)^func ` + test + `\(`).MatchString(text) {
			continue
		}
		if sub == "" || namesSubtest(t, dir, text, sub) {
			return ""
		}
		return "the test has no subtest " + sub
	}
	return "there is no such test"
}

// namesSubtest looks for a subtest's name as a literal, or, as testscript does it, as a script, or in the suite of all stores.
func namesSubtest(t *testing.T, dir, text, sub string) bool {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "testdata", "script", sub+".txtar")); err == nil {
		return true
	}
	return strings.Contains(text, `"`+sub+`"`) || strings.Contains(text, "storetest.Run(") && strings.Contains(page(t, "store/storetest/storetest.go"), `"`+sub+`"`)
}
