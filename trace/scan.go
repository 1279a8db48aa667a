package trace

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the nesting that encoding/json allows; the scanner refuses what it refuses.
const maxDepth = 10000

// cursor walks JSON text without decoding it. Every method reports whether the text was valid JSON so far.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// has moves past ch when it stands next.
func (c *cursor) has(ch byte) bool {
	if c.i < len(c.b) && c.b[c.i] == ch {
		c.i++
		return true
	}
	return false
}

// literal moves past s when it stands next.
func (c *cursor) literal(s string) bool {
	if len(c.b)-c.i >= len(s) && string(c.b[c.i:c.i+len(s)]) == s {
		c.i += len(s)
		return true
	}
	return false
}

// skip moves past one value.
func (c *cursor) skip(depth int) bool {
	if c.i >= len(c.b) {
		return false
	}
	switch c.b[c.i] {
	case '"':
		return c.skipString()
	case '{':
		return c.skipObject(depth + 1)
	case '[':
		return c.skipArray(depth + 1)
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	return c.skipNumber()
}

func (c *cursor) skipObject(depth int) bool {
	if depth > maxDepth {
		return false
	}
	c.i++
	c.space()
	if c.has('}') {
		return true
	}
	for {
		c.space()
		if !c.skipString() {
			return false
		}
		c.space()
		if !c.has(':') {
			return false
		}
		c.space()
		if !c.skip(depth) {
			return false
		}
		c.space()
		if !c.has(',') {
			return c.has('}')
		}
	}
}

func (c *cursor) skipArray(depth int) bool {
	if depth > maxDepth {
		return false
	}
	c.i++
	c.space()
	if c.has(']') {
		return true
	}
	for {
		c.space()
		if !c.skip(depth) {
			return false
		}
		c.space()
		if !c.has(',') {
			return c.has(']')
		}
	}
}

// plainByte marks the bytes that stand for themselves in a JSON string.
var plainByte = func() (t [256]bool) {
	for i := range t {
		t[i] = i >= 0x20 && i != '"' && i != '\\'
	}
	return t
}()

func (c *cursor) skipString() bool {
	if !c.has('"') {
		return false
	}
	b, i := c.b, c.i
	for i < len(b) {
		if plainByte[b[i]] {
			i++
			continue
		}
		switch b[i] {
		case '"':
			c.i = i + 1
			return true
		case '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return false
			}
			i += n
		default:
			return false
		}
	}
	return false
}

// escapeLen is the length of the escape sequence at the start of b, 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func (c *cursor) digits() bool {
	start := c.i
	for c.i < len(c.b) && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > start
}

func (c *cursor) skipNumber() bool {
	c.has('-')
	if !c.has('0') && !c.digits() {
		return false
	}
	if c.has('.') && !c.digits() {
		return false
	}
	if c.has('e') || c.has('E') {
		if !c.has('+') {
			c.has('-')
		}
		return c.digits()
	}
	return true
}

// integer reads a JSON integer that fits an int64.
func (c *cursor) integer() (int64, bool) {
	start := c.i
	if !c.skipNumber() {
		return 0, false
	}
	if t := c.b[start:c.i]; len(t) <= 18 { // cannot overflow
		return smallInt(t)
	}
	n, err := strconv.ParseInt(string(c.b[start:c.i]), 10, 64)
	return n, err == nil
}

func smallInt(t []byte) (n int64, ok bool) {
	neg := t[0] == '-'
	if neg {
		t = t[1:]
	}
	for _, ch := range t {
		if ch < '0' || ch > '9' {
			return 0, false // a fraction or an exponent
		}
		n = n*10 + int64(ch-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// value is one JSON value and where it starts in the text that it was found in. Its zero value is an absent one.
type value struct {
	b   []byte
	off int
}

func (v value) present() bool { return v.b != nil }

// is reports whether the value starts with ch: '{', '[', '"', 't', 'f' or 'n'.
func (v value) is(ch byte) bool { return len(v.b) > 0 && v.b[0] == ch }

func (v value) null() bool { return v.is('n') }

func (v value) boolean() bool { return v.is('t') || v.is('f') }

// text returns the value of a JSON string.
func (v value) text() (string, bool) {
	if !v.is('"') {
		return "", false
	}
	in := v.b[1 : len(v.b)-1]
	if bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in), true
	}
	return string([]rune(string(unquote(nil, in)))), true // each bad byte becomes U+FFFD, as with encoding/json
}

// whole parses b as one JSON value with nothing but white space around it.
func whole(b []byte) (value, bool) {
	c := cursor{b: b}
	c.space()
	start := c.i
	if !c.skip(0) {
		return value{}, false
	}
	v := value{b[start:c.i:c.i], start}
	c.space()
	return v, c.i == len(b)
}

// walker steps through the members of an object or the elements of an array that is known to be valid JSON.
type walker struct {
	c     cursor
	base  int
	close byte
	key   []byte // of the member, inside its quotes
	val   value
}

// walk starts at the value; anything but an object or array has no elements.
func (v value) walk() walker {
	w := walker{c: cursor{b: v.b, i: 1}, base: v.off}
	switch {
	case v.is('{'):
		w.close = '}'
	case v.is('['):
		w.close = ']'
	default:
		w.c.i = len(v.b)
	}
	return w
}

func (w *walker) next() bool {
	w.c.space()
	w.c.has(',')
	w.c.space()
	if w.c.i >= len(w.c.b) || w.c.b[w.c.i] == w.close {
		return false
	}
	if w.close == '}' {
		start := w.c.i + 1
		if !w.c.skipString() {
			return false
		}
		w.key = w.c.b[start : w.c.i-1]
		w.c.space()
		w.c.has(':')
		w.c.space()
	}
	start := w.c.i
	if !w.c.skip(0) {
		return false
	}
	w.val = value{w.c.b[start:w.c.i:w.c.i], w.base + start}
	return true
}

// named reports whether the member's name is s, however it is escaped.
func (w *walker) named(s string) bool {
	return string(w.key) == s || bytes.IndexByte(w.key, '\\') >= 0 && string(unquote(nil, w.key)) == s
}

func (w *walker) name() string { return string(unquote(nil, w.key)) }

// fields finds members by name, in one pass; of equal names the last counts, as with encoding/json.
// It reports whether v is an object.
func (v value) fields(names []string, out []value) bool {
	if !v.is('{') {
		return false
	}
	for w := v.walk(); w.next(); {
		for i, n := range names {
			if w.named(n) {
				out[i] = w.val
				break
			}
		}
	}
	return true
}

// field finds one member.
func (v value) field(name string) value {
	var out [1]value
	v.fields([]string{name}, out[:])
	return out[0]
}

// unquote appends what the inside of a valid JSON string stands for. Bytes that are not UTF-8 stay as they are; half a surrogate pair
// becomes U+FFFD, as encoding/json has it. It writes by index, for nothing is longer decoded than encoded.
func unquote(dst, in []byte) []byte {
	dst = slices.Grow(dst, len(in))
	n := len(dst)
	buf := dst[:n+len(in)]
	for i := 0; i < len(in); {
		c := in[i]
		if c != '\\' {
			buf[n] = c
			n++
			i++
			continue
		}
		if in[i+1] == 'u' {
			r, size := escapedRune(in[i:])
			n += utf8.EncodeRune(buf[n:], r)
			i += size
			continue
		}
		buf[n] = unescaped(in[i+1])
		n++
		i += 2
	}
	return buf[:n]
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return c
}

// escapedRune reads a \u escape, or a pair of them.
func escapedRune(in []byte) (rune, int) {
	r := hex4(in[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
		if p := utf16.DecodeRune(r, hex4(in[8:])); p != utf8.RuneError {
			return p, 12
		}
	}
	return utf8.RuneError, 6
}
