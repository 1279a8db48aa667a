package elicit_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/m3-go/m3/elicit"
	"github.com/m3-go/m3/trace"
)

// FuzzParse: a text is a plan that survives JSON, canonical JSON and a matcher, or one *PlanError.
func FuzzParse(f *testing.F) {
	text, err := json.Marshal(everything())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, seed := range []string{``, `null`, `{"node":"leaf"}`, `{"node":"sequence","children":[null,{}]}`, `{"node":"leaf","request":{"mode":"form","request_key":"a"},"response":{"action":"accept","content":{"a":{"b":1e5}}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := elicit.Parse(text)
		if err != nil {
			var e *elicit.PlanError
			if plan != nil || !errors.As(err, &e) || !errors.Is(err, trace.ErrValidation) {
				t.Fatalf("%v, %v (%T)", plan, err, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is a plan and no JSON", text)
		}
		written, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := plan.CanonicalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range []string{string(written), canonical} {
			back, err := elicit.Parse([]byte(again))
			if err != nil {
				t.Fatalf("%s: %v", again, err)
			}
			if got, err := back.CanonicalIdentity(); err != nil || got != canonical {
				t.Fatalf("%v\n%s\n%s", err, got, canonical)
			}
		}
		m, err := elicit.NewMatcher(plan)
		if err != nil {
			t.Fatal(err)
		}
		m.Complete()
	})
}

// FuzzCanonicalJSON: the canonical form of a JSON value is JSON, is its own canonical form, and is the form of every text of the value.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.50,-0],"a":{"x":null,"y":true}}`, `"\ud800"`, `"\u2028<&>"`, `[1e400,10e399]`, `-0.0`, `{"a":1,"\u0061":2}`, `1e17`, `1e-99999999999999999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := elicit.ParseValue(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q was read and is no JSON", text)
		}
		canonical := elicit.Canonical(v)
		again, err := elicit.ParseValue([]byte(canonical))
		if err != nil {
			t.Fatalf("%s, of %s: %v", canonical, text, err)
		}
		if got := elicit.Canonical(again); got != canonical {
			t.Fatalf("%s becomes %s", canonical, got)
		}
		if allSmall(v) && spell(exactOf(t, text)) != spell(exactOf(t, []byte(canonical))) {
			t.Fatalf("%s is not the value of %s", canonical, text)
		}
	})
}

// allSmall reports whether the numbers of a value can be compared as fractions.
func allSmall(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if !allSmall(member) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !allSmall(e) })
	case json.Number:
		return small(string(v))
	}
	return true
}

func exactOf(t *testing.T, text []byte) (v any) {
	t.Helper()
	decodeExact(t, text, &v)
	return v
}

// FuzzNumber: two numbers have one spelling when they have one value.
func FuzzNumber(f *testing.F) {
	for _, seed := range [][2]string{{"1", "1.0"}, {"-0", "0e9"}, {"0.10", "1e-1"}, {"123456789012345678901234567890", "123456789012345678901234567891"}, {"1e21", "1e20"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if elicit.CheckNumber(a) != nil || elicit.CheckNumber(b) != nil {
			return
		}
		if !json.Valid([]byte(a)) {
			t.Fatalf("%q is no number", a)
		}
		x, y := elicit.CanonicalNumber(a), elicit.CanonicalNumber(b)
		if elicit.CheckNumber(x) != nil || elicit.CanonicalNumber(x) != x {
			t.Fatalf("%s becomes %s, and that %s", a, x, elicit.CanonicalNumber(x))
		}
		if small(a) && small(b) && sameNumber(t, a, b) != (x == y) {
			t.Fatalf("%s is %s, %s is %s", a, x, b, y)
		}
	})
}

// small numbers can be compared as fractions.
func small(s string) bool {
	for i, c := range s {
		if c == 'e' || c == 'E' {
			return len(s)-i < 5
		}
	}
	return len(s) < 100
}
