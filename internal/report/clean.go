package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text safe to print: control characters, those that turn the direction of text around or cannot be seen, and
// bytes that are not UTF-8 are shown as escapes (\x1b, \u{202e}). Newlines and tabs stay. Text of tests and servers goes
// through it before it reaches a terminal.
func Clean(s string) string {
	for i := 0; i < len(s); i++ { // most text is plain ASCII
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return clean(s)
		}
	}
	return s
}

// CleanLine is Clean for what must stay on one line.
func CleanLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Clean(s))
}

func clean(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(s[0])
		case strings.HasPrefix(s, "\r\n"): // a line's end
		case r == utf8.RuneError && n == 1, r < 0x80 && !unicode.IsPrint(r):
			b.WriteString(`\x`)
			b.WriteByte(hex[s[0]>>4])
			b.WriteByte(hex[s[0]&15])
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200d': // the joiner inside emoji
			b.WriteString(`\u{`)
			b.WriteString(hexOf(r))
			b.WriteByte('}')
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func hexOf(r rune) string {
	const hex = "0123456789abcdef"
	var digits []byte
	for ; r > 0 || len(digits) < 4; r >>= 4 {
		digits = append([]byte{hex[r&15]}, digits...)
	}
	return string(digits)
}
