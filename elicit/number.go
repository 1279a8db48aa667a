package elicit

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxExponent is how many digits an exponent may have, so that it can be counted with.
const maxExponent = 17

var (
	errNumber   = errors.New("holds a number that JSON cannot hold")
	errExponent = errors.New("holds a number with an exponent of more than 17 digits")
)

// checkNumber says whether s is a number as JSON writes it.
func checkNumber(s string) error {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || s[len(s)-1] < '0' || s[len(s)-1] > '9' || !json.Valid([]byte(s)) {
		return errNumber
	}
	return checkExponent(s)
}

func checkExponent(s string) error {
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > maxExponent {
		return errExponent
	}
	return nil
}

// maxZeros is how many zeros a canonical number spells out before it takes an exponent.
const maxZeros = 20

// appendCanonicalNumber appends the one spelling of a number: its value decides, however it was written, and no digit is lost. 1, 1.0 and 10e-1
// are 1; -0 is 0; 1e400 stays 1e400.
func appendCanonicalNumber(dst []byte, n json.Number) []byte {
	negative, digits, exp := decimal(string(n))
	if digits == "" {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	size := int64(len(digits))
	switch {
	case exp >= 0 && exp <= maxZeros:
		dst = append(dst, digits...)
		return append(dst, strings.Repeat("0", int(exp))...)
	case exp < 0 && exp+size > 0:
		return append(append(append(dst, digits[:exp+size]...), '.'), digits[exp+size:]...)
	case exp < 0 && -exp-size < maxZeros:
		dst = append(dst, "0."...)
		dst = append(dst, strings.Repeat("0", int(-exp-size))...)
		return append(dst, digits...)
	default:
		return strconv.AppendInt(append(append(dst, digits...), 'e'), exp, 10)
	}
}

// decimal takes a checked number apart: ± digits × 10^exp, where the digits neither begin nor end with a zero. Zero has no digits.
func decimal(s string) (negative bool, digits string, exp int64) {
	s, negative = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp, _ = strconv.ParseInt(s[i+1:], 10, 64) // checkExponent
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	return negative, significant, exp + int64(len(digits)-len(significant)) - int64(len(fraction))
}
