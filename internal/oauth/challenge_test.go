package oauth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseChallenges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   []string
		want []Challenge
	}{
		{nil, nil},
		{[]string{"Bearer"}, []Challenge{{"Bearer", map[string]string{}}}},
		{[]string{`Bearer realm="a, b", Resource_Metadata="https://x/\"y", scope=read`}, []Challenge{{"Bearer", map[string]string{"realm": "a, b", "resource_metadata": `https://x/"y`, "scope": "read"}}}},
		{[]string{`Basic realm="x", Bearer error="invalid_token"`}, []Challenge{{"Basic", map[string]string{"realm": "x"}}, {"Bearer", map[string]string{"error": "invalid_token"}}}},
		{[]string{"Negotiate", `Bearer scope = "a b"`}, []Challenge{{"Negotiate", map[string]string{}}, {"Bearer", map[string]string{"scope": "a b"}}}},
		{[]string{`Bearer realm="open`}, []Challenge{{"Bearer", map[string]string{"realm": "open"}}}},
		{[]string{`="x", ,,`}, nil},
	} {
		if diff := cmp.Diff(tc.want, ParseChallenges(tc.in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, diff)
		}
	}
}

// FuzzParseChallenges: the parser ends, and gives no scheme or parameter without a name.
func FuzzParseChallenges(f *testing.F) {
	for _, s := range []string{"Bearer", `Bearer a="b", c=d`, `=`, `"`, `Basic x==, Bearer r="\"`, ",,= =\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range ParseChallenges([]string{s}) {
			if c.Scheme == "" {
				t.Errorf("a challenge without a scheme in %q", s)
			}
			if _, ok := c.Params[""]; ok {
				t.Errorf("a parameter without a name in %q", s)
			}
		}
	})
}
