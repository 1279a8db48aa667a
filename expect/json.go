package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// decodeJSON decodes one JSON value, its numbers exact.
func decodeJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

// sameNumbers compares numbers by value: 1, 1.0 and 10e-1 are equal, 9007199254740993 and 9007199254740992 are not.
var sameNumbers = cmp.Comparer(func(a, b json.Number) bool { return sameNumber(a, b) })

func sameNumber(a, b json.Number) bool {
	switch {
	case a == b:
		return true
	case plainInteger(a) && plainInteger(b):
		return false // JSON writes an integer in one way only
	default:
		return canonical(string(a)) == canonical(string(b))
	}
}

func plainInteger(n json.Number) bool {
	return n != "" && n[0] >= '1' && n[0] <= '9' && !strings.ContainsAny(string(n), ".eE")
}

// decimal is a number in one form only: sign, digits without zeros at either end, exponent of the last digit.
type decimal struct {
	negative bool
	digits   string
	exponent string // decimal text: an exponent may be larger than any integer type
}

// canonical never expands a number: 1e999999999 is nine digits of exponent, not a gigabyte.
func canonical(number string) decimal {
	var d decimal
	number, d.negative = strings.CutPrefix(number, "-")
	mantissa, exponent := number, "0"
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], strings.TrimPrefix(number[i+1:], "+")
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{} // 0, -0 and 0e5
	}
	e, ok := new(big.Int).SetString(exponent, 10)
	if !ok {
		return decimal{digits: number} // not a JSON number: equal to itself only
	}
	e.Add(e, big.NewInt(int64(len(digits)-len(d.digits)-len(fraction))))
	d.exponent = e.String()
	return d
}

// exact is a number as a fraction; nil for one whose digits would fill the memory.
func exact(n json.Number) *big.Rat {
	d := canonical(string(n))
	if len(d.digits) > 1000 || len(d.exponent) > 4 {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil
	}
	return r
}

// diff shows how two JSON values differ, as the comparison sees them. They are redacted before they are compared: a key tells the redactor
// what a diff's line no longer does.
func (s *subject) diff(c *comparison, want, got []byte) string {
	wantValue, werr := decodeJSON([]byte(s.redact(string(want))))
	gotValue, gerr := decodeJSON([]byte(s.redact(string(got))))
	if werr != nil || gerr != nil { // the redactor knows broken JSON only as text
		return "-" + s.shown(string(want)) + "\n+" + s.shown(string(got))
	}
	gotValue, _ = c.fit(wantValue, gotValue)
	text := cmp.Diff(shorten(wantValue), shorten(gotValue), sameNumbers)
	if text == "" {
		return "the difference is in what was redacted, or behind what is shown of a long text"
	}
	return s.budget(plain(text))
}

// plain takes out the no-break spaces that cmp writes for some of its spaces, to keep people from parsing it, and its mark of values that
// write themselves: numbers and null.
func plain(diff string) string {
	return selfWritten.ReplaceAllString(strings.TrimRight(strings.ReplaceAll(diff, "\u00a0", " "), "\n"), "$1")
}

var selfWritten = regexp.MustCompile(`\bs"(-?\d[-+.\deE]*|null)"`)

// null shows a JSON null in a diff.
type null struct{}

func (null) String() string { return "null" }

// budget cuts a diff to what the message may still show.
func (s *subject) budget(diff string) string {
	left := maxDiff - s.spent
	s.spent += min(len(diff), left)
	switch {
	case len(diff) <= left:
		return diff
	case left < 200:
		return "(not shown: diff truncated)"
	default:
		return cut(diff, left, "bytes more: diff truncated")
	}
}

// shorten cuts the long texts of a decoded value. What it changes it copies: the two sides of a comparison may share parts.
func shorten(v any) any {
	switch v := v.(type) {
	case nil:
		return null{}
	case string:
		return cut(v, maxValue, "bytes more")
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = shorten(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = shorten(value)
		}
		return out
	}
	return v
}
