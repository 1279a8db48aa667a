package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
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

// wanted is what a test expects, as JSON: raw JSON as it is, anything else as encoding/json writes it.
type wanted struct {
	json  []byte
	value any
	err   error
}

func want(v any) *wanted {
	b, err := json.Marshal(v)
	if err != nil {
		return &wanted{err: err}
	}
	value, err := decodeJSON(b)
	return &wanted{b, value, err}
}

// sameNumbers compares numbers by value: 1, 1.0 and 10e-1 are equal, 9007199254740993 and 9007199254740992 are not.
var sameNumbers = cmp.Comparer(func(a, b json.Number) bool { return canonical(string(a)) == canonical(string(b)) })

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

// compareJSON judges got, the bytes of the evidence, against what is wanted. what names the value.
func (s *subject) compareJSON(what string, want *wanted, got []byte) outcome {
	if want.err != nil {
		return cannotTell("the expected " + what + " cannot be written as JSON: " + want.err.Error())
	}
	value, err := decodeJSON(got)
	if err != nil {
		return differs("the %s is not one JSON value: %s", what, s.shown(string(got)))
	}
	if cmp.Equal(want.value, value, sameNumbers) {
		return held
	}
	if s.quiet {
		return differs("%s", what)
	}
	return differs("%s (-want +got):\n%s", what, s.diff(want.json, got))
}

// diff shows how two JSON values differ. They are redacted before they are compared: a key tells the redactor what a
// diff's line no longer does.
func (s *subject) diff(want, got []byte) string {
	wantValue, werr := decodeJSON([]byte(s.redact(string(want))))
	gotValue, gerr := decodeJSON([]byte(s.redact(string(got))))
	if werr != nil || gerr != nil { // the redactor knows broken JSON only as text
		return "-" + s.shown(string(want)) + "\n+" + s.shown(string(got))
	}
	text := cmp.Diff(shorten(wantValue), shorten(gotValue), sameNumbers)
	if text == "" {
		return "the difference is in what was redacted, or behind what is shown of a long text"
	}
	// cmp writes some of its spaces as no-break spaces, to keep people from parsing it.
	text = strings.ReplaceAll(text, "\u00a0", " ")
	if len(text) > maxDiff {
		return cut(text, maxDiff, "bytes more: diff truncated")
	}
	return text
}

// shorten cuts the long texts of a decoded value.
func shorten(v any) any {
	switch v := v.(type) {
	case string:
		return cut(v, maxValue, "bytes more")
	case map[string]any:
		for key, value := range v {
			v[key] = shorten(value)
		}
	case []any:
		for i, value := range v {
			v[i] = shorten(value)
		}
	}
	return v
}
