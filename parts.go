package m3

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// toolResult are the members of a tool's result that m3 reads.
type toolResult struct {
	content    []json.RawMessage
	structured trace.JSON
	isError    bool
}

// decodeParts decodes a tool's result; a large one without copying what is in it.
func decodeParts(raw trace.JSON) (toolResult, error) {
	if len(raw) >= largeText {
		if r, ok := scanResult(raw); ok {
			return r, nil
		}
	}
	var wire struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent trace.JSON        `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	err := unmarshal(raw, &wire)
	return toolResult{wire.Content, wire.StructuredContent, wire.IsError}, err
}

// largeText is from how many bytes on a text is worth being decoded without a copy in between.
const largeText = 64 << 10

// textOf is a JSON string's value, as encoding/json has it.
func textOf(s []byte) (string, error) {
	if len(s) < largeText || s[0] != '"' {
		var text string
		err := json.Unmarshal(s, &text)
		return text, err
	}
	s = s[1 : len(s)-1]
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		n := plain(s)
		b.Write(s[:n])
		if s = s[n:]; len(s) == 0 {
			break
		}
		if s[0] != '\\' { // no UTF-8
			b.WriteRune(utf8.RuneError)
			s = s[1:]
			continue
		}
		r, size := escaped(s)
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String(), nil
}

// plain is how many bytes stand for themselves.
func plain(s []byte) int {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\\':
			return i
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && size == 1 {
				return i
			}
			i += size
		}
	}
	return len(s)
}

// escaped reads an escape of a valid JSON string, and how many bytes it has. Half a surrogate pair is U+FFFD.
func escaped(s []byte) (rune, int) {
	switch s[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r := hex4(s[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(s[8:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2
}

func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
