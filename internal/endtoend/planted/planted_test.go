package planted

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"testing"
)

// What cannot be found cannot be missed: the search is held to each form.
func TestFind(t *testing.T) {
	t.Parallel()
	s := New("0a1B2c3D4")
	if len(s) != 12 {
		t.Fatalf("%d secrets", len(s))
	}
	if again, err := Decode(s.Encode()); err != nil || again[Escaped] != s[Escaped] {
		t.Errorf("%v, %v", again, err)
	}
	for name, secret := range s {
		asJSON, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]string{"raw": secret, "json": string(asJSON), "query": url.QueryEscape(secret), "path": url.PathEscape(secret)}
		for _, before := range []string{"", "x", "xy"} {
			forms["base64 after "+before] = base64.StdEncoding.EncodeToString([]byte(before + secret + "tail"))
			forms["base64url after "+before] = base64.URLEncoding.EncodeToString([]byte(before + secret))
		}
		for form, text := range forms {
			if got := s.Find([]byte("before " + text + " after")); !slices.Equal(got, []string{name}) {
				t.Errorf("%s as %s, %q: found %q", name, form, text, got)
			}
		}
	}
	if got := s.Find([]byte("nothing 0a1B2c3D4 of the kind")); got != nil {
		t.Errorf("found %q", got)
	}
}
