package expect

import (
	"encoding/json"
	"math/big"
)

// fit says whether got is what want asks for, and returns got so rewritten that whatever fits is equal to want: a diff of the two
// then shows only what does not. It changes neither.
func (c *comparison) fit(want, got any) (any, bool) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return c.fitObject(want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return c.fitList(want, got)
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && (sameNumber(want, got) || c.near(want, got)) {
			return want, true
		}
	case string:
		if got, ok := got.(string); ok && (want == got && c.patterns == nil || c.matches(want, got)) {
			return want, true
		} else if ok && want == got { // an expression that does not match itself: a diff is to show it
			return got + " (the expression does not match it)", false
		}
	default: // true, false, null
		return got, want == got
	}
	return got, false
}

func (c *comparison) near(want, got json.Number) bool {
	if c.tolerance == nil {
		return false
	}
	a, b := exact(want), exact(got)
	if a == nil || b == nil {
		return false
	}
	d := new(big.Rat).Sub(a, b)
	return d.Abs(d).Cmp(c.tolerance) <= 0
}

// matches is false for a pattern that was not there when the patterns were made: one that redaction has changed.
func (c *comparison) matches(pattern, got string) bool {
	p := c.patterns[pattern]
	return p != nil && p.MatchString(got)
}

func (c *comparison) fitObject(want, got map[string]any) (any, bool) {
	out, fits := make(map[string]any, len(want)), true
	for name, w := range want {
		g, there := got[name]
		if !there {
			fits = false
			continue
		}
		var ok bool
		out[name], ok = c.fit(w, g)
		fits = fits && ok
	}
	if c.partial {
		return out, fits
	}
	for name, g := range got {
		if _, named := want[name]; !named {
			out[name], fits = g, false
		}
	}
	return out, fits
}

func (c *comparison) fitList(want, got []any) (any, bool) {
	if c.unordered {
		got = c.arrange(want, got)
	}
	out, fits := make([]any, len(got)), len(want) == len(got)
	for i := range got {
		if i >= len(want) {
			out[i] = got[i]
			continue
		}
		var ok bool
		out[i], ok = c.fit(want[i], got[i])
		fits = fits && ok
	}
	return out, fits
}

// arrange puts the items of got where they fit, as many as possible, and the others in the places that are left.
func (c *comparison) arrange(want, got []any) []any {
	a := newAssignment(len(want), len(got), func(i, j int) bool { _, ok := c.fit(want[i], got[j]); return ok })
	a.greedy()
	if c.partial || c.patterns != nil || c.tolerance != nil { // what fits one may fit others, too: who came first may be in the way
		a.improve()
	}
	out := make([]any, 0, len(got))
	rest := a.free()
	for i := range want {
		switch {
		case a.of[i] >= 0:
			out = append(out, got[a.of[i]])
		case len(rest) > 0:
			out = append(out, got[rest[0]])
			rest = rest[1:]
		}
	}
	for _, j := range rest {
		out = append(out, got[j])
	}
	return out
}

// assignment gives each of n wanted items one of m that are there.
type assignment struct {
	of, by []int // the item of a wanted one, and the other way round; -1: none
	fits   func(i, j int) bool
	known  []int8 // what fits said: 0 not asked, 1 yes, 2 no; nil when there would be too many
}

// maxKnown bounds the memory, and with it the work, of an assignment.
const maxKnown = 4 << 20

func newAssignment(n, m int, fits func(i, j int) bool) *assignment {
	a := &assignment{of: make([]int, n), by: make([]int, m), fits: fits}
	for i := range a.of {
		a.of[i] = -1
	}
	for j := range a.by {
		a.by[j] = -1
	}
	if n*m <= maxKnown {
		a.known = make([]int8, n*m)
	}
	return a
}

func (a *assignment) fit(i, j int) bool {
	if a.known == nil {
		return a.fits(i, j)
	}
	k := &a.known[i*len(a.by)+j]
	if *k == 0 {
		*k = 2
		if a.fits(i, j) {
			*k = 1
		}
	}
	return *k == 1
}

// greedy gives each wanted item the first that fits and is free.
func (a *assignment) greedy() {
	for i := range a.of {
		for j := range a.by {
			if a.by[j] < 0 && a.fit(i, j) {
				a.of[i], a.by[j] = j, i
				break
			}
		}
	}
}

// improve finds items for those that got none, by giving others another one.
func (a *assignment) improve() {
	if a.known == nil {
		return
	}
	for i := range a.of {
		if a.of[i] < 0 {
			a.find(i, make([]bool, len(a.by)))
		}
	}
}

func (a *assignment) find(i int, tried []bool) bool {
	for j := range a.by {
		if tried[j] || !a.fit(i, j) {
			continue
		}
		tried[j] = true
		if a.by[j] < 0 || a.find(a.by[j], tried) {
			a.of[i], a.by[j] = j, i
			return true
		}
	}
	return false
}

// free lists the items that nobody has.
func (a *assignment) free() (list []int) {
	for j, i := range a.by {
		if i < 0 {
			list = append(list, j)
		}
	}
	return list
}
