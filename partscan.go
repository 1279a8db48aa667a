package m3

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/m3-go/m3/trace"
)

// What follows looks into a large result in one pass that jumps from quote to quote, where encoding/json looks at every byte six times. It takes valid JSON, which a
// message is by the time that it is decoded, and only what is just as the protocol defines it; everything else is left to encoding/json, and what that says of it.

// scanResult is decodeParts for a result of the usual shape.
func scanResult(raw []byte) (r toolResult, ok bool) {
	ok = eachMember(raw, func(key, value []byte) bool {
		switch string(key) {
		case `"content"`:
			if r.content != nil || value[0] != '[' {
				return false
			}
			r.content = []json.RawMessage{}
			return eachElement(value, func(e []byte) bool {
				r.content = append(r.content, e)
				return e[0] == '{'
			})
		case `"structuredContent"`:
			r.structured = trace.JSON(value)
			return value[0] == '{'
		case `"isError"`:
			r.isError = value[0] == 't'
			return value[0] == 't' || value[0] == 'f'
		}
		return !folded(string(key[1:len(key)-1]), resultNames)
	})
	return r, ok
}

// scanBlock is decodeBlock for a block of the usual shape.
func scanBlock(b []byte) (c Content, ok bool) {
	var text []byte
	ok = eachMember(b, func(key, value []byte) bool {
		switch string(key) {
		case `"type"`:
			if !quoted(value) || bytes.IndexByte(value, '\\') >= 0 || !utf8.Valid(value) {
				return false
			}
			c.Type = string(value[1 : len(value)-1])
			return true
		case `"text"`:
			text = value
			return quoted(value)
		}
		return !folded(string(key[1:len(key)-1]), blockNames)
	})
	if !ok {
		return c, false
	}
	c.Raw = trace.JSON(b)
	if text != nil {
		var err error
		c.Text, err = textOf(text)
		ok = err == nil
	}
	return c, ok
}

var (
	resultNames = []string{"content", "structuredContent", "isError"}
	blockNames  = []string{"type", "text"}
)

// eachMember calls yield with each member of an object, until it returns false. Values have no room behind them: who appends to one writes elsewhere. It returns false as
// well for what is no object, or has a key with an escape.
func eachMember(b []byte, yield func(key, value []byte) bool) bool {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	for i = blank(b, i+1); i < len(b) && b[i] == '"'; {
		end := stringEnd(b, i)
		key := b[i:end]
		if i = blank(b, end); i >= len(b) || b[i] != ':' || !quoted(key) || bytes.IndexByte(key, '\\') >= 0 {
			return false
		}
		i = blank(b, i+1)
		if end = valueEnd(b, i); end <= i || !yield(key, b[i:end:end]) {
			return false
		}
		if i = blank(b, end); i < len(b) && b[i] == ',' {
			i = blank(b, i+1)
		}
	}
	return i < len(b) && b[i] == '}'
}

// eachElement is eachMember for an array.
func eachElement(b []byte, yield func(value []byte) bool) bool {
	i := blank(b, 1)
	for i < len(b) && b[i] != ']' {
		end := valueEnd(b, i)
		if end <= i || !yield(b[i:end:end]) {
			return false
		}
		if i = blank(b, end); i < len(b) && b[i] == ',' {
			i = blank(b, i+1)
		}
	}
	return i < len(b)
}

func quoted(b []byte) bool { return len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' }

// blank is the place of the next byte that is no white space.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// valueEnd is the place after the value that begins at i.
func valueEnd(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i // the end of what the value is in
			}
			depth--
			i++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}
