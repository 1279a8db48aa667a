package modelfile_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/m3-go/m3/model/modelfile"
)

// TestPage: the file that docs/scripted-models.md shows is a script, and the page names every member that a script can have.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/scripted-models.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("the page shows no file")
	}
	script, err := modelfile.Parse("page.yaml", []byte(block[1]))
	if err != nil || len(script) != 5 {
		t.Errorf("the page's file has %d steps: %v", len(script), err)
	}
	source, err := os.ReadFile("../json.go")
	if err != nil {
		t.Fatal(err)
	}
	members := regexp.MustCompile("`json:\"(\\w+),").FindAllStringSubmatch(string(source), -1)
	if len(members) < 30 {
		t.Fatalf("%d members: the search is broken", len(members))
	}
	for _, m := range members {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("the page does not name the member %s", m[1])
		}
	}
}
