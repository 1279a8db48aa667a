package expect

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"1", "1.0", true},
		{"1", "10e-1", true},
		{"100", "1E+2", true},
		{"0", "-0.00e7", true},
		{"-1.50", "-1.5", true},
		{"0.001", "1e-3", true},
		{"1e999999999999999999999", "10e999999999999999999998", true},
		{"9007199254740993", "9007199254740992", false},
		{"1", "-1", false},
		{"1", "10", false},
		{"0.1", "0.10000000000000001", false},
		{"1e999999999999999999999", "1e999999999999999999998", false},
	} {
		if got := cmp.Equal(json.Number(tc.a), json.Number(tc.b), sameNumbers); got != tc.same {
			t.Errorf("%s = %s: %v, want %v", tc.a, tc.b, got, tc.same)
		}
	}
}

// FuzzCanonical compares with what exact rational arithmetic says of small numbers: any text must come out as itself at least.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"0", "-1.50", "1e3", "1e99999999999", "--", "e", "1e", "1.2.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !cmp.Equal(json.Number(s), json.Number(s), sameNumbers) {
			t.Errorf("%q does not equal itself", s)
		}
	})
}
