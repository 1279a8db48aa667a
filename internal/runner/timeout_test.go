package runner

import (
	"testing"
	"time"
)

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "90": 90 * time.Second, " 1.5 ": 1500 * time.Millisecond, "90s": 90 * time.Second, "2m": 2 * time.Minute,
		"0": -1, "-3": -1, "soon": -1, "NaN": -1, "1e300": -1, "Inf": -1} {
		got, err := ParseTimeout(text)
		if (want < 0) != (err != nil) || err == nil && got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
