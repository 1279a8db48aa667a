package expect

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"

	"github.com/m3-go/m3/trace"
)

// CompareOption loosens how an expected value is compared: see [Partial], [Unordered], [Tolerance] and [Regex]. Without any, values are equal when
// they are the same JSON: the order of an object's members does not matter, numbers are compared by value, exactly.
type CompareOption interface{ compareOption(*comparison) }

// Compare is what [Partial], [Tolerance] and [Regex] return.
type Compare struct{ apply func(*comparison) }

func (o Compare) compareOption(c *comparison) {
	if o.apply == nil {
		c.misuse = emptyOption
		return
	}
	o.apply(c)
}

// Ordering is what [Unordered] returns: an option of comparisons and of [Expectation.ToolCalls].
type Ordering struct{}

func (Ordering) compareOption(c *comparison) { c.unordered = true }

func (Ordering) callsOption(s *callsSpec) { s.unordered = true }

// Partial lets objects, at any depth, have members that the expected value does not name. It does not relax the length of a list.
func Partial() Compare { return Compare{func(c *comparison) { c.partial = true }} }

// Unordered lets the items of lists, at any depth, stand in any order.
func Unordered() Ordering { return Ordering{} }

// Tolerance lets numbers differ by at most t, which is finite and not negative. The difference is exact: 0.3 and 0.2 differ by 0.1.
func Tolerance(t float64) Compare {
	return Compare{func(c *comparison) {
		if math.IsNaN(t) || math.IsInf(t, 0) || t < 0 {
			c.misuse = fmt.Sprintf("Tolerance(%v): a tolerance is a finite number, 0 or more", t)
			return
		}
		c.tolerance, _ = new(big.Rat).SetString(strconv.FormatFloat(t, 'g', -1, 64)) // the decimal that was written, not its nearest binary
	}}
}

// Regex makes every text in the expected value a regular expression (package regexp) that the whole of the text in its place must match.
// Names of members are compared as they are.
func Regex() Compare {
	return Compare{func(c *comparison) { c.patterns = map[string]*regexp.Regexp{} }}
}

// Predicate is a function in the place of an expected value: see [Satisfying].
type Predicate struct{ judge func(trace.JSON) outcome }

// Satisfying stands for a value, decoded into a T, for which f returns true. Numbers decoded into an any are json.Number. A panic of f is a
// failure that names the panic's type only.
//
//	expect.That(t, quote).StructuredContent(expect.Satisfying(func(q Quote) bool { return q.Price > 0 }))
func Satisfying[T any](f func(T) bool) Predicate {
	if f == nil {
		return Predicate{}
	}
	return Predicate{func(got trace.JSON) outcome {
		var v T
		if err := got.Decode(&v); err != nil {
			return differs("it does not fit into %T: %v", v, err)
		}
		return runPredicate(func() bool { return f(v) })
	}}
}

// MarshalJSON fails: a Predicate is no part of a value, it stands alone.
func (p Predicate) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("Satisfying stands alone, in the place of the whole value")
}

// comparison is how values are compared. It is not changed once it is made.
type comparison struct {
	partial   bool
	unordered bool
	tolerance *big.Rat                  // nil: none
	patterns  map[string]*regexp.Regexp // nil: texts are no patterns
	misuse    string
}

// wanted is what a test expects, and how it is compared.
type wanted struct {
	comparison
	json      []byte // raw JSON as it is, anything else as encoding/json writes it
	value     any
	predicate *Predicate
}

// want makes an expected value. Its misuse says what is wrong with it; option is what it was given to.
func want(option string, v any, opts []CompareOption) *wanted {
	w := &wanted{}
	for _, o := range opts {
		if o == nil {
			w.misuse = option + ": an option is nil"
			return w
		}
		o.compareOption(&w.comparison)
	}
	switch {
	case w.misuse != "":
	case isPredicate(v):
		p := v.(Predicate)
		w.predicate = &p
		if p.judge == nil {
			w.misuse = option + ": the function of Satisfying is nil"
		} else if len(opts) > 0 {
			w.misuse = option + ": Satisfying decides alone: options of comparison say nothing to it"
		}
	default:
		w.encode(option, v)
	}
	return w
}

func isPredicate(v any) bool { _, ok := v.(Predicate); return ok }

func (w *wanted) encode(option string, v any) {
	var err error
	if w.json, err = json.Marshal(v); err != nil {
		w.misuse = fmt.Sprintf("%s: the expected value, a %T, cannot be written as JSON: %v", option, v, err)
		return
	}
	if w.value, err = decodeJSON(w.json); err != nil {
		w.misuse = fmt.Sprintf("%s: the expected value is not JSON: %v", option, err)
		return
	}
	if w.patterns != nil {
		w.compile(option, w.value)
	}
}

// compile makes the patterns of every text in v.
func (w *wanted) compile(option string, v any) {
	switch v := v.(type) {
	case string:
		p, err := regexp.Compile(`\A(?:` + v + `)\z`)
		if err != nil {
			w.misuse = fmt.Sprintf("%s: Regex: %s is no regular expression: %v", option, quoted(v), err)
			return
		}
		w.patterns[v] = p
	case map[string]any:
		for _, value := range v {
			w.compile(option, value)
		}
	case []any:
		for _, value := range v {
			w.compile(option, value)
		}
	}
}

// MarshalJSON is what is recorded of an expected value.
func (w *wanted) MarshalJSON() ([]byte, error) {
	if w.predicate != nil {
		return []byte(`{"predicate":true}`), nil
	}
	out := map[string]any{"value": json.RawMessage(w.json)}
	if w.json == nil {
		out["value"] = nil
	}
	if w.partial {
		out["partial"] = true
	}
	if w.unordered {
		out["unordered"] = true
	}
	if w.patterns != nil {
		out["regex"] = true
	}
	if w.tolerance != nil {
		f, _ := w.tolerance.Float64()
		out["tolerance"] = f
	}
	return json.Marshal(out)
}

// compareJSON judges got, the bytes of the evidence, against what is wanted. what names the value.
func (s *subject) compareJSON(what string, w *wanted, got []byte) outcome {
	if w.predicate != nil {
		o := w.predicate.judge(got)
		if o.verdict == met {
			return s.holds("the predicate says yes to the %s: %s", what, s.shown(string(got)))
		}
		return outcome{o.verdict, what + ": " + o.reason + "; it is " + s.shown(string(got))}
	}
	value, err := decodeJSON(got)
	if err != nil {
		return differs("the %s is not one JSON value: %s", what, s.shown(string(got)))
	}
	if _, fits := w.fit(w.value, value); fits {
		return s.holds("the %s is as described: %s", what, s.shown(string(got)))
	}
	if s.quiet {
		return differs("%s", what)
	}
	return differs("%s (-want +got):\n%s", what, s.diff(&w.comparison, w.json, got))
}
