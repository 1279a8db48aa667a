package m3

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// part is a JSON value as it stands inside of the text that it is decoded from: a result of many megabytes is not copied to look into it.
type part []byte

// UnmarshalJSON keeps b itself. Encoding/json says that it must be copied, so whoever uses a part asks within first.
func (p *part) UnmarshalJSON(b []byte) error { *p = b; return nil }

// within reports whether the part lies in the memory of whole.
func (p part) within(whole []byte) bool {
	i := cap(whole) - cap(p)
	return len(p) > 0 && i >= 0 && i+len(p) <= len(whole) && &whole[i] == &p[0]
}

// toolResult are the members of a tool's result that m3 reads.
type toolResult struct {
	content    []part
	structured trace.JSON
	isError    bool
}

// decodeParts decodes a tool's result without copying what is in it.
func decodeParts(raw trace.JSON) (r toolResult, err error) {
	var wire struct {
		Content           []part `json:"content"`
		StructuredContent part   `json:"structuredContent"`
		IsError           bool   `json:"isError"`
	}
	if err := unmarshal(raw, &wire); err != nil {
		return r, err
	}
	aliased := wire.StructuredContent == nil || wire.StructuredContent.within(raw)
	for _, p := range wire.Content {
		aliased = aliased && p.within(raw)
	}
	if !aliased {
		return copyParts(raw)
	}
	r = toolResult{content: wire.Content, isError: wire.IsError}
	for i, p := range r.content {
		r.content[i] = p[:len(p):len(p)] // who appends to it writes elsewhere
	}
	if p := wire.StructuredContent; p != nil {
		r.structured = trace.JSON(p[:len(p):len(p)])
	}
	return r, nil
}

// copyParts is decodeParts where members must be left out first, or encoding/json does not decode in place.
func copyParts(raw trace.JSON) (r toolResult, err error) {
	var wire struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent trace.JSON        `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	err = unmarshal(raw, &wire)
	r = toolResult{structured: wire.StructuredContent, isError: wire.IsError}
	for _, b := range wire.Content {
		r.content = append(r.content, part(b))
	}
	return r, err
}

// decodeLargeBlock is decodeBlock for a block whose text is not copied twice.
func decodeLargeBlock(b []byte) (Content, error) {
	var c struct {
		Type string `json:"type"`
		Text part   `json:"text"`
	}
	if err := unmarshal(b, &c); err != nil {
		return Content{}, err
	}
	out := Content{Type: c.Type, Raw: trace.JSON(b)}
	if c.Text == nil {
		return out, nil
	}
	if !c.Text.within(b) {
		c.Text = append(part(nil), c.Text...)
	}
	var err error
	if out.Text, err = textOf(c.Text); err != nil {
		return decodeSmallBlock(b) // which says it as it always does
	}
	return out, nil
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
