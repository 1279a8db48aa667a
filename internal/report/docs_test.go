package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestFeedbackPage: every member of feedback.json is in docs/feedback.md, or, below comparison, in docs/baseline.md.
func TestFeedbackPage(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	n := 0
	var walk func(page, text string, typ reflect.Type)
	walk = func(page, text string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(page, text, typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" && !f.Anonymous {
				continue
			}
			if n++; name != "" && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s lacks `%s`", page, name)
			}
			switch {
			case f.Type == reflect.TypeFor[*Comparison]():
				walk("docs/baseline.md", read("../../docs/baseline.md"), f.Type)
			case strings.HasSuffix(f.Type.String(), "time.Time"):
			default:
				walk(page, text, f.Type)
			}
		}
	}
	walk("docs/feedback.md", read("../../docs/feedback.md"), reflect.TypeFor[Feedback]())
	if n < 100 {
		t.Errorf("%d members: the search is broken", n)
	}
}
