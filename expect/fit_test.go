package expect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	t.Parallel()
	exactly := []CompareOption(nil)
	for name, tc := range map[string]struct {
		want, got string
		opts      []CompareOption
		fits      bool
	}{
		"order of members":           {`{"a":1,"b":2}`, `{"b":2,"a":1}`, exactly, true},
		"order of a list":            {`[1,2]`, `[2,1]`, exactly, false},
		"null is not absent":         {`{"a":null}`, `{}`, exactly, false},
		"null is not false":          {`null`, `false`, exactly, false},
		"number is not text":         {`1`, `"1"`, exactly, false},
		"list is not object":         {`[]`, `{}`, exactly, false},
		"partial":                    {`{"a":{"b":1}}`, `{"a":{"b":1,"c":2},"d":3}`, []CompareOption{Partial()}, true},
		"partial list":               {`[{"a":1}]`, `[{"a":1},{"a":2}]`, []CompareOption{Partial()}, false},
		"partial wants what it says": {`{"a":null}`, `{"b":1}`, []CompareOption{Partial()}, false},
		"unordered":                  {`[1,[2,3],1]`, `[[3,2],1,1]`, []CompareOption{Unordered()}, true},
		"unordered counts":           {`[1,1,2]`, `[1,2,2]`, []CompareOption{Unordered()}, false},
		"unordered lengths":          {`[1]`, `[1,1]`, []CompareOption{Unordered()}, false},
		// The first item fits both; the second only the first. A greedy choice would fail.
		"unordered and partial":  {`[{"a":1},{"a":1,"b":2}]`, `[{"a":1,"b":2},{"a":1,"c":3}]`, []CompareOption{Unordered(), Partial()}, true},
		"tolerance":              {`{"n":[0.3]}`, `{"n":[0.2]}`, []CompareOption{Tolerance(0.1)}, true},
		"beyond tolerance":       {`0.3`, `0.19999999999999999999`, []CompareOption{Tolerance(0.1)}, false},
		"tolerance of zero":      {`1`, `1.0`, []CompareOption{Tolerance(0)}, true},
		"far numbers":            {`1e999999999`, `2e999999999`, []CompareOption{Tolerance(1)}, false},
		"same far numbers":       {`1e999999999`, `10e999999998`, []CompareOption{Tolerance(1)}, true},
		"regex":                  {`["a+",{"k":"b|c"}]`, `["aa",{"k":"c"}]`, []CompareOption{Regex()}, true},
		"regex is whole":         {`"a"`, `"ab"`, []CompareOption{Regex()}, false},
		"regex is no plain text": {`"a.c()"`, `"a.c()"`, []CompareOption{Regex()}, false},
		"regex of lines":         {`"(?s)a.b"`, "\"a\\nb\"", []CompareOption{Regex()}, true},
		"names are no regex":     {`{"a.":1}`, `{"ab":1}`, []CompareOption{Regex()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := want("test", json.RawMessage(tc.want), tc.opts)
			if w.misuse != "" {
				t.Fatal(w.misuse)
			}
			got, err := decodeJSON([]byte(tc.got))
			if err != nil {
				t.Fatal(err)
			}
			rewritten, fits := w.fit(w.value, got)
			if fits != tc.fits {
				t.Errorf("fits = %v, want %v", fits, tc.fits)
			}
			if same := cmp.Equal(w.value, rewritten, sameNumbers); same != fits {
				t.Errorf("fits = %v, but a diff would say %v: %v", fits, same, rewritten)
			}
		})
	}
}

// A list of n items in another order is compared in a time that a test can wait for, and so is one that does not fit.
func TestFitLongLists(t *testing.T) {
	t.Parallel()
	const n = 1500
	want, got := make([]any, n), make([]any, n)
	for i := range n {
		want[i] = map[string]any{"n": json.Number(fmt.Sprint(i))}
		got[n-1-i] = map[string]any{"n": json.Number(fmt.Sprint(i)), "more": true}
	}
	c := &comparison{unordered: true, partial: true}
	if _, fits := c.fit(want, got); !fits {
		t.Error("the reversed list does not fit")
	}
	got[7] = map[string]any{"n": json.Number("-1")}
	if _, fits := c.fit(want, got); fits {
		t.Error("a list with another item fits")
	}
}

// FuzzFit: any value fits itself, whatever loosens the comparison, also when its lists are shuffled and that does not matter; and what is said to fit
// shows no difference.
func FuzzFit(f *testing.F) {
	for _, s := range []string{`null`, `[1,2,[3,{"a":"b"}],1.0]`, `{"a":[{"b":1},{"b":1e2}]}`, `"x"`, `-0`, `[[],{},""]`} {
		f.Add(s, s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, seed uint64) {
		va, err := decodeJSON([]byte(a))
		if err != nil || len(a) > 500 {
			return
		}
		for _, c := range []*comparison{{}, {partial: true}, {unordered: true}, {partial: true, unordered: true}, {tolerance: exact("0.5"), unordered: true}} {
			got := va
			if c.unordered {
				got = shuffled(va, rand.New(rand.NewPCG(seed, 1)))
			}
			if out, fits := c.fit(va, got); !fits || !cmp.Equal(va, out, sameNumbers) {
				t.Errorf("%s does not fit itself (%+v): %v", a, c, out)
			}
			vb, err := decodeJSON([]byte(b))
			if err != nil || len(b) > 500 {
				continue
			}
			if out, fits := c.fit(va, vb); fits != cmp.Equal(va, out, sameNumbers) {
				t.Errorf("%s and %s: fits = %v, but a diff would say otherwise: %v", a, b, fits, out)
			}
		}
	})
}

func shuffled(v any, r *rand.Rand) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, j := range r.Perm(len(v)) {
			out[i] = shuffled(v[j], r)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			out[name] = shuffled(value, r)
		}
		return out
	}
	return v
}

func TestListFits(t *testing.T) {
	t.Parallel()
	words := func(s string) []string {
		return strings.Fields(strings.ReplaceAll(s, "?", unknownTool))
	}
	for _, tc := range []struct {
		want, got       string
		unordered, lost bool
		fits            bool
	}{
		{"a b", "a b", false, false, true},
		{"a b", "b a", false, false, false},
		{"a b", "b a", true, false, true},
		{"a b", "a", false, false, false},
		{"a b", "b", false, true, true}, // a may have been lost
		{"a b", "b a", false, true, false},
		{"a b a", "? a", false, true, true},
		{"a b", "?", false, false, false},
		{"a b", "? b", false, false, true},
		{"a b", "? ?", true, false, true},
		{"a b", "c ?", true, false, false},
		{"a", "a a", false, true, false},
		{"", "", false, true, true},
		{"", "?", true, true, false},
	} {
		spec := &callsSpec{unordered: tc.unordered}
		if got := spec.listFits(words(tc.want), words(tc.got), tc.lost); got != tc.fits {
			t.Errorf("%+v: fits = %v", tc, got)
		}
	}
}

func TestArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	s := &subject{redact: func(text string) string { return strings.ReplaceAll(text, "hunter22", "[REDACTED]") }}
	var a arguments
	a.add("text", strings.Repeat("hunter22 ", 10_000))
	b := a.json(s)
	if !json.Valid(b) || len(b) > maxArguments || strings.Contains(string(b), "hunter22") || !strings.Contains(string(b), `"truncated":true`) {
		t.Errorf("%d bytes: %.200s", len(b), b)
	}
	a = nil
	a.add("predicate", true)
	a.add("predicate", make(chan int))
	if got := string(a.json(s)); got != `{"predicate":true,"predicate_2":"not JSON"}` {
		t.Errorf("arguments %s", got)
	}
	if got := arguments(nil).json(s); got != nil {
		t.Errorf("no arguments are %s", got)
	}
}
