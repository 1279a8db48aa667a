package judge

import (
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/providertest"
)

// TestHide: what a rationale quotes is taken out, and nothing else.
func TestHide(t *testing.T) {
	t.Parallel()
	s := Subject{Input: "Where is parcel PX-20417-B for Ada Lovelace?", Expected: "It is in Hamburg, and comes on Tuesday.", Actual: "5"}
	for _, tc := range []struct{ name, text, want string }{
		{"nothing quoted", "The city is right and the day is not.", "The city is right and the day is not."},
		{"the whole text", "Expected: It is in Hamburg, and comes on Tuesday. So no.", "Expected: <redacted> So no."},
		{"other capitals", "IT IS IN HAMBURG, AND COMES ON TUESDAY.", "<redacted>"},
		{"a part", `It says "is in Hamburg, and comes on" and no more.`, `It says "<redacted>" and no more.`},
		{"an identifier", "px-20417-b is not named.", "<redacted> is not named."},
		{"a short text as a word", "5 is no city; 0.95 is not it.", "<redacted> is no city; 0.95 is not it."},
		{"the key", "key-123456key-123456", "<redacted>"},
		{"around characters of several bytes", "ä–key-123456–ä", "ä–<redacted>–ä"},
		{"empty", "", ""},
		{"not UTF-8", "\xff5\xff", "\xff<redacted>\xff"},
	} {
		if got := newHider("key-123456", s).hide(tc.text); got != tc.want && tc.name != "not UTF-8" {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := newHider("", Subject{}).hide("text"); got != "text" {
		t.Errorf("nothing to hide: %q", got)
	}
}

func FuzzHide(f *testing.F) {
	f.Add("a rationale that quotes a text of the subject", "a text of the subject", "expected", "actual")
	f.Fuzz(func(t *testing.T, text, input, expected, actual string) {
		got := fold(newHider("key-123456", texts(input, expected, actual)).hide(text))
		got = strings.ReplaceAll(got, hidden, "\x00")
		for _, s := range []string{input, expected, actual} {
			s = fold(strings.TrimSpace(s))
			if len(s) >= short && strings.Contains(got, s) {
				t.Errorf("%q is in %q", s, got)
			}
		}
	})
}

// TestModelName: the name that an endpoint gives its model is made harmless.
func TestModelName(t *testing.T) {
	t.Parallel()
	body := strings.Replace(providertest.Chat(good).Body, "scripted-1", "gpt\\u001b[31m\\n "+subject.Expected+strings.Repeat("x", 500), 1)
	p := providertest.New(t, providertest.Sequence(providertest.Reply{Body: body}))
	d := evaluate(t, local(p), subject)
	name, _ := d.Details["returned_model"].(string)
	if !strings.HasPrefix(name, "gpt[31m <redacted>x") || len(name) > maxModel+len(hidden) {
		t.Errorf("returned_model %q", name)
	}
}
