package trace

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
)

// Two JSON values are the same when their canonical texts are: members sorted by name, of equal names the last, texts without superfluous
// escapes, numbers by their value. A number is never a truth value, and never a text.

// sameJSON compares two values that are known to be valid JSON.
func sameJSON(a, b value) bool {
	return bytes.Equal(a.b, b.b) || bytes.Equal(appendCanonical(nil, a), appendCanonical(nil, b))
}

func canonicalSum(v value) [sha256.Size]byte { return sha256.Sum256(appendCanonical(nil, v)) }

func appendCanonical(dst []byte, v value) []byte {
	switch {
	case v.is('{'):
		return appendCanonicalObject(dst, v)
	case v.is('['):
		dst = append(dst, '[')
		for w := v.walk(); w.next(); {
			dst = append(appendCanonical(dst, w.val), ',')
		}
		return append(dst, ']')
	case v.is('"'):
		text, _ := v.text()
		return AppendString(dst, text)
	case v.boolean() || v.null():
		return append(dst, v.b...)
	}
	return append(dst, canonicalNumber(string(v.b))...)
}

func appendCanonicalObject(dst []byte, v value) []byte {
	type member struct {
		name string
		val  value
	}
	var members []member
	for w := v.walk(); w.next(); {
		members = append(members, member{w.name(), w.val})
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i+1 < len(members) && members[i+1].name == m.name {
			continue
		}
		dst = append(AppendString(dst, m.name), ':')
		dst = append(appendCanonical(dst, m.val), ',')
	}
	return append(dst, '}')
}

// canonicalNumber writes a JSON number as its digits without zeros around them, and an exponent. One whose exponent is beyond reason stays as it is.
func canonicalNumber(text string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	exp := int64(0)
	if exponent != "" {
		var err error
		if exp, err = strconv.ParseInt(exponent, 10, 32); err != nil {
			return text
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exp -= int64(len(fraction))
	short := strings.TrimRight(digits, "0")
	exp += int64(len(digits) - len(short))
	if short == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + short + "e" + strconv.FormatInt(exp, 10)
}
